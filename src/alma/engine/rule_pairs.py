"""Decides whether two rules say the same or contradict each other. In doubt they are two rules.

Rules are the same if the local reader says so, or if they prefer and avoid the same names. They contradict each other
where one prefers what the other avoids, or one forbids exactly what the other asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..reading.local import LocalReader
from ..reading.local_rules import find_choice
from ..reading.port import Pair
from ..text import is_common, stems

_READER = LocalReader()
_FORBIDDING = re.compile(r"\A(?:please\s+)?(?:never|don['’]t|do not|stop|avoid)\s+", re.IGNORECASE)
_ASKING = re.compile(r"\A(?:please\s+|always\s+)+", re.IGNORECASE)


def same_rule(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if contradicts(a, b) or _apply_elsewhere(a, b):
        return False
    if _concern_same_command(a["rule"], b["rule"]):
        return True
    names = _read_names(a)
    return names == _read_names(b) and all(names)


def contradicts(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if _apply_elsewhere(a, b):
        return False
    (prefer, avoid), (other_prefer, other_avoid) = _read_names(a), _read_names(b)
    if prefer & other_avoid or avoid & other_prefer:
        return True
    forbids_one = bool(_FORBIDDING.match(a["rule"])) != bool(_FORBIDDING.match(b["rule"]))
    return forbids_one and _concern_same_command(a["rule"], b["rule"])


def _concern_same_command(first: str, second: str) -> bool:
    """Return whether two rules ask for the same or forbid the same, or one asks for what the other forbids."""
    first, second = (_ASKING.sub("", _FORBIDDING.sub("", rule)) for rule in (first, second))
    return _READER.compare([Pair(first, second)])[0].is_same


def _read_names(rule: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names that a rule prefers and avoids: as stored, or else as its words state them."""
    stored = (rule.get("prefer", ()), rule.get("avoid", ()))
    prefer, avoid = stored if any(stored) else find_choice(str(rule["rule"]))
    return {str(name).lower() for name in prefer}, {str(name).lower() for name in avoid}


def _apply_elsewhere(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether both rules say when they apply, without a telling word in common."""
    first, second = ({word for word in stems(str(rule.get("trigger", ""))) if not is_common(word)} for rule in (a, b))
    return bool(first and second) and not first & second
