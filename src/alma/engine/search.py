"""Candidates by meaning and by words, whatever the store can do itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from ..ports import FindsAllWords, FindsNearestByKind, MatchesByKind, Searchable, Snapshots, Store
from ..text import content_words, is_common, stem, words
from ..types.kinds import KINDS
from ..types.query import Hit, Where
from ..types.record import PERSONS, Record, Vector, cosines
from .context import Engine
from .transaction import describe_mismatch, find_embedder_marker

MAX_WORDS = 12
_TELLING = 3  # So many words of a fact are looked up to find its repetitions.
_FEW = 100  # So many records are compared one by one.
_K1, _B = 1.2, 0.75


def read_snapshot(store: Store) -> AbstractContextManager[None]:
    """All reads inside belong to one moment, where the store can do that."""
    return store.snapshot() if isinstance(store, Snapshots) else nullcontext()


def has_vectors(engine: Engine) -> bool:
    """Return whether vectors are stored; EmbedderMismatchError when another embedder made them."""
    marker = find_embedder_marker(engine) if engine.encoder is not None else None
    if marker is not None and marker.body["value"] != engine.embedder_name:
        raise describe_mismatch(marker.body["value"], engine.embedder_name)
    return marker is not None


def by_words(store: Store, query: str, where: Where, limit: int) -> list[Hit]:
    """Return the records that share words with the query, best first."""
    query_words = _list_query_words(query)
    if not query_words:
        return []
    if isinstance(store, Searchable):
        return store.match(_join_words(query, query_words), where, limit)
    return _rank_by_bm25(store.scan(where), query, limit)


def _join_words(query: str, query_words: Sequence[str]) -> str:
    """Return the words for a full-text index, which keeps "straße": among the words here that is "strasse"."""
    unfolded = [word for word in words(query, str.lower) if word != word.casefold()]
    return " ".join((*query_words, *unfolded[:MAX_WORDS]))


def find_repeated(store: Store, text: str, where: Where, limit: int) -> list[str]:
    """Return the ids of records that may repeat a text: those that contain its most telling words."""
    telling = sorted(content_words(text), key=lambda word: (is_common(word), not word.isalpha(), -len(word)))
    query = " ".join(telling[:_TELLING])
    if isinstance(store, FindsAllWords):
        return store.match_all(query, where, limit)
    return [hit.id for hit in by_words(store, query, where, limit)]


def _list_query_words(query: str) -> list[str]:
    """Return the words to look for: a pasted prompt is not searched for word by word."""
    query_words = list(content_words(query))
    return query_words if len(query_words) <= MAX_WORDS else sorted(query_words, key=len, reverse=True)[:MAX_WORDS]


def _rank_by_bm25(records: Iterable[Record], query: str, limit: int) -> list[Hit]:
    terms = frozenset(map(stem, _list_query_words(query)))
    docs = [(record.id, Counter(map(stem, words(record.text)))) for record in records if record.text]
    if not docs or not terms:
        return []
    # What is made of signs only has no words.
    mean = sum(counts.total() for _, counts in docs) / len(docs) or 1.0
    idf: dict[str, float] = {}
    for term in terms:
        holding = sum(term in counts for _, counts in docs)
        idf[term] = math.log(1 + (len(docs) - holding + 0.5) / (holding + 0.5))
    scored = []
    for name, counts in docs:
        length = _K1 * (1 - _B + _B * counts.total() / mean)
        score = sum(weight * counts[term] * (_K1 + 1) / (counts[term] + length) for term, weight in idf.items())
        if score > 0:
            scored.append((-score, name))
    return [Hit(name, -score) for score, name in sorted(scored)[:limit]]


def by_meaning(engine: Engine, vectors: Sequence[Vector], where: Where, limit: int) -> list[Hit]:
    """Return the nearest to any of the vectors, each by its best; vectors of another embedder mean something else."""
    ours = replace(where, embedders={engine.embedder_name})
    best: dict[str, float] = {}
    for vector in vectors:
        for hit in engine.store.nearest(vector, ours, limit):
            best[hit.id] = max(best.get(hit.id, -1.0), hit.score)
    return _rank_best(best, limit)


def _rank_best(scores: Mapping[str, float], limit: int) -> list[Hit]:
    return [Hit(id, score) for id, score in sorted(scores.items(), key=lambda item: -item[1])[:limit]]


def scan_shared(store: Store, where: Where, limit: int) -> list[Record]:
    """Return the newest records, and the newest that persons said if these are not all: others crowd out none of it."""
    records = {one.id: one for one in store.scan(where, limit)}
    if len(records) == limit:
        records |= {one.id: one for one in store.scan(replace(where, origins=PERSONS), limit)}
    return list(records.values())


class Found(NamedTuple):
    """What a search found: hits by meaning, hits by words, and the records of all of them by id."""

    meaning: list[Hit]
    by_word: list[Hit]
    records: dict[str, Record]


def find_hits(engine: Engine, query: str, vectors: Sequence[Vector], where: Where, limit: int) -> Found:
    """Return the nearest by meaning and by words, so many of each; what persons said has places of its own.

    However many look-alikes others wrote, half as many of what persons said are among the candidates.
    """
    found = _search(engine, query, vectors, where, limit)
    return _add_persons_words(engine, query, vectors, where, limit, found)


def find_hits_by_kind(
    engine: Engine, query: str, vectors: Sequence[Vector], where: Where, limits: Mapping[str, int]
) -> Found:
    """Return what `find_hits` finds of each kind, so many of each, with few searches over all of them."""
    meaning = _find_nearest_kinds(engine, vectors, where, limits)
    lacking: set[str] = set()
    if not isinstance(engine.store, MatchesByKind):
        # Looking for words that many records hold costs much more than finding out that there is no record of a kind.
        lacking = {kind for kind in limits if vectors and not meaning[kind]}
        if lacking and next(iter(engine.store.scan(replace(where, kinds=lacking), 1)), None) is not None:
            lacking = set()
    present = {kind: limit for kind, limit in limits.items() if kind not in lacking}
    by_word = _match_kinds(engine, query, where, present)
    ids = [hit.id for hits in (*meaning.values(), *by_word.values()) for hit in hits]
    records = {record.id: record for record in engine.store.get(list(dict.fromkeys(ids)))} if ids else {}
    found = Found([], [], {})
    for kind, limit in present.items():
        own_ids = [hit.id for hit in (*meaning[kind], *by_word[kind])]
        own = Found(meaning[kind], by_word[kind], {id: records[id] for id in own_ids if id in records})
        own = _add_persons_words(engine, query, vectors, replace(where, kinds={kind}), limit, own)
        found = Found(found.meaning + own.meaning, found.by_word + own.by_word, found.records | own.records)
    return found


def _find_nearest_kinds(
    engine: Engine, vectors: Sequence[Vector], where: Where, limits: Mapping[str, int]
) -> dict[str, list[Hit]]:
    """Return the nearest of each kind to any of the vectors, best first."""
    store = engine.store
    if not isinstance(store, FindsNearestByKind):
        return _search_kinds(engine, lambda some, limit: by_meaning(engine, vectors, some, limit), where, limits)
    ours = replace(where, embedders={engine.embedder_name})
    best: dict[str, dict[str, float]] = {kind: {} for kind in limits}
    for vector in vectors:
        for kind, hits in store.nearest_by_kind(vector, ours, limits).items():
            for hit in hits:
                best[kind][hit.id] = max(best[kind].get(hit.id, -1.0), hit.score)
    return {kind: _rank_best(scores, limits[kind]) for kind, scores in best.items()}


def _match_kinds(engine: Engine, query: str, where: Where, limits: Mapping[str, int]) -> dict[str, list[Hit]]:
    """Return the records of each kind that share words with the query, best first."""
    store, query_words = engine.store, _list_query_words(query)
    if not query_words:
        return {kind: [] for kind in limits}
    if isinstance(store, MatchesByKind):
        return dict(store.match_by_kind(_join_words(query, query_words), where, limits))
    return _search_kinds(engine, lambda some, limit: by_words(store, query, some, limit), where, limits)


def _search_kinds(
    engine: Engine, search: Callable[[Where, int], list[Hit]], where: Where, limits: Mapping[str, int]
) -> dict[str, list[Hit]]:
    """Return the best hits of each kind.

    All kinds are searched at once. If some of them fill the result, the others are searched again without these.
    """
    hits_by_kind: dict[str, list[Hit]] = {kind: [] for kind in limits}
    kinds = set(limits)
    while kinds:
        total = sum(limits[kind] for kind in kinds)
        hits = search(replace(where, kinds=kinds), total)
        split = _split_by_kind(engine, hits, kinds)
        for kind in kinds:
            hits_by_kind[kind] = split[kind][: limits[kind]]
        crowded_out = {kind for kind in kinds if len(split[kind]) < limits[kind]}
        if len(hits) < total or crowded_out == kinds:
            break
        kinds = crowded_out
    return hits_by_kind


def _split_by_kind(engine: Engine, hits: Sequence[Hit], kinds: Collection[str]) -> dict[str, list[Hit]]:
    """Return the hits of each kind, in their order; an id names the kind, unless somebody else made it."""
    if len(kinds) == 1:
        return {kind: list(hits) for kind in kinds}
    kind_by_prefix = {KINDS[kind].prefix: kind for kind in kinds}
    kind_by_id = {hit.id: kind_by_prefix.get(hit.id.partition("_")[0], "") for hit in hits}
    unnamed = [id for id, kind in kind_by_id.items() if not kind]
    kind_by_id |= {record.id: record.kind for record in engine.store.get(unnamed)} if unnamed else {}
    split: dict[str, list[Hit]] = {kind: [] for kind in kinds}
    for hit in hits:
        if kind_by_id[hit.id] in split:
            split[kind_by_id[hit.id]].append(hit)
    return split


def _add_persons_words(
    engine: Engine, query: str, vectors: Sequence[Vector], where: Where, limit: int, found: Found
) -> Found:
    """Return what was found, with more of what persons said if others filled the places."""
    is_full = limit in (len(found.meaning), len(found.by_word))
    persons = sum(one.provenance.is_from_person for one in found.records.values())
    if not is_full or 2 * persons >= limit:
        return found
    own = _find_persons_words(engine, query, vectors, where, max(1, limit // 2))
    return Found(found.meaning + own.meaning, found.by_word + own.by_word, found.records | own.records)


def _find_persons_words(engine: Engine, query: str, vectors: Sequence[Vector], where: Where, limit: int) -> Found:
    own = replace(where, origins=PERSONS)
    records = list(engine.store.scan(own, _FEW))
    if len(records) == _FEW:
        return _search(engine, query, vectors, own, limit)
    # To go through all memories once, for the few that persons said, is quicker than to search them twice.
    close = find_closeness(engine, records, vectors)
    meaning = [Hit(id, close[id]) for id in sorted(close, key=lambda id: (-close[id], id))[:limit]]
    by_word = _rank_by_bm25(records, query, limit)
    ids = {hit.id for hit in (*meaning, *by_word)}
    return Found(meaning, by_word, {one.id: one for one in records if one.id in ids})


def _search(engine: Engine, query: str, vectors: Sequence[Vector], where: Where, limit: int) -> Found:
    meaning, by_word = by_meaning(engine, vectors, where, limit), by_words(engine.store, query, where, limit)
    ids = list(dict.fromkeys(hit.id for hit in (*meaning, *by_word)))
    return Found(meaning, by_word, {one.id: one for one in engine.store.get(ids)} if ids else {})


def find_closeness(engine: Engine, records: Sequence[Record], vectors: Sequence[Vector]) -> dict[str, float]:
    """Return by id the cosine of each record's best vector, of those that can be compared."""
    fitting = [record for record in records if record.embedder == engine.embedder_name and record.vectors]
    owners = [record.id for record in fitting for _ in record.vectors]
    best: dict[str, float] = {}
    for row in cosines(vectors, [own for record in fitting for own in record.vectors]):
        for owner, value in zip(owners, row, strict=True):
            best[owner] = max(best.get(owner, -1.0), value)
    return best


def find_near(engine: Engine, vector: Vector | None, query: str, where: Where, limit: int) -> list[str]:
    """Return the ids of records near a text by meaning, or by words where there is no vector."""
    hits = by_words(engine.store, query, where, limit) if vector is None else by_meaning(engine, [vector], where, limit)
    return [hit.id for hit in hits]


def find_neighbours(engine: Engine, vector: Vector | None, query: str, where: Where, limit: int) -> list[Record]:
    """Return the records that `find_near` finds, for a closer look at each."""
    return engine.store.get(find_near(engine, vector, query, where, limit))
