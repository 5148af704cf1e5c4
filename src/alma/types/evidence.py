"""What is known for or against a record: counts and when. Scores are computed from it, never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from .times import from_micros, to_micros

RECENT = 32


@dataclass(frozen=True, slots=True)
class Evidence:
    successes: int = 0
    partials: int = 0
    failures: int = 0
    uses: int = 0
    skips: int = 0
    ups: int = 0
    downs: int = 0
    recent: tuple[tuple[int, float], ...] = ()
    """The last results, oldest first: (seconds since the epoch, 1.0 success | 0.5 partial | 0.0 failure)."""
    last_used: datetime | None = None

    @property
    def results(self) -> int:
        return self.successes + self.partials + self.failures

    def with_result(self, value: float, at: datetime) -> Evidence:
        count = _name_count(value)
        recent = (*self.recent, (int(at.timestamp()), value))[-RECENT:]
        return replace(self, **{count: getattr(self, count) + 1}, recent=recent)

    def without_result(self, value: float, at: int) -> Evidence:
        """The same without one result of this value: the one nearest to a second, if it is among the last."""
        count, recent = _name_count(value), list(self.recent)
        near = [entry for entry in recent if entry[1] == value]
        if near:
            recent.remove(min(near, key=lambda entry: abs(entry[0] - at)))
        return replace(self, **{count: max(0, getattr(self, count) - 1)}, recent=tuple(recent))

    def with_results_of(self, other: Evidence) -> Evidence:
        """The same uses and thumbs, with the results of another."""
        names = ("successes", "partials", "failures", "recent")
        return replace(self, **{name: getattr(other, name) for name in names})

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {name: value for name in _COUNTS if (value := getattr(self, name))}
        if self.recent:
            out["recent"] = [list(pair) for pair in self.recent]
        if self.last_used is not None:
            out["last_used"] = to_micros(self.last_used)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        if not data:
            return NONE
        last_used = data.get("last_used")
        return cls(
            **{name: int(data[name]) for name in _COUNTS if name in data},
            recent=tuple((int(at), float(value)) for at, value in data.get("recent", ())),
            last_used=None if last_used is None else from_micros(last_used),
        )


def _name_count(value: float) -> str:
    return "successes" if value >= 1.0 else "failures" if value <= 0.0 else "partials"


_COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")
NONE = Evidence()


class Belief(NamedTuple):
    """How much is believed: the mean of a posterior and the interval that holds nine tenths of it."""

    mean: float
    low: float
    high: float
