"""The signs by which a planted instruction is known.

They are in `suspicion.json`, each a general turn of phrase in some of the languages such texts come in; none is a list
of known attacks. A sign weighs what it proves: "ignore your instructions" is enough alone, "always" or `sudo` is not.
"""

from __future__ import annotations

import re

from ..patterns import read_patterns

ENOUGH = 4
_SIGNS = [
    (sign["reason"], sign["weight"], re.compile("".join(sign["pattern"]), re.I | re.M))
    for sign in read_patterns(__file__)["signs"]
]
# Data keeps its keys in quotes too, so quotes excuse only what people quote.
_QUOTABLE = frozenset({"override", "persona"})
_QUOTES = "\"'`“”‘’«»"


def _is_mentioned(match: re.Match[str]) -> bool:
    """A phrase set wholly in quotes is talked about, not said: `block "ignore previous instructions"`."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
    return bool(before) and bool(after) and before in _QUOTES and after in _QUOTES


def weigh_signs(text: str) -> dict[str, int]:
    """Return the signs that the text bears, and how much each weighs."""
    points: dict[str, int] = {}
    for reason, weight, pattern in _SIGNS:
        if points.get(reason, 0) < weight:
            matches = pattern.finditer(text)
            if any(reason not in _QUOTABLE or not _is_mentioned(match) for match in matches):
                points[reason] = weight
    return points
