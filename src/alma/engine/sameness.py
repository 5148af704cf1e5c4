"""Whether two strategies are the same in other words, as the embedder reads them together.

From one certainty on they are counted as one strategy. From a lower one on they are counted apart, and each is evidence
for the other. Strategies that differ in a number, an option or a path are never the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..reading.local import are_opposites, load_vocabulary
from ..text import words
from .context import Engine

SAME = 0.85
"""From this certainty on two strategies are counted together."""
SIMILAR = 0.1
"""From this certainty on the results of one count in predictions of the other."""
_READ_CHARS, _AGREES = 400, 0.55
_LITERAL = re.compile(r"`[^`]+`|\S*[\d/\\_=<>@#$*{}]\S*|(?<![\w-])--?[A-Za-z]\S*")
_NEGATIONS = frozenset("not no never without don doesn avoid skip".split())
_TWO_WORDS = re.compile(r"[A-Za-z]+/[A-Za-z]+")
_TRAILING = ".,;:!?)'\""


def read_sameness(engine: Engine, strategy: str, others: Sequence[str]) -> list[float]:
    """Return how sure it is that each of the others is the same strategy; 0 where nothing can read them."""
    if engine.calibration is None:
        return [0.0] * len(others)
    readable = [other for other in others if _can_read(engine, strategy, other) and not _are_opposed(strategy, other)]
    # Read in both orders: neither comes first.
    pairs = [(strategy, other) for other in readable] + [(other, strategy) for other in readable]
    scores = engine.read_pairs(pairs)
    certainty: dict[str, float] = {}
    for other, one_way, other_way in zip(readable, scores, scores[len(readable) :], strict=False):
        # Read as statements, too: an opposite rarely agrees.
        agrees = (one_way.fact.agrees + other_way.fact.agrees) / 2
        same = (one_way.action.same + other_way.action.same) / 2
        certainty[other] = same if agrees >= _AGREES else 0.0
    return [certainty.get(other, 0.0) for other in others]


def _can_read(engine: Engine, strategy: str, other: str) -> bool:
    """Return whether the embedder can read two strategies together, and no literal tells them apart."""
    is_short = 0 < len(strategy) <= _READ_CHARS and 0 < len(other) <= _READ_CHARS
    is_known = engine.knows(strategy) or engine.knows(other)
    return is_short and is_known and list_literals(strategy) == list_literals(other)


def _are_opposed(strategy: str, other: str) -> bool:
    """Return whether one of two strategies is negated, or undoes what the other does."""
    mine, theirs = set(words(strategy)), set(words(other))
    if _NEGATIONS.isdisjoint(mine) != _NEGATIONS.isdisjoint(theirs):
        return True
    return any(are_opposites(first, second) for first in mine - theirs for second in theirs - mine)


@lru_cache(maxsize=4096)
def list_literals(strategy: str) -> frozenset[str]:
    """Return the numbers, options, paths and identifiers of a strategy; numbers that are words count as digits."""
    numbers = load_vocabulary("vocabulary.json", "numbers")
    plain_words = []
    for word in strategy.split():
        name = word.casefold().rstrip(_TRAILING)
        # "One" is not always a number.
        plain_words.append(word if name == "one" else numbers.get(name, word))
    plain = " ".join(plain_words)
    literals = (literal.rstrip(_TRAILING).strip("`") for literal in _LITERAL.findall(plain))
    # "Blue/green" is no path.
    return frozenset(literal for literal in literals if not _TWO_WORDS.fullmatch(literal))
