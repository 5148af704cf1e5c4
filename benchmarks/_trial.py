"""A trial: one system stores haystacks and answers their questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from ._data import Haystack, Question

Level = Literal["session", "turn"]


class Searcher(Protocol):
    def search(self, question: str, at: datetime | None, level: Level, top_k: int) -> list[str]:
        """The ids of sessions or of turns, best first; nothing when it has nothing to say."""


@dataclass
class Ingest:
    """The cost of filling the stores. Embedding is counted separately, because vectors may be cached."""

    turns: int = 0
    seconds: float = 0.0
    embedding_seconds: float = 0.0
    texts: int = 0
    fresh_texts: int = 0

    @property
    def storing_rate(self) -> float | None:
        """Turns a second, the embedder's time taken off."""
        spent = self.seconds - self.embedding_seconds
        return self.turns / spent if spent > 0 and self.turns else None

    @property
    def rate(self) -> float | None:
        """Turns a second when every text has to be embedded, as it is outside of a benchmark.

        None when all vectors came from an earlier run, so that embedding was not seen at all.
        """
        if not self.turns or (self.texts and not self.fresh_texts):
            return None
        embedding = self.texts * self.embedding_seconds / self.fresh_texts if self.texts else 0.0
        return self.turns / (self.seconds - self.embedding_seconds + embedding)


class System(Protocol):
    name: str
    levels: tuple[Level, ...]
    ingest: Ingest

    def opened(self, haystack: Haystack) -> AbstractContextManager[Searcher]:
        """A store that holds the haystack, and nothing else."""


@dataclass(frozen=True)
class Asked:
    """A question and a system's answer."""

    question: str
    kind: str
    right: frozenset[str]
    found: tuple[str, ...]
    seconds: float


@dataclass
class Trial:
    system: str
    ingest: Ingest
    answerable: dict[Level, list[Asked]] = field(default_factory=dict)
    unanswerable: list[Asked] = field(default_factory=list)
    unrelated: list[Asked] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """How long each question took, asked for the first time."""


@dataclass(frozen=True)
class Plan:
    levels: tuple[Level, ...]
    top_k: int
    unrelated: Sequence[str]
    each: int
    """How many of the unrelated questions every store is asked, in turn."""


Tick = Callable[[int], None]


def run(system: System, haystacks: Sequence[Haystack], plan: Plan, tick: Tick = lambda done: None) -> Trial:
    trial = Trial(system.name, system.ingest)
    for number, haystack in enumerate(haystacks):
        with system.opened(haystack) as searcher:
            for question in haystack.questions:
                _ask(trial, system, searcher, haystack, question, plan)
                tick(1)
            _ask_unrelated(trial, searcher, haystack, plan, number)
    return trial


def _ask(trial: Trial, system: System, searcher: Searcher, haystack: Haystack, question: Question, plan: Plan) -> None:
    for place, level in enumerate(level for level in plan.levels if level in system.levels):
        right = question.turns if level == "turn" else question.sessions
        asked = _asked(searcher, haystack, question, level, right, plan.top_k)
        if place == 0:
            trial.seconds.append(asked.seconds)
        if not question.answerable:
            trial.unanswerable += [asked] if place == 0 else []
        elif right:
            trial.answerable.setdefault(level, []).append(asked)


def _asked(
    searcher: Searcher, haystack: Haystack, question: Question, level: Level, right: frozenset[str], top_k: int
) -> Asked:
    began = time.perf_counter()
    found = searcher.search(question.text, question.asked_at, level, top_k)
    seconds = time.perf_counter() - began
    names = tuple(dict.fromkeys(map(haystack.same, found) if level == "session" else found))
    return Asked(question.id, question.kind, right, names, seconds)


def _ask_unrelated(trial: Trial, searcher: Searcher, haystack: Haystack, plan: Plan, number: int) -> None:
    at = max((question.asked_at for question in haystack.questions if question.asked_at), default=None)
    for place in range(number * plan.each, (number + 1) * plan.each):
        text = plan.unrelated[place % len(plan.unrelated)]
        question = Question(text, "unrelated", text, at, False, frozenset())
        trial.unrelated.append(_asked(searcher, haystack, question, "session", frozenset(), plan.top_k))
