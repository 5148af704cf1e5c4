"""Confidence: how likely a strategy is to work here, and how far such predictions can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from .. import words
from ..confidence import ConfidenceEngine, ConfidenceSignal, Report, calibration
from ..core import ALMA
from .operation import About, Effect, operation

Context = Annotated[str, About("the task or situation at hand")]


@operation(Effect.READS)
def assess_confidence(
    alma: ALMA,
    strategy: Annotated[str, About("what one thinks of doing")],
    context: Context,
    agent: words.Agent,
    user_id: words.User = None,
) -> ConfidenceSignal:
    """How likely a strategy is to work in this situation, from what was tried before.

    Gives the predicted chance with its interval, risks and opportunities with the memories they come from, and a
    recommendation: strong_yes, yes, neutral, caution or avoid.
    """
    return ConfidenceEngine(alma).assess_strategy(strategy, context, agent, user_id=user_id)


@dataclass(frozen=True, slots=True)
class Ranked:
    strategies: list[ConfidenceSignal]
    """Best first."""


@operation(Effect.READS)
def rank_strategies(
    alma: ALMA,
    strategies: Annotated[list[str], About("what one thinks of doing")],
    context: Context,
    agent: words.Agent,
    explore: Annotated[bool, About("give what was tried little its turn")] = False,
    user_id: words.User = None,
) -> Ranked:
    """Which of several strategies to take in this situation, best first."""
    ranked = ConfidenceEngine(alma).rank_strategies(strategies, context, agent, explore, user_id)
    return Ranked([signal for _, signal in ranked])


@operation(Effect.READS, "calibration")
def calibrate(
    alma: ALMA,
    agent: words.AnyAgent = None,
    limit: Annotated[int, About("the newest so many outcomes")] = 500,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Were the predictions right? Each outcome of the past is predicted from what was known before it."""
    return calibration(alma.engine, agent, limit, progress)
