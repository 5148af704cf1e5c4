"""The Beta distribution: what is known of a chance of which some successes and failures were seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

_TINY = 1e-300
_STEPS = 200
_CLOSE = 1e-10
_HALVINGS = 26


@dataclass(frozen=True, slots=True)
class Beta:
    good: float
    bad: float

    @property
    def mean(self) -> float:
        return self.good / (self.good + self.bad)

    def below(self, chance: float) -> float:
        """How likely it is that the true chance is lower than this one."""
        if chance <= 0.0 or chance >= 1.0:
            return float(chance >= 1.0)
        a, b = self.good, self.bad
        scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        front = math.exp(scale + a * math.log(chance) + b * math.log1p(-chance))
        # The fraction converges quickly on the one side of the mean only.
        if chance < (a + 1.0) / (a + b + 2.0):
            return front * _fraction(a, b, chance) / a
        return 1.0 - front * _fraction(b, a, 1.0 - chance) / b

    def quantile(self, share: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return 0.5 * (low + high)

    def interval(self, share: float = 0.9) -> tuple[float, float]:
        """The middle part that holds `share` of it."""
        rest = 0.5 * (1.0 - share)
        return self.quantile(rest), self.quantile(1.0 - rest)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, _turned(1.0 - (a + b) * x / (a + 1.0))
    total = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            c, d = _nonzero(1.0 + term / c), _turned(1.0 + term * d)
            change = c * d
            total *= change
        if abs(change - 1.0) < _CLOSE:
            break
    return total


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _turned(value: float) -> float:
    return 1.0 / _nonzero(value)
