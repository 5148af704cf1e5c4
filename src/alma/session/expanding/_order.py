"""What waits for what: "then", "finally", "once the tests pass", "before deploying"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engine.text import stem, stems
from ._clauses import Order, opened, stripped
from ._masking import readable

if TYPE_CHECKING:
    from .expand import Found

_LONGEST = 1000
"""A longer text is no single condition."""
_LEADING = re.compile(
    r"(?i)^(?:only\s+)?(?P<word>once|after|when|as soon as|before)\s+(?P<what>[^,]{3,120}),\s+(?P<rest>\S.*)$", re.S
)
_TRAILING = re.compile(
    r"(?i)^(?P<rest>\S.{2,}?)[\s,]+(?:but\s+)?(?:only\s+)?(?P<word>once|after|as soon as|when"
    r"|before)\s+(?P<what>\S.{2,120}?)[.!]?$",
    re.S,
)
_FINISHED = re.compile(
    r"(?i)\b(?:done|finished|complete[ds]?|ready|pass(?:es|ed)?|works?|working|merged|deployed|green|fixed"
    r"|in place|live"
    r"|approved|released|lands?|landed)\b"
)
_GENERIC = frozenset(
    map(
        stem,
        "done finished complete ready pass work merged deployed green fixed place live approved landed step".split(),
    )
)
_AGREES = 0.6


def linked(found: Sequence[Found]) -> list[tuple[int, ...]]:
    """For each task the places of those that must be done before it; never in a circle."""
    waits: list[set[int]] = [set() for _ in found]
    for at in range(len(found)):
        for first in _earlier(found, at):
            _link(waits, at, first)
        for later in _put_off(found, at):
            _link(waits, later, at)
    names = [stems(stripped(opened(one.piece)[0]).text) for one in found]
    for at, one in enumerate(found):
        for later, first in _named(found, names, at, one):
            _link(waits, later, first)
    return [tuple(sorted(each)) for each in waits]


def acyclic(wanted: Sequence[set[int]]) -> list[set[int]]:
    """The same without what would close a circle."""
    waits: list[set[int]] = [set() for _ in wanted]
    for later, firsts in enumerate(wanted):
        for first in sorted(firsts):
            _link(waits, later, first)
    return waits


def _link(waits: list[set[int]], later: int, first: int) -> None:
    if first != later and not _reaches(waits, first, later):
        waits[later].add(first)


def _reaches(waits: list[set[int]], start: int, goal: int) -> bool:
    seen, waiting = set(), [start]
    while waiting:
        at = waiting.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            waiting += waits[at]
    return False


def _siblings(found: Sequence[Found], at: int) -> list[int]:
    return [number for number in range(at) if found[number].parent == found[at].parent]


def _put_off(found: Sequence[Found], at: int) -> list[int]:
    """What was named just before, where this is to be done before that."""
    return _siblings(found, at)[-1:] if found[at].order is Order.BEFORE else []


def _earlier(found: Sequence[Found], at: int) -> list[int]:
    """By the word that opens it: the one before, or all before it of the same parent."""
    one = found[at]
    siblings = _siblings(found, at)
    if one.order is Order.LAST:
        return siblings
    return siblings[-1:] if one.order is Order.NEXT or one.chained else []


def _named(found: Sequence[Found], names: Sequence[frozenset[str]], at: int, one: Found) -> list[tuple[int, int]]:
    """By what it names: (what waits, what it waits for)."""
    said = readable(opened(one.piece)[0].masked) if one.order is not Order.ANY else readable(one.piece.masked)
    condition = (_LEADING.match(said) or _TRAILING.match(said)) if len(said) <= _LONGEST else None
    if condition is None:
        return []
    word, what = condition["word"].casefold(), condition["what"]
    if word in ("when", "once", "as soon as") and not _FINISHED.search(what):
        return []
    other = _meant(found, names, at, what)
    if other is None:
        return []
    return [(other, at)] if word == "before" else [(at, other)]


def _meant(found: Sequence[Found], names: Sequence[frozenset[str]], at: int, what: str) -> int | None:
    """The other task that the words are about; None when there is none or more than one."""
    asked = stems(what)
    telling = asked - _GENERIC
    scored = []
    for number, other in enumerate(found):
        if number == at or other.parent == at or found[at].parent == number:
            continue
        named = names[number]
        if telling & named:
            scored.append((len(telling & named) / len(telling), len(asked & named), number))
    if not scored:
        return None
    best = max(scored)
    rivals = [one for one in scored if one[:2] == best[:2]]
    return best[2] if best[0] >= _AGREES and len(rivals) == 1 else None
