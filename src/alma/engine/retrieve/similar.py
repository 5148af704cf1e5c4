"""Strategies in other words: what the reader could not tell to be the same is counted apart, and shown together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...types.kinds import Heuristic, Similar
from ...types.query import Where
from ...types.record import Record
from ...types.vector import cosine
from ..search import by_meaning

if TYPE_CHECKING:
    from .pipeline import Scored
    from .request import Asked

_POOL = 24
_ALIKE = 0.6
_SAME_SORT = 0.5
_MOST = 2


def add_similar(asked: Asked, heuristics: Sequence[Heuristic], scored: Sequence[Scored]) -> list[Heuristic]:
    """Return the heuristics, each with the strategies for the same sort of task that look like it."""
    if not heuristics or not asked.vectors:
        return list(heuristics)
    groups = _find_groups(asked)
    shown = {link for item in scored for link in item.record.links}
    return [
        replace(heuristic, similar=tuple(_list_similar(item.record, groups, shown)))
        for heuristic, item in zip(heuristics, scored, strict=True)
    ]


def _find_groups(asked: Asked) -> list[Record]:
    """Return the strategies that were tried for tasks like the one asked about."""
    engine = asked.engine
    heuristics = asked.where("heuristic")
    where = Where(kinds={"strategy"}, projects=heuristics.projects, agents=heuristics.agents, users=heuristics.users)
    hits = by_meaning(engine, asked.vectors, where, _POOL)
    return engine.store.get([hit.id for hit in hits])


def _list_similar(lesson: Record, groups: Sequence[Record], shown: set[str]) -> list[Similar]:
    own = next((group for group in groups if group.id in lesson.links), None)
    if own is None or len(own.vectors) < 2:
        return []
    found = []
    for group in groups:
        if group.id in shown or group.user != lesson.user or len(group.vectors) < 2:
            continue
        alike = cosine(own.vectors[0], group.vectors[0])
        types = own.body["task_type"], group.body["task_type"]
        is_same_sort = types[0] == types[1] if all(types) else cosine(own.vectors[1], group.vectors[1]) >= _SAME_SORT
        if alike >= _ALIKE and is_same_sort and group.evidence.results:
            seen = group.evidence
            found.append((-alike, Similar(group.body["strategy"], seen.successes, seen.results)))
    return [similar for _, similar in sorted(found, key=lambda one: one[0])[:_MOST]]
