"""Values: records, the typed memories people see, scopes, filters and what a retrieval gives back."""

from .evidence import Belief, Evidence
from .kinds import (
    KINDS,
    AntiPattern,
    DomainKnowledge,
    Episode,
    FeedbackSignal,
    Heuristic,
    Memory,
    MemoryType,
    Outcome,
    Result,
    Rule,
    Turn,
    UserPreference,
)
from .query import Hit, Where
from .record import Origin, Provenance, Record, Status, Trust
from .rules import Reach, RuleSource
from .scope import MemoryScope, Scopes
from .slice import Explanation, Factor, MemorySlice

__all__ = [
    "KINDS",
    "AntiPattern",
    "Belief",
    "DomainKnowledge",
    "Episode",
    "Evidence",
    "Explanation",
    "Factor",
    "FeedbackSignal",
    "Heuristic",
    "Hit",
    "Memory",
    "MemoryScope",
    "MemorySlice",
    "MemoryType",
    "Origin",
    "Outcome",
    "Provenance",
    "Reach",
    "Record",
    "Result",
    "Rule",
    "RuleSource",
    "Scopes",
    "Status",
    "Trust",
    "Turn",
    "UserPreference",
    "Where",
]
