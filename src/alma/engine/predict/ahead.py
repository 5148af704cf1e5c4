"""The success factor of the ranking, looking forward: how well a lesson's strategy will do at the task at hand.

It reads nothing and embeds nothing: the outcomes are those that retrieval has found for the task anyway, and a lesson
carries the last results of its strategy with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...types.kinds import MemoryType
from ...types.record import Record
from ...types.vector import Vector
from ..context import Engine
from .gather import AtHand, Ground, at_hand, key_of, results, strategy_of, tried
from .weigh import forecast

_LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)


def ahead(
    engine: Engine, task: str, vectors: Sequence[Vector], found: Sequence[tuple[Record, float | None]], now: datetime
) -> dict[str, float]:
    """By id, for the heuristics and warnings that were found and have any result: the chance that what they recommend
    will succeed at the task, and that what they warn of will fail.

    Each record comes with the cosine of whichever of its vectors is closest to the task.
    """
    ground = Ground(engine, "", task, tuple(vectors), now, None, judging=False)
    ground.scores = {record.id: cosine for record, cosine in found if cosine is not None}
    outcomes = [record for record, _ in found if record.kind == MemoryType.OUTCOME]
    seen, known = [_Seen(ground, record) for record in outcomes], at_hand(outcomes)
    return {
        lesson.id: _chance(ground, lesson, seen, known)
        for lesson, _ in found
        if lesson.kind in _LESSONS and lesson.evidence.recent
    }


class _Seen:
    """An outcome as a trial of the strategy at hand, and as one of another: the two serve every lesson."""

    __slots__ = ("groups", "key", "other", "own")

    def __init__(self, ground: Ground, record: Record) -> None:
        self.key = key_of(strategy_of(record))
        self.groups = record.links
        self.own = tried(ground, record, own=True, kin=1.0)
        self.other = tried(ground, record, own=False, kin=0.0)


def _chance(ground: Ground, lesson: Record, seen: Sequence[_Seen], known: AtHand) -> float:
    key, groups = key_of(strategy_of(lesson)), set(lesson.links)
    trials = [one.own if one.key == key or not groups.isdisjoint(one.groups) else one.other for one in seen]
    trials += results(ground, lesson, lesson.body["condition"], known, lesson.id)
    mean = forecast(trials).mean
    return 1.0 - mean if lesson.kind == MemoryType.ANTI_PATTERN else mean
