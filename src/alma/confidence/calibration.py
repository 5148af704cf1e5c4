"""Were the predictions right? Each outcome of the past is predicted from what was known before it, then compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..engine import validate
from ..engine.context import Engine
from ..engine.predict import forecast, ground, survey
from ..types.kinds import MemoryType, Result
from ..types.query import Where
from ..types.record import Record, Status

_BINS = 10
_NEWEST = 500


@dataclass(frozen=True, slots=True)
class Bin:
    """The predictions between two tenths, and what became of them."""

    low: float
    high: float
    count: int
    predicted: float
    """Their mean."""
    observed: float
    """The share that succeeded."""


@dataclass(frozen=True, slots=True)
class Report:
    count: int
    """How many outcomes were predicted."""
    brier: float
    """The mean square of the error: 0 is perfect, 0.25 is what always saying one half gives."""
    calibration_error: float
    """How far the predictions lie from what happened, over the bins."""
    accuracy: float
    """The share of outcomes on the side of one half where they were predicted."""
    running_rate_brier: float
    """The same for the share of successes so far, which knows nothing of tasks and strategies."""
    running_rate_calibration_error: float
    bins: tuple[Bin, ...]
    """Those that hold any prediction, lowest first."""


Progress = Callable[[int, int], None]


def calibration(
    engine: Engine, agent: str | None = None, limit: int = _NEWEST, progress: Progress | None = None
) -> Report:
    """Predict the newest `limit` outcomes of one agent or of all, each from what was known before it.

    What went half well counts as half a success. `progress` is told how many are done, and of how many.
    """
    name = None if agent is None else engine.agent(validate.name("agent", agent))
    where = Where(
        kinds={MemoryType.OUTCOME},
        projects={engine.project},
        agents=None if name is None else {name},
        statuses={Status.ACTIVE},
    )
    found = list(engine.store.scan(where, validate.whole("limit", limit, 1, 1_000_000)))[::-1]
    pairs = []
    for at, record in enumerate(found, 1):
        pairs.append((_predicted(engine, record), _value(record)))
        if progress is not None:
            progress(at, len(found))
    return _report(pairs, _running([_value(record) for record in found]))


def _value(record: Record) -> float:
    return Result(record.body["outcome"]).value_of


def _predicted(engine: Engine, record: Record) -> float:
    known = ground(engine, record.agent, record.body["task"], before=record.created_at, user=record.user)
    return forecast(survey(known, record.body["strategy"]).trials).mean


Pair = tuple[float, float]
"""What was predicted, and what happened."""


def _running(values: Sequence[float]) -> list[Pair]:
    good, pairs = 0.0, []
    for seen, value in enumerate(values):
        pairs.append(((1.0 + good) / (2.0 + seen), value))
        good += value
    return pairs


def _report(pairs: Sequence[Pair], running: Sequence[Pair]) -> Report:
    return Report(
        count=len(pairs),
        brier=_brier(pairs),
        calibration_error=_error(_bins(pairs)),
        accuracy=_mean([float((chance >= 0.5) == (value >= 0.5)) for chance, value in pairs]),
        running_rate_brier=_brier(running),
        running_rate_calibration_error=_error(_bins(running)),
        bins=_bins(pairs),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _brier(pairs: Sequence[Pair]) -> float:
    return _mean([(chance - value) ** 2 for chance, value in pairs])


def _bins(pairs: Sequence[Pair]) -> tuple[Bin, ...]:
    held: dict[int, list[Pair]] = {}
    for pair in pairs:
        held.setdefault(min(_BINS - 1, int(pair[0] * _BINS)), []).append(pair)
    return tuple(
        Bin(
            low=at / _BINS,
            high=(at + 1) / _BINS,
            count=len(held[at]),
            predicted=_mean([chance for chance, _ in held[at]]),
            observed=_mean([value for _, value in held[at]]),
        )
        for at in sorted(held)
    )


def _error(bins: Sequence[Bin]) -> float:
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.predicted - one.observed) for one in bins) / total if total else 0.0
