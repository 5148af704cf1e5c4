"""Moving a store from one embedder to another.

Each record remembers its embedder, so the work can stop anywhere and go on later: what already speaks the new one is
passed over. The marker changes last; until then readers and writers of the old embedder go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ...errors import ConflictError, StorageError
from ...types.kinds import KINDS
from ...types.query import Where
from ...types.record import Record
from ..context import Engine
from ..transaction import EMBEDDER_MARKER, find_embedder_marker, make_embedder_marker

_BATCH = 256

Progress = Callable[[int, int], None]


def pending(engine: Engine) -> list[str]:
    """Return the ids of what is not embedded by the configured embedder, oldest first."""
    kinds = [name for name, kind in KINDS.items() if kind.passages(dict.fromkeys(kind.fields, "x"))]
    return [record.id for record in engine.store.scan(Where(kinds=kinds)) if _is_stale(engine, record)][::-1]


def _is_stale(engine: Engine, record: Record) -> bool:
    return record.embedder != (engine.embedder_name if KINDS[record.kind].passages(record.body) else "")


def ignore_progress(done: int, total: int) -> None:
    """Progress that nobody watches."""


def reindex(engine: Engine, progress: Progress = ignore_progress) -> int:
    """Embed everything anew that needs it; return how many records were moved."""
    moved, name = 0, engine.embedder_name
    before: list[str] = []
    while (todo := pending(engine)) and todo != before:
        for start in range(0, len(todo), _BATCH):
            held = [one for one in engine.store.get(todo[start : start + _BATCH]) if _is_stale(engine, one)]
            vectors = engine.encode([KINDS[record.kind].passages(record.body) for record in held])
            fresh = [
                replace(record, vectors=own, embedder=name if own else "", version=record.version + 1)
                for record, own in zip(held, vectors, strict=True)
            ]
            # Not through a transaction, which would refuse the vectors of another embedder.
            try:
                engine.store.put(fresh)
            except ConflictError:
                for record in fresh:
                    # Somebody changed one of them; the next round meets it again.
                    with suppress(ConflictError):
                        engine.store.put([record])
            progress(min(start + _BATCH, len(todo)), len(todo))
        moved += len(todo)
        before = todo
    if todo:
        raise StorageError(f"{len(todo)} records could not be embedded anew, among them {todo[0]}; run `alma doctor`")
    marker = find_embedder_marker(engine)
    if marker is not None and not name:
        engine.store.delete([EMBEDDER_MARKER])
    elif name and (marker is None or marker.body["value"] != name):
        version = marker.version + 1 if marker else 1
        engine.store.put([replace(make_embedder_marker(engine, name), version=version)])
    return moved
