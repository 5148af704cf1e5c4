"""Forgetting: what faded is archived. Nothing is erased; `delete` does that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from ...types.kinds import MemoryType
from ...types.query import Where
from ...types.record import Record, Status
from ..admit import change, revise
from ..context import Engine
from ..evidence import age_days, strength
from ..transaction import commit

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
        now = engine.clock()
        if record.provenance.is_persons and not engine.may_approve:
            # Any age and strength may be asked for: what a person said, only a person puts away.
            return False
        return age_days(record, now) >= self.older_than_days and strength(record, now) < self.below_confidence


def forgettable(engine: Engine, policy: Policy) -> Iterator[Record]:
    where = Where(
        kinds=_FADING,
        projects={engine.project},
        agents=None if policy.agent is None else {policy.agent},
        statuses={Status.ACTIVE, Status.CANDIDATE},
    )
    return (record for record in engine.store.scan(where) if policy.accepts(engine, record))


def forget(engine: Engine, policy: Policy) -> list[str]:
    """Archive what the policy accepts; the ids."""
    found = [record.id for record in forgettable(engine, policy)]
    gone: list[str] = []
    for start in range(0, len(found), _BATCH):
        gone += _archive(engine, policy, found[start : start + _BATCH])
    return gone


def _archive(engine: Engine, policy: Policy, ids: Sequence[str]) -> list[str]:
    def attempt() -> tuple[list[str], list[Record]]:
        # Looked at again: somebody may have used it since.
        due = [record for record in engine.store.get(ids) if policy.accepts(engine, record)]
        history = [change(engine, record, "forgotten", before={"status": str(record.status)}) for record in due]
        archived = [revise(engine, record, status=Status.ARCHIVED) for record in due]
        return [record.id for record in due], [*archived, *history]

    return commit(engine, attempt)
