"""Risks and opportunities: what in the evidence a person should look at, each with the memories it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
_LATELY_DAYS = 30.0
_ERROR_CHARS = 120


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


def sorted_out(trials: Sequence[Trial]) -> View:
    tried = sorted((one for one in trials if not one.said), key=lambda one: (-one.alike, one.days, one.id))
    own = [one for one in tried if one.own]
    return View(
        own=tuple(one for one in own if one.alike >= SIMILAR),
        elsewhere=tuple(one for one in own if one.alike < SIMILAR),
        others=tuple(one for one in tried if not one.own and one.alike >= SIMILAR),
        said=tuple(one for one in trials if one.said and one.alike >= SIMILAR),
    )


# -- risks


def risks(view: View) -> list[RiskSignal]:
    """The gravest first."""
    found = [signal for look in _RISKS if (signal := look(view)) is not None]
    return sorted(found, key=lambda signal: -signal.severity)


def _similar_to_failure(view: View) -> RiskSignal | None:
    failed = [one for one in view.own if one.value < 0.5]
    if not failed or _rate(view.own) > WORKS:
        return None
    error = next((one.error for one in failed if one.error), "")
    told = f"failed {len(failed)} of {len(view.own)} times on similar tasks"
    told += f"; {quote_output(error)}" if error else ""
    return RiskSignal("similar_to_failure", told, _surely(1.0 - _rate(view.own), len(view.own)), _cited(failed))


def _recent_failure(view: View) -> RiskSignal | None:
    """Only where it used to work: else its failures are told already."""
    lately = _latest(view)
    if not lately or lately[0].value >= 0.5 or _rate(view.own) <= WORKS:
        return None
    failed = lately[: next((at for at, one in enumerate(lately) if one.value >= 0.5), len(lately))]
    told = f"it used to work here, but the last {_times(len(failed))} it failed"
    return RiskSignal("recent_failure", told, _surely(1.0, len(failed)), _cited(failed))


def _poor_record(view: View) -> RiskSignal | None:
    if view.own or len(view.elsewhere) < 2 or _rate(view.elsewhere) > FAILS:
        return None
    told = f"worked {_share(view.elsewhere)} on other tasks"
    failed = [one for one in view.elsewhere if one.value < 0.5]
    severity = 0.7 * _surely(1.0 - _rate(view.elsewhere), len(view.elsewhere))
    return RiskSignal("poor_record", told, severity, _cited(failed))


def _warned_against(view: View) -> RiskSignal | None:
    warned = [one for one in view.said if one.value < 0.5]
    return RiskSignal("warned_against", "a person warned against it", 0.8, _cited(warned)) if warned else None


def _untested(view: View) -> RiskSignal | None:
    if view.own:
        return None
    if not view.elsewhere:
        return RiskSignal("untested_context", "it was never tried", 0.6, "")
    nearest = view.elsewhere[0]
    told = f"it was never tried on a similar task; the nearest was {shorten(nearest.task, _ERROR_CHARS)!r}"
    return RiskSignal("untested_context", told, 0.6 * (1.0 - max(0.0, nearest.alike)), nearest.id)


def _hard(view: View) -> RiskSignal | None:
    if len(view.others) < 2 or _rate(view.others) > FAILS:
        return None
    told = f"other strategies worked {_share(view.others)} on similar tasks"
    failed = [one for one in view.others if one.value < 0.5]
    return RiskSignal("high_complexity", told, _surely(1.0 - _rate(view.others), len(view.others)), _cited(failed))


_RISKS: tuple[Callable[[View], RiskSignal | None], ...] = (
    _similar_to_failure,
    _recent_failure,
    _poor_record,
    _warned_against,
    _untested,
    _hard,
)


# -- opportunities


def opportunities(view: View) -> list[OpportunitySignal]:
    """The strongest first."""
    found = [signal for look in _OPPORTUNITIES if (signal := look(view)) is not None]
    return sorted(found, key=lambda signal: -signal.strength)


def _proven(view: View) -> OpportunitySignal | None:
    if len(view.own) < _PROVEN or _rate(view.own) < WORKS:
        return None
    worked = [one for one in view.own if one.value > 0.5]
    told = f"worked {_share(view.own)} on similar tasks"
    return OpportunitySignal("proven_pattern", told, _surely(_rate(view.own), len(view.own)), _cited(worked))


def _high_similarity(view: View) -> OpportunitySignal | None:
    worked = [one for one in view.own if one.value > 0.5 and one.alike >= _THE_SAME]
    if not worked or _rate(view.own) <= FAILS:
        return None
    told = f"it worked on a task much like this one: {shorten(worked[0].task, _ERROR_CHARS)!r}"
    return OpportunitySignal("high_similarity", told, 0.8 * worked[0].alike, _cited(worked))


def _recent_success(view: View) -> OpportunitySignal | None:
    lately = _latest(view)
    if not lately or lately[0].value <= 0.5 or lately[0].days > _LATELY_DAYS:
        return None
    worked = lately[: next((at for at, one in enumerate(lately) if one.value <= 0.5), len(lately))]
    told = f"the last {_times(len(worked))} it worked on a similar task"
    return OpportunitySignal("recent_success", told, _surely(1.0, len(worked)), _cited(worked))


def _recommended(view: View) -> OpportunitySignal | None:
    told = [one for one in view.said if one.value > 0.5]
    return OpportunitySignal("recommended", "a person recommended it", 0.6, _cited(told)) if told else None


_OPPORTUNITIES: tuple[Callable[[View], OpportunitySignal | None], ...] = (
    _proven,
    _high_similarity,
    _recent_success,
    _recommended,
)


# -- words and figures


def _rate(trials: Sequence[Trial]) -> float:
    return sum(one.value for one in trials) / len(trials) if trials else 0.0


def _surely(share: float, count: int) -> float:
    """A share of one trial says less than the same share of ten."""
    return share * count / (count + 1.0)


def _latest(view: View) -> list[Trial]:
    return sorted(view.own, key=lambda one: (one.days, one.id))


def _share(trials: Sequence[Trial]) -> str:
    return f"{sum(one.value > 0.5 for one in trials)} of {len(trials)} times"


def _times(count: int) -> str:
    return "time" if count == 1 else f"{count} times"


def _cited(trials: Sequence[Trial]) -> str:
    return ", ".join(list(dict.fromkeys(one.id for one in trials if one.id))[:_CITED])
