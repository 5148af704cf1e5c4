"""What followed from outcomes: the lessons that were formed, restored, faded or withdrawn because of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..types.kinds import Memory, MemoryType, Outcome
from ..types.query import Where

if TYPE_CHECKING:
    from ..core import ALMA

VERBS = ("formed", "restored", "faded", "withdrawn")
_LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)
_FEW = 200


@dataclass(frozen=True, slots=True)
class Learned:
    verb: str
    why: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class Tally:
    """How the strategy of an outcome stands after it."""

    successes: int
    results: int
    needed: int
    """So many results make a heuristic, if they mostly worked."""


def learned_since(alma: ALMA, outcomes: Sequence[Outcome], since: datetime) -> list[Learned]:
    """What the lessons of these outcomes' strategies went through since then, oldest first."""
    found: list[tuple[datetime, Learned]] = []
    groups = _groups(alma, outcomes)
    for start in range(0, len(groups), _FEW):
        for lesson in _lessons(alma, groups[start : start + _FEW]):
            found += [
                (line["at"], Learned(line["verb"], line["why"], lesson))
                for line in alma.history(lesson.id)
                if line["at"] >= since and line["verb"] in VERBS
            ]
    return [learned for _, learned in sorted(found, key=lambda pair: pair[0])]


def tally(alma: ALMA, outcome: Outcome) -> Tally:
    [group] = alma.engine.store.get(_groups(alma, [outcome]))
    scope = alma.engine.scope(outcome.agent)
    needed = scope.min_occurrences_for_heuristic or alma.engine.settings.min_occurrences_for_heuristic
    return Tally(group.evidence.successes, group.evidence.results, needed)


def _groups(alma: ALMA, outcomes: Sequence[Outcome]) -> list[str]:
    """An outcome's first link is its strategy group."""
    records = alma.engine.store.get([outcome.id for outcome in outcomes])
    return list(dict.fromkeys(record.links[0] for record in records if record.links))


def _lessons(alma: ALMA, groups: Sequence[str]) -> Iterator[Memory]:
    where = Where(kinds=_LESSONS, projects={alma.project_id}, linked=groups)
    for record in alma.engine.store.scan(where):
        yield alma.get(record.id)
