"""What is worth handing over: the lists of a session, bounded, the most important first.

A decision without a weight of its own is weighed by how it is worded. "Never", "must" or "instead of" tell of a choice
that others depend on, a reason makes it worth repeating, and hedging ("maybe", "for now") makes it worth less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError
from ..text import normalise, shorten
from ..types.times import to_iso
from .types import RECORD_NAMES, LastOutcome

MAX_ITEMS = {"decisions": 10, "files": 20, "blockers": 10, "next_steps": 10, "risks": 10}
"""How much of each list a handoff holds."""
MAX_ACTIONS = 20
ITEM_CHARS = 300
_MAX_TESTS = 50
_GOAL_CHARS = 1000
_MAX_DECISIONS = 50
"""So many decisions are kept while a session goes on; the best of them are handed over."""

_USUAL = 0.5
_SIGNS = {
    r"\b(?:never|must|always|only|agreed|approved|security|breaking|migrat\w+|delet\w+|user (?:wants|said))\b": 0.2,
    r"\b(?:instead of|rather than|over|not|no longer|switch(?:ed)? to|chose|decided|replac\w+)\b": 0.1,
    r"\b(?:because|since|so that|in order to|due to|otherwise)\b": 0.1,
    r"\b(?:maybe|perhaps|probably|might|for now|temporar\w+|try(?:ing)?|minor|cosmetic|typo)\b": -0.2,
}


# -- reading arguments


def read_notes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None, checked, under the names they have in a record."""
    named = {name: read for name, read in _READERS.items() if given.get(name) is not None}
    return {RECORD_NAMES.get(name, name): read(name, given[name]) for name, read in named.items()}


def read_goal(_label: str, given: object) -> str:
    return shorten(clean(validate.optional_text("goal", given) or ""), _GOAL_CHARS)


def read_line(label: str, given: object) -> str:
    # What a program printed may be pasted here; colours and control characters are dropped.
    return shorten(clean(validate.output(label, given) or validate.text(label, given)), ITEM_CHARS)


def read_lines(label: str, given: object) -> list[str]:
    """Return a list of short texts, each once."""
    return join_lines(read_paths(label, given))


def read_paths(label: str, given: object) -> list[str]:
    """Return the same for files, where case and punctuation matter."""
    return list(dict.fromkeys(read_line(f"{label}[{at}]", one) for at, one in enumerate(_list_values(label, given))))


def read_decisions(given: object, at: datetime) -> list[dict[str, Any]]:
    """Return decisions as they are stored, from texts or mappings with `text` and `importance` (0 to 1)."""
    decisions = []
    for number, one in enumerate(_list_values("decisions", [given] if isinstance(given, Mapping) else given)):
        label = f"decisions[{number}]"
        text, importance = (one.get("text"), one.get("importance")) if isinstance(one, Mapping) else (one, None)
        what = read_line(label, text)
        weight = weigh(what) if importance is None else validate.number(f"{label} importance", importance, 0.0, 1.0)
        decisions.append({"what": what, "weight": weight, "at": to_iso(at)})
    return decisions


def _list_values(label: str, given: object) -> Sequence[object]:
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        raise ValidationError(f"{label} must be a list of texts, not {type(given).__name__}")
    return list(given)


def _read_tests(label: str, given: object) -> dict[str, bool]:
    if not isinstance(given, Mapping):
        raise ValidationError(f"{label} must be a mapping of test names to True or False, not {type(given).__name__}")
    tests = {}
    for name, passing in given.items():
        if not isinstance(passing, bool):
            raise ValidationError(f"{label}[{name!r}] must be True or False, not {passing!r}")
        tests[shorten(clean(validate.text("a test's name", name)), ITEM_CHARS)] = passing
    return tests


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "last_action": read_line,
    "last_outcome": lambda label, given: validate.choice(label, given, LastOutcome),
    "goal": read_goal,
    "current_goal": read_goal,
    "key_decisions": read_lines,
    "active_files": read_paths,
    "resolved": read_lines,
    "blockers": read_lines,
    "next_steps": read_lines,
    "risk_flags": read_lines,
    "test_status": _read_tests,
    "confidence_level": lambda label, given: validate.number(label, given, 0.0, 1.0),
    "metadata": lambda _, given: validate.metadata(given),
}


# -- what is worth keeping


def weigh(text: str) -> float:
    """Return how much a decision matters, between 0 and 1, by its words alone."""
    signs = sum(value for pattern, value in _SIGNS.items() if re.search(pattern, text, re.IGNORECASE))
    return min(1.0, max(0.0, round(_USUAL + signs, 3)))


def merge_decisions(known: Iterable[Mapping[str, Any]], fresh: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the most important first, then the newer; one that is taken again counts a little more."""
    decisions = {normalise(one["what"]): dict(one) for one in known}
    for one in fresh:
        key, weight = normalise(one["what"]), one["weight"]
        if key in decisions:
            weight = min(1.0, max(weight, decisions[key]["weight"]) + 0.05)
        decisions[key] = {**one, "weight": weight}
    newest = sorted(decisions.values(), key=lambda one: str(one["at"]), reverse=True)
    return sorted(newest, key=lambda one: -one["weight"])[:_MAX_DECISIONS]


def rank_decisions(given: Sequence[str], others: Iterable[str]) -> list[str]:
    """Return what was named for the handoff, in its order while there is room for all; then what was noted before."""
    named = given if len(given) <= MAX_ITEMS["decisions"] else sorted(given, key=lambda text: -weigh(text))
    return join_lines(named, others)


def join_lines(*lists: Iterable[str]) -> list[str]:
    """Return all texts, each once and as it was said first."""
    texts: dict[str, str] = {}
    for text in (text for lines in lists for text in lines):
        texts.setdefault(normalise(text) or text, text)
    return list(texts.values())


def remove_lines(lines: Iterable[str], gone: Iterable[str]) -> list[str]:
    keys = {normalise(text) for text in gone}
    return [text for text in lines if normalise(text) not in keys]


def sort_tests(tests: Mapping[str, bool]) -> dict[str, bool]:
    """Return the failing ones first, and not too many."""
    return dict(sorted(tests.items(), key=lambda pair: pair[1])[:_MAX_TESTS])
