"""Forgetting: what faded is archived. Nothing is erased; `delete` does that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from ...types.kinds import MemoryType
from ...types.query import Where
from ...types.record import LIVE, Record, Status
from ..context import Engine
from ..evidence import age_days, strength
from ..transaction import Transaction, write

_BATCH = 500
# What was said outlives what was made of it.
_FADING = frozenset(MemoryType) - {MemoryType.EPISODE}


class Forgotten(int):
    """How many memories were (or, in a dry run, would be) forgotten; `ids` says which."""

    ids: tuple[str, ...]

    def __new__(cls, ids: Sequence[str]) -> Self:
        self = super().__new__(cls, len(ids))
        self.ids = tuple(ids)
        return self


@dataclass(frozen=True, slots=True)
class Policy:
    agent: str | None = None
    older_than_days: float = 90.0
    below_confidence: float = 0.3

    def accepts(self, engine: Engine, record: Record) -> bool:
        if record.provenance.is_persons and not engine.may_approve:
            # Any age and strength may be asked for: what a person said, only a person puts away.
            return False
        now = engine.clock()
        return age_days(record, now) >= self.older_than_days and strength(record, now) < self.below_confidence


def forgettable(engine: Engine, policy: Policy) -> Iterator[Record]:
    """Return the memories that the policy accepts."""
    agents = None if policy.agent is None else {policy.agent}
    where = Where(kinds=_FADING, projects={engine.project}, agents=agents, statuses=LIVE)
    return (record for record in engine.store.scan(where) if policy.accepts(engine, record))


def forget(engine: Engine, policy: Policy) -> list[str]:
    """Archive what the policy accepts; return the ids."""
    due = [record.id for record in forgettable(engine, policy)]
    gone: list[str] = []
    for start in range(0, len(due), _BATCH):
        gone += write(engine, partial(archive_memories, ids=due[start : start + _BATCH], policy=policy))
    return gone


def archive_memories(tx: Transaction, ids: Sequence[str], policy: Policy) -> list[str]:
    """Archive those of these memories that the policy still accepts: somebody may have used one since."""
    due = [record for record in tx.get(ids) if policy.accepts(tx.engine, record)]
    for record in due:
        tx.update(record, status=Status.ARCHIVED)
        tx.add_history(record, "forgotten", before={"status": str(record.status)})
    return [record.id for record in due]
