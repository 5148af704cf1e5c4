"""Moving a store from one embedder to another.

Each record remembers its embedder, so the work can stop anywhere and go on later: what already speaks the new one is
passed over. The marker changes last; until then readers and writers of the old embedder go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...errors import ConflictError, StorageError
from ...types.kinds import KINDS
from ...types.query import Where
from ...types.record import Record
from ...types.vector import Vector
from ..context import Engine
from ..transaction import EMBEDDER_MARKER, embedder_marker, marker

_BATCH = 256

Progress = Callable[[int, int], None]


def pending(engine: Engine) -> list[str]:
    """The ids of what is not embedded by the configured embedder, oldest first."""
    found = [record.id for record in engine.store.scan(Where(kinds=_embedded_kinds())) if _stale(engine, record)]
    return found[::-1]


def _embedded_kinds() -> list[str]:
    return [name for name, kind in KINDS.items() if kind.passages(dict.fromkeys(kind.fields, "x"))]


def _stale(engine: Engine, record: Record) -> bool:
    wanted = engine.embedder_name if KINDS[record.kind].passages(record.body) else ""
    return record.embedder != wanted


def unseen(done: int, total: int) -> None:
    """Progress that nobody watches."""


def reindex(engine: Engine, progress: Progress = unseen) -> int:
    """Embed everything anew that needs it; how many records were moved."""
    moved = 0
    before: list[str] = []
    while (todo := pending(engine)) and todo != before:
        for done, batch in _batches(todo):
            _move(engine, batch)
            progress(done, len(todo))
        moved += len(todo)
        before = todo
    if todo:
        raise StorageError(f"{len(todo)} records could not be embedded anew, among them {todo[0]}; run `alma doctor`")
    _mark(engine)
    return moved


def _batches(ids: list[str]) -> Iterator[tuple[int, list[str]]]:
    """How many are done after each batch, and the batch."""
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        yield start + len(batch), batch


def _move(engine: Engine, ids: Sequence[str]) -> None:
    held = [record for record in engine.store.get(ids) if _stale(engine, record)]
    vectors = engine.encode([KINDS[record.kind].passages(record.body) for record in held])
    fresh = [_reembedded(engine, record, made) for record, made in zip(held, vectors, strict=True)]
    try:
        engine.store.put(fresh)
    except ConflictError:
        # Somebody changed one of them; the next round meets it again.
        for record in fresh:
            _try_put(engine, record)


def _try_put(engine: Engine, record: Record) -> None:
    try:
        engine.store.put([record])
    except ConflictError:
        return


def _reembedded(engine: Engine, record: Record, vectors: tuple[Vector, ...]) -> Record:
    name = engine.embedder_name if vectors else ""
    return replace(record, vectors=vectors, embedder=name, version=record.version + 1)


def _mark(engine: Engine) -> None:
    held = marker(engine)
    name = engine.embedder_name
    if held is None:
        if name:
            engine.store.put([embedder_marker(engine, name)])
    elif not name:
        engine.store.delete([EMBEDDER_MARKER])
    elif held.body["value"] != name:
        engine.store.put([replace(embedder_marker(engine, name), version=held.version + 1)])
