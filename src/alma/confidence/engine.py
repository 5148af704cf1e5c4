"""How likely a strategy is to work here, why, and which of several to take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Protocol

from ..engine import validate
from ..engine.context import Engine
from ..engine.evidence import FAILS, WORKS
from ..engine.predict import Forecast, Ground, Survey, forecast, ground, survey
from ..engine.predict.weigh import likeness
from ..errors import ValidationError
from ..types.kinds import Heuristic, MemoryType
from .signals import View, opportunities, risks, sorted_out
from .types import ConfidenceSignal, OpportunitySignal, Recommendation, RiskSignal

_LEAN = 0.15
"""Of two equal predictions the surer one comes first."""
_SURELY_WORKS, _SURE = 0.75, 0.5
_SURELY_FAILS, _UNSURE = 0.25, 0.5
_CITED = 8
_TELLING = 0.01


class Memory(Protocol):
    """What is needed of an `ALMA`."""

    @property
    def engine(self) -> Engine: ...


class ConfidenceEngine:
    """Looks forward from the outcomes an agent has learned. It keeps nothing and changes nothing.

    What other users than `user_id` did is left out; without `user_id` only what belongs to nobody in particular counts.

    `seed` makes repeatable how `explore` decides between equals.
    """

    def __init__(self, alma: Memory, seed: int | None = None) -> None:
        self._engine = alma.engine
        self._random = Random(seed)

    def assess_strategy(
        self,
        strategy: str,
        context: str,
        agent: str,
        heuristic: Heuristic | None = None,
        user_id: str | None = None,
    ) -> ConfidenceSignal:
        """How sure it is that the strategy will work in this context.

        A heuristic that is given says how the strategy did so far; else its outcomes do.
        """
        if heuristic is not None and not isinstance(heuristic, Heuristic):
            raise ValidationError(f"heuristic must be a Heuristic or None, got {type(heuristic).__name__}")
        return _signal(self._look(strategy, context, agent, user_id), heuristic)

    def rank_strategies(
        self,
        strategies: Sequence[str],
        context: str,
        agent: str,
        explore: bool = False,
        user_id: str | None = None,
    ) -> list[tuple[str, ConfidenceSignal]]:
        """The strategies with their signals, best first; one that is named twice stands once.

        With `explore` they stand by what they may well turn out to be worth: what was tried little gets its turn, what
        is known to fail does not.
        """
        named = _strategies(strategies)
        if not named:
            return []
        common = self._ground(context, agent, user_id)
        common.meanings(named)
        looks = [_Look(common, name) for name in named]
        places = [look.forecast.promise(self._random) if explore else look.score for look in looks]
        order = sorted(range(len(looks)), key=lambda at: -places[at])
        return [(looks[at].strategy, _signal(looks[at])) for at in order]

    def detect_risks(self, strategy: str, context: str, agent: str, user_id: str | None = None) -> list[RiskSignal]:
        """Why the strategy may go wrong in this context, the gravest reason first."""
        return risks(self._look(strategy, context, agent, user_id).view)

    def detect_opportunities(
        self, strategy: str, context: str, agent: str, user_id: str | None = None
    ) -> list[OpportunitySignal]:
        """Why the strategy may go well in this context, the strongest reason first."""
        return opportunities(self._look(strategy, context, agent, user_id).view)

    def _ground(self, context: str, agent: str, user_id: str | None) -> Ground:
        name = self._engine.agent(validate.name("agent", agent))
        user = None if user_id is None else validate.name("user_id", user_id)
        return ground(self._engine, name, validate.text("context", context), user=user)

    def _look(self, strategy: str, context: str, agent: str, user_id: str | None) -> _Look:
        named = validate.text("strategy", strategy)
        return _Look(self._ground(context, agent, user_id), named)


def _strategies(given: Sequence[str]) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValidationError(
            f"strategies must be a list of texts, not {'one text' if isinstance(given, str) else given!r}"
        )
    return list(dict.fromkeys(validate.text("strategy", one) for one in given))


class _Look:
    """One strategy seen from one context."""

    __slots__ = ("context", "forecast", "interval", "score", "strategy", "survey", "view")

    def __init__(self, ground: Ground, strategy: str) -> None:
        self.strategy = strategy
        self.context = ground.task
        self.survey: Survey = survey(ground, strategy)
        self.forecast: Forecast = forecast(self.survey.trials)
        self.interval = self.forecast.belief.interval()
        self.score = self.forecast.mean - _LEAN * (self.forecast.mean - self.interval[0])
        self.view: View = sorted_out(self.survey.trials)

    @property
    def similarity(self) -> float:
        return max((one.alike for one in self.survey.trials if one.own and one.value > 0.5 and not one.said), default=0)

    @property
    def sources(self) -> list[str]:
        """By how much each weighed: the strategy's own trials before those of others."""
        weighed = sorted(self.survey.trials, key=lambda one: (-one.own - one.said, -likeness(one.alike), one.days))
        told = [one.id for one in weighed if one.id and (one.own or likeness(one.alike) > _TELLING)]
        return list(dict.fromkeys(told))[:_CITED]


def _signal(look: _Look, heuristic: Heuristic | None = None) -> ConfidenceSignal:
    tried, worked = look.survey.tried, look.survey.worked
    rate = worked / tried if tried else 0.0
    known = next((one.id for one in look.survey.lessons if one.kind == MemoryType.HEURISTIC), None)
    low, high = look.interval
    return ConfidenceSignal(
        heuristic_id=known if heuristic is None else heuristic.id,
        strategy=look.strategy,
        context=look.context,
        historical_success_rate=rate if heuristic is None else heuristic.success_rate,
        occurrence_count=tried if heuristic is None else heuristic.occurrence_count,
        predicted_success=look.forecast.mean,
        uncertainty=high - low,
        context_similarity=max(0.0, look.similarity),
        risk_signals=risks(look.view),
        opportunity_signals=opportunities(look.view),
        confidence_score=look.score,
        recommendation=_recommended(look),
        interval=look.interval,
        sources=look.sources,
    )


def _recommended(look: _Look) -> Recommendation:
    low, high = look.interval
    if look.score >= WORKS:
        return "strong_yes" if look.score >= _SURELY_WORKS and low >= _SURE else "yes"
    if look.score <= FAILS and look.survey.trials:
        return "avoid" if look.score <= _SURELY_FAILS and high <= _UNSURE else "caution"
    return "neutral"
