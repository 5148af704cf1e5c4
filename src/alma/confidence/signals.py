"""Risks and opportunities: what in the evidence a person should look at, each with the memories it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..engine.evidence import FAILS, WORKS
from ..engine.predict import Trial
from ..engine.text import shorten
from ..types.quoting import quote_output
from .types import OpportunitySignal, RiskSignal

SIMILAR = 0.55
"""From here on a task is spoken of as a similar one."""
_THE_SAME = 0.9
_PROVEN = 3
_CITED = 5
_RECENT_DAYS = 30.0
_TASK_CHARS = 120


@dataclass(frozen=True, slots=True)
class View:
    """The trials sorted by what they are about, the most similar tasks first."""

    own: tuple[Trial, ...]
    """Of the strategy, on similar tasks."""
    elsewhere: tuple[Trial, ...]
    """Of the strategy, on other tasks."""
    others: tuple[Trial, ...]
    """Of other strategies, on similar tasks."""
    said: tuple[Trial, ...]


def sort_trials(trials: Sequence[Trial]) -> View:
    tried = sorted((one for one in trials if not one.said), key=lambda one: (-one.alike, one.days, one.id))
    own = [one for one in tried if one.own]
    return View(
        own=tuple(one for one in own if one.alike >= SIMILAR),
        elsewhere=tuple(one for one in own if one.alike < SIMILAR),
        others=tuple(one for one in tried if not one.own and one.alike >= SIMILAR),
        said=tuple(one for one in trials if one.said and one.alike >= SIMILAR),
    )


def find_risks(view: View) -> list[RiskSignal]:
    """Return why the strategy may go wrong, the gravest reason first."""
    risks = []
    rate, latest = _rate(view.own), _sort_latest(view)
    failed = _select_failed(view.own)
    if failed and rate <= WORKS:
        error = next((one.error for one in failed if one.error), "")
        text = f"failed {len(failed)} of {len(view.own)} times on similar tasks"
        text += f"; {quote_output(error)}" if error else ""
        risks.append(RiskSignal("similar_to_failure", text, _weigh(1.0 - rate, len(view.own)), _cite(failed)))
    # Only where it used to work: else its failures are reported already.
    row = list(takewhile(lambda one: one.value < 0.5, latest))
    if row and rate > WORKS:
        text = f"it used to work here, but the last {_count_times(len(row))} it failed"
        risks.append(RiskSignal("recent_failure", text, _weigh(1.0, len(row)), _cite(row)))
    if not view.own and len(view.elsewhere) >= 2 and _rate(view.elsewhere) <= FAILS:
        severity = 0.7 * _weigh(1.0 - _rate(view.elsewhere), len(view.elsewhere))
        text = f"worked {_show_share(view.elsewhere)} on other tasks"
        risks.append(RiskSignal("poor_record", text, severity, _cite(_select_failed(view.elsewhere))))
    if warned := _select_failed(view.said):
        risks.append(RiskSignal("warned_against", "a person warned against it", 0.8, _cite(warned)))
    if not view.own and not view.elsewhere:
        risks.append(RiskSignal("untested_context", "it was never tried", 0.6, ""))
    elif not view.own:
        nearest = view.elsewhere[0]
        text = f"it was never tried on a similar task; the nearest was {shorten(nearest.task, _TASK_CHARS)!r}"
        risks.append(RiskSignal("untested_context", text, 0.6 * (1.0 - max(0.0, nearest.alike)), nearest.id))
    if len(view.others) >= 2 and _rate(view.others) <= FAILS:
        text = f"other strategies worked {_show_share(view.others)} on similar tasks"
        severity = _weigh(1.0 - _rate(view.others), len(view.others))
        risks.append(RiskSignal("high_complexity", text, severity, _cite(_select_failed(view.others))))
    return sorted(risks, key=lambda signal: -signal.severity)


def find_opportunities(view: View) -> list[OpportunitySignal]:
    """Return why the strategy may go well, the strongest reason first."""
    chances = []
    rate, latest = _rate(view.own), _sort_latest(view)
    worked = [one for one in view.own if one.value > 0.5]
    if len(view.own) >= _PROVEN and rate >= WORKS:
        text = f"worked {_show_share(view.own)} on similar tasks"
        chances.append(OpportunitySignal("proven_pattern", text, _weigh(rate, len(view.own)), _cite(worked)))
    close = [one for one in worked if one.alike >= _THE_SAME]
    if close and rate > FAILS:
        text = f"it worked on a task much like this one: {shorten(close[0].task, _TASK_CHARS)!r}"
        chances.append(OpportunitySignal("high_similarity", text, 0.8 * close[0].alike, _cite(close)))
    row = list(takewhile(lambda one: one.value > 0.5, latest))
    if row and row[0].days <= _RECENT_DAYS:
        text = f"the last {_count_times(len(row))} it worked on a similar task"
        chances.append(OpportunitySignal("recent_success", text, _weigh(1.0, len(row)), _cite(row)))
    if advised := [one for one in view.said if one.value > 0.5]:
        chances.append(OpportunitySignal("recommended", "a person recommended it", 0.6, _cite(advised)))
    return sorted(chances, key=lambda signal: -signal.strength)


def _select_failed(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if one.value < 0.5]


def _rate(trials: Sequence[Trial]) -> float:
    return sum(one.value for one in trials) / len(trials) if trials else 0.0


def _weigh(share: float, count: int) -> float:
    """A share of one trial says less than the same share of ten."""
    return share * count / (count + 1.0)


def _sort_latest(view: View) -> list[Trial]:
    return sorted(view.own, key=lambda one: (one.days, one.id))


def _show_share(trials: Sequence[Trial]) -> str:
    return f"{sum(one.value > 0.5 for one in trials)} of {len(trials)} times"


def _count_times(count: int) -> str:
    return "time" if count == 1 else f"{count} times"


def _cite(trials: Sequence[Trial]) -> str:
    return ", ".join(list(dict.fromkeys(one.id for one in trials if one.id))[:_CITED])
