"""Estimate how likely a strategy is to work for a task, and check how good such estimates were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random
from typing import Annotated, Literal

from .. import words
from ..engine import validate
from ..engine.evidence import FAILS, WORKS
from ..engine.predict import SIMILAR, TaskContext, Trial, forecast, read_task, survey_strategy, weigh_likeness
from ..engine.transaction import scan_records
from ..errors import ValidationError
from ..memory import ALMA
from ..operations import About, Effect, Group, take_as_given
from ..text import shorten
from ..types.kinds import Heuristic, MemoryType, Result
from ..types.record import Status
from ..types.speech import quote_output

__all__ = ["Bin", "ConfidenceEngine", "ConfidenceSignal", "OpportunitySignal", "Report", "RiskSignal"]

_LEAN = 0.15  # Of two equal predictions, the more certain one ranks first.
_SURELY_WORKS, _SURE = 0.75, 0.5
_SURELY_FAILS, _UNSURE = 0.25, 0.5
_SOURCES = 8
_TELLING = 0.01
_THE_SAME = 0.9
_PROVEN = 3
_CITED = 5
_RECENT_DAYS = 30.0
_TASK_CHARS = 120
_BINS = 10
_NEWEST = 500


Recommendation = Literal["strong_yes", "yes", "neutral", "caution", "avoid"]


@dataclass(frozen=True, slots=True)
class RiskSignal:
    """A reason why a strategy may fail."""

    # 'similar_to_failure', 'recent_failure', 'poor_record', 'warned_against', 'untested_context' or
    # 'high_complexity'.
    signal_type: str
    description: str
    severity: float  # From 0 to 1.
    # Ids of the memories behind it, separated by commas; empty if it comes from missing evidence.
    source: str


@dataclass(frozen=True, slots=True)
class OpportunitySignal:
    """A reason why a strategy may work."""

    signal_type: str  # 'proven_pattern', 'high_similarity', 'recent_success' or 'recommended'.
    description: str
    strength: float  # From 0 to 1.
    source: str  # Ids of the memories behind it, separated by commas.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSignal:
    """An assessment of a strategy for a task."""

    heuristic_id: str | None
    strategy: str
    context: str

    historical_success_rate: float  # Share of successes over all trials; 0 if there are none.
    occurrence_count: int

    predicted_success: float  # Probability of success for this task.
    uncertainty: float  # The width of the interval.
    context_similarity: float  # Similarity to the closest task it succeeded in; 0 if there is none.

    risk_signals: list[RiskSignal] = field(default_factory=list)
    opportunity_signals: list[OpportunitySignal] = field(default_factory=list)

    confidence_score: float  # The prediction, shifted slightly toward the low end of the interval.
    recommendation: Recommendation

    interval: tuple[float, float]  # The 90 % credible interval of the probability.
    sources: list[str] = field(default_factory=list)  # Ids of the memories with the most weight.


operation = Group("confidence", lambda alma: ConfidenceEngine(alma))
Strategy = Annotated[str, About("the strategy to assess")]
Context = Annotated[str, About("the task or situation")]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Assessed strategies, best first."""

    strategies: list[ConfidenceSignal]  # Best first.


def _check_strategies(label: str, value: object) -> list[str]:
    return [validate.text("strategy", one) for one in validate.items(label, value, "texts")]


def _show_ranking(ranking: list[tuple[str, ConfidenceSignal]]) -> Ranked:
    return Ranked([signal for _, signal in ranking])


class ConfidenceEngine:
    """Predicts outcomes from what an agent has learned. It stores and changes nothing.

    Outcomes of other users than `user_id` are left out; without `user_id`, only shared outcomes count. `seed` makes
    `explore` repeatable.
    """

    def __init__(self, alma: ALMA, seed: int | None = None) -> None:
        self._engine = alma.engine
        self._random = Random(seed)

    @operation(Effect.READS, "assess_confidence")
    def assess_strategy(
        self,
        strategy: Strategy,
        context: Context,
        agent: words.Agent,
        heuristic: Annotated[Heuristic | None, About("", check=take_as_given, for_python=True)] = None,
        user_id: words.User = None,
    ) -> ConfidenceSignal:
        """Estimate how likely a strategy is to work for a task, from past outcomes.

        Returns the success probability with its interval, risks, opportunities and a recommendation.

        Notes:
            If you pass a heuristic, its record counts as the strategy's history; otherwise the strategy's outcomes do.
        """
        if heuristic is not None and not isinstance(heuristic, Heuristic):
            raise ValidationError(f"heuristic must be a Heuristic or None, got {type(heuristic).__name__}")
        return _Look(self._ground(context, agent, user_id), strategy).make_signal(heuristic)

    @operation(Effect.READS, answer=_show_ranking)
    def rank_strategies(
        self,
        strategies: Annotated[Iterable[str], About("the strategies to compare", check=_check_strategies)],
        context: Context,
        agent: words.Agent,
        explore: Annotated[bool, About("give strategies with few trials a chance")] = False,
        user_id: words.User = None,
    ) -> list[tuple[str, ConfidenceSignal]]:
        """Rank strategies for a task by how likely they are to work, best first.

        Notes:
            A strategy that is passed twice is ranked once. With `explore`, strategies are ranked by how well they may
            turn out: strategies with few trials get a chance, strategies that are known to fail do not.
        """
        names = list(dict.fromkeys(strategies))
        if not names:
            return []
        common = self._ground(context, agent, user_id)
        common.embed_strategies(names)
        looks = [_Look(common, name) for name in names]
        places = [look.forecast.promise(self._random) if explore else look.score for look in looks]
        order = sorted(range(len(looks)), key=lambda at: -places[at])
        return [(looks[at].strategy, looks[at].make_signal()) for at in order]

    @operation(Effect.READS, "calibration")
    def calibrate(
        self,
        agent: words.AnyAgent = None,
        limit: Annotated[int, About("number of most recent outcomes to check", least=1, most=1_000_000)] = _NEWEST,
        progress: Progress | None = None,
    ) -> Report:
        """Check past predictions: each outcome is predicted from what was known before it.

        Notes:
            A partial outcome counts as half a success. `progress` is called with the number done and the total.
        """
        engine, agents = self._engine, None if agent is None else {self._engine.agent(agent)}
        records = scan_records(engine, MemoryType.OUTCOME, limit, agents=agents, statuses={Status.ACTIVE})[::-1]
        pairs, running, good = list[Pair](), list[Pair](), 0.0
        for at, record in enumerate(records):
            task = read_task(engine, record.agent, record.body["task"], before=record.created_at, user=record.user)
            value = Result(record.body["outcome"]).value_of
            pairs.append((forecast(survey_strategy(task, record.body["strategy"]).trials).mean, value))
            running.append(((1.0 + good) / (2.0 + at), value))
            good += value
            if progress is not None:
                progress(at + 1, len(records))
        (brier, error, bins), (running_brier, running_error, _) = _score(pairs), _score(running)
        hits = sum((chance >= 0.5) == (value >= 0.5) for chance, value in pairs)
        accuracy = hits / len(pairs) if pairs else 0.0
        return Report(len(pairs), brier, error, accuracy, running_brier, running_error, bins)

    def detect_risks(self, strategy: str, context: str, agent: str, user_id: str | None = None) -> list[RiskSignal]:
        """Return why the strategy may fail, most severe first."""
        return self.assess_strategy(strategy, context, agent, user_id=user_id).risk_signals

    def detect_opportunities(
        self, strategy: str, context: str, agent: str, user_id: str | None = None
    ) -> list[OpportunitySignal]:
        """Return why the strategy may work, strongest first."""
        return self.assess_strategy(strategy, context, agent, user_id=user_id).opportunity_signals

    def _ground(self, context: str, agent: str, user_id: str | None) -> TaskContext:
        return read_task(self._engine, self._engine.agent(agent), context, user=user_id)


class _Look:
    """One strategy for one task: its trials, those of other strategies, and statements of people."""

    def __init__(self, task: TaskContext, strategy: str) -> None:
        self.strategy = strategy
        self.context = task.task
        self.survey = survey_strategy(task, strategy)
        self.forecast = forecast(self.survey.trials)
        self.interval = self.forecast.belief.interval()
        self.score = self.forecast.mean - _LEAN * (self.forecast.mean - self.interval[0])
        # The most similar tasks first.
        tried = [one for one in self.survey.trials if not one.said]
        tried.sort(key=lambda one: (-one.alike, one.days, one.id))
        self.own = [one for one in tried if one.own and one.alike >= SIMILAR]
        self.elsewhere = [one for one in tried if one.own and one.alike < SIMILAR]
        self.others = [one for one in tried if not one.own and one.alike >= SIMILAR]
        self.said = [one for one in self.survey.trials if one.said and one.alike >= SIMILAR]
        self.latest = sorted(self.own, key=lambda one: (one.days, one.id))

    def make_signal(self, heuristic: Heuristic | None = None) -> ConfidenceSignal:
        """Return the assessment."""
        tried, worked, trials = self.survey.tried, self.survey.worked, self.survey.trials
        rate = worked / tried if tried else 0.0
        heuristic_id = next((one.id for one in self.survey.lessons if one.kind == MemoryType.HEURISTIC), None)
        alike = [one.alike for one in trials if one.own and one.value > 0.5 and not one.said]
        # By weight, the strategy's own trials before those of others.
        weighed = sorted(trials, key=lambda one: (-one.own - one.said, -weigh_likeness(one.alike), one.days))
        sources = [one.id for one in weighed if one.id and (one.own or weigh_likeness(one.alike) > _TELLING)]
        low, high = self.interval
        return ConfidenceSignal(
            heuristic_id=heuristic_id if heuristic is None else heuristic.id,
            strategy=self.strategy,
            context=self.context,
            historical_success_rate=rate if heuristic is None else heuristic.success_rate,
            occurrence_count=tried if heuristic is None else heuristic.occurrence_count,
            predicted_success=self.forecast.mean,
            uncertainty=high - low,
            context_similarity=max((0.0, *alike)),
            risk_signals=self._find_risks(),
            opportunity_signals=self._find_opportunities(),
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

    def _find_risks(self) -> list[RiskSignal]:
        """Return why the strategy may fail, most severe first."""
        risks = []
        rate = _rate(self.own)
        failed = _select_failed(self.own)
        if failed and rate <= WORKS:
            error = next((one.error for one in failed if one.error), "")
            text = f"failed {len(failed)} of {len(self.own)} times on similar tasks"
            text += f"; {quote_output(error)}" if error else ""
            risks.append(RiskSignal("similar_to_failure", text, _weigh(1.0 - rate, len(self.own)), _cite(failed)))
        # Only if it used to work: otherwise its failures are already reported.
        row = list(takewhile(lambda one: one.value < 0.5, self.latest))
        if row and rate > WORKS:
            text = f"it used to work here, but the last {_count_times(len(row))} it failed"
            risks.append(RiskSignal("recent_failure", text, _weigh(1.0, len(row)), _cite(row)))
        if not self.own and len(self.elsewhere) >= 2 and _rate(self.elsewhere) <= FAILS:
            severity = 0.7 * _weigh(1.0 - _rate(self.elsewhere), len(self.elsewhere))
            text = f"worked {_show_share(self.elsewhere)} on other tasks"
            risks.append(RiskSignal("poor_record", text, severity, _cite(_select_failed(self.elsewhere))))
        if warned := _select_failed(self.said):
            risks.append(RiskSignal("warned_against", "a person warned against it", 0.8, _cite(warned)))
        if not self.own and not self.elsewhere:
            risks.append(RiskSignal("untested_context", "it was never tried", 0.6, ""))
        elif not self.own:
            nearest = self.elsewhere[0]
            text = f"it was never tried on a similar task; the nearest was {shorten(nearest.task, _TASK_CHARS)!r}"
            risks.append(RiskSignal("untested_context", text, 0.6 * (1.0 - max(0.0, nearest.alike)), nearest.id))
        if len(self.others) >= 2 and _rate(self.others) <= FAILS:
            text = f"other strategies worked {_show_share(self.others)} on similar tasks"
            severity = _weigh(1.0 - _rate(self.others), len(self.others))
            risks.append(RiskSignal("high_complexity", text, severity, _cite(_select_failed(self.others))))
        return sorted(risks, key=lambda signal: -signal.severity)

    def _find_opportunities(self) -> list[OpportunitySignal]:
        """Return why the strategy may work, strongest first."""
        chances = []
        rate = _rate(self.own)
        worked = [one for one in self.own if one.value > 0.5]
        if len(self.own) >= _PROVEN and rate >= WORKS:
            text = f"worked {_show_share(self.own)} on similar tasks"
            chances.append(OpportunitySignal("proven_pattern", text, _weigh(rate, len(self.own)), _cite(worked)))
        close = [one for one in worked if one.alike >= _THE_SAME]
        if close and rate > FAILS:
            text = f"it worked on a task much like this one: {shorten(close[0].task, _TASK_CHARS)!r}"
            chances.append(OpportunitySignal("high_similarity", text, 0.8 * close[0].alike, _cite(close)))
        row = list(takewhile(lambda one: one.value > 0.5, self.latest))
        if row and row[0].days <= _RECENT_DAYS:
            text = f"the last {_count_times(len(row))} it worked on a similar task"
            chances.append(OpportunitySignal("recent_success", text, _weigh(1.0, len(row)), _cite(row)))
        if advised := [one for one in self.said if one.value > 0.5]:
            chances.append(OpportunitySignal("recommended", "a person recommended it", 0.6, _cite(advised)))
        return sorted(chances, key=lambda signal: -signal.strength)


def _select_failed(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if one.value < 0.5]


def _rate(trials: Sequence[Trial]) -> float:
    return sum(one.value for one in trials) / len(trials) if trials else 0.0


def _weigh(share: float, count: int) -> float:
    """Return a share, reduced if it comes from few trials."""
    return share * count / (count + 1.0)


def _show_share(trials: Sequence[Trial]) -> str:
    return f"{sum(one.value > 0.5 for one in trials)} of {len(trials)} times"


def _count_times(count: int) -> str:
    return "time" if count == 1 else f"{count} times"


def _cite(trials: Sequence[Trial]) -> str:
    return ", ".join(list(dict.fromkeys(one.id for one in trials if one.id))[:_CITED])


# -- calibration: each past outcome is predicted from what was known before it


@dataclass(frozen=True, slots=True)
class Bin:
    """The predictions between two tenths, and the observed outcomes."""

    low: float
    high: float
    count: int
    predicted: float  # Their mean.
    observed: float  # The share that succeeded.


@dataclass(frozen=True, slots=True)
class Report:
    """How well past outcomes were predicted."""

    count: int  # Number of predicted outcomes.
    brier: float  # Mean squared error: 0 is perfect, 0.25 is always predicting one half.
    calibration_error: float  # Mean distance between predictions and outcomes, over the bins.
    accuracy: float  # Share of outcomes on the predicted side of one half.
    # The same for a baseline: the share of successes so far.
    running_rate_brier: float
    running_rate_calibration_error: float
    bins: tuple[Bin, ...]  # Bins with predictions, lowest first.


Progress = Callable[[int, int], None]
Pair = tuple[float, float]  # A prediction and the outcome.


def _score(pairs: Sequence[Pair]) -> tuple[float, float, tuple[Bin, ...]]:
    """Return the Brier score, the calibration error and the bins."""
    bins = []
    for at in range(_BINS):
        inside = [pair for pair in pairs if min(_BINS - 1, int(pair[0] * _BINS)) == at]
        if inside:
            predicted, observed = (sum(values) / len(inside) for values in zip(*inside, strict=True))
            bins.append(Bin(at / _BINS, (at + 1) / _BINS, len(inside), predicted, observed))
    count = len(pairs) or 1
    square = sum((chance - value) ** 2 for chance, value in pairs)
    gap = sum(one.count * abs(one.predicted - one.observed) for one in bins)
    return square / count, gap / count, tuple(bins)
