"""Two rules: the same said twice, contrary to each other, or neither.

A wrong merge makes a rule of the opposite of what a person said, and a wrong contradiction takes away what they meant:
in doubt they are two rules. Rules contradict each other only where one names what the other forbids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..reading.local import LocalReader
from ..reading.port import Pair
from .text import is_common, stem, stems

_READER = LocalReader()
_NEGATIONS = frozenset(
    map(stem, "never always avoid stop without instead please need anymore longer more me now".split())
)


def same_rule(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if contradicts(a, b) or _elsewhere(a, b):
        return False
    if _same_command(a["rule"], b["rule"]):
        return True
    # "Use pnpm, not npm" said in many ways prefers and avoids the same.
    wanted, unwanted = _names(a, "prefer"), _names(a, "avoid")
    return bool(wanted) and bool(unwanted) and wanted == _names(b, "prefer") and unwanted == _names(b, "avoid")


def contradicts(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if _elsewhere(a, b):
        return False
    return _against(a, b) or _turned_choice(a["rule"], b["rule"]) or _negated(a["rule"], b["rule"])


# -- by what is wanted and what is not

_UNWANTED = re.compile(
    r"\b(?:instead of|rather than|in place of|not|never|no|don't|do not|avoid|over|statt|nicht|keine?|nie|"
    r"не|вместо|en vez de|en lugar de|au lieu de|pas)\s+(?:use\s+|using\s+|the\s+|any\s+)*"
    r"(?P<what>.+?)(?=[,.;:!?]\s|[,.;:!?]?$|\s+(?:but|use|only|because|in|for|on|when|here|any ?more)\b)"
)


@lru_cache(maxsize=512)
def _sides(rule: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of what a rule wants, and those of what it does not want."""
    text = rule.lower().replace("’", "'")
    unwanted = " ".join(found["what"] for found in _UNWANTED.finditer(text))
    wanted = _UNWANTED.sub(" ", text)
    return stems(wanted) - _NEGATIONS, (stems(unwanted) if unwanted else frozenset()) - _NEGATIONS


def _turned_choice(a: str, b: str) -> bool:
    """One says "this, not that", and the other that."""
    return _refuses(a, b) or _refuses(b, a)


def _refuses(a: str, b: str) -> bool:
    wanted, unwanted = _sides(a)
    gone, chosen = unwanted - wanted, _sides(b)[0] - _sides(b)[1]
    instead = {word for word in wanted if not is_common(word)} - _sides(b)[0]
    if not gone or not instead or not gone <= chosen:
        return False
    rest = {word for word in chosen - gone if not is_common(word)}
    # What else the other says must be of the same matter, if it says anything else.
    return not rest or bool(rest & (wanted | unwanted))


_FORBIDDING = re.compile(r"\A(?:please\s+)?(?:never|don['’]t|do not|stop|avoid)\s+", re.IGNORECASE)
_ASKING = re.compile(r"\A(?:please\s+|always\s+)+", re.IGNORECASE)


def _negated(a: str, b: str) -> bool:
    """What one asks for is what the other forbids, and neither says more."""
    return _forbids(a) != _forbids(b) and _same_command(a, b)


def _forbids(rule: str) -> bool:
    return _FORBIDDING.match(rule) is not None


def _same_command(a: str, b: str) -> bool:
    """Whether two rules ask for the same or forbid the same, or one asks for what the other forbids."""
    first, second = (_ASKING.sub("", _FORBIDDING.sub("", rule)) for rule in (a, b))
    return _READER.compare([Pair(first, second)])[0].is_same


def _names(body: Mapping[str, Any], name: str) -> set[str]:
    return {str(one).lower() for one in body.get(name, ())}


def _against(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """One wants what the other does not."""
    return bool(_names(a, "prefer") & _avoided(b) or _avoided(a) & _names(b, "prefer"))


def _avoided(body: Mapping[str, Any]) -> set[str]:
    """Not `rspec`, where `bundle exec rspec` is wanted: it is to be run in another way."""
    wanted = {word for name in _names(body, "prefer") for word in name.split()}
    return {name for name in _names(body, "avoid") if name not in wanted}


def _elsewhere(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Both say when they apply, and have not one telling word of it in common."""
    first, second = _occasion(a), _occasion(b)
    return bool(first and second) and not first & second


def _occasion(body: Mapping[str, Any]) -> set[str]:
    trigger = str(body.get("trigger", ""))
    # "When using npm" is not an occasion of its own: it says again what is not to be used.
    named = stems(" ".join(_names(body, "avoid") | _names(body, "prefer"))) if trigger.startswith("using ") else set()
    found = stems(trigger) - named
    if trigger.startswith("using ") and named:
        found -= {stem("using")}
    return {word for word in found if not is_common(word)} or set(found)
