"""Predictions and how good they were, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .marks import bar, counted, fit, interval
from .shapes import Column, Line, Shape, line, stacked, table

if TYPE_CHECKING:
    from ..api.values import Bin, ConfidenceSignal, OpportunitySignal, Report, RiskSignal

_ADVICE = {
    "strong_yes": "bold green",
    "yes": "green",
    "neutral": "",
    "caution": "yellow",
    "avoid": "bold red",
}
_WIDTH = 20
_WIDE = 40
_CITED = 2
_FEW = 20
_ENOUGH = 100


def _advice(signal: ConfidenceSignal) -> Line:
    return line(signal.recommendation.replace("_", " "), _ADVICE[signal.recommendation])


def _chance(signal: ConfidenceSignal, width: int) -> Line:
    return line(interval(signal.predicted_success, *signal.interval, width), _ADVICE[signal.recommendation])


# -- one


def assessed(signal: ConfidenceSignal) -> Iterator[Shape]:
    low, high = signal.interval
    yield _advice(signal) + line(f"  {fit(signal.strategy)}", "bold") + line(f"  for: {fit(signal.context)}", "dim")
    yield (
        line(f"{signal.predicted_success:>4.0%}  ") + _chance(signal, _WIDE) + line(f"  {low:.0%} to {high:.0%}", "dim")
    )
    yield line(_record(signal), "dim")
    yield from _reasons(signal)


def _record(signal: ConfidenceSignal) -> str:
    if not signal.occurrence_count:
        return "it was never tried; this is what is known of similar strategies and tasks"
    tried = counted(signal.occurrence_count, "time")
    similar = (
        f"; the most similar success is {signal.context_similarity:.0%} alike" if signal.context_similarity else ""
    )
    return f"tried {tried}, {signal.historical_success_rate:.0%} of them worked{similar}"


def _reasons(signal: ConfidenceSignal, indent: str = "") -> Iterator[Shape]:
    if not signal.risk_signals and not signal.opportunity_signals:
        return
    grid = table(Column(wrap=False), Column())
    for risk in signal.risk_signals:
        grid.add(line(f"{indent}▼", "red"), _reason(risk))
    for chance in signal.opportunity_signals:
        grid.add(line(f"{indent}▲", "green"), _reason(chance))
    yield grid


def _reason(one: RiskSignal | OpportunitySignal) -> Line:
    told = line(fit(one.description))
    ids = one.source.split(", ") if one.source else []
    more = f" and {len(ids) - _CITED} more" if len(ids) > _CITED else ""
    return stacked([told, line(", ".join(ids[:_CITED]) + more, "dim")]) if ids else told


# -- several


def ranking(signals: Sequence[ConfidenceSignal]) -> Iterator[Shape]:
    made = table(
        Column(right=True),
        "strategy",
        Column("chance", right=True),
        Column("0 … 100%", wrap=False),
        Column("", wrap=False),
    )
    for place, signal in enumerate(signals, 1):
        told = stacked([line(fit(signal.strategy), "bold"), line(_tried(signal), "dim")])
        made.add(f"{place}", told, f"{signal.predicted_success:.0%}", _chance(signal, _WIDTH), _advice(signal))
    yield made
    for signal in signals:
        reasons = list(_reasons(signal, "  "))
        if reasons:
            yield line(fit(signal.strategy), "bold")
            yield from reasons


def _tried(signal: ConfidenceSignal) -> str:
    if not signal.occurrence_count:
        return "never tried"
    return f"{signal.historical_success_rate:.0%} of {signal.occurrence_count} worked"


# -- calibration


def calibrated(report: Report) -> Iterator[Shape]:
    if report.count < _FEW:
        held = f"only {counted(report.count, 'outcome')} so far" if report.count else "there are no outcomes yet"
        yield line(f"{held}; {_FEW} or more are needed to say how good predictions are", "yellow")
        if not report.count:
            return
    yield line(f"{counted(report.count, 'outcome')}, each predicted from what was known before it", "bold")
    yield _figures(report)
    yield line("\npredicted, and what came of it", "bold")
    yield _diagram(report.bins)
    yield line(_verdict(report), "dim")


def _figures(report: Report) -> Shape:
    made = table("", Column("alma", right=True), Column("share so far", right=True), Column("", "dim"))
    made.add(
        "Brier score", f"{report.brier:.3f}", f"{report.running_rate_brier:.3f}", "0 is perfect; 0.25: always one half"
    )
    error, running = report.calibration_error, report.running_rate_calibration_error
    made.add("calibration error", f"{error:.3f}", f"{running:.3f}", "how far predictions lie from what happened")
    made.add("right side of 50%", f"{report.accuracy:.0%}", "", "")
    return made


def _diagram(bins: Sequence[Bin]) -> Shape:
    """For each tenth: where its predictions lay (◇) and what share succeeded (●); together is good."""
    most = max((one.count for one in bins), default=0)
    made = table(
        Column("predicted", wrap=False),
        Column("0 … 100%", wrap=False),
        Column("came true", right=True),
        Column("of", right=True),
        "",
    )
    for one in bins:
        far = abs(one.predicted - one.observed)
        style = "green" if far <= 0.1 else "yellow" if far <= 0.2 else "red"
        made.add(
            f"{one.low:.0%} to {one.high:.0%}",
            line(_places(one.predicted, one.observed), style),
            f"{one.observed:.0%}",
            str(one.count),
            line(bar(one.count, most, 12), "dim"),
        )
    return made


def _places(predicted: float, observed: float, width: int = 31) -> str:
    at, came = (round(value * (width - 1)) for value in (predicted, observed))
    between = range(min(at, came) + 1, max(at, came))
    return "".join(
        "●" if place == came else "◇" if place == at else "─" if place in between else "·" for place in range(width)
    )


def _verdict(report: Report) -> str:
    if report.count < _FEW:
        return "◇ predicted  ● came true"
    better = report.brier < report.running_rate_brier
    than = "better" if better else "no better"
    sure = "" if report.count >= _ENOUGH else f"; with fewer than {_ENOUGH} outcomes this is rough"
    return f"◇ predicted  ● came true. The predictions are {than} than the share of successes so far{sure}."
