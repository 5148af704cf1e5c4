"""What can be set. The defaults are the product."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ValidationError
from .validate import number, whole


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each factor counts; only their ratios matter."""

    similarity: float = 0.55
    recency: float = 0.10
    success: float = 0.20
    confidence: float = 0.15

    def __post_init__(self) -> None:
        total = 0.0
        for name in self.__slots__:
            total += number(f"weight {name!r}", getattr(self, name), 0.0)
        if not total:
            raise ValidationError("at least one retrieval weight must be greater than 0")

    def shares(self) -> dict[str, float]:
        total = self.similarity + self.recency + self.success + self.confidence
        return {name: getattr(self, name) / total for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Settings:
    weights: Weights = field(default_factory=Weights)
    min_occurrences_for_heuristic: int = 3
    min_failures_for_anti_pattern: int = 2
    recency_half_life_days: float = 30.0
    max_preferences: int = 5
    """How many of a user's preferences, and of the rules in force, are shown without matching the task."""
    keep_retrievals: bool = True
    share_between_users: bool = False
    """Whether what is learned from one user's outcomes and words is shown to other users."""

    def __post_init__(self) -> None:
        whole("min_occurrences_for_heuristic", self.min_occurrences_for_heuristic, 1, 1000)
        whole("min_failures_for_anti_pattern", self.min_failures_for_anti_pattern, 1, 1000)
        number("recency_half_life_days", self.recency_half_life_days, 0.01)
        whole("max_preferences", self.max_preferences, 0, 1000)
        if not isinstance(self.share_between_users, bool):
            raise ValidationError(f"share_between_users must be true or false, not {self.share_between_users!r}")
