"""How likely a strategy is to work here, why, and which of several to take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Protocol

from ..engine import validate
from ..engine.context import Engine
from ..engine.evidence import FAILS, WORKS
from ..engine.predict import Ground, forecast, ground, survey
from ..engine.predict.weigh import likeness
from ..errors import ValidationError
from ..types.kinds import Heuristic, MemoryType
from .signals import find_opportunities, find_risks, sort_trials
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
        return self._look(strategy, context, agent, user_id).make_signal(heuristic)

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
        if isinstance(strategies, str) or not isinstance(strategies, Iterable):
            given = "one text" if isinstance(strategies, str) else repr(strategies)
            raise ValidationError(f"strategies must be a list of texts, not {given}")
        named = list(dict.fromkeys(validate.text("strategy", one) for one in strategies))
        if not named:
            return []
        common = self._ground(context, agent, user_id)
        common.meanings(named)
        looks = [_Look(common, name) for name in named]
        places = [look.forecast.promise(self._random) if explore else look.score for look in looks]
        order = sorted(range(len(looks)), key=lambda at: -places[at])
        return [(looks[at].strategy, looks[at].make_signal()) for at in order]

    def detect_risks(self, strategy: str, context: str, agent: str, user_id: str | None = None) -> list[RiskSignal]:
        """Why the strategy may go wrong in this context, the gravest reason first."""
        return find_risks(self._look(strategy, context, agent, user_id).view)

    def detect_opportunities(
        self, strategy: str, context: str, agent: str, user_id: str | None = None
    ) -> list[OpportunitySignal]:
        """Why the strategy may go well in this context, the strongest reason first."""
        return find_opportunities(self._look(strategy, context, agent, user_id).view)

    def _ground(self, context: str, agent: str, user_id: str | None) -> Ground:
        name = self._engine.agent(validate.name("agent", agent))
        user = None if user_id is None else validate.name("user_id", user_id)
        return ground(self._engine, name, validate.text("context", context), user=user)

    def _look(self, strategy: str, context: str, agent: str, user_id: str | None) -> _Look:
        named = validate.text("strategy", strategy)
        return _Look(self._ground(context, agent, user_id), named)


class _Look:
    """One strategy seen from one context."""

    def __init__(self, ground: Ground, strategy: str) -> None:
        self.strategy = strategy
        self.context = ground.task
        self.survey = survey(ground, strategy)
        self.forecast = forecast(self.survey.trials)
        self.interval = self.forecast.belief.interval()
        self.score = self.forecast.mean - _LEAN * (self.forecast.mean - self.interval[0])
        self.view = sort_trials(self.survey.trials)

    def make_signal(self, heuristic: Heuristic | None = None) -> ConfidenceSignal:
        tried, worked, trials = self.survey.tried, self.survey.worked, self.survey.trials
        rate = worked / tried if tried else 0.0
        known = next((one.id for one in self.survey.lessons if one.kind == MemoryType.HEURISTIC), None)
        alike = [one.alike for one in trials if one.own and one.value > 0.5 and not one.said]
        # By how much each weighed: the strategy's own trials before those of others.
        weighed = sorted(trials, key=lambda one: (-one.own - one.said, -likeness(one.alike), one.days))
        sources = [one.id for one in weighed if one.id and (one.own or likeness(one.alike) > _TELLING)]
        low, high = self.interval
        return ConfidenceSignal(
            heuristic_id=known if heuristic is None else heuristic.id,
            strategy=self.strategy,
            context=self.context,
            historical_success_rate=rate if heuristic is None else heuristic.success_rate,
            occurrence_count=tried if heuristic is None else heuristic.occurrence_count,
            predicted_success=self.forecast.mean,
            uncertainty=high - low,
            context_similarity=max((0.0, *alike)),
            risk_signals=find_risks(self.view),
            opportunity_signals=find_opportunities(self.view),
            confidence_score=self.score,
            recommendation=self._recommend(),
            interval=self.interval,
            sources=list(dict.fromkeys(sources))[:_CITED],
        )

    def _recommend(self) -> Recommendation:
        low, high = self.interval
        if self.score >= WORKS:
            return "strong_yes" if self.score >= _SURELY_WORKS and low >= _SURE else "yes"
        if self.score <= FAILS and self.survey.trials:
            return "avoid" if self.score <= _SURELY_FAILS and high <= _UNSURE else "caution"
        return "neutral"
