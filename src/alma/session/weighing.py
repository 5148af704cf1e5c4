"""What is worth handing over: the lists of a session, bounded, the most important first.

A decision without a weight of its own is weighed by how it is worded. "Never", "must" or "instead of" tell of a choice
that others depend on, a reason makes it worth repeating, and hedging ("maybe", "for now") makes it worth less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..engine.text import normalise, shorten
from ..errors import ValidationError
from ..types.times import to_iso

DECISIONS = 10
FILES = 20
BLOCKERS = 10
STEPS = 10
RISKS = 10
TESTS = 50
ACTIONS = 20
ITEM_CHARS = 300
GOAL_CHARS = 1000
NOTED = 50
"""So many decisions are kept while a session goes on; the best of them are handed over."""

_USUAL = 0.5
_SIGNS = {
    r"\b(?:never|must|always|only|agreed|approved|security|breaking|migrat\w+|delet\w+|user (?:wants|said))\b": 0.2,
    r"\b(?:instead of|rather than|over|not|no longer|switch(?:ed)? to|chose|decided|replac\w+)\b": 0.1,
    r"\b(?:because|since|so that|in order to|due to|otherwise)\b": 0.1,
    r"\b(?:maybe|perhaps|probably|might|for now|temporar\w+|try(?:ing)?|minor|cosmetic|typo)\b": -0.2,
}


def weight(text: str) -> float:
    """Return how much a decision matters, between 0 and 1, by its words alone."""
    signs = sum(value for pattern, value in _SIGNS.items() if re.search(pattern, text, re.IGNORECASE))
    return min(1.0, max(0.0, round(_USUAL + signs, 3)))


def lines(label: str, given: object) -> list[str]:
    """A list of short texts, each once."""
    return joined(_line(f"{label}[{at}]", one) for at, one in enumerate(_listed(label, given)))


def paths(label: str, given: object) -> list[str]:
    """The same for files, of which case and punctuation tell one from another."""
    return list(dict.fromkeys(_line(f"{label}[{at}]", one) for at, one in enumerate(_listed(label, given))))


def _listed(label: str, given: object) -> Sequence[object]:
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        raise ValidationError(f"{label} must be a list of texts, not {type(given).__name__}")
    return list(given)


def _line(label: str, given: object) -> str:
    # What a program printed may be pasted here; colours and control characters are dropped.
    return shorten(clean(validate.output(label, given) or validate.text(label, given)), ITEM_CHARS)


def decisions(given: object, at: datetime) -> list[dict[str, Any]]:
    """Decisions as they are noted: a text, or a mapping with `text` and `importance` (0 to 1)."""
    found = []
    for number, one in enumerate(_listed("decisions", [given] if isinstance(given, Mapping) else given)):
        label = f"decisions[{number}]"
        text, importance = one, None
        if isinstance(one, Mapping):
            text, importance = one.get("text"), one.get("importance")
        what = _line(label, text)
        heavy = weight(what) if importance is None else validate.number(f"{label} importance", importance, 0.0, 1.0)
        found.append({"what": what, "weight": heavy, "at": to_iso(at)})
    return found


def noted(held: Sequence[Mapping[str, Any]], fresh: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decisions, the most important first and of two alike the newer; one that is taken again counts a little more."""
    known = {normalise(one["what"]): dict(one) for one in held}
    for one in fresh:
        key = normalise(one["what"])
        known[key] = {**one, "weight": _again(one["weight"], known.get(key))}
    newest = sorted(known.values(), key=lambda one: str(one["at"]), reverse=True)
    return sorted(newest, key=lambda one: -one["weight"])[:NOTED]


def _again(heavy: float, before: Mapping[str, Any] | None) -> float:
    return heavy if before is None else min(1.0, max(heavy, before["weight"]) + 0.05)


def weightiest(given: Sequence[str], others: Sequence[str]) -> list[str]:
    """What was named for the handoff, in its order while there is room for all; then what was noted before."""
    named = list(given) if len(given) <= DECISIONS else sorted(given, key=lambda text: -weight(text))
    return joined(named, others)


def joined(*lists: Iterable[str]) -> list[str]:
    """One after the other, each text once and as it was said first."""
    found: dict[str, str] = {}
    for one in (one for part in lists for one in part):
        found.setdefault(normalise(one) or one, one)
    return list(found.values())


def without(held: Iterable[str], gone: Iterable[str]) -> list[str]:
    left = {normalise(one) for one in gone}
    return [one for one in held if normalise(one) not in left]


def tests(given: object) -> dict[str, bool]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValidationError(
            f"test_status must be a mapping of test names to True or False, not {type(given).__name__}"
        )
    found = {}
    for name, passing in given.items():
        if not isinstance(passing, bool):
            raise ValidationError(f"test_status[{name!r}] must be True or False, not {passing!r}")
        found[shorten(clean(validate.text("a test's name", name)), ITEM_CHARS)] = passing
    return found


def failing_first(given: Mapping[str, bool], most: int = TESTS) -> dict[str, bool]:
    return dict(sorted(given.items(), key=lambda pair: pair[1])[:most])
