"""Look-alikes: memories of one kind and one user that seem to be about the same thing.

Nobody said that the newer one replaces the older one, so both stay. The older one is marked with the id of the newest
and comes after it. What a person said is marked with what a person said later, and with nothing else: look-alikes of
others come after it. A pair that a model has found to be about different things is not marked again.

Whether two memories are about the same thing does not depend on a question. The embedder reads a pair once, and what it
finds is kept: the `likeness` of the newer memory holds the scores of its pairs with older ones. A retrieval looks them
up, reads at most a few that were never read, and stores these with its note. Upkeep reads those of new memories. Of two
that are as near as an update, and were not read yet, the newer one comes first, without a mark.

In a large store every memory is near to many that are about something else. Only a pair that stands out from the other
candidates is worth reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple

from ...ports import FactProbabilities
from ...reading.local import load_vocabulary
from ...text import content_words, digest, stem, words
from ...types.kinds import KINDS, MemoryType, last_stated
from ...types.record import Origin, Record, Status, cosines
from ..admit import explicit_key, make_record, place_of
from ..context import Engine
from ..facts import comparison_id, is_dismissal
from ..search import find_neighbours
from ..transaction import Transaction
from .rank import MAX_READ_CHARS, PairBudget, measure_overlap

# The kinds that have look-alikes, and the field with their words.
FIELDS: dict[str, str] = {
    MemoryType.DOMAIN_KNOWLEDGE: "fact",
    MemoryType.USER_PREFERENCE: "preference",
    MemoryType.ANTI_PATTERN: "pattern",
    MemoryType.RULE: "rule",
}
LIKENESS = "likeness"
_SAME_REST = 0.3
# How probable it must be that two texts are about the same thing; less where their vectors and words say so, too.
_PROBABLY_ALIKE, _ALIKE_IF_SIMILAR = 0.6, 0.4
_SURELY_ALIKE = 0.85  # The same, where many memories are near each other.
WORTH_READING = 0.38  # How near a pair must be to be read together.
MOST_READ = 4  # So many pairs of look-alikes are read in one retrieval.
_UNHURRIED_MS = 10_000.0  # How long reading the pairs of one memory may take where nobody waits for it.
_MOST_KEPT = 16  # So many pairs with older memories are kept of one memory.
_ALMOST_EQUAL = 0.85  # Texts this similar may be about the same thing, however dense the surroundings are.
_FAR = 0.25  # Texts about the same thing are nearer than this in any language.


class Likeness(NamedTuple):
    """How alike two memories must be: their vectors, or where those say nothing, the pieces of their words."""

    cosine: float
    pieces: float
    is_careful: bool = True  # Whether another subject or scope keeps them apart.


ALIKE = Likeness(0.55, 0.3)
NEAR = Likeness(0.4, 0.2, is_careful=False)  # Near enough to ask somebody who can tell.


class Lookalike(NamedTuple):
    """Two records that seem to be about the same thing."""

    older: Record
    newer: Record
    likeness: float
    is_sure: bool = True  # Whether the older one is marked; else the newer one only comes first.


# --- what is marked with what ----------------------------------------------------------------------


def find_newest(
    records: Sequence[Record], lookalikes: Sequence[Lookalike], until: datetime | None = None
) -> dict[str, Record]:
    """Return by id the newest look-alike of each record that has one, stated before `until`.

    That of what a person said is another word of a person.
    """
    ids = {record.id for record in records}
    newest: dict[str, Record] = {}
    for pair in _keep_before(lookalikes, until):
        if pair.older.id not in ids or _is_overruled(pair):
            continue
        older, newer = pair.older.evidence, pair.newer.evidence
        if older.ups - older.downs > max(0, newer.ups - newer.downs):
            # Somebody looked at it and found it right.
            continue
        current = newest.get(pair.older.id)
        if current is None or _rank_word(current) < _rank_word(pair.newer):
            newest[pair.older.id] = pair.newer
    return newest


def find_leading(
    records: Sequence[Record], lookalikes: Sequence[Lookalike], until: datetime | None = None
) -> dict[str, Record]:
    """Return by id, of those records that are newer than a look-alike in a person's words, the newest such word."""
    ids = {record.id for record in records}
    leading: dict[str, Record] = {}
    for pair in _keep_before(lookalikes, until):
        if pair.newer.id not in ids or not _is_overruled(pair):
            continue
        current = leading.get(pair.newer.id)
        if current is None or _order(current) < _order(pair.older):
            leading[pair.newer.id] = pair.older
    return leading


def _keep_before(lookalikes: Sequence[Lookalike], until: datetime | None) -> list[Lookalike]:
    return [pair for pair in lookalikes if until is None or stated_at(pair.newer) < until]


def _is_overruled(pair: Lookalike) -> bool:
    """Return whether a person said the older one, and somebody else the newer one."""
    return pair.older.provenance.is_from_person and not pair.newer.provenance.is_from_person


def _rank_word(record: Record) -> tuple[bool, tuple[datetime, datetime]]:
    return record.provenance.is_from_person, _order(record)


# --- pairs that stand out --------------------------------------------------------------------------


class NearPair(NamedTuple):
    """Two records that may be about the same thing: nearer to each other than most others are to them."""

    older: Record
    newer: Record
    likeness: float  # Their cosine, or where that says nothing, the share of the pieces of words that they have alike.
    can_be_read: bool  # Whether the embedder can read both together.
    fullness: float  # From 0 to 1: how many candidates there were, among which two may be near by chance.


class Margin(NamedTuple):
    """How much nearer than its surroundings a pair must be: the more, the nearer these are above `calm`."""

    calm: float
    slope: float

    def is_reached(self, likeness: float, surroundings: float, fullness: float = 1.0) -> bool:
        """Return whether a pair stands out; `fullness` is which part of the margin is asked."""
        least = self.slope * max(0.0, surroundings - self.calm)
        return likeness - surroundings >= fullness * least


# Chosen on half of the worlds of `benchmarks.worlds`, and on sentences that have nothing to do with each other.
_BY_VECTORS, _BY_WORDS = Margin(0.30, 4.0), Margin(0.10, 4.0)
_SURROUNDINGS = slice(4, 12)  # By rank: the nearest may be other versions of the same memory.
# Among so few candidates no memory is near by chance; from so many on, the whole margin is asked.
_FEW, _MANY = 24, 36


def list_near_pairs(engine: Engine, records: Sequence[Record], among: Sequence[Record]) -> list[NearPair]:
    """Return each of the records with each newer one of `among` that may be about the same thing, nearest first."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in among:
        if has_lookalikes(record):
            groups[record.kind, record.user].append(record)
    ids = {record.id for record in records}
    pairs = [pair for group in groups.values() for pair in _Company(engine, group).find_pairs(ids)]
    return sorted(pairs, key=lambda pair: (-pair.likeness, pair.older.id, pair.newer.id))


class _Company:
    """Memories of one kind and user, some of which are compared with all others."""

    def __init__(self, engine: Engine, records: Sequence[Record]) -> None:
        self.engine = engine
        self.records = records
        self.fullness = min(1.0, max(0.0, (len(records) - _FEW) / (_MANY - _FEW)))
        # Asked of the texts that were compared with the task: no more texts have to be judged.
        self._is_known = [engine.knows(record.text) for record in records]
        self._cosines: dict[int, Sequence[float | None]] = {}
        self._surroundings: dict[tuple[int, bool], float] = {}

    def find_pairs(self, ids: Collection[str]) -> Iterator[NearPair]:
        """Yield the memories with these ids, each with every newer one that it may be alike."""
        orders = [_order(record) for record in self.records]
        places = [place for place, record in enumerate(self.records) if record.id in ids]
        self._compare_vectors(places)
        near: list[tuple[int, int]] = []
        for place in places:
            for other_place, order in enumerate(orders):
                if order > orders[place] and not self._is_too_far(place, other_place):
                    near.append((place, other_place))
        yield from self._keep_outstanding(near)

    def find_older(self, newer: Record) -> Iterator[NearPair]:
        """Yield each older memory that one of the memories may be alike."""
        newer_place = next(place for place, record in enumerate(self.records) if record.id == newer.id)
        self._compare_vectors([newer_place])
        near: list[tuple[int, int]] = []
        for place, older in enumerate(self.records):
            if _order(older) < _order(newer) and not self._is_too_far(place, newer_place):
                near.append((place, newer_place))
        yield from self._keep_outstanding(near)

    def _keep_outstanding(self, near: Sequence[tuple[int, int]]) -> Iterator[NearPair]:
        """Yield the pairs at these places, of the older and of the newer memory, that stand out."""
        if self.fullness:
            self._compare_vectors([place for pair in near for place in pair])
        for place, other_place in near:
            pair = self._compare(place, other_place)
            if pair is not None:
                yield pair

    def _compare_vectors(self, places: Iterable[int]) -> None:
        """Measure the cosines of the memories at these places with all others."""
        missing = [place for place in dict.fromkeys(places) if place not in self._cosines]
        self._cosines |= _compare_with_all(self.records, missing)

    def _get_cosine(self, place: int, other_place: int) -> float | None:
        """Return the cosine of two memories, one of which was compared with all others."""
        if place in self._cosines:
            return self._cosines[place][other_place]
        return self._cosines[other_place][place]

    def _is_too_far(self, place: int, other_place: int) -> bool:
        """Return whether the vectors alone tell that two memories are about different things."""
        cosine = self._get_cosine(place, other_place)
        if cosine is None or cosine >= WORTH_READING:
            return False
        # In languages that the embedder does not know, words decide.
        return cosine < _FAR or (self._is_known[place] and self._is_known[other_place])

    def _compare(self, place: int, other_place: int) -> NearPair | None:
        """Return two memories as a pair if they are near and stand out."""
        older, newer = self.records[place], self.records[other_place]
        cosine = self._get_cosine(place, other_place)
        is_near = cosine is not None and cosine >= WORTH_READING
        are_known = self._is_known[place] and self._is_known[other_place]
        if is_near and are_known and not self._stands_out(place, other_place, cosine or 0.0, by_words=False):
            return None
        by_words = False
        can_be_read = cosine is not None and _can_read_pair(self.engine, older, newer)
        if can_be_read:
            likeness = cosine if is_near and not _are_apart(older, newer) else None
        else:
            likeness = measure_likeness(self.engine, older, newer, cosine, ALIKE)
            by_words = not _have_vectors(self.engine, older, newer, cosine)
        if likeness is None or not self._stands_out(place, other_place, likeness, by_words=by_words):
            return None
        return NearPair(older, newer, likeness, can_be_read, self.fullness)

    def _stands_out(self, place: int, other_place: int, likeness: float, *, by_words: bool) -> bool:
        if not self.fullness:
            return True
        margin = _BY_WORDS if by_words else _BY_VECTORS
        sides = [self._measure_surroundings(side, by_words=by_words) for side in (place, other_place)]
        return margin.is_reached(likeness, max(sides), self.fullness)

    def _measure_surroundings(self, place: int, *, by_words: bool) -> float:
        """Return how near the others are to a memory, but for the nearest few."""
        known = self._surroundings.get((place, by_words))
        if known is None:
            nearness = self._measure_overlaps(place) if by_words else self._cosines[place]
            others = [*nearness[:place], *nearness[place + 1 :]]
            known = measure_surroundings([alike or 0.0 for alike in others])
            self._surroundings[place, by_words] = known
        return known

    def _measure_overlaps(self, place: int) -> list[float]:
        own = read_words(self.records[place])
        return [measure_overlap(own, read_words(other)) for other in self.records]


def measure_surroundings(nearness: Sequence[float]) -> float:
    """Return how near others are to a memory, but for the nearest few."""
    others = sorted(nearness, reverse=True)[_SURROUNDINGS]
    return fmean(others) if others else 0.0


def keep_outstanding(record: Record, near: Sequence[Record]) -> list[Record]:
    """Return those of the nearest in a large store that a memory is more like than the rest of them."""
    kept: list[Record] = []
    nearness = _compare_vectors(record, near)
    surroundings = measure_surroundings([alike for alike in nearness if alike is not None])
    for other, alike in zip(near, nearness, strict=True):
        if alike is None or alike >= _ALMOST_EQUAL or _BY_VECTORS.is_reached(alike, surroundings):
            kept.append(other)
    return kept


def _compare_with_all(records: Sequence[Record], places: Sequence[int]) -> dict[int, list[float | None]]:
    """Return the cosines of the records at these places with all; None where vectors cannot be compared."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        # The vector of a record's own words is the last: that of its trigger or condition comes before it.
        if record.vectors:
            groups[record.embedder, len(record.vectors[-1])].append(place)
    rows: dict[int, list[float | None]] = {place: [None] * len(records) for place in places}
    for comparable in groups.values():
        chosen = [place for place in comparable if place in rows]
        vectors = [records[place].vectors[-1] for place in comparable]
        values = cosines([records[place].vectors[-1] for place in chosen], vectors)
        for place, row in zip(chosen, values, strict=True):
            for other_place, value in zip(comparable, row, strict=True):
                rows[place][other_place] = value
    return rows


def _have_vectors(engine: Engine, older: Record, newer: Record, cosine: float | None) -> bool:
    """Return whether the cosine of two records stands for their meaning."""
    return cosine is not None and engine.knows(read_words(older)) and engine.knows(read_words(newer))


def _can_read_pair(engine: Engine, older: Record, newer: Record) -> bool:
    is_own = older.embedder == engine.embedder_name and engine.calibration is not None
    texts = read_words(older), read_words(newer)
    return is_own and all(len(text) <= MAX_READ_CHARS and engine.knows(text) for text in texts)


# --- what was read of pairs ------------------------------------------------------------------------

Scores = Mapping[tuple[str, str], FactProbabilities]  # By the ids of the older and of the newer record.


class ReadPair(NamedTuple):
    """What was read of a pair, to be stored."""

    pair: NearPair
    fact: FactProbabilities


def recall_pairs(
    engine: Engine, pairs: Sequence[NearPair]
) -> tuple[list[NearPair], dict[tuple[str, str], FactProbabilities]]:
    """Return the pairs that nobody found to be about different things, and what was read of them before."""
    if not pairs:
        return [], {}
    comparisons = {(pair.older.id, pair.newer.id): comparison_id(pair.older, pair.newer) for pair in pairs}
    ids = [*comparisons.values(), *(_name_likeness(pair.newer) for pair in pairs if pair.can_be_read)]
    stored = {one.id: one for one in engine.store.get(list(dict.fromkeys(ids)))}
    kept: list[NearPair] = []
    scores: dict[tuple[str, str], FactProbabilities] = {}
    for pair in pairs:
        key = pair.older.id, pair.newer.id
        comparison = stored.get(comparisons[key])
        if comparison is not None and is_dismissal(comparison):
            continue
        kept.append(pair)
        likeness = stored.get(_name_likeness(pair.newer))
        known = likeness.body["pairs"].get(pair.older.id) if likeness is not None else None
        if known is not None and known["texts"] == _hash_texts(pair):
            agrees, replaces = known["agrees"], known["replaces"]
            scores[key] = FactProbabilities(agrees, replaces, max(0.0, 1.0 - agrees - replaces))
    return kept, scores


def read_pairs(
    engine: Engine, pairs: Sequence[NearPair], known: Scores, budget: PairBudget, most: int = MOST_READ
) -> list[ReadPair]:
    """Read the nearest pairs that were not read yet, as many as the budget allows."""
    unread = [one for one in pairs if one.can_be_read and (one.older.id, one.newer.id) not in known][:most]
    scores = budget.read(engine, [(read_words(pair.older), read_words(pair.newer)) for pair in unread])
    return [ReadPair(pair, one.fact) for pair, one in zip(unread, scores, strict=False)]


def read_older_pairs(engine: Engine, newer: Record) -> list[ReadPair]:
    """Read a memory together with the nearest older ones, where nobody has read them yet."""
    where = engine.where(newer.kind, users={newer.user}, statuses={Status.ACTIVE})
    vector = newer.vectors[-1] if newer.vectors and newer.embedder == engine.embedder_name else None
    if vector is None or not has_lookalikes(newer):
        return []
    others = find_neighbours(engine, vector, read_words(newer), where, _MANY)
    company = [newer, *(other for other in others if other.id != newer.id and has_lookalikes(other))]
    near = sorted(_Company(engine, company).find_older(newer), key=lambda pair: -pair.likeness)
    pairs, known = recall_pairs(engine, near)
    return read_pairs(engine, pairs, known, PairBudget(_UNHURRIED_MS))


def judge_pairs(engine: Engine, pairs: Sequence[NearPair], scores: Scores) -> list[Lookalike]:
    """Return the pairs that are about the same thing; those that were not read are as near as an update."""
    lookalikes: list[Lookalike] = []
    for pair in pairs:
        older, newer, likeness, can_be_read, fullness = pair
        seems_alike = not can_be_read or measure_likeness(engine, older, newer, likeness, ALIKE) is not None
        fact = scores.get((older.id, newer.id))
        if can_be_read and fact is not None and engine.calibration is not None:
            probability = engine.calibration.judge_alike(likeness, fact)
            needed = _ALIKE_IF_SIMILAR if seems_alike else _PROBABLY_ALIKE
            if probability >= max(needed, fullness * _SURELY_ALIKE):
                # An older memory that says the same thing is not outdated.
                lookalikes.append(Lookalike(older, newer, probability, is_sure=fact.replaces >= fact.agrees))
        elif seems_alike:
            lookalikes.append(Lookalike(older, newer, likeness, is_sure=not can_be_read))
    return lookalikes


def store_pairs(tx: Transaction, read: Sequence[ReadPair]) -> None:
    """Store what was read of pairs, for all later retrievals; pairs of changed texts are left out of what is kept."""
    by_newer: dict[str, list[ReadPair]] = defaultdict(list)
    for one in read:
        by_newer[one.pair.newer.id].append(one)
    tx.get([_name_likeness(some[0].pair.newer) for some in by_newer.values()])
    for some in by_newer.values():
        newer = some[0].pair.newer
        existing = tx.find(_name_likeness(newer))
        pairs: dict[str, Any] = dict(existing.body["pairs"]) if existing is not None else {}
        for pair, fact in some:
            pairs.pop(pair.older.id, None)
            figures = {"agrees": round(fact.agrees, 6), "replaces": round(fact.replaces, 6)}
            pairs[pair.older.id] = {"texts": _hash_texts(pair), **figures}
        pairs = dict(list(pairs.items())[-_MOST_KEPT:])
        body, links = {"reader": tx.engine.embedder_name, "pairs": pairs}, (newer.id, *pairs)
        if existing is not None:
            tx.update(existing, body=body, links=links)
        else:
            place = place_of(newer)
            tx.put(make_record(tx.engine, LIKENESS, body, id=_name_likeness(newer), links=links, **place))


def _name_likeness(newer: Record) -> str:
    return f"{KINDS[LIKENESS].prefix}_{newer.id}"


def _hash_texts(pair: NearPair) -> str:
    return digest(read_words(pair.older), read_words(pair.newer), size=8)


# --- all that seem to be alike, for a closer look --------------------------------------------------


def list_lookalikes(
    engine: Engine, records: Sequence[Record], among: Sequence[Record], least: Likeness
) -> Iterator[Lookalike]:
    """Yield each of the records with each newer one that is as alike, by vectors or words, and was not read."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in among:
        if has_lookalikes(record):
            groups[record.kind, record.user].append(record)
    for older in filter(has_lookalikes, records):
        others = [one for one in groups[older.kind, older.user] if _order(one) > _order(older)]
        for newer, alike in zip(others, _compare_vectors(older, others), strict=True):
            likeness = measure_likeness(engine, older, newer, alike, least)
            if likeness is not None:
                yield Lookalike(older, newer, likeness)


def _compare_vectors(older: Record, others: Sequence[Record]) -> Sequence[float | None]:
    own = older.vectors[-1:]
    vectors = [other.vectors[-1] for other in others if other.embedder == older.embedder and other.vectors]
    fitting = [vector for vector in vectors if own and len(vector) == len(own[0])]
    if not own or len(fitting) < len(others):
        return [None] * len(others)
    return cosines(own, fitting)[0] if fitting else []


def measure_likeness(
    engine: Engine, older: Record, newer: Record, alike: float | None, least: Likeness
) -> float | None:
    """Return how alike two records of one kind and user are; None unless they seem to be about the same thing."""
    if (alike is not None and alike < _FAR) or _have_different_keys(older, newer):
        return None
    first, second = read_words(older), read_words(newer)
    if alike is None or not engine.knows(first) or not engine.knows(second):
        alike, enough = measure_overlap(first, second), least.pieces
    else:
        enough = least.cosine
    if alike < enough:
        return None
    return None if least.is_careful and _are_apart(older, newer) else alike


def _are_apart(older: Record, newer: Record) -> bool:
    """Return whether two records have different keys, or their words name different scopes or subjects."""
    first, second = read_words(older), read_words(newer)
    mine, theirs = _list_words(first), _list_words(second)
    is_of_other_scope = any(mine & names and theirs & names and not mine & theirs & names for names in list_scopes())
    return is_of_other_scope or _have_different_keys(older, newer) or _differ_in_subject(first, second)


@lru_cache(maxsize=1)
def list_scopes() -> tuple[frozenset[str], ...]:
    """Return groups of names of which a statement is about one at a time, such as staging and production."""
    return tuple(frozenset(names.split()) for names in load_vocabulary("vocabulary.json", "scopes"))


def _have_different_keys(older: Record, newer: Record) -> bool:
    keys = explicit_key(older.kind, older.body), explicit_key(newer.kind, newer.body)
    return all(keys) and keys[0] != keys[1]


def has_lookalikes(record: Record) -> bool:
    """Return whether a record is of a kind that somebody states; what is learned from outcomes is counted instead."""
    return record.kind in FIELDS and record.provenance.origin is not Origin.OUTCOME


def stated_at(record: Record) -> datetime:
    """Return when a record was last stated."""
    is_restated = record.kind in (MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE)
    return last_stated(record) if is_restated else record.created_at


def _order(record: Record) -> tuple[datetime, datetime]:
    return stated_at(record), record.created_at


def read_words(record: Record) -> str:
    """Return the main text of a record."""
    return str(record.body[FIELDS[record.kind]])


@lru_cache(maxsize=4096)
def _list_stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in content_words(text))


@lru_cache(maxsize=4096)
def _list_words(text: str) -> frozenset[str]:
    return frozenset(words(text))


def _differ_in_subject(first: str, second: str) -> bool:
    """Return whether each text opens with a word that the other lacks, and much of the rest is the same."""
    mine, theirs = _list_stems(first), _list_stems(second)
    if not mine or not theirs or mine[0] in theirs or theirs[0] in mine:
        return False
    rest, other_rest = set(mine[1:]), set(theirs[1:])
    return len(rest & other_rest) >= _SAME_REST * len(rest | other_rest) > 0
