"""What is said about a strategy before it is tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Recommendation = Literal["strong_yes", "yes", "neutral", "caution", "avoid"]


@dataclass(frozen=True, slots=True)
class RiskSignal:
    """Why it may go wrong."""

    signal_type: str
    """'similar_to_failure', 'recent_failure', 'poor_record', 'warned_against', 'untested_context' or
    'high_complexity'."""
    description: str
    severity: float
    """From 0 to 1."""
    source: str
    """The ids of the memories it comes from, with commas between; empty when it comes from there being none."""


@dataclass(frozen=True, slots=True)
class OpportunitySignal:
    """Why it may go well."""

    signal_type: str
    """'proven_pattern', 'high_similarity', 'recent_success' or 'recommended'."""
    description: str
    strength: float
    """From 0 to 1."""
    source: str
    """The ids of the memories it comes from, with commas between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSignal:
    """How sure it is that a strategy will work in a context."""

    heuristic_id: str | None
    strategy: str
    context: str

    historical_success_rate: float
    """Looking back: the share of successes wherever it was tried; 0 when it never was."""
    occurrence_count: int

    predicted_success: float
    """Looking forward: the chance of success in this context."""
    uncertainty: float
    """The width of the interval."""
    context_similarity: float
    """How like this context is to the most similar one it succeeded in; 0 when it never did."""

    risk_signals: list[RiskSignal] = field(default_factory=list)
    opportunity_signals: list[OpportunitySignal] = field(default_factory=list)

    confidence_score: float
    """The predicted success, leaning a little to the low end of the interval."""
    recommendation: Recommendation

    interval: tuple[float, float]
    """What holds nine tenths of the belief about the chance."""
    sources: list[str] = field(default_factory=list)
    """The ids of the memories that weighed most."""
