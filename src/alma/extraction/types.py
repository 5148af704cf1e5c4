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
    """One statement that is worth keeping, with the words it came from."""

    kind: Kind
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """The arguments of its kind: fact, domain, subject, attribute; preference, category, attribute; pattern, why_bad,
    better_alternative, condition; condition, strategy; task, strategy_used, outcome, error_message; rule, why; title.
    """
    quote: str
    turn: int = 0
    """The index of the message; 0 for a document."""
    speaker: str = ""
    voice: Voice = Voice.PERSON
    confidence: float = 1.0
    """0 to 1: how sure it is that this was meant, and meant to last."""
    at: datetime | None = None
    """When it was said, if that is known."""
    when: str = ""
    """The time that the words themselves name, as written."""
    replaces: str = ""
    """The id of a stored memory that no longer holds because of this."""
    key: str = ""
    """Identifies the finding when the same conversation is read again."""
    model: str = ""
    """The model that found it; empty for the local reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """All findings, and how they were found."""

    found: tuple[Extracted, ...] = ()
    model: str = ""
    """The model that was asked; empty if none is configured."""
    failed: str = ""
    """Why the local reader had to replace the model; empty if the model answered or none is configured."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many proposals were dropped, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of the findings. The lists hold what is new."""

    domain_knowledge: list[DomainKnowledge] = field(default_factory=list)
    user_preferences: list[UserPreference] = field(default_factory=list)
    anti_patterns: list[AntiPattern] = field(default_factory=list)
    heuristics: list[Heuristic] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    work_items: list[Any] = field(default_factory=list)
    """`alma.progress.WorkItem`s."""
    known: int = 0
    """How many were stored before."""
    superseded: list[str] = field(default_factory=list)
    """The ids of older facts that a new one replaced."""
    refused: list[str] = field(default_factory=list)
    """What was not kept, and why."""

    @property
    def memories(self) -> list[Memory]:
        """All new memories, without work items."""
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
        """How many memories and work items are new."""
        return len(self.memories) + len(self.work_items)
