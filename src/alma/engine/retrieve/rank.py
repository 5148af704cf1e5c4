"""How relevant a memory is to a question, whether it is shown, how it scores, and which memories look alike.

Cosine and word score are put on one scale as z-scores and summed. A pool of two candidates has no meaningful spread, so
mean and deviation are shrunk towards what is usual: with many candidates the pool decides, with few the prior does.

Which share of a question's words a memory holds: a rare word counts more than a common one. In a language that the
embedder understands, a term is a word by its stem. Elsewhere the stems are unknown, so a term is a piece of four
letters; in Chinese and Japanese it is a pair of characters. A term is looked up in the marked text, where every word
stands between ^ and $.

What persons said has its own share of every place that is limited, however much others wrote since.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ...ports import PairScores
from ...text import content_words, stem, words
from ...types.kinds import KINDS, MemoryType, list_wordings
from ...types.record import Record
from ...types.slice import Explanation, Factor
from ..context import Engine, Settings
from ..evidence import age_days, believe, fade_share, success_factor

# --- what persons said -----------------------------------------------------------------------------

T = TypeVar("T")


def share_places(items: Sequence[T], places: int, is_persons: Callable[[T], bool]) -> list[T]:
    """Return the first items, in their order; what persons said has half of the places as far as it needs them."""
    own = [at for at, item in enumerate(items) if is_persons(item)][: (places + 1) // 2]
    late = [at for at in own if at >= places]
    others = [at for at, item in enumerate(items[:places]) if not is_persons(item)]
    dropped = set(others[len(others) - len(late) :])
    return [item for at, item in enumerate(items[:places]) if at not in dropped] + [items[at] for at in late]


def is_from_person(record: Record) -> bool:
    """Return whether a record is a person's word."""
    return record.provenance.is_from_person


def alternate_persons(records: Sequence[Record]) -> list[Record]:
    """Return records so that of the first few half are what persons said, beginning with that, each in their order."""
    own, others = split_persons(records)
    pairs = zip(own, others, strict=False)
    count = min(len(own), len(others))
    return [*(one for pair in pairs for one in pair), *own[count:], *others[count:]]


def split_persons(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return what persons said, and the rest."""
    return [one for one in records if is_from_person(one)], [one for one in records if not is_from_person(one)]


# --- words -----------------------------------------------------------------------------------------

_MAX_WORDS = 40
_PIECE = 4
# How much a piece counts that no memory at hand holds: in pieces, most of an inflected word is missing.
_ABSENT = 0.3


def _fold_accents(text: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


@lru_cache(maxsize=4096)
def mark_words(text: str) -> str:
    """Return the words of a text with their beginnings and ends marked, for comparing parts of words."""
    return f"^{'$^'.join(words(text if text.isascii() else _fold_accents(text)))}$"


@lru_cache(maxsize=1024)
def list_terms(text: str, *, is_known: bool) -> tuple[str, ...]:
    """Return what is looked up of a text: stems where its language is known, else pieces of its words."""
    terms: list[str] = []
    for word in content_words(text if text.isascii() else _fold_accents(text), _MAX_WORDS):
        root = stem(word)
        if not word.isascii() and len(word) <= 2:
            terms.append(word)
        elif is_known:
            terms.append(f"^{root}" if len(root) >= _PIECE else f"^{word}$")
        elif len(word) > 2 or word.isdigit():
            marked = f"^{word}$"
            terms += [marked[at : at + _PIECE] for at in range(max(1, len(marked) - _PIECE + 1))]
    return tuple(dict.fromkeys(terms))


def measure_overlap(text: str, other: str) -> float:
    """Return which share of the pieces of one text the other holds, whichever share is greater."""
    shares = []
    for one, another in ((text, other), (other, text)):
        terms, marked = list_terms(one, is_known=False), mark_words(another)
        if terms:
            shares.append(sum(term in marked for term in terms) / len(terms))
    return max(shares, default=0.0)


def list_shared_words(query: str, text: str) -> tuple[str, ...]:
    """Return the content words of the query that occur in the text."""
    theirs = set(map(stem, words(text)))
    return tuple(word for word in content_words(query) if stem(word) in theirs)


# --- relevance -------------------------------------------------------------------------------------


class Advice(NamedTuple):
    """What the strategy of a lesson or of an outcome is worth for the task at hand."""

    strategy: str  # A key that all of its lessons and outcomes share.
    value: float  # How near it is to the task, after what happened to it lately.
    similarity: float  # The same, between 0 and 1.
    is_about: bool | None  # Whether it was used for such tasks; None: its examples were not read.
    similar: tuple[Record, ...] = ()  # The groups that may be of the same strategy in other words.


class Candidate(NamedTuple):
    """A record that may be shown, with its similarity to the query."""

    record: Record
    cosine: float | None  # None: there is no vector to compare.
    words: float  # Which share of the query's words it holds, from 0 to 1.
    # Whether the embedder understands the query and the record, so that the cosine stands for their meaning.
    is_known: bool = True
    relevance: float | None = None  # How probable it is that it matters; None if it was not judged.
    text: str = ""  # The text that is read with the query, if not the record's own: of a memory it replaced, say.
    advice: Advice | None = None  # For a lesson or an outcome, in a retrieval.


class RelevanceGate(NamedTuple):
    """How near a memory must be to be shown: its cosine, and so much of the share of words, reach a floor.

    Where the embedder does not understand the language, the words must reach a floor of their own, and the cosine helps
    only as far as it is above that of any two texts of the language.
    """

    floor: float
    word_share: float
    words_floor: float
    probability: float = 0.0  # What the relevance must reach, where the embedder reads pairs of texts; 0: never.
    all_words: float = 0.9  # What holds so much of the query's words passes unless its meaning is quite another.

    def passes(self, candidate: Candidate, strictness: float = 0.0) -> bool:
        """Return whether a candidate is relevant enough; `strictness` raises the floor."""
        cosine, words = candidate.cosine, candidate.words
        if candidate.relevance is not None and self.probability:
            strictness += 0.0 if candidate.is_known else _UNKNOWN_STRICTNESS
            return candidate.relevance >= self.need_probability(strictness)
        if cosine is None or not candidate.is_known:
            extra = _UNKNOWN_SHARE * max(0.0, (cosine or 0.0) - _UNKNOWN_COSINE)
            return words > 0.0 and words + extra >= self.words_floor + strictness
        if words >= self.all_words and cosine >= OTHER_MEANING + strictness:
            return True
        return cosine + self.word_share * words >= self.floor + strictness

    def need_probability(self, strictness: float) -> float:
        """Return what the relevance must reach."""
        return self.probability * math.exp(_STRICTER * strictness)


OTHER_MEANING = 0.12  # Texts that are less near than this mean something else, whatever words they share.
_UNKNOWN_SHARE, _UNKNOWN_COSINE = 0.5, 0.3
_UNKNOWN_STRICTNESS = 0.05
_STRICTER = 10.0  # A strictness, which is added to a floor of cosines, multiplies a probability by exp(10 strictness).
# For facts, rules, preferences and warnings: a line that turns out not to matter costs less than one that is missing.
# Chosen on half of the worlds of `benchmarks.worlds`; the probability on the held-out worlds of `tools.training`.
STATED = RelevanceGate(floor=0.25, word_share=0.3, words_floor=0.2, probability=0.028)
# For lessons and outcomes, which belong to one sort of task.
LEARNED = RelevanceGate(floor=0.42, word_share=0.2, words_floor=0.34)
# For rules that are shown at a prompt, in front of a person; `python -m benchmarks.rule_prompts` prints what it costs.
PROMPTED = RelevanceGate(floor=0.50, word_share=0.3, words_floor=0.34, probability=0.25)
# A rule that shares topics with a prompt may be less near, and in a language that the embedder does not know the topics
# must do alone. Chosen on the development half of tests/hooks/data/meaning.jsonl.
TOPIC_LIFT = 0.32
_ABOUT, _ABOUT_UNKNOWN = 0.39, 0.6


def is_about_topics(candidate: Candidate, weight: float) -> bool:
    """Return whether a rule is about what a prompt is about; `weight` is how much the topics that they share tell."""
    if not weight:
        return False
    if candidate.cosine is None or not candidate.is_known:
        return weight >= _ABOUT_UNKNOWN
    return candidate.cosine + PROMPTED.word_share * candidate.words + TOPIC_LIFT * weight >= _ABOUT


class Prior(NamedTuple):
    """The mean and deviation that few values are drawn towards."""

    mean: float
    deviation: float
    weight: float = 10.0


_MEANING = Prior(0.20, 0.15)
_WORDS = Prior(0.15, 0.20)
_WORD_SHARE = 0.5


def compare_records(
    engine: Engine, query: str, records: Sequence[Record], close: Mapping[str, float], texts: Mapping[str, str] = {}
) -> list[Candidate]:
    """Return how near each record is to a query: by id, `close` has cosines, and `texts` what is read of some."""
    is_known = engine.knows(query)
    terms = list_terms(query, is_known=is_known)
    places: dict[str, list[int]] = {}
    for record in records:
        marked = mark_words(texts.get(record.id, record.text))
        places[record.id] = [at for at, term in enumerate(terms) if term in marked]
    counts = Counter(at for positions in places.values() for at in positions)
    weights = [math.log(1 + len(places) / (0.5 + counts[at])) for at in range(len(terms))]
    absent = 1.0 if is_known else _ABSENT
    total = sum(weight * (1.0 if at in counts else absent) for at, weight in enumerate(weights))
    candidates = []
    for record in records:
        share = sum(weights[at] for at in places[record.id]) / total if total else 0.0
        understood = is_known and engine.knows(record.text)
        candidates.append(Candidate(record, close.get(record.id), share, understood, text=texts.get(record.id, "")))
    return candidates


MAX_READ = 8  # The maximum number of candidates that are read together with the query.
MAX_READ_CHARS = 400  # The model reads the beginning of a text only, so longer texts are left to vectors and words.
# A candidate is read if its odds of passing lie in this range around those that it needs: outside of it, vectors and
# words decide. `python -m benchmarks.worlds` prints what it changes.
_LIFT, _DROP = 3.25, 7.7


_AT_ONCE = 8  # So many pairs are read in one call.
_PAIR_MS, _RELEVANCE_MS = 4.0, 1.5  # What reading a pair takes, about: how both relate, or whether one matters.


class PairBudget:
    """How long one retrieval may read pairs of texts, which takes milliseconds for each; 0: it reads none.

    It counts the processor time of this process: a busy machine finds the same memories, and a busy server is quicker.
    """

    def __init__(self, milliseconds: float) -> None:
        self._can_read = milliseconds > 0
        self._left = milliseconds

    @property
    def has_time(self) -> bool:
        """Return whether there is time left to read."""
        return self._can_read and self._left > 0

    def read(self, engine: Engine, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        """Return the scores of the first pairs: of one at least, and of as many more as there is time for."""
        return self._read(engine.read_pairs, pairs, _PAIR_MS)

    def score_relevance(self, engine: Engine, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the relevance of the first pairs: of one at least, and of as many more as there is time for."""
        return self._read(engine.score_relevance, pairs, _RELEVANCE_MS)

    def _read(
        self, read: Callable[[Sequence[tuple[str, str]]], list[T]], pairs: Sequence[tuple[str, str]], pair_ms: float
    ) -> list[T]:
        scores: list[T] = []
        while self._can_read and len(scores) < len(pairs) and (self.has_time or not scores):
            size = max(1, min(_AT_ONCE, int(self._left / pair_ms)))
            began = time.process_time()
            scores += read(pairs[len(scores) : len(scores) + size])
            self._left -= 1000 * (time.process_time() - began)
        return scores


def is_stated(record: Record) -> bool:
    """Return whether a memory was stated, as a fact is; lessons and outcomes belong to one sort of task."""
    is_general = record.kind == MemoryType.ANTI_PATTERN and not record.body["condition"]
    return is_general or record.kind not in (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN, MemoryType.OUTCOME)


def read_relevance(
    engine: Engine,
    query: str,
    pool: Sequence[Candidate],
    most: int = MAX_READ,
    *,
    needed: float | None = None,
    budget: PairBudget | None = None,
) -> list[Candidate]:
    """Return the candidates with their relevance, if the embedder reads pairs.

    Of the `most` promising, those are read whose relevance is near the `needed` one.
    """
    model = engine.calibration
    if model is None or len(query) > MAX_READ_CHARS:
        return list(pool)
    needed = STATED.probability if needed is None else needed
    budget = budget or PairBudget(engine.settings.pair_reading_ms)
    near = {one.record.id: measure_nearness(one) for one in pool if can_judge(one, query)}
    odds = {one.record.id: model.known if one.is_known else model.unknown for one in pool}
    relevance = {id: odds[id].judge(nearness) for id, nearness in near.items()}
    own = {one.record.id for one in pool if one.record.provenance.is_from_person}
    promising = sorted(relevance, key=lambda id: (-relevance[id], id))
    promising = share_places(promising, most, own.__contains__)
    doubtful = [id for id in promising if needed / _LIFT <= relevance[id] <= needed * _DROP]
    candidates = {one.record.id: one for one in pool}
    pairs = [(id, (query, text)) for id in doubtful for text in _list_texts(candidates[id])]
    scores: dict[str, float] = {}
    read = budget.score_relevance(engine, [pair for _, pair in pairs])
    for (id, _), score in zip(pairs, read, strict=False):
        scores[id] = max(scores.get(id, -math.inf), score)
    relevance |= {id: odds[id].judge(near[id], score) for id, score in scores.items()}
    return [one._replace(relevance=relevance.get(one.record.id)) for one in pool]


def _list_texts(candidate: Candidate) -> list[str]:
    """Return what is read of a candidate: one of its wordings may answer what the others do not."""
    record, others = candidate.record, list_wordings(candidate.record.body)
    own = KINDS[record.kind].text({**record.body, "wordings": {}}) if others else record.text
    return [candidate.text or own, *others]


def measure_nearness(candidate: Candidate) -> float:
    """Return how near a candidate is. In languages that the embedder does not know, words tell more than the cosine."""
    cosine = candidate.cosine or 0.0
    return cosine + STATED.word_share * candidate.words if candidate.is_known else candidate.words + 0.2 * cosine


def can_judge(candidate: Candidate, query: str) -> bool:
    """Return whether an embedder that reads pairs can judge a candidate: it hardly knows scripts other than Latin."""
    record = candidate.record
    is_readable = candidate.is_known or (_is_latin(query) and _is_latin(record.text))
    is_short = max(map(len, _list_texts(candidate))) <= MAX_READ_CHARS
    return is_readable and is_short and is_stated(record) and candidate.cosine is not None


@lru_cache(maxsize=4096)
def _is_latin(text: str) -> bool:
    return 2 * sum(map(str.isascii, text)) >= len(text)


def measure_similarity(pool: Sequence[Candidate]) -> list[float]:
    """Return how relevant each candidate is, between 0 and 1."""
    meaning = standardise([candidate.cosine for candidate in pool], _MEANING)
    by_words = standardise([candidate.words for candidate in pool], _WORDS)
    return [squash(a + _WORD_SHARE * b) for a, b in zip(meaning, by_words, strict=True)]


def rate_nearness(values: Sequence[float]) -> list[float]:
    """Return for how near strategies are to a task a number between 0 and 1."""
    return [squash(value) for value in standardise(values, _MEANING)]


def standardise(values: Sequence[float | None], prior: Prior) -> list[float]:
    """Return values as deviations from their mean, in standard deviations; 0 for a missing value."""
    present = [value for value in values if value is not None]
    total = len(present) + prior.weight
    mean = (sum(present) + prior.weight * prior.mean) / total
    spread = sum((value - mean) ** 2 for value in present) + prior.weight * prior.deviation**2
    deviation = math.sqrt(spread / total)
    return [0.0 if value is None else (value - mean) / deviation for value in values]


def squash(z: float) -> float:
    """Return a standardised value as a number between 0 and 1."""
    return 1.0 / (1.0 + math.exp(-(z - 1.0) / 1.2))


# --- score -----------------------------------------------------------------------------------------


class Rating(NamedTuple):
    """What a candidate was scored by."""

    candidate: Candidate
    query: str
    values: Mapping[str, float]  # By factor.
    shares: Mapping[str, float]  # The weight of each factor.
    score: float
    expected: float | None
    is_standing: bool

    def explain(self) -> Explanation:
        """Return why the candidate is shown."""
        candidate, record = self.candidate, self.candidate.record
        before, after = "", "" if candidate.relevance is None else f"relevance {candidate.relevance:.2f}"
        if self.is_standing:
            before = "a rule in force" if record.kind == MemoryType.RULE else "a standing preference of the user"
        if self.expected is not None and record.kind != MemoryType.OUTCOME:
            sort = "failure" if record.kind == MemoryType.ANTI_PATTERN else "success"
            after = "; ".join(filter(None, (after, f"predicted {sort} {self.expected:.2f}")))
        factors = {name: Factor(value, self.shares[name]) for name, value in self.values.items()}
        match = (candidate.cosine, candidate.words, list_shared_words(self.query, record.text))
        return explain_score(record, self.score, factors, *match, before, after, standing=self.is_standing)


class Scored(NamedTuple):
    """A record with its score, which is explained only where it is shown."""

    record: Record
    score: float
    rating: Rating
    newer: str = ""  # The id of its newest look-alike.
    reason: str = ""  # Why it is shown, if not for what it was scored by.
    note: str = ""  # Why it has its place.

    @property
    def is_standing(self) -> bool:
        """Return whether it is shown whatever the task is, and does not match it."""
        return self.rating.is_standing

    @property
    def explanation(self) -> Explanation:
        """Return why it is shown."""
        explanation = self.rating.explain()
        reason = "; ".join(filter(None, (self.reason or explanation.reason, self.note)))
        return replace(explanation, reason=reason)


def score_candidate(
    candidate: Candidate,
    similarity: float,
    query: str,
    now: datetime,
    settings: Settings,
    *,
    expected: float | None = None,
    is_standing: bool = False,
    most_confident: float = 1.0,
) -> Scored:
    """Score a candidate by four factors.

    Recency, success and confidence count only as far as a memory is relevant: they order what is about the task and
    never lift what is not. `expected` is how well a lesson will do at the task; without it, its success so far counts.
    An outcome is not given more confidence than the lesson of its strategy has: `most_confident`.
    """
    record, shares = candidate.record, settings.weights.shares()
    values = {
        "similarity": similarity,
        "recency": fade_share(age_days(record, now), settings.recency_half_life_days),
        "success": success_factor(record, now) if expected is None else expected,
        "confidence": min(most_confident, believe(record, now).mean),
    }
    total = sum(shares[name] * value * (1.0 if name == "similarity" else similarity) for name, value in values.items())
    return Scored(record, total, Rating(candidate, query, values, shares, total, expected, is_standing))


def explain_score(
    record: Record,
    score: float,
    factors: Mapping[str, Factor],
    cosine: float | None,
    words: float,
    shared_words: tuple[str, ...],
    before: str = "",
    after: str = "",
    *,
    standing: bool = False,
) -> Explanation:
    """Return why a record is shown: what speaks for it `before` how it was found, and `after`."""
    meaning = "" if cosine is None else f"semantic similarity {cosine:.2f}"
    sharing = f"shared words: {', '.join(shared_words[:6])}" if shared_words else ""
    explanation = "; ".join(filter(None, (before, meaning, sharing))) or "found by words"
    reason = "; ".join(filter(None, (explanation, after)))
    return Explanation(record.id, record.kind, score, factors, cosine, words, shared_words, reason, standing)
