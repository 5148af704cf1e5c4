"""Were the predictions right? Each outcome of the past is predicted from what was known before it, then compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..engine import validate
from ..engine.context import Engine
from ..engine.predict import forecast, read_task, survey_strategy
from ..types.kinds import MemoryType, Result
from ..types.query import Where
from ..types.record import Status

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
Pair = tuple[float, float]
"""What was predicted, and what happened."""


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
    records = list(engine.store.scan(where, validate.whole("limit", limit, 1, 1_000_000)))[::-1]
    pairs: list[Pair] = []
    running: list[Pair] = []
    good = 0.0
    for at, record in enumerate(records):
        known = read_task(engine, record.agent, record.body["task"], before=record.created_at, user=record.user)
        value = Result(record.body["outcome"]).value_of
        pairs.append((forecast(survey_strategy(known, record.body["strategy"]).trials).mean, value))
        running.append(((1.0 + good) / (2.0 + at), value))
        good += value
        if progress is not None:
            progress(at + 1, len(records))
    return Report(
        count=len(pairs),
        brier=_mean_square(pairs),
        calibration_error=_measure_error(pairs),
        accuracy=_mean([float((chance >= 0.5) == (value >= 0.5)) for chance, value in pairs]),
        running_rate_brier=_mean_square(running),
        running_rate_calibration_error=_measure_error(running),
        bins=_fill_bins(pairs),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _mean_square(pairs: Sequence[Pair]) -> float:
    return _mean([(chance - value) ** 2 for chance, value in pairs])


def _fill_bins(pairs: Sequence[Pair]) -> tuple[Bin, ...]:
    bins = []
    for at in range(_BINS):
        inside = [pair for pair in pairs if min(_BINS - 1, int(pair[0] * _BINS)) == at]
        if inside:
            predicted, observed = (_mean(values) for values in zip(*inside, strict=True))
            bins.append(Bin(at / _BINS, (at + 1) / _BINS, len(inside), predicted, observed))
    return tuple(bins)


def _measure_error(pairs: Sequence[Pair]) -> float:
    gaps = (one.count * abs(one.predicted - one.observed) for one in _fill_bins(pairs))
    return sum(gaps) / len(pairs) if pairs else 0.0
