"""The result of a retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .kinds import AntiPattern, DomainKnowledge, Episode, Heuristic, Memory, Outcome, Rule, Turn, UserPreference

# The fields of a slice, in the order of iteration.
_FIELDS = "preferences rules heuristics anti_patterns domain_knowledge outcomes episodes turns".split()


@dataclass(frozen=True, slots=True)
class Factor:
    """The value of one factor of a score, and its weight."""

    value: float  # Between 0 and 1.
    weight: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory was retrieved: what it scored on each factor, and how it was found."""

    memory_id: str
    memory_type: str
    score: float
    factors: Mapping[str, Factor]
    cosine: float | None
    words: float
    shared_words: tuple[str, ...]
    reason: str
    standing: bool = False  # It is shown whatever the task is, and does not match it.

    @property
    def formula(self) -> str:
        """Return the formula of the score: the similarity multiplies all other factors."""
        others = dict(self.factors)
        similar = others.pop("similarity")
        parts = [f"{name} {one.value:.3f} × {one.weight:.2f}" for name, one in others.items()]
        sums = " + ".join([f"{similar.weight:.2f}", *parts])
        return f"{self.score:.3f} = similarity {similar.value:.3f} × ({sums})"

    def __str__(self) -> str:
        return f"{self.memory_type} {self.memory_id}: {self.formula}; {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySlice:
    """The few memories that matter for a task, each type by descending score."""

    query: str
    agent: str
    heuristics: list[Heuristic] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    preferences: list[UserPreference] = field(default_factory=list)
    domain_knowledge: list[DomainKnowledge] = field(default_factory=list)
    anti_patterns: list[AntiPattern] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)  # Conversations, each with the turns that matter.
    # Rules in force that do not match the task. The prompt shows them; iteration leaves them out.
    standing_rules: list[Rule] = field(default_factory=list)
    # Single turns, when they were asked for instead of conversations.
    turns: list[Turn] = field(default_factory=list)
    progressive: bool = False  # The prompt gives summaries with ids; `get` gives the whole.
    retrieval_id: str | None = None
    retrieval_time_ms: float = 0.0
    explanations: tuple[Explanation, ...] = ()
    # How a prompt names the other users to whom memories belong, by user id: "alice, lead".
    owners: Mapping[str, str] = field(default_factory=dict)
    # Ids of heuristics, each with those of anti-patterns about the same strategy.
    opposed: tuple[tuple[str, ...], ...] = ()
    renderer: Callable[[MemorySlice, int], str] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """Return the query, and how many memories of each type there are."""
        counts = [f"{name}={len(getattr(self, name))}" for name in _FIELDS if getattr(self, name)]
        return f"MemorySlice({', '.join([repr(self.query[:60]), f'agent={self.agent!r}', *counts])})"

    @property
    def total_items(self) -> int:
        """Return how many memories match the task."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Memory]:
        for name in _FIELDS:
            yield from getattr(self, name)

    def __len__(self) -> int:
        return self.total_items

    def to_prompt(self, max_tokens: int = 2000) -> str:
        """Return the memories as Markdown for a prompt, best first, within the budget; empty when there is nothing."""
        return self.renderer(self, max_tokens)

    def explain(self) -> tuple[Explanation, ...]:
        """Return why each memory was retrieved, factor by factor, in the order of iteration."""
        return self.explanations
