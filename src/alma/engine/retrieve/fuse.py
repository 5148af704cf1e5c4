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
    """Between 0 and 1: which share of the query's words it holds."""
    is_known: bool = True
    """Whether the embedder understands the query and the record, so that the cosine stands for their meaning."""


@dataclass(frozen=True, slots=True)
class Prior:
    mean: float
    deviation: float
    weight: float = 10.0


_MEANING = Prior(0.20, 0.15)
_WORDS = Prior(0.15, 0.20)
_WORD_SHARE = 0.5

_NOT_AGAINST = 0.12


@dataclass(frozen=True, slots=True)
class Gate:
    """How near a memory must be to be shown: its cosine, and so much of the share of words, reach a floor.

    Where the embedder does not understand the language, the words must reach a floor of their own, and the cosine helps
    only as far as it is above that of any two texts of the language.
    """

    floor: float
    word_share: float
    words_floor: float
    said: float = 0.9
    """What holds so much of the query's words passes unless its meaning is quite another."""

    def passes(self, candidate: Candidate, strictness: float = 0.0) -> bool:
        cosine, words = candidate.cosine, candidate.words
        if cosine is None or not candidate.is_known:
            extra = _UNKNOWN_SHARE * max(0.0, (cosine or 0.0) - _UNKNOWN_COSINE)
            return words > 0.0 and words + extra >= self.words_floor + strictness
        if words >= self.said and cosine >= _NOT_AGAINST + strictness:
            return True
        return cosine + self.word_share * words >= self.floor + strictness


_UNKNOWN_SHARE, _UNKNOWN_COSINE = 0.5, 0.3
TOLD = Gate(floor=0.25, word_share=0.3, words_floor=0.2)
"""For facts, rules, preferences and warnings: a line that turns out not to matter costs less than one that is missing.
Chosen on half of the worlds of `benchmarks.worlds`."""
LEARNED = Gate(floor=0.42, word_share=0.2, words_floor=0.34)
"""For lessons and outcomes, which belong to one sort of task."""


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
