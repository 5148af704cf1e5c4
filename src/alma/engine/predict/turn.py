"""Did something change? A strategy that used to work and now fails says that what was learned on such tasks is stale.

For every moment at which it might have happened, two explanations are weighed: that each strategy had one chance all
the time, or one before and another after. The second must be much the likelier one to be believed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .trial import Trial

SIMILAR = 0.55
"""From here on tasks are such tasks."""
_LATEST = 24
"""A change is looked for among so many of the last trials; what lies further back has been outweighed anyway."""
_FEWEST = 2
_LOG_PI = math.log(math.pi)
_SURELY = 3.5
"""By so many nats the change must be the better explanation."""


def turned(trials: Sequence[Trial]) -> float:
    """The age in days beyond which what was tried on such tasks is stale; infinite when nothing changed."""
    near = [one for one in trials if one.alike >= SIMILAR and not one.said]
    runs = _runs(near)
    if not runs:
        return math.inf
    ages = sorted({days for run in runs for days, _ in run})[:_LATEST]
    best = max(((_gain(runs, age), -age) for age in ages), default=(0.0, 0.0))
    return -best[1] if best[0] >= _SURELY else math.inf


Run = list[tuple[float, float]]
"""The results of one strategy: (days ago, value)."""


def _runs(trials: Sequence[Trial]) -> list[Run]:
    """Only of strategies with both sorts of result, and enough of them, can a change be told."""
    by_strategy: dict[str, Run] = {}
    for one in trials:
        by_strategy.setdefault("" if one.own else one.strategy, []).append((one.days, one.value))
    return [run for run in by_strategy.values() if _mixed(run)]


def _mixed(run: Run) -> bool:
    good = sum(value for _, value in run)
    return good >= 1.0 and len(run) - good >= 1.0 and len(run) >= 2 * _FEWEST


def _gain(runs: Sequence[Run], age: float) -> float:
    """How much better two chances explain the results than one does, the later chance holding from `age` on."""
    total = 0.0
    for run in runs:
        after = [value for days, value in run if days <= age]
        if _FEWEST <= len(after) <= len(run) - _FEWEST:
            good, all_good = sum(after), sum(value for _, value in run)
            before = len(run) - len(after)
            total += _evidence(good, len(after) - good) + _evidence(all_good - good, before - (all_good - good))
            total -= _evidence(all_good, len(run) - all_good)
    return total


def _evidence(good: float, bad: float) -> float:
    """The log likelihood of such results under a chance of which nothing is known."""
    return math.lgamma(good + 0.5) + math.lgamma(bad + 0.5) - math.lgamma(good + bad + 1.0) - _LOG_PI
