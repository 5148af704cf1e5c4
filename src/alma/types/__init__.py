"""Values: records, the typed memories people see, scopes, filters and what a retrieval gives back."""

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
    Reach,
    Result,
    Rule,
    RuleSource,
    Turn,
    UserPreference,
)
from .query import Hit, MemoryScope, Scopes, Team, Where
from .record import Belief, Evidence, Origin, Provenance, Record, Status, Trust
from .slice import Explanation, Factor, MemorySlice

__all__ = [
    "KINDS", "AntiPattern", "Belief", "DomainKnowledge", "Episode", "Evidence", "Explanation", "Factor",
    "FeedbackSignal", "Heuristic", "Hit", "Memory", "MemoryScope", "MemorySlice", "MemoryType", "Origin", "Outcome",
    "Provenance", "Reach", "Record", "Result", "Rule", "RuleSource", "Scopes", "Status", "Team", "Trust", "Turn",
    "UserPreference", "Where",
]  # fmt: skip
