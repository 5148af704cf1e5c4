"""Two rules: the same said twice, contrary to each other, or neither.

A wrong merge makes a rule of the opposite of what a person said, and a wrong contradiction takes away what they meant:
in doubt they are two rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .distil.corrections import rivals
from .distil.similar import Verdict, judge
from .text import is_common, stem, stems

_TURNED = ("negation or preference reversed", "negated, or going", "opposite words")
_MUCH = 0.5
_MOST = 0.6
_CLOSE = 0.8
_NEGATIONS = frozenset(
    map(stem, "never always avoid stop without instead please need anymore longer more me now".split())
)


def same_rule(a: Mapping[str, Any], b: Mapping[str, Any], closeness: float | None) -> bool:
    if _against(a, b) or _turned_choice(a["rule"], b["rule"]) or _elsewhere(a, b):
        return False
    if judge(a["rule"], b["rule"], closeness).verdict is Verdict.SAME and _alike(a["rule"], b["rule"], closeness):
        return True
    # "Use pnpm, not npm" said in many ways prefers and avoids the same.
    wanted, unwanted = _names(a, "prefer"), _names(a, "avoid")
    return bool(wanted) and bool(unwanted) and wanted == _names(b, "prefer") and unwanted == _names(b, "avoid")


def contradicts(a: Mapping[str, Any], b: Mapping[str, Any], closeness: float | None) -> bool:
    if _elsewhere(a, b):
        return False
    if _against(a, b) or any(contrary(a["rule"], b["rule"]) for contrary in (_turned_choice, _negated, _other_value)):
        return True
    found = judge(a["rule"], b["rule"], closeness)
    # The judge weighs pairs that are about one thing. Two rules need not be: only a law makes them contrary.
    turned = any(reason.startswith(_TURNED) for reason in found.reasons)
    return found.verdict is Verdict.OPPOSITE and turned and _overlap(a["rule"], b["rule"]) >= _MUCH


def _overlap(a: str, b: str) -> float:
    """How much of the shorter of two rules the other says, too."""
    first, second = stems(a) - _NEGATIONS, stems(b) - _NEGATIONS
    return len(first & second) / max(1, min(len(first), len(second)))


def _alike(a: str, b: str, closeness: float | None) -> bool:
    """Each says most of what the other says, or they mean nearly the same."""
    first, second = stems(a) - _NEGATIONS, stems(b) - _NEGATIONS
    return len(first & second) / max(1, len(first), len(second)) >= _MOST or (closeness or 0.0) >= _CLOSE


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


def _negated(a: str, b: str) -> bool:
    """What one asks for is what the other forbids, and neither says more."""
    (wanted, refused), (also_wanted, also_refused) = _sides(a), _sides(b)
    plainly = wanted == also_refused and not refused and not also_wanted
    return bool(wanted | refused) and (plainly or (also_wanted == refused and not wanted and not also_refused))


def _other_value(a: str, b: str) -> bool:
    """The same words with another number or another language; "100, not 88" wants one of them."""
    ours, theirs = _sides(a)[0], _sides(b)[0]
    values, others = ours - theirs, theirs - ours
    told = {word for word in ours & theirs if not word.isdigit()}
    return bool(told) and any(values and others and all(map(kind, values | others)) for kind in _VALUES)


_TONGUES = frozenset(
    map(stem, "english german french spanish italian portuguese russian chinese japanese korean dutch polish".split())
)
_VALUES = (str.isdigit, _TONGUES.__contains__)


def _names(body: Mapping[str, Any], name: str) -> set[str]:
    return {str(one).lower() for one in body.get(name, ())}


def _against(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """One wants what the other does not, or its rival."""
    if _names(a, "prefer") & _avoided(b) or _avoided(a) & _names(b, "prefer"):
        return True
    ours, theirs = _programs(a), _programs(b)
    return ours.isdisjoint(theirs) and any(rivals(one, other) for one in ours for other in theirs)


def _avoided(body: Mapping[str, Any]) -> set[str]:
    """Not `rspec`, where `bundle exec rspec` is wanted: it is to be run in another way."""
    wanted = {word for name in _names(body, "prefer") for word in name.split()}
    return {name for name in _names(body, "avoid") if name not in wanted}


def _programs(body: Mapping[str, Any]) -> set[str]:
    return {name.split()[0] for name in _names(body, "prefer") if name.split()}


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
