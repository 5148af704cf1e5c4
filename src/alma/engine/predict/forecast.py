"""From trials to a chance of success.

Four effects add up to what is expected before the strategy was tried on this very task: the agent's base rate; how
much better or worse the strategy does than others on the same tasks, everywhere and on such tasks; and how much easier
or harder this task is than others for the same strategies. Trials of this strategy on this task then speak for
themselves, and soon louder than the expectation, which weighs as much as one of them. The constants were fitted to
outcomes of real agents; near these values the error hardly changes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was tried and how it went, seen from the task and the strategy at hand."""

    id: str
    """The record it comes from."""
    strategy: str
    task: str
    value: float
    """1 success, 0.5 partial, 0 failure."""
    days: float
    """How long ago."""
    alike: float
    """How like its task is to the task at hand; 1 is the same."""
    own: bool
    """Whether it was the strategy at hand, in whatever words."""
    kin: float = 0.0
    """How like its strategy is to the strategy at hand, when it is another one."""
    error: str = ""
    said: bool = False
    """Nobody tried it: a person said that it works, or that it does not."""


# --- what is known of a chance ---------------------------------------------------------------------

_TINY = 1e-300
_STEPS = 200
_CLOSE = 1e-10
_HALVINGS = 26


@dataclass(frozen=True, slots=True)
class Beta:
    """The Beta distribution: what is known of a chance of which some successes and failures were seen."""

    good: float
    bad: float

    @property
    def mean(self) -> float:
        return self.good / (self.good + self.bad)

    def below(self, chance: float) -> float:
        """Return how likely it is that the true chance is lower than this one."""
        if chance <= 0.0 or chance >= 1.0:
            return float(chance >= 1.0)
        a, b = self.good, self.bad
        scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        front = math.exp(scale + a * math.log(chance) + b * math.log1p(-chance))
        # The fraction converges quickly on the one side of the mean only.
        if chance < (a + 1.0) / (a + b + 2.0):
            return front * _expand_fraction(a, b, chance) / a
        return 1.0 - front * _expand_fraction(b, a, 1.0 - chance) / b

    def quantile(self, share: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return 0.5 * (low + high)

    def interval(self, share: float = 0.9) -> tuple[float, float]:
        """Return the middle part that holds `share` of it."""
        rest = 0.5 * (1.0 - share)
        return self.quantile(rest), self.quantile(1.0 - rest)


def _expand_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 / _keep_from_zero(1.0 - (a + b) * x / (a + 1.0))
    total = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            c, d = _keep_from_zero(1.0 + term / c), 1.0 / _keep_from_zero(1.0 + term * d)
            change = c * d
            total *= change
        if abs(change - 1.0) < _CLOSE:
            break
    return total


def _keep_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


# --- did something change? -------------------------------------------------------------------------

SIMILAR = 0.55
"""From here on tasks are such tasks."""
_LATEST = 24
"""A change is looked for among so many of the last trials; what lies further back has been outweighed anyway."""
_FEWEST = 2
_LOG_PI = math.log(math.pi)
_SURELY = 3.5
"""By so many nats the change must be the better explanation."""


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

_UNLIKE = 0.4
"""Tasks less alike than this say nothing about each other."""
_SHARPNESS = 4
_SORTS, _ONE_SORT = 0.3, 0.7
"""Tasks less alike than the first are of two sorts, tasks more alike than the second are of one."""
_HALF_LIFE_DAYS = 180.0
_BY_ORDER, _BY_OTHERS = 0.93, 0.97
"""Each later trial takes a little from the weight of those before it: what changed shows after a handful. One of
another strategy on such tasks takes less: what was not tried for long is not sure any more."""
_BASE, _SKILL, _SKILL_HERE, _EASE, _EXPECTED = 8.0, 15.0, 4.0, 0.75, 1.2
"""How many trials it takes to believe a base rate, a strategy's effect, that on such tasks, a task's effect, and any of
it at all."""
_STALE = 0.1
_STRANGER = 0.3
"""What another strategy's trial on the task says about how easy the task is; a closely related one's says all of it."""
_KIN = 0.5
_SAID = 2.0
"""A person's word counts like so many trials."""
_CURIOSITY = 0.45
"""How many standard deviations above the mean a promise lies."""
_PASSES = 2
_SUREST = 0.97


@dataclass(frozen=True, slots=True)
class Forecast:
    belief: Beta
    """About the chance at this very task."""
    expected: float
    """The chance before any trial of this strategy on this task."""
    base: float
    weight: float
    """How many trials of this strategy on such tasks there were, by how alike they are."""

    @property
    def mean(self) -> float:
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
    """What was tried on such tasks before things changed counts for little."""
    stale = _STALE if trial.days > stale_age and trial.alike >= SIMILAR else 1.0
    return stale * float(0.5 ** (trial.days / _HALF_LIFE_DAYS))


class _Effect:
    """How far the results of one strategy, or on one task, lie over what else explains them."""

    __slots__ = ("members", "value", "weight")

    def __init__(self) -> None:
        self.members: list[_WeighedTrial] = []
        self.weight = 0.0
        self.value = 0.0


class _WeighedTrial:
    """A trial while its parts are worked out."""

    __slots__ = ("age", "ease", "over", "skill", "trial")

    skill: _Effect
    ease: _Effect
    over: float
    """How far its result lies over the base rate."""

    def __init__(self, trial: Trial, stale_age: float) -> None:
        self.trial = trial
        self.age = _weigh_age(trial, stale_age)


def forecast(trials: Sequence[Trial]) -> Forecast:
    """Return the chance that the strategy at hand succeeds at the task at hand."""
    stale_age = find_stale_age(trials)
    tried = [_WeighedTrial(trial, stale_age) for trial in trials if not trial.said]
    base = (0.5 * _BASE + sum(one.age * one.trial.value for one in tried)) / (_BASE + sum(one.age for one in tried))
    # Effects that were each seen a few times only can add up to more than is known.
    surest = min(_SUREST, 1.0 - 1.0 / (2.0 + 0.25 * len(tried)))
    expected = min(surest, max(1.0 - surest, base + _sum_effects(tried, base)))
    # Successes and failures of this strategy on this task, the later ones counting more.
    good = bad = here = later = weight = 0.0
    for trial in sorted((one for one in trials if one.own), key=lambda one: one.days):
        age = _weigh_age(trial, stale_age) * (_SAID if trial.said else 1.0)
        same, alike = weigh_likeness(trial.alike), _weigh_sort(trial.alike)
        good += same * age * _BY_ORDER**here * trial.value
        bad += same * age * _BY_ORDER**here * (1.0 - trial.value)
        weight += alike * age * _BY_ORDER**later
        here += same
        later += alike
    belief = Beta(_EXPECTED * expected + good, _EXPECTED * (1.0 - expected) + bad)
    return Forecast(belief, expected, base, weight)


def _sum_effects(tried: Sequence[_WeighedTrial], base: float) -> float:
    """Return what the strategy and the task add to the base rate."""
    skills: defaultdict[str, _Effect] = defaultdict(_Effect)
    eases: defaultdict[str, _Effect] = defaultdict(_Effect)
    for one in tried:
        one.over = one.trial.value - base
        # All ways of saying the strategy at hand are one strategy.
        one.skill = skills["" if one.trial.own else one.trial.strategy]
        one.ease = eases[one.trial.task]
        for effect in (one.skill, one.ease):
            effect.members.append(one)
            effect.weight += one.age
    for _ in range(_PASSES):
        for skill in skills.values():
            total = sum(one.age * (one.over - one.ease.value) for one in skill.members)
            skill.value = total / (skill.weight + _SKILL)
        for ease in eases.values():
            total = sum(one.age * (one.over - one.skill.value) for one in ease.members)
            ease.value = total / (ease.weight + _EASE)
    # How much better the strategy does than others, everywhere; its kin count a little. And how much better other
    # strategies do on this task than elsewhere.
    skill_sum = skill_weight = ease_sum = ease_weight = 0.0
    for one in tried:
        share = one.age if one.trial.own else one.age * _KIN * one.trial.kin
        skill_sum += share * (one.over - one.ease.value)
        skill_weight += share
        if not one.trial.own:
            share = one.age * weigh_likeness(one.trial.alike) * (_STRANGER + (1.0 - _STRANGER) * one.trial.kin)
            ease_sum += share * (one.over - one.skill.value)
            ease_weight += share
    everywhere = skill_sum / (skill_weight + _SKILL)
    return everywhere + _measure_skill_here(tried, everywhere) + ease_sum / (ease_weight + _EASE)


def _measure_skill_here(tried: Sequence[_WeighedTrial], everywhere: float) -> float:
    """Return how much better the strategy does on such tasks than everywhere."""
    total = weight = later = others = 0.0
    eases: dict[str, float] = {}
    for one in sorted(tried, key=lambda one: one.trial.days):
        task, alike = one.trial.task, _weigh_sort(one.trial.alike)
        if not one.trial.own:
            others += alike
            continue
        if task not in eases:
            # What went well with this strategy alone is to its credit; only others can tell that the task was easy.
            strangers = [other for other in one.ease.members if not other.trial.own]
            ease_sum = sum(other.age * (other.over - other.skill.value) for other in strangers)
            eases[task] = ease_sum / (sum(other.age for other in strangers) + _EASE)
        share = alike * one.age * _BY_ORDER**later * _BY_OTHERS**others
        total += share * (one.over - eases[task] - everywhere)
        weight += share
        later += alike
    return total / (weight + _SKILL_HERE)
