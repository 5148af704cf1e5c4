"""What was found in a conversation or a text, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..types.kinds import AntiPattern, DomainKnowledge, Heuristic, Memory, Outcome, Rule, UserPreference


class Kind(StrEnum):
    OUTCOME = "outcome"
    PREFERENCE = "preference"
    CORRECTION = "correction"
    DECISION = "decision"
    FACT = "fact"
    ANTI_PATTERN = "anti_pattern"
    HEURISTIC = "heuristic"
    WORK_ITEM = "work_item"


class Voice(StrEnum):
    """Whose words they are."""

    PERSON = "person"
    ASSISTANT = "assistant"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """One thing that was said and is worth keeping, with the words it came from."""

    kind: Kind
    text: str
    """The statement, as a person reads it."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The arguments of its kind: fact, domain; preference, category; pattern, why_bad, better_alternative; condition,
    strategy; task, strategy_used, outcome, error_message; rule, trigger, why, reach; title."""
    quote: str
    """The words it came from."""
    turn: int = 0
    """The index of the message; 0 for a document."""
    speaker: str = ""
    voice: Voice = Voice.PERSON
    confidence: float = 1.0
    """0 to 1: how sure it is that this was meant, and meant to last."""
    at: datetime | None = None
    """When it was said, if that is known."""
    key: str = ""
    """What it is known by when the same conversation is told again."""
    model: str = ""
    """The model that found it; empty: the rules did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """All that was found, and how."""

    found: tuple[Extracted, ...] = ()
    model: str = ""
    """The model that was asked; empty: none."""
    failed: str = ""
    """Why the rules had to do what a model should have done; empty: they had not."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many of a model's findings were left out, by the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of what was found. The lists hold what is new."""

    domain_knowledge: list[DomainKnowledge] = field(default_factory=list)
    user_preferences: list[UserPreference] = field(default_factory=list)
    anti_patterns: list[AntiPattern] = field(default_factory=list)
    heuristics: list[Heuristic] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    work_items: list[Any] = field(default_factory=list)
    """`alma.progress.WorkItem`s."""
    known: int = 0
    """How many were there already."""
    superseded: list[str] = field(default_factory=list)
    """The ids of older facts that a new one took the place of."""
    refused: list[str] = field(default_factory=list)
    """What was not kept, and why."""

    @property
    def memories(self) -> list[Memory]:
        """All that is new, but for work items."""
        return [
            *self.domain_knowledge,
            *self.user_preferences,
            *self.anti_patterns,
            *self.heuristics,
            *self.outcomes,
            *self.rules,
        ]

    @property
    def count(self) -> int:
        """How much is new."""
        return len(self.memories) + len(self.work_items)
