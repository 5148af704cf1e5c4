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
    Turn,
    UserPreference,
)
from .query import Hit, Where
from .record import Origin, Provenance, Record, Status, Trust
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
    "Record",
    "Result",
    "Scopes",
    "Status",
    "Trust",
    "Turn",
    "UserPreference",
    "Where",
]
