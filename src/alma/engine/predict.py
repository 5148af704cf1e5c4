"""How likely a strategy is to succeed at the task at hand, from the outcomes of an agent.

`read_task` finds the outcomes that bear on a task, `survey_strategy` those that bear on one strategy for it, and
`forecast` weighs them. Never all outcomes are read: the nearest by task, whatever the strategy; the nearest of the
strategy itself; and the newest, for how things go at present. Any number of them may be stored.

Four effects add up to what is expected before the strategy was tried on this very task: the agent's base rate; how
much better or worse the strategy does than others on the same tasks, everywhere and on such tasks; and how much easier
or harder this task is than others for the same strategies. Trials of this strategy on this task then speak for
themselves, and soon louder than the expectation, which weighs as much as one of them. The constants were fitted to
outcomes of real agents; near these values the error hardly changes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import NamedTuple

from ..reading.port import Pair
from ..text import fingerprint, passages, stems, words
from ..types.kinds import MemoryType, Result
from ..types.query import Where, visible_users
from ..types.record import Origin, Record, Status, Vector
from .context import Engine
from .outcomes import are_contrary, find_closest, follow_merges, lesson_id, list_similar, same_task
from .search import find_neighbours, has_vectors
from .transaction import strategy_of


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was tried and how it went, seen from the task and the strategy at hand."""

    id: str  # The record it comes from.
    strategy: str
    task: str
    value: float  # 1 success, 0.5 partial, 0 failure.
    days: float  # How long ago.
    alike: float  # How like its task is to the task at hand; 1 is the same.
    own: bool  # Whether it was the strategy at hand, in whatever words.
    kin: float = 0.0  # How like its strategy is to the strategy at hand, when it is another one.
    error: str = ""
    said: bool = False  # Nobody tried it: a person said that it works, or that it does not.


# --- what is known of a chance ---------------------------------------------------------------------

_CLOSE = 1e-12
_HALVINGS = 26


@dataclass(frozen=True, slots=True)
class Beta:
    """The Beta distribution: what is known of a chance of which some successes and failures were seen."""

    good: float
    bad: float

    @property
    def mean(self) -> float:
        """Return the expected value."""
        return self.good / (self.good + self.bad)

    def below(self, chance: float) -> float:
        """Return how likely it is that the true chance is lower than this one."""
        if chance <= 0.0 or chance >= 1.0:
            return float(chance >= 1.0)
        a, b = self.good, self.bad
        # The series converges on the one side of the mean only.
        is_upper = chance > (a + 1.0) / (a + b + 2.0)
        if is_upper:
            a, b, chance = b, a, 1.0 - chance
        scale = math.lgamma(a + b) - math.lgamma(a + 1.0) - math.lgamma(b)
        total = term = math.exp(scale + a * math.log(chance) + b * math.log1p(-chance))
        step = 0
        while term > _CLOSE * total:
            term *= chance * (a + b + step) / (a + 1.0 + step)
            total += term
            step += 1
        return 1.0 - total if is_upper else total

    def quantile(self, share: float) -> float:
        """Return the value below which this share of the distribution lies."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return 0.5 * (low + high)

    def interval(self) -> tuple[float, float]:
        """Return the middle part that holds nine tenths of it."""
        return self.quantile(0.05), self.quantile(0.95)


# --- did something change? -------------------------------------------------------------------------

SIMILAR = 0.55  # From here on tasks are such tasks.
# A change is searched for in this many of the latest trials; older ones no longer count.
_LATEST = 24
_FEWEST = 2
_LOG_PI = math.log(math.pi)
_SURELY = 3.5  # By so many nats the change must be the better explanation.


def find_stale_age(trials: Sequence[Trial]) -> float:
    """Return the age in days beyond which what was tried on such tasks is stale; infinite when nothing changed.

    A strategy that used to work and now fails says so. For every moment at which it might have happened, two
    explanations are weighed: that each strategy had one chance all the time, or one before and another after. The
    second must be much the likelier one to be believed.
    """
    by_strategy: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in trials:
        if one.alike >= SIMILAR and not one.said:
            by_strategy["" if one.own else one.strategy].append((one.days, one.value))
    runs = []
    for run in by_strategy.values():
        # Only of strategies with both sorts of result, and enough of them, can a change be told.
        good = sum(value for _, value in run)
        if good >= 1.0 and len(run) - good >= 1.0 and len(run) >= 2 * _FEWEST:
            runs.append((run, good))
    ages = sorted({days for run, _ in runs for days, _ in run})[:_LATEST]
    best_gain, best_age = 0.0, math.inf
    for age in ages:
        gain = 0.0
        for run, good in runs:
            after = [value for days, value in run if days <= age]
            if _FEWEST <= len(after) <= len(run) - _FEWEST:
                later, before = sum(after), len(run) - len(after)
                rest = good - later
                gain += _measure_evidence(later, len(after) - later) + _measure_evidence(rest, before - rest)
                gain -= _measure_evidence(good, len(run) - good)
        if gain > best_gain:
            best_gain, best_age = gain, age
    return best_age if best_gain >= _SURELY else math.inf


def _measure_evidence(good: float, bad: float) -> float:
    """Return the log likelihood of such results under a chance of which nothing is known."""
    return math.lgamma(good + 0.5) + math.lgamma(bad + 0.5) - math.lgamma(good + bad + 1.0) - _LOG_PI


# --- the forecast ----------------------------------------------------------------------------------

_UNLIKE = 0.4  # Tasks less alike than this say nothing about each other.
_SHARPNESS = 4
# Tasks less alike than the first are of two sorts, tasks more alike than the second are of one.
_SORTS, _ONE_SORT = 0.3, 0.7
_HALF_LIFE_DAYS = 180.0
# Each later trial takes a little from the weight of those before it: what changed shows after a handful. One of another
# strategy on such tasks takes less: what was not tried for long is not sure any more.
_BY_ORDER, _BY_OTHERS = 0.93, 0.97
# How many trials it takes to believe a base rate, a strategy's effect, that on such tasks, a task's effect, and any of
# it at all.
_BASE, _SKILL, _SKILL_HERE, _EASE, _EXPECTED = 8.0, 15.0, 4.0, 0.75, 1.2
_STALE = 0.1
# What another strategy's trial on the task says about how easy the task is; a closely related one's says all of it.
_STRANGER = 0.3
_KIN = 0.5
_STATED_TRIALS = 2.0  # A person's word counts like so many trials.
_CURIOSITY = 0.45  # How many standard deviations above the mean a promise lies.
_PASSES = 2
_SUREST = 0.97


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for a strategy, and the evidence it rests on."""

    belief: Beta  # About the chance at this very task.
    expected: float  # The chance before any trial of this strategy on this task.
    weight: float  # How many trials of this strategy on such tasks there were, by how alike they are.

    @property
    def mean(self) -> float:
        """Return the expected success rate."""
        return self.belief.mean

    def promise(self, random: Random) -> float:
        """Return what it may well turn out to be worth: the mean, and the more the less was tried on such tasks.

        How it did on other tasks may say little, so what was never tried here is never given up for that. That this
        very task may be unlike its sort is left out: no trial of another one would teach that. A little luck decides
        between equals.
        """
        spread = 0.5 / math.sqrt(2.0 + self.weight)
        return self.mean + _CURIOSITY * spread * random.uniform(0.9, 1.1)


def weigh_likeness(alike: float) -> float:
    """Return how much a trial on a task so alike says about this very task."""
    return float(max(0.0, (alike - _UNLIKE) / (1.0 - _UNLIKE)) ** _SHARPNESS)


def _weigh_sort(alike: float) -> float:
    """Return how much it says about such tasks."""
    return min(1.0, max(0.0, (alike - _SORTS) / (_ONE_SORT - _SORTS)))


def _weigh_age(trial: Trial, stale_age: float) -> float:
    """Return the weight of a trial by its age; one from before the success rate changed counts for little."""
    stale = _STALE if trial.days > stale_age and trial.alike >= SIMILAR else 1.0
    return stale * float(0.5 ** (trial.days / _HALF_LIFE_DAYS))


class _Tried(NamedTuple):
    trial: Trial
    strategy: str  # All ways of saying the strategy at hand are one strategy.
    age: float
    over: float  # How far its result lies over the base rate.


def forecast(trials: Sequence[Trial]) -> Forecast:
    """Return the chance that the strategy at hand succeeds at the task at hand."""
    stale_age = find_stale_age(trials)
    aged = [(one, _weigh_age(one, stale_age)) for one in trials if not one.said]
    base = (0.5 * _BASE + sum(age * one.value for one, age in aged)) / (_BASE + sum(age for _, age in aged))
    # Effects that were each seen a few times only can add up to more than is known.
    surest = min(_SUREST, 1.0 - 1.0 / (2.0 + 0.25 * len(aged)))
    tried = [_Tried(one, "" if one.own else one.strategy, age, one.value - base) for one, age in aged]
    expected = min(surest, max(1.0 - surest, base + _sum_effects(tried)))
    # Successes and failures of this strategy on this task, the later ones counting more.
    good = bad = here = later = weight = 0.0
    for trial in sorted((one for one in trials if one.own), key=lambda one: one.days):
        age = _weigh_age(trial, stale_age) * (_STATED_TRIALS if trial.said else 1.0)
        same, alike = weigh_likeness(trial.alike), _weigh_sort(trial.alike)
        good += same * age * _BY_ORDER**here * trial.value
        bad += same * age * _BY_ORDER**here * (1.0 - trial.value)
        weight += alike * age * _BY_ORDER**later
        here += same
        later += alike
    belief = Beta(_EXPECTED * expected + good, _EXPECTED * (1.0 - expected) + bad)
    return Forecast(belief, expected, weight)


def _sum_effects(tried: Sequence[_Tried]) -> float:
    """Return what the strategy and the task add to the base rate."""
    ease: Mapping[str, float] = defaultdict(float)
    skill: Mapping[str, float] = {}
    for _ in range(_PASSES):
        skill = _average(((one.strategy, one.age, one.over - ease[one.trial.task]) for one in tried), _SKILL)
        ease = _average(((one.trial.task, one.age, one.over - skill[one.strategy]) for one in tried), _EASE)
    # How much better the strategy does than others, everywhere; its kin count a little. And how much better other
    # strategies do on this task than elsewhere.
    weighed = ((one, one.age if one.trial.own else one.age * _KIN * one.trial.kin) for one in tried)
    rows = (("", weight, one.over - ease[one.trial.task]) for one, weight in weighed)
    everywhere = _average(rows, _SKILL).get("", 0.0)
    others = [one for one in tried if not one.trial.own]
    near = ((one, _STRANGER + (1.0 - _STRANGER) * one.trial.kin) for one in others)
    rows = (("", one.age * weigh_likeness(one.trial.alike) * kin, one.over - skill[one.strategy]) for one, kin in near)
    ease_here = _average(rows, _EASE).get("", 0.0)
    # How much better the strategy does on such tasks. What went well with it alone is to its credit: only others can
    # tell that a task was easy.
    ease = _average(((one.trial.task, one.age, one.over - skill[one.strategy]) for one in others), _EASE)
    total = weight = own = strange = 0.0
    for one in sorted(tried, key=lambda one: one.trial.days):
        alike = _weigh_sort(one.trial.alike)
        if not one.trial.own:
            strange += alike
            continue
        share = alike * one.age * _BY_ORDER**own * _BY_OTHERS**strange
        total += share * (one.over - ease.get(one.trial.task, 0.0) - everywhere)
        weight += share
        own += alike
    return everywhere + total / (weight + _SKILL_HERE) + ease_here


def _average(rows: Iterable[tuple[str, float, float]], prior: float) -> dict[str, float]:
    """Return by name the mean of the values by their weights, shrunk towards 0 by a prior."""
    sums: dict[str, tuple[float, float]] = {}
    for name, weight, value in rows:
        total, weights = sums.get(name, (0.0, 0.0))
        sums[name] = total + weight * value, weights + weight
    return {name: total / (weights + prior) for name, (total, weights) in sums.items()}


# --- the task at hand, and the outcomes that bear on it ---------------------------------------------

_NEAR, _NEWEST, _OWN, _GROUPS, _PARAPHRASES = 96, 32, 32, 16, 8
_FEW = 8  # Fewer of the strategy's own outcomes than this among the nearest and newest, and more are looked for.
_RESULTS = 16
_MAX_VECTORS, _BEGINNING = 4, 600  # A longer task, and a longer strategy, is known by its beginning.
_KINSHIP = 8
_CONTRARY_FROM = 0.65  # From here on tasks would count as alike, and it is worth asking whether they are contrary.
_RELATED = 0.7  # From here on it is worth asking whether one strategy is the opposite of the other.
_NEGATIONS = frozenset("not no never without don doesn avoid skip".split())
_DAY = 86_400.0
_STATED_VALUES: dict[str, float] = {MemoryType.HEURISTIC: 1.0, MemoryType.ANTI_PATTERN: 0.0}


@dataclass(slots=True)
class TaskContext:
    """The task at hand, and the outcomes that may bear on it."""

    engine: Engine
    agent: str
    task: str
    vectors: tuple[Vector, ...]
    now: datetime
    before: datetime | None  # Only what was known before this moment; None: everything.
    is_careful: bool = True  # Whether a task that reads alike may turn out to be contrary.
    user: str | None = None  # Whose outcomes and lessons count beside those of nobody in particular.
    outcomes: dict[str, Record] = field(default_factory=dict)
    _likeness: dict[str, float] = field(default_factory=dict)  # By task.
    _strategy_vectors: dict[str, Vector | None] = field(default_factory=dict)

    def embed_strategies(self, strategies: Sequence[str]) -> list[Vector | None]:
        """Return the vectors of strategies, by their beginnings: all in one pass of the embedder."""
        new = [one for one in dict.fromkeys(strategies) if one not in self._strategy_vectors]
        # Where nothing was embedded yet there is nothing to compare with.
        vectors = self.engine.encode([(one[:_BEGINNING],) for one in new]) if self.vectors else [()] * len(new)
        self._strategy_vectors |= {one: next(iter(some), None) for one, some in zip(new, vectors, strict=True)}
        return [self._strategy_vectors[one] for one in strategies]

    def count_days(self, moment: datetime) -> float:
        """Return how many days ago a moment was; 0 for one in the future."""
        return max(0.0, (self.now - moment).total_seconds() / _DAY)

    def where(self, kind: str) -> Where:
        """Return the filter for active records of a kind that count for this task."""
        end = self.before if kind == MemoryType.OUTCOME else None
        users = visible_users(self.user)
        return self.engine.where(kind, agents={self.agent}, users=users, statuses={Status.ACTIVE}, created_to=end)

    def find_near(self, where: Where, limit: int) -> list[Record]:
        """Return the records nearest to the task."""
        return find_neighbours(self.engine, self.vectors[0] if self.vectors else None, self.task, where, limit)

    def compare_task(self, record: Record, task: str) -> float:
        """Return how like the task of an outcome, a group or a lesson is to the one at hand: 1 for the same task.

        A contrary task is 0, however near it reads.
        """
        if task not in self._likeness:
            closest = self._find_cosine(record, task)
            if task == self.task or _fingerprint(task) == _fingerprint(self.task):
                likeness = 1.0
            elif closest is None:
                mine, theirs = stems(self.task), stems(task)
                likeness = 2.0 * len(mine & theirs) / max(1, len(mine) + len(theirs))
            elif self.is_careful and closest >= _CONTRARY_FROM and not same_task(self.task, task, closest):
                likeness = 0.0
            else:
                likeness = closest
            self._likeness[task] = likeness
        return self._likeness[task]

    def _find_cosine(self, record: Record, task: str) -> float | None:
        """Return how near a record's task comes to the one at hand; None where there is nothing to compare."""
        encoder = self.engine.encoder
        if encoder is None or record.embedder != encoder.name:
            return None
        # An outcome has the vectors of its task first. A group, and a lesson formed from it, has that of the strategy
        # before the one of the task.
        pieces = len(passages(task, encoder.embedder.passage_chars))
        is_outcome = record.kind == MemoryType.OUTCOME
        return find_closest(self.vectors, record.vectors[:pieces] if is_outcome else record.vectors[1:2])


_fingerprint = lru_cache(maxsize=4096)(fingerprint)


def read_task(
    engine: Engine, agent: str, task: str, before: datetime | None = None, user: str | None = None
) -> TaskContext:
    """Return what is known about a task for a user; `before` asks what was known at that moment."""
    vectors: tuple[Vector, ...] = ()
    if engine.encoder is not None and has_vectors(engine):
        [vectors] = engine.encode([(task[: _MAX_VECTORS * engine.encoder.embedder.passage_chars],)])
    context = TaskContext(engine, agent, task, vectors[:_MAX_VECTORS], before or engine.clock(), before, user=user)
    where = context.where(MemoryType.OUTCOME)
    records = (*engine.store.scan(where, _NEWEST), *context.find_near(where, _NEAR))
    context.outcomes = {record.id: record for record in records}
    return context


@dataclass(frozen=True, slots=True)
class StrategyEvidence:
    """The evidence about one strategy for a task."""

    trials: tuple[Trial, ...]  # The outcomes that bear on its chance, and what people said about it.
    tried: int
    worked: float  # How often, on any task like those nearest to this one; half for what went half well.
    lessons: tuple[Record, ...]  # The heuristics and warnings about it, those for the most similar tasks first.


def survey_strategy(context: TaskContext, strategy: str) -> StrategyEvidence:
    """Return the outcomes, counts and lessons that bear on a strategy for this task."""
    groups = _find_groups(context, strategy)
    similar = _find_similar(context, groups)
    # What may be the same strategy in other words is evidence for it, and is counted apart.
    names = {group.id for group in (*groups, *similar)}
    outcomes = context.outcomes
    kinship: dict[str, float] = {}

    def view_outcomes(records: Iterable[Record]) -> list[Trial]:
        trials = []
        for record in records:
            other = record.body["strategy"]
            if other not in kinship:
                kinship[other] = _measure_kin(context, strategy, record)
            is_own = kinship[other] >= 1.0 or not names.isdisjoint(record.links)
            trials.append(make_trial(context, record, kinship[other], is_own=is_own))
        return trials

    trials = view_outcomes(outcomes.values())
    if names and sum(trial.own for trial in trials) < _FEW:
        more = {record.id: record for record in _find_own_outcomes(context, names) if record.id not in outcomes}
        trials += view_outcomes(more.values())
        outcomes = outcomes | more
    lessons = _find_lessons(context, groups)
    if context.before is None:
        # Of what a group has counted it cannot be told for sure what came before a moment. Of a task that was done a
        # thousand times the nearest outcomes are any of them; its group knows the latest.
        counted = group_results(outcomes.values())
        owners = {name: lesson.id for lesson in lessons for name in lesson.links}
        for group in (*groups, *similar):
            trials += list_results(context, group, group.body["task"], counted, owners.get(group.id, ""))
    for lesson in lessons:
        if lesson.provenance.origin is Origin.USER:
            # A person's word about the strategy: as good as a few trials until there are some.
            words, value = (strategy_of(lesson.body), lesson.body["condition"]), _STATED_VALUES[lesson.kind]
            days, alike = context.count_days(lesson.updated_at), _compare_lesson(context, lesson)
            trials.append(Trial(lesson.id, *words, value, days, alike, own=True, kin=1.0, said=True))
    return StrategyEvidence(
        trials=tuple(trials),
        tried=sum(group.evidence.results for group in groups),
        worked=sum(group.evidence.successes + 0.5 * group.evidence.partials for group in groups),
        lessons=tuple(lessons),
    )


def _find_groups(context: TaskContext, strategy: str) -> list[Record]:
    """Return the groups that the strategy's outcomes are counted in, in whatever words.

    If they are many, those of the nearest outcomes come first.
    """
    store, key = context.engine.store, _fingerprint(strategy)
    where = context.where("strategy")
    exact = {group.id: group for group in store.scan(replace(where, keys={key}), _GROUPS + 1)}
    if len(exact) > _GROUPS:
        own = [record for record in context.outcomes.values() if _fingerprint(record.body["strategy"]) == key]
        own.sort(key=lambda record: -_compare_outcome(context, record))
        names = list(dict.fromkeys(name for record in own for name in record.links[:1]))[:_GROUPS]
        exact = {group.id: group for group in (*store.get(names), *exact.values())}
    if exact:
        return follow_merges(store.get, exact.values())[:_GROUPS]
    [vector] = context.embed_strategies([strategy])
    similar = find_neighbours(context.engine, vector, strategy, where, _PARAPHRASES)
    relations = context.engine.compare_closely([Pair(group.body["strategy"], strategy) for group in similar])
    same = (group for group, relation in zip(similar, relations, strict=True) if relation.is_same)
    return follow_merges(store.get, same)


def _find_similar(context: TaskContext, groups: Sequence[Record]) -> list[Record]:
    """Return the groups that may be of the same strategy in other words."""
    ids = {id for group in groups for id in list_similar(group)} - {group.id for group in groups}
    where = context.where("strategy")
    return [group for group in context.engine.store.get(list(ids)) if where.accepts(group)] if ids else []


def _find_own_outcomes(context: TaskContext, groups: set[str]) -> list[Record]:
    where = replace(context.where(MemoryType.OUTCOME), linked=groups)
    if context.before is None:
        # The groups have counted the rest; these tell which they were and how they failed.
        return list(context.engine.store.scan(where, _FEW))
    # Words cannot be looked for among the linked only, without looking for them everywhere.
    return context.find_near(where, _OWN) if context.vectors else list(context.engine.store.scan(where, _OWN))


def _find_lessons(context: TaskContext, groups: Sequence[Record]) -> list[Record]:
    names = [lesson_id(group, kind) for group in groups for kind in _STATED_VALUES]
    lessons = [
        record
        for record in context.engine.store.get(names)
        if record.status is Status.ACTIVE and (context.before is None or record.created_at < context.before)
    ]
    return sorted(lessons, key=lambda record: -_compare_lesson(context, record))


def _compare_lesson(context: TaskContext, lesson: Record) -> float:
    """Return how like the tasks that a lesson is about are to this one; without a condition it is about all."""
    condition = lesson.body["condition"]
    return context.compare_task(lesson, condition) if condition else 1.0


def _compare_outcome(context: TaskContext, outcome: Record) -> float:
    return context.compare_task(outcome, outcome.body["task"])


# --- trials ----------------------------------------------------------------------------------------


def make_trial(context: TaskContext, record: Record, kin: float, *, is_own: bool = False) -> Trial:
    """Return an outcome, seen from the task at hand."""
    body, days, alike = record.body, context.count_days(record.created_at), _compare_outcome(context, record)
    value, error = Result(body["outcome"]).value_of, body["error"] or ""
    return Trial(record.id, body["strategy"], body["task"], value, days, alike, own=is_own, kin=kin, error=error)


def _measure_kin(context: TaskContext, strategy: str, record: Record) -> float:
    """Return how like the strategy of an outcome is to the one at hand. Without a vector there are no kin."""
    other = record.body["strategy"]
    if _fingerprint(other) == _fingerprint(strategy):
        return 1.0
    [vector] = context.embed_strategies([strategy])
    is_comparable = vector is not None and record.embedder == context.engine.embedder_name
    alike = (find_closest([vector or b""], record.vectors[-1:]) if is_comparable else None) or 0.0
    if alike >= _RELATED:
        is_negated, is_other_negated = (not _NEGATIONS.isdisjoint(words(one)) for one in (other, strategy))
        if is_negated != is_other_negated or are_contrary(other, strategy):
            return 0.0
    return float(min(0.99, max(0.0, alike) ** _KINSHIP))


# By group the results of the outcomes at hand, newest first: (moment, value).
KnownResults = Mapping[str, Sequence[tuple[float, float]]]


def group_results(outcomes: Iterable[Record]) -> KnownResults:
    """Return the results of outcomes by the strategy group they count for, newest first."""
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in outcomes:
        for group in record.links:
            groups[group].append((record.created_at.timestamp(), Result(record.body["outcome"]).value_of))
    return {group: sorted(results, reverse=True) for group, results in groups.items()}


def list_results(
    context: TaskContext, record: Record, task: str, counted: KnownResults, source: str
) -> Iterator[Trial]:
    """Yield the last results of a group, or of the lesson formed from it, that are not known, as trials of `source`."""
    alike = context.compare_task(record, task) if task else 1.0
    group = record.id if record.kind == "strategy" else next(iter(record.links), "")
    left = list(record.evidence.recent[-_RESULTS:])
    for moment, value in counted.get(group, ()):
        # A result is counted just before its outcome is written, so each outcome takes the newest that is not after it.
        for place in range(len(left) - 1, -1, -1):
            if left[place][0] <= moment and left[place][1] == value:
                del left[place]
                break
    for at, value in left:
        days = max(0.0, (context.now.timestamp() - at) / _DAY)
        yield Trial(source, strategy_of(record.body), task, value, days, alike, own=True, kin=1.0)


# --- the success factor of the ranking -------------------------------------------------------------


def forecast_lessons(
    engine: Engine,
    task: str,
    vectors: Sequence[Vector],
    candidates: Sequence[Record],
    now: datetime,
    similar: Mapping[str, Collection[str]] = {},
) -> dict[str, float]:
    """Return by id, for the heuristics and warnings among the candidates that have any result: the chance that what
    they recommend will succeed at the task, and that what they warn of will fail.

    It reads nothing and embeds nothing: the outcomes are those that were found for the task anyway, and a lesson
    carries the last results of its strategy with it. `similar` has, by the id of a lesson, the groups that may be of
    its strategy in other words: their outcomes count as its own.
    """
    context = TaskContext(engine, "", task, tuple(vectors), now, None, is_careful=False)
    outcomes = [record for record in candidates if record.kind == MemoryType.OUTCOME]
    counted = group_results(outcomes)
    # Each outcome as a trial of the strategy at hand, and as one of another: the two serve every lesson.
    pairs = [(one, make_trial(context, one, 1.0, is_own=True), make_trial(context, one, 0.0)) for one in outcomes]
    chances = {}
    for lesson in candidates:
        if lesson.kind in _STATED_VALUES and lesson.evidence.recent:
            key, groups = _fingerprint(strategy_of(lesson.body)), {*lesson.links, *similar.get(lesson.id, ())}
            trials = [
                own if _fingerprint(strategy_of(record.body)) == key or not groups.isdisjoint(record.links) else other
                for record, own, other in pairs
            ]
            trials += list_results(context, lesson, lesson.body["condition"], counted, lesson.id)
            mean = forecast(trials).mean
            chances[lesson.id] = 1.0 - mean if lesson.kind == MemoryType.ANTI_PATTERN else mean
    return chances
