"""From two ways of finding to one measure of relevance.

Cosine and word score are put on one scale as z-scores and summed. A pool of two candidates has no meaningful spread, so
mean and deviation are shrunk towards what is usual: with many candidates the pool speaks, with few the prior does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...types.record import Record


@dataclass(frozen=True, slots=True)
class Candidate:
    record: Record
    cosine: float | None
    """None: there is no vector to compare."""
    words: float
    """Between 0 and 1: 1 when it says all of the query's words as well as any text could."""


@dataclass(frozen=True, slots=True)
class Prior:
    mean: float
    deviation: float
    weight: float = 10.0


_MEANING = Prior(0.20, 0.15)
_WORDS = Prior(0.15, 0.20)
_WORD_SHARE = 0.5

# Unrelated conversations reach 0.37 in the median and 0.5 at the most; the question's own answer starts at 0.55.
_FLOOR = 0.42
_WORDS_HELP = 0.2
_WORDS_FLOOR = 0.34
# A long text may say all of the query's words in one place and be about something else in the rest.
_SAID = 0.9
_NOT_AGAINST = 0.12


def relevant(candidate: Candidate) -> bool:
    """The gate before everything else: a fresh, proven, beloved memory that is not about the task stays out."""
    if candidate.cosine is None:
        return candidate.words >= _WORDS_FLOOR
    if candidate.words >= _SAID and candidate.cosine >= _NOT_AGAINST:
        return True
    return candidate.cosine + _WORDS_HELP * candidate.words >= _FLOOR


def similarity(pool: Sequence[Candidate]) -> list[float]:
    """How relevant each candidate is, between 0 and 1."""
    meaning = _standardise([candidate.cosine for candidate in pool], _MEANING)
    by_words = _standardise([candidate.words for candidate in pool], _WORDS)
    return [_squash(a + _WORD_SHARE * b) for a, b in zip(meaning, by_words, strict=True)]


def _standardise(values: Sequence[float | None], prior: Prior) -> list[float]:
    known = [value for value in values if value is not None]
    total = len(known) + prior.weight
    mean = (sum(known) + prior.weight * prior.mean) / total
    spread = sum((value - mean) ** 2 for value in known) + prior.weight * prior.deviation**2
    deviation = math.sqrt(spread / total)
    return [0.0 if value is None else (value - mean) / deviation for value in values]


def _squash(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-(z - 1.0) / 1.2))
