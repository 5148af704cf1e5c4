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
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from .beta import Beta
from .trial import Trial
from .turn import SIMILAR, turned

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
        """What it may well turn out to be worth: the mean, and the more the less was tried on such tasks.

        How it did on other tasks may say little, so what was never tried here is never given up for that. That this
        very task may be unlike its sort is left out: no trial of another one would teach that. A little luck decides
        between equals.
        """
        spread = 0.5 / math.sqrt(2.0 + self.weight)
        return self.mean + _CURIOSITY * spread * random.uniform(0.9, 1.1)


def likeness(alike: float) -> float:
    """How much a trial on a task so alike says about this very task."""
    return float(max(0.0, (alike - _UNLIKE) / (1.0 - _UNLIKE)) ** _SHARPNESS)


def _sort(alike: float) -> float:
    """How much it says about such tasks."""
    return min(1.0, max(0.0, (alike - _SORTS) / (_ONE_SORT - _SORTS)))


def forecast(trials: Sequence[Trial]) -> Forecast:
    since = turned(trials)
    tried = [_Weighed(trial, since) for trial in trials if not trial.said]
    base = (0.5 * _BASE + sum(one.age * one.trial.value for one in tried)) / (_BASE + sum(one.age for one in tried))
    # Effects that were each seen a few times only can add up to more than is known.
    surest = min(_SUREST, 1.0 - 1.0 / (2.0 + 0.25 * len(tried)))
    expected = min(surest, max(1.0 - surest, base + _effects(tried, base)))
    good, bad, weight = _own(trials, since)
    belief = Beta(_EXPECTED * expected + good, _EXPECTED * (1.0 - expected) + bad)
    return Forecast(belief, expected, base, weight)


def _aged(trial: Trial, since: float) -> float:
    """What was tried on such tasks before things changed counts for little."""
    stale = _STALE if trial.days > since and trial.alike >= SIMILAR else 1.0
    return stale * float(0.5 ** (trial.days / _HALF_LIFE_DAYS))


class _Effect:
    """How far the results of one strategy, or on one task, lie over what else explains them."""

    __slots__ = ("members", "value", "weight")

    def __init__(self) -> None:
        self.members: list[_Weighed] = []
        self.weight = 0.0
        self.value = 0.0


class _Weighed:
    """A trial while its parts are worked out."""

    __slots__ = ("age", "ease", "over", "skill", "trial")

    skill: _Effect
    ease: _Effect

    def __init__(self, trial: Trial, since: float) -> None:
        self.trial = trial
        self.age = _aged(trial, since)
        self.over = 0.0
        """How far its result lies over the base rate."""


def _effects(tried: Sequence[_Weighed], base: float) -> float:
    """What the strategy and the task add to the base rate."""
    skills, eases = _told_apart(tried, base)
    for _ in range(_PASSES):
        for skill in skills:
            total = sum(one.age * (one.over - one.ease.value) for one in skill.members)
            skill.value = total / (skill.weight + _SKILL)
        for ease in eases:
            total = sum(one.age * (one.over - one.skill.value) for one in ease.members)
            ease.value = total / (ease.weight + _EASE)
    everywhere = _skill(tried)
    return everywhere + _skill_here(tried, everywhere) + _ease(tried)


def _told_apart(tried: Sequence[_Weighed], base: float) -> tuple[Collection[_Effect], Collection[_Effect]]:
    """The effects of the strategies and of the tasks."""
    skills: defaultdict[str, _Effect] = defaultdict(_Effect)
    eases: defaultdict[str, _Effect] = defaultdict(_Effect)
    for one in tried:
        one.over = one.trial.value - base
        # All ways of saying the strategy at hand are one strategy.
        one.skill = skills["" if one.trial.own else one.trial.strategy]
        one.ease = eases[one.trial.task]
        one.skill.members.append(one)
        one.skill.weight += one.age
        one.ease.members.append(one)
        one.ease.weight += one.age
    return skills.values(), eases.values()


def _skill(tried: Sequence[_Weighed]) -> float:
    """How much better the strategy does than others, everywhere; its kin count a little."""
    total = weight = 0.0
    for one in tried:
        share = one.age if one.trial.own else one.age * _KIN * one.trial.kin
        total += share * (one.over - one.ease.value)
        weight += share
    return total / (weight + _SKILL)


def _skill_here(tried: Sequence[_Weighed], everywhere: float) -> float:
    """How much better it does on such tasks than everywhere."""
    total = weight = later = others = 0.0
    shared: dict[str, float] = {}
    for one in sorted(tried, key=lambda one: one.trial.days):
        task, alike = one.trial.task, _sort(one.trial.alike)
        if not one.trial.own:
            others += alike
            continue
        if task not in shared:
            shared[task] = _shared(one.ease)
        share = alike * one.age * _BY_ORDER**later * _BY_OTHERS**others
        total += share * (one.over - shared[task] - everywhere)
        weight += share
        later += alike
    return total / (weight + _SKILL_HERE)


def _shared(ease: _Effect) -> float:
    """What went well with this strategy alone is to its credit; only the others can tell that the task was easy."""
    others = [one for one in ease.members if not one.trial.own]
    total = sum(one.age * (one.over - one.skill.value) for one in others)
    return total / (sum(one.age for one in others) + _EASE)


def _ease(tried: Sequence[_Weighed]) -> float:
    """How much better other strategies do on this task than elsewhere."""
    total = weight = 0.0
    for one in tried:
        if not one.trial.own:
            share = one.age * likeness(one.trial.alike) * (_STRANGER + (1.0 - _STRANGER) * one.trial.kin)
            total += share * (one.over - one.skill.value)
            weight += share
    return total / (weight + _EASE)


def _own(trials: Sequence[Trial], since: float) -> tuple[float, float, float]:
    """Successes and failures of this strategy on this task, the later ones counting more, and how much there is on
    such tasks."""
    good = bad = here = later = weight = 0.0
    for trial in sorted((one for one in trials if one.own), key=lambda one: one.days):
        age = _aged(trial, since) * (_SAID if trial.said else 1.0)
        same, alike = likeness(trial.alike), _sort(trial.alike)
        good += same * age * _BY_ORDER**here * trial.value
        bad += same * age * _BY_ORDER**here * (1.0 - trial.value)
        weight += alike * age * _BY_ORDER**later
        here += same
        later += alike
    return good, bad, weight
