"""Maintenance of a store: reindex for another embedder.

Moving: each record remembers its embedder, so the work can stop anywhere and go on later. What the new one has embedded
already is passed over. The marker changes last; until then readers and writers of the old embedder go on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import ConflictError, StorageError
from ..types.kinds import KINDS
from ..types.query import Where, split_batches
from ..types.record import Record
from .admit import embed_records
from .calls import Progress, ignore_progress
from .context import Engine
from .transaction import EMBEDDER_MARKER, find_embedder_marker, make_embedder_marker

_BATCH = 256
MUTE: dict[str, Any] = {"vectors": (), "embedder": ""}


def find_stale(engine: Engine) -> list[str]:
    """Return the ids of what is not embedded by the configured embedder, oldest first."""
    kinds = [name for name, kind in KINDS.items() if kind.passages(dict.fromkeys(kind.fields, "x"))]
    return [record.id for record in engine.store.scan(Where(kinds=kinds)) if _is_stale(engine, record)][::-1]


def _is_stale(engine: Engine, record: Record) -> bool:
    return record.embedder != (engine.embedder_name if KINDS[record.kind].passages(record.body) else "")


def reindex(engine: Engine, progress: Progress = ignore_progress) -> int:
    """Embed all records again that need it; return how many there were."""
    moved, name = 0, engine.embedder_name
    before: list[str] = []
    while (todo := find_stale(engine)) and todo != before:
        for ids in split_batches(todo, _BATCH, progress):
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
