"""What a retrieval is asked for, and in which manner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ...reading.questions import Question
from ...reading.times import Window
from ...types.kinds import MemoryType
from ...types.query import Where, visible_users
from ...types.record import Status
from ...types.rules import EVERYWHERE
from ...types.vector import Vector
from ..context import Engine
from ..settings import Settings, Weights


class Mode(StrEnum):
    DEFAULT = "default"
    PRECISE = "precise"
    BROAD = "broad"
    RECENT = "recent"
    LEARNING = "learning"


class Level(StrEnum):
    """What is given back of a conversation: the whole with its telling turns, or single turns."""

    SESSION = "session"
    TURN = "turn"


@dataclass(frozen=True, slots=True)
class Request:
    task: str
    agent: str
    user: str | None = None
    top_k: int | None = None
    mode: Mode = Mode.DEFAULT
    types: frozenset[MemoryType] | None = None
    tags: tuple[str, ...] = ()
    task_type: str = ""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    level: Level = Level.SESSION
    progressive: bool = False


@dataclass(frozen=True, slots=True)
class Manner:
    """What a mode means: settings of one function."""

    top_k: int = 5
    several: int = 20
    """How many when the question wants several memories."""
    types: frozenset[MemoryType] = frozenset(MemoryType)
    strictness: float = 0.0
    """Added to the relevance floor."""
    weights: Weights | None = None
    """None: as in the settings."""
    half_life_days: float | None = None
    recency: float = 0.0
    """What the newest conversation gains over the oldest."""


_REPLACEABLE = frozenset(
    {MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE, MemoryType.RULE, MemoryType.ANTI_PATTERN}
)  # fmt: skip
_LEARNED = frozenset(
    {MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, MemoryType.OUTCOME, MemoryType.USER_PREFERENCE, MemoryType.RULE}
)  # fmt: skip
MANNERS: Mapping[Mode, Manner] = {
    Mode.DEFAULT: Manner(),
    Mode.PRECISE: Manner(top_k=3, several=10, strictness=0.08),
    Mode.BROAD: Manner(top_k=20, several=40, strictness=-0.06),
    Mode.RECENT: Manner(
        weights=Weights(similarity=0.35, recency=0.50, success=0.10, confidence=0.05), half_life_days=7.0, recency=2.0
    ),
    Mode.LEARNING: Manner(
        types=_LEARNED, weights=Weights(similarity=0.45, recency=0.05, success=0.30, confidence=0.20)
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, looked at: what all the ways of finding need to know."""

    engine: Engine
    request: Request
    manner: Manner
    question: Question
    windows: tuple[Window, ...]
    vectors: tuple[Vector, ...]
    now: datetime

    @property
    def types(self) -> frozenset[MemoryType]:
        wanted = self.request.types
        return self.manner.types if wanted is None else wanted

    @property
    def top_k(self) -> int:
        if self.request.top_k is not None:
            return self.request.top_k
        return self.manner.several if self.question.several else self.manner.top_k

    @property
    def past(self) -> datetime | None:
        """When the time that the question asks about ended; None unless it is over."""
        ends = [window.end for window in self.windows]
        return max(ends) if ends and max(ends) < self.now else None

    @property
    def settings(self) -> Settings:
        changes: dict[str, object] = {}
        if self.manner.weights is not None:
            changes["weights"] = self.manner.weights
        if self.manner.half_life_days is not None:
            changes["recency_half_life_days"] = self.manner.half_life_days
        return replace(self.engine.settings, **changes) if changes else self.engine.settings  # type: ignore[arg-type]

    def where(self, kind: str) -> Where:
        """What may be found of a kind: of this project, readable by the agent, of this user or of nobody."""
        asked = self.request
        until = asked.until if asked.as_of is None else min(asked.as_of, asked.until or asked.as_of)
        past = self.past if asked.as_of is None and kind in _REPLACEABLE else None
        is_current = asked.as_of is None and past is None
        rule = kind == MemoryType.RULE
        return Where(
            kinds={kind},
            projects={self.engine.project, EVERYWHERE} if rule else {self.engine.project},
            # What was said for one session holds in no other.
            sessions={""} if rule else None,
            agents=self.engine.scopes.readable(asked.agent),
            users=visible_users(asked.user),
            # Asked about last March, it finds what was replaced since.
            statuses={Status.ACTIVE} if is_current else {Status.ACTIVE, Status.SUPERSEDED},
            tagged=set(asked.tags) or None,
            created_from=asked.since,
            created_to=until,
            valid_at=asked.as_of or past or self.now,
        )
