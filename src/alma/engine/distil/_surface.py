"""What the letters say before words are compared: options in their case, C and C++, which way something goes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
_SYMBOL = re.compile(r"\b[A-Za-z]\w*(?:\+\+|#)(?!\w)")
_GOAL = re.compile(r"\b(?:to|into|onto)\s+(?:(?:the|a|an|our|my|its|their)\s+)?([\w.-]+)", re.I)
_WORD = re.compile(r"[^\W\d_]+")
_SELDOM = frozenset("hardly scarcely seldom barely rarely".split())
_NOT_ENGLISH = frozenset(
    "ne pas jamais nicht kein keine keinen keiner keinem keines nie niemals nunca jamás não не никогда нельзя niet "
    "geen inte aldrig ikke aldri nigdy".split()
)
_LATIN_END = 0x24F


@dataclass(frozen=True, slots=True)
class Surface:
    flags: tuple[str, ...]
    symbols: frozenset[str]
    goals: frozenset[str]
    words: frozenset[str]
    foreign: bool
    """Mostly in letters that neither the lexicon nor the embedder was made for."""


@lru_cache(maxsize=4096)
def surface(text: str) -> Surface:
    words = _WORD.findall(text.casefold())
    letters = sum(map(len, words))
    far = sum(ord(letter) > _LATIN_END for word in words for letter in word)
    return Surface(
        flags=tuple(sorted(_FLAG.findall(text))),
        symbols=frozenset(found.casefold() for found in _SYMBOL.findall(text)),
        goals=frozenset(found.casefold() for found in _GOAL.findall(text)),
        words=frozenset(words),
        foreign=2 * far > letters,
    )


def other_options(a: str, b: str) -> bool:
    """`-d` is not `-D`, and C is not C++."""
    left, right = surface(a), surface(b)
    folded = [tuple(flag.casefold() for flag in side.flags) for side in (left, right)]
    return (left.flags != right.flags and sorted(folded[0]) == sorted(folded[1])) or left.symbols != right.symbols


def turned(a: str, b: str) -> bool:
    """Negated in another language, or going the other way: copy A to B, copy B to A."""
    left, right = surface(a), surface(b)
    if left.words & _NOT_ENGLISH != right.words & _NOT_ENGLISH:
        return True
    if bool(left.words & _SELDOM) != bool(right.words & _SELDOM):
        return True
    there, back = left.goals - right.goals, right.goals - left.goals
    return bool(there & right.words and back & left.words)


def foreign(a: str, b: str) -> bool:
    return surface(a).foreign or surface(b).foreign
