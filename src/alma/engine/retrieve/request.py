"""The request of a retrieval, and the context that its steps share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from ...reading.questions import Question, Window, find_windows, read_question
from ...types.kinds import MemoryType
from ...types.query import Where, visible_users
from ...types.record import Record, Status, Vector
from ..context import Engine, Settings, Weights
from ..search import has_vectors
from .owners import guess_users, is_named


class Mode(StrEnum):
    """How widely to search."""

    DEFAULT = "default"
    PRECISE = "precise"
    BROAD = "broad"
    RECENT = "recent"
    LEARNING = "learning"


class Level(StrEnum):
    """The form in which conversations are returned: whole with their best turns, or single turns."""

    SESSION = "session"
    TURN = "turn"


class Request(NamedTuple):
    """The arguments of one retrieval."""

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
    fields: Mapping[str, Any] | None = None  # Values that the bodies of what is found must have.


class ModeSettings(NamedTuple):
    """The settings of a retrieval mode."""

    top_k: int = 5
    several: int = 20  # `top_k` for a question that wants several memories.
    types: frozenset[MemoryType] = frozenset(MemoryType)
    strictness: float = 0.0  # Added to the relevance floors.
    weights: Weights | None = None  # None: those of the settings.
    half_life_days: float | None = None
    recency: float = 0.0  # What the newest conversation gains over the oldest.


_REPLACEABLE = frozenset(
    {MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE, MemoryType.RULE, MemoryType.ANTI_PATTERN}
)  # fmt: skip
_LEARNED = frozenset(
    {MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, MemoryType.OUTCOME, MemoryType.USER_PREFERENCE, MemoryType.RULE}
)  # fmt: skip
# What users share with each other, where they share. Rules and conversations are not among it.
SHARED_KINDS = (*_LEARNED - {MemoryType.RULE}, MemoryType.DOMAIN_KNOWLEDGE)
MODES: Mapping[Mode, ModeSettings] = {
    Mode.DEFAULT: ModeSettings(),
    Mode.PRECISE: ModeSettings(top_k=3, several=10, strictness=0.08),
    Mode.BROAD: ModeSettings(top_k=20, several=40, strictness=-0.06),
    Mode.RECENT: ModeSettings(
        weights=Weights(similarity=0.35, recency=0.50, success=0.10, confidence=0.05), half_life_days=7.0, recency=2.0
    ),
    Mode.LEARNING: ModeSettings(
        types=_LEARNED, weights=Weights(similarity=0.45, recency=0.05, success=0.30, confidence=0.20)
    ),
}


class RetrievalContext(NamedTuple):
    """A request with its question read and embedded."""

    engine: Engine
    request: Request
    mode: ModeSettings
    settings: Settings  # Those of the engine, with what the mode changes.
    question: Question
    windows: tuple[Window, ...]
    vectors: tuple[Vector, ...]
    part_vectors: tuple[tuple[Vector, ...], ...]  # For each part of the question.
    now: datetime
    past: datetime | None  # When the time that the question asks about ended; None unless it is over.
    types: frozenset[MemoryType]
    top_k: int
    basis: tuple[str, datetime, Settings]  # What a candidate is scored by.

    def where(self, kind: str) -> Where:
        """Return the filter for a kind: this project, agents it may read, users whose memories this user may find."""
        request = self.request
        past = self.past if kind in _REPLACEABLE else None
        is_rule = kind == MemoryType.RULE
        select = self.engine.within if is_rule else self.engine.where
        return select(
            kind,
            # What was said for one session holds in no other.
            sessions={""} if is_rule else None,
            # Preferences belong to a user and to no agent.
            agents=None if kind == MemoryType.USER_PREFERENCE else self.engine.scopes.readable(request.agent),
            users=self.engine.find_visible(request.user) if kind in SHARED_KINDS else visible_users(request.user),
            # Asked about last March, it finds what was replaced since.
            statuses={Status.ACTIVE} if past is None else {Status.ACTIVE, Status.SUPERSEDED},
            tagged=set(request.tags) or None,
            fields=request.fields,
            created_from=request.since,
            created_to=request.until,
            valid_at=past or self.now,
        )

    def is_colleagues(self, record: Record) -> bool:
        """Return whether a record belongs to another user than the one who asks."""
        return record.user not in visible_users(self.request.user)

    def is_asked_for(self, user: str) -> bool:
        """Return whether memories are shared and the question names this user, or a role of theirs."""
        is_shared = bool(user) and self.engine.settings.share_between_users
        return is_shared and any(is_named(name, self.question.text) for name in self.engine.scopes.names(user))

    def find_owners(self) -> set[str]:
        """Return the ids of the users whom the question may name; empty where memories are not shared."""
        visible = self.engine.find_visible(self.request.user)
        return guess_users(self.question.text) if visible is None else set(filter(self.is_asked_for, visible))


def prepare(engine: Engine, request: Request) -> RetrievalContext:
    """Read and embed the question of a request."""
    mode = MODES[request.mode]
    question = read_question(request.task)
    now = engine.clock()
    windows = tuple(find_windows(question.text, now))
    ends = [window.end for window in windows]
    types = mode.types if request.types is None else request.types
    vectors = embed_query(engine, question.text)
    parts = question.parts if MemoryType.EPISODE in types else ()
    top_k = mode.several if question.several else mode.top_k
    changes: dict[str, Any] = {} if mode.weights is None else {"weights": mode.weights}
    if mode.half_life_days is not None:
        changes["recency_half_life_days"] = mode.half_life_days
    settings = replace(engine.settings, **changes) if changes else engine.settings
    return RetrievalContext(
        engine=engine,
        request=request,
        mode=mode,
        settings=settings,
        question=question,
        windows=windows,
        vectors=vectors,
        part_vectors=tuple(engine.encode([(text,)])[0] if vectors else () for text in parts),
        now=now,
        past=max(ends) if ends and max(ends) < now else None,
        types=types,
        top_k=top_k if request.top_k is None else request.top_k,
        basis=(question.text, now, settings),
    )


def embed_query(engine: Engine, task: str) -> tuple[Vector, ...]:
    """Return the vectors of a task; of a long one those of its beginning and its end, where the question usually is."""
    if engine.encoder is None or not has_vectors(engine):
        return ()
    size = engine.encoder.embedder.passage_chars
    texts: tuple[str, ...] = (task,)
    if len(task) > size:
        end = task[-size:]
        # The last lines alone, too: a question after a page of preamble is short.
        texts = (task[:size], end, end[-size // 4 :].partition(" ")[2] or end)
    [vectors] = engine.encode([texts])
    if engine.encoder.pairs:
        # Pairs are read inside a snapshot, where nothing is loaded: a fork waits for both.
        engine.encoder.pairs.prepare_pairs()
    return vectors
