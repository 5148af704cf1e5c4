"""How likely a strategy is to work here, why, and which of several to take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random
from typing import Protocol

from ..engine import validate
from ..engine.context import Engine
from ..engine.evidence import FAILS, WORKS
from ..engine.predict import TaskContext, Trial, forecast, read_task, survey_strategy, weigh_likeness
from ..errors import ValidationError
from ..text import shorten
from ..types.kinds import Heuristic, MemoryType
from ..types.speech import quote_output
from .types import ConfidenceSignal, OpportunitySignal, Recommendation, RiskSignal

_LEAN = 0.15
"""Of two equal predictions the surer one comes first."""
_SURELY_WORKS, _SURE = 0.75, 0.5
_SURELY_FAILS, _UNSURE = 0.25, 0.5
_SOURCES = 8
_TELLING = 0.01
SIMILAR = 0.55
"""From here on a task is spoken of as a similar one."""
_THE_SAME = 0.9
_PROVEN = 3
_CITED = 5
_RECENT_DAYS = 30.0
_TASK_CHARS = 120


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
        common.embed_strategies(named)
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

    def _ground(self, context: str, agent: str, user_id: str | None) -> TaskContext:
        name = self._engine.agent(validate.name("agent", agent))
        user = None if user_id is None else validate.name("user_id", user_id)
        return read_task(self._engine, name, validate.text("context", context), user=user)

    def _look(self, strategy: str, context: str, agent: str, user_id: str | None) -> _Look:
        named = validate.text("strategy", strategy)
        return _Look(self._ground(context, agent, user_id), named)


class _Look:
    """One strategy seen from one context."""

    def __init__(self, ground: TaskContext, strategy: str) -> None:
        self.strategy = strategy
        self.context = ground.task
        self.survey = survey_strategy(ground, strategy)
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
        weighed = sorted(trials, key=lambda one: (-one.own - one.said, -weigh_likeness(one.alike), one.days))
        sources = [one.id for one in weighed if one.id and (one.own or weigh_likeness(one.alike) > _TELLING)]
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
            sources=list(dict.fromkeys(sources))[:_SOURCES],
        )

    def _recommend(self) -> Recommendation:
        low, high = self.interval
        if self.score >= WORKS:
            return "strong_yes" if self.score >= _SURELY_WORKS and low >= _SURE else "yes"
        if self.score <= FAILS and self.survey.trials:
            return "avoid" if self.score <= _SURELY_FAILS and high <= _UNSURE else "caution"
        return "neutral"


# -- risks and opportunities: what in the evidence a person should look at, with the memories it comes from


@dataclass(frozen=True, slots=True)
class View:
    """The trials sorted by what they are about, the most similar tasks first."""

    own: tuple[Trial, ...]
    """Of the strategy, on similar tasks."""
    elsewhere: tuple[Trial, ...]
    """Of the strategy, on other tasks."""
    others: tuple[Trial, ...]
    """Of other strategies, on similar tasks."""
    said: tuple[Trial, ...]


def sort_trials(trials: Sequence[Trial]) -> View:
    tried = sorted((one for one in trials if not one.said), key=lambda one: (-one.alike, one.days, one.id))
    own = [one for one in tried if one.own]
    return View(
        own=tuple(one for one in own if one.alike >= SIMILAR),
        elsewhere=tuple(one for one in own if one.alike < SIMILAR),
        others=tuple(one for one in tried if not one.own and one.alike >= SIMILAR),
        said=tuple(one for one in trials if one.said and one.alike >= SIMILAR),
    )


def find_risks(view: View) -> list[RiskSignal]:
    """Return why the strategy may go wrong, the gravest reason first."""
    risks = []
    rate, latest = _rate(view.own), _sort_latest(view)
    failed = _select_failed(view.own)
    if failed and rate <= WORKS:
        error = next((one.error for one in failed if one.error), "")
        text = f"failed {len(failed)} of {len(view.own)} times on similar tasks"
        text += f"; {quote_output(error)}" if error else ""
        risks.append(RiskSignal("similar_to_failure", text, _weigh(1.0 - rate, len(view.own)), _cite(failed)))
    # Only where it used to work: else its failures are reported already.
    row = list(takewhile(lambda one: one.value < 0.5, latest))
    if row and rate > WORKS:
        text = f"it used to work here, but the last {_count_times(len(row))} it failed"
        risks.append(RiskSignal("recent_failure", text, _weigh(1.0, len(row)), _cite(row)))
    if not view.own and len(view.elsewhere) >= 2 and _rate(view.elsewhere) <= FAILS:
        severity = 0.7 * _weigh(1.0 - _rate(view.elsewhere), len(view.elsewhere))
        text = f"worked {_show_share(view.elsewhere)} on other tasks"
        risks.append(RiskSignal("poor_record", text, severity, _cite(_select_failed(view.elsewhere))))
    if warned := _select_failed(view.said):
        risks.append(RiskSignal("warned_against", "a person warned against it", 0.8, _cite(warned)))
    if not view.own and not view.elsewhere:
        risks.append(RiskSignal("untested_context", "it was never tried", 0.6, ""))
    elif not view.own:
        nearest = view.elsewhere[0]
        text = f"it was never tried on a similar task; the nearest was {shorten(nearest.task, _TASK_CHARS)!r}"
        risks.append(RiskSignal("untested_context", text, 0.6 * (1.0 - max(0.0, nearest.alike)), nearest.id))
    if len(view.others) >= 2 and _rate(view.others) <= FAILS:
        text = f"other strategies worked {_show_share(view.others)} on similar tasks"
        severity = _weigh(1.0 - _rate(view.others), len(view.others))
        risks.append(RiskSignal("high_complexity", text, severity, _cite(_select_failed(view.others))))
    return sorted(risks, key=lambda signal: -signal.severity)


def find_opportunities(view: View) -> list[OpportunitySignal]:
    """Return why the strategy may go well, the strongest reason first."""
    chances = []
    rate, latest = _rate(view.own), _sort_latest(view)
    worked = [one for one in view.own if one.value > 0.5]
    if len(view.own) >= _PROVEN and rate >= WORKS:
        text = f"worked {_show_share(view.own)} on similar tasks"
        chances.append(OpportunitySignal("proven_pattern", text, _weigh(rate, len(view.own)), _cite(worked)))
    close = [one for one in worked if one.alike >= _THE_SAME]
    if close and rate > FAILS:
        text = f"it worked on a task much like this one: {shorten(close[0].task, _TASK_CHARS)!r}"
        chances.append(OpportunitySignal("high_similarity", text, 0.8 * close[0].alike, _cite(close)))
    row = list(takewhile(lambda one: one.value > 0.5, latest))
    if row and row[0].days <= _RECENT_DAYS:
        text = f"the last {_count_times(len(row))} it worked on a similar task"
        chances.append(OpportunitySignal("recent_success", text, _weigh(1.0, len(row)), _cite(row)))
    if advised := [one for one in view.said if one.value > 0.5]:
        chances.append(OpportunitySignal("recommended", "a person recommended it", 0.6, _cite(advised)))
    return sorted(chances, key=lambda signal: -signal.strength)


def _select_failed(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if one.value < 0.5]


def _rate(trials: Sequence[Trial]) -> float:
    return sum(one.value for one in trials) / len(trials) if trials else 0.0


def _weigh(share: float, count: int) -> float:
    """A share of one trial says less than the same share of ten."""
    return share * count / (count + 1.0)


def _sort_latest(view: View) -> list[Trial]:
    return sorted(view.own, key=lambda one: (one.days, one.id))


def _show_share(trials: Sequence[Trial]) -> str:
    return f"{sum(one.value > 0.5 for one in trials)} of {len(trials)} times"


def _count_times(count: int) -> str:
    return "time" if count == 1 else f"{count} times"


def _cite(trials: Sequence[Trial]) -> str:
    return ", ".join(list(dict.fromkeys(one.id for one in trials if one.id))[:_CITED])
