"""Erasing a user: everything that carries the user's id goes, without a tombstone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ...ports import Vacuumable
from ...types.kinds import READABLE_KINDS, MemoryType
from ...types.query import Where
from ...types.record import Record
from ...types.rules import EVERYWHERE
from ..context import Engine
from ..edit import delete
from ..erase import find_graph_remains, unlink_from_graph
from ..transaction import commit

_BATCH = 500
T = TypeVar("T")


def erase_user(engine: Engine, user: str) -> dict[str, int]:
    """Erase all records of a user in this project and return how many memories of each kind they were.

    Outcomes that counted for a shared lesson are taken out of its count, and their words out of the lesson. Killed at
    any moment, the same call finishes the work.
    """
    everything = Where(projects={engine.project, EVERYWHERE}, users={user})
    counts: Counter[str] = Counter()
    for record in _find_shared_outcomes(engine, user):
        delete(engine, record.id)
        counts[record.kind] += 1
    held = [(record.id, record.kind) for record in engine.store.scan(everything)]
    for some in _split([id for id, kind in held if kind in READABLE_KINDS]):
        _erase_from_graph(engine, some)
    for some in _split([id for id, _ in held]):
        engine.store.delete(some)
    counts.update(kind for _, kind in held if kind in READABLE_KINDS)
    vacuum(engine)
    return {kind: counts[kind] for kind in READABLE_KINDS if counts[kind]}


def _split(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _erase_from_graph(engine: Engine, ids: Sequence[str]) -> None:
    remains = find_graph_remains(engine, ids)
    commit(engine, lambda: (None, unlink_from_graph(engine, ids, remains)))
    engine.store.delete(remains)


def _find_shared_outcomes(engine: Engine, user: str) -> list[Record]:
    """Return the user's outcomes that count for a strategy group of nobody in particular."""
    where = Where(kinds={MemoryType.OUTCOME}, projects={engine.project}, users={user})
    outcomes = [record for record in engine.store.scan(where) if record.links]
    return [record for some in _split(outcomes) for record in _count_elsewhere(engine, user, some)]


def _count_elsewhere(engine: Engine, user: str, outcomes: Sequence[Record]) -> list[Record]:
    groups = engine.store.get(list({record.links[0] for record in outcomes}))
    shared = {group.id for group in groups if group.user != user}
    return [record for record in outcomes if record.links[0] in shared]


def vacuum(engine: Engine) -> None:
    """Leave no byte of what was deleted in the files of the store."""
    if isinstance(engine.store, Vacuumable):
        engine.store.vacuum()
