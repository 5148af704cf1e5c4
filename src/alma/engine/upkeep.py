"""Maintenance of a store: forget, and reindex for another embedder.

Forgetting archives what faded; nothing is erased, `delete` does that.

Moving: each record remembers its embedder, so the work can stop anywhere and go on later. What the new one has embedded
already is passed over. The marker changes last; until then readers and writers of the old embedder go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

from ..errors import ConflictError, StorageError
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import LIVE, Record, Status
from .admit import embed_records
from .context import Engine
from .evidence import age_days, memory_strength
from .transaction import EMBEDDER_MARKER, Transaction, find_embedder_marker, make_embedder_marker, split_batches, write

_BATCH = 256
MUTE: dict[str, Any] = {"vectors": (), "embedder": ""}
# What was said outlives what was made of it.
_FADING = frozenset(MemoryType) - {MemoryType.EPISODE}


class Forgotten(int):
    """How many memories were (or, in a dry run, would be) forgotten; `ids` says which."""

    ids: tuple[str, ...]

    def __new__(cls, ids: Sequence[str]) -> Self:
        self = super().__new__(cls, len(ids))
        self.ids = tuple(ids)
        return self


def forget(
    engine: Engine, agent: str | None, older_than_days: float, below_confidence: float, dry_run: bool = False
) -> Forgotten:
    """Archive memories that were not used or confirmed for long and are weak; a dry run only reports them."""

    def is_due(record: Record) -> bool:
        if record.provenance.is_persons and not engine.may_approve:
            # Any age and strength may be asked for: what a person said, only a person puts away.
            return False
        now = engine.clock()
        return age_days(record, now) >= older_than_days and memory_strength(record, now) < below_confidence

    def archive(tx: Transaction, ids: Sequence[str]) -> list[str]:
        # Somebody may have used one since.
        due = [record for record in tx.get(ids) if is_due(record)]
        for record in due:
            tx.update(record, status=Status.ARCHIVED)
            tx.add_history(record, "forgotten", before={"status": str(record.status)})
        return [record.id for record in due]

    agents = None if agent is None else {agent}
    where = Where(kinds=_FADING, projects={engine.project}, agents=agents, statuses=LIVE)
    due = [record.id for record in engine.store.scan(where) if is_due(record)]
    if dry_run:
        return Forgotten(due)
    return Forgotten([id for ids in split_batches(due) for id in write(engine, partial(archive, ids=ids))])


Progress = Callable[[int, int], None]


def find_stale(engine: Engine) -> list[str]:
    """Return the ids of what is not embedded by the configured embedder, oldest first."""
    kinds = [name for name, kind in KINDS.items() if kind.passages(dict.fromkeys(kind.fields, "x"))]
    return [record.id for record in engine.store.scan(Where(kinds=kinds)) if _is_stale(engine, record)][::-1]


def _is_stale(engine: Engine, record: Record) -> bool:
    return record.embedder != (engine.embedder_name if KINDS[record.kind].passages(record.body) else "")


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress."""


def reindex(engine: Engine, progress: Progress = ignore_progress) -> int:
    """Embed all records again that need it; return how many there were."""
    moved, name = 0, engine.embedder_name
    before: list[str] = []
    while (todo := find_stale(engine)) and todo != before:
        done = 0
        for ids in split_batches(todo, _BATCH):
            stale = [one for one in engine.store.get(ids) if _is_stale(engine, one)]
            fresh = embed_records(engine, [replace(one, **MUTE, version=one.version + 1) for one in stale])
            # Not through a transaction, which would refuse the vectors of another embedder.
            try:
                engine.store.put(fresh)
            except ConflictError:
                for record in fresh:
                    # Somebody changed one of them; the next round meets it again.
                    with suppress(ConflictError):
                        engine.store.put([record])
            done += len(ids)
            progress(done, len(todo))
        moved += len(todo)
        before = todo
    if todo:
        raise StorageError(f"{len(todo)} records could not be embedded again, {todo[0]} among them; run `alma doctor`")
    marker = find_embedder_marker(engine)
    if marker is not None and not name:
        engine.store.delete([EMBEDDER_MARKER])
    elif name and (marker is None or marker.body["value"] != name):
        version = marker.version + 1 if marker else 1
        engine.store.put([replace(make_embedder_marker(engine, name), version=version)])
    return moved
