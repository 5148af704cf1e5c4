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


def relevant(candidate: Candidate, strictness: float = 0.0) -> bool:
    """The gate before everything else: a fresh, proven, beloved memory that is not about the task stays out."""
    cosine, words = candidate.cosine, candidate.words
    if cosine is None:
        return words >= _WORDS_FLOOR + strictness
    if words >= _SAID and cosine >= _NOT_AGAINST + strictness:
        return True
    return cosine + _WORDS_HELP * words >= _FLOOR + strictness


# What people said in passing is near to many a task, so more is asked of it than of what was kept on purpose: that
# something else near the task was said as well. Fitted by `tools/fit_ranking.py`.
@dataclass(frozen=True, slots=True)
class Floor:
    least: float = 0.60
    small: float = 0.52
    """Where little has been said, less is near by chance, and nothing follows from nothing else being near."""
    personal: float = 0.10
    """A question about one's own past is more likely to have its answer there."""
    words: float = 0.30
    depth: float = 0.30
    """The share of the neighbourhood in the cosine."""
    strange: float = 0.11
    words_only: float = 0.50
    known: float = 0.30
    """How much less words alone have to say of a question about oneself, or about somebody who is known."""
    said: float = 0.75
    """What says so much of the question passes unless its meaning is quite another."""

    def nearness(self, sign: Sign) -> float:
        """How relevant it is, to be compared with others for the same question."""
        if sign.cosine is None:
            return sign.words
        return sign.cosine + self.words * sign.words - (self.strange if sign.strange else 0.0)

    def passes(self, sign: Sign, strictness: float = 0.0) -> bool:
        if sign.titled:
            return True
        more = strictness + (self.strange if sign.strange else 0.0)
        if sign.cosine is None:
            return sign.words >= self.words_only + more - (self.known if sign.personal or sign.familiar else 0.0)
        more -= self.personal if sign.personal else 0.0
        if sign.words >= self.said and not sign.strange and sign.cosine >= _NOT_AGAINST + strictness:
            return True
        near = (1.0 - self.depth * sign.much) * sign.cosine + self.depth * sign.much * sign.depth
        return near + self.words * sign.words >= self.small + sign.much * (self.least - self.small) + more


@dataclass(frozen=True, slots=True)
class Sign:
    """What speaks for a conversation."""

    cosine: float | None
    depth: float
    """How near the fifth nearest turn of all is: what was talked about was talked about more than once."""
    much: float
    """From 0 to 1: how much has been said by which this one could be near by chance."""
    words: float
    """Which share of the question's words its best turn holds."""
    strange: bool
    """The question names somebody or something of which there is no word in it."""
    personal: bool
    """The question is about the person who asks."""
    familiar: bool = False
    """The question names somebody or something that is named here too, or speaks of the person who asks."""
    titled: bool = False
    """It is asked for by its title."""


FLOOR = Floor()


def similarity(pool: Sequence[Candidate]) -> list[float]:
    """How relevant each candidate is, between 0 and 1."""
    meaning = standardise([candidate.cosine for candidate in pool], _MEANING)
    by_words = standardise([candidate.words for candidate in pool], _WORDS)
    return [squash(a + _WORD_SHARE * b) for a, b in zip(meaning, by_words, strict=True)]


def standardise(values: Sequence[float | None], prior: Prior) -> list[float]:
    known = [value for value in values if value is not None]
    total = len(known) + prior.weight
    mean = (sum(known) + prior.weight * prior.mean) / total
    spread = sum((value - mean) ** 2 for value in known) + prior.weight * prior.deviation**2
    deviation = math.sqrt(spread / total)
    return [0.0 if value is None else (value - mean) / deviation for value in values]


def squash(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-(z - 1.0) / 1.2))
