"""Candidates by meaning and by words, whatever the store can do itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..ports import Searchable, Store
from ..text import content_words, stem, words
from ..types.query import Hit, Where
from ..types.record import Record
from ..types.vector import Vector, cosine, cosines
from .context import Engine

MAX_WORDS = 12
_K1, _B = 1.2, 0.75


def by_words(store: Store, query: str, where: Where, limit: int) -> list[Hit]:
    """The records that share words with the query, best first."""
    wanted = _telling(content_words(query))
    if not wanted:
        return []
    if isinstance(store, Searchable):
        return store.match(" ".join(wanted), where, limit)
    return _bm25(store, frozenset(map(stem, wanted)), where, limit)


def _telling(found: list[str]) -> list[str]:
    """Of a long query the longest words: a pasted prompt is not searched for word by word."""
    if len(found) <= MAX_WORDS:
        return found
    return sorted(found, key=len, reverse=True)[:MAX_WORDS]


def _bm25(store: Store, query: frozenset[str], where: Where, limit: int) -> list[Hit]:
    docs = [(record.id, Counter(map(stem, words(record.text)))) for record in store.scan(where) if record.text]
    if not docs:
        return []
    # What is made of signs only has no words.
    mean = sum(counts.total() for _, counts in docs) / len(docs) or 1.0
    idf = {term: _idf(sum(term in counts for _, counts in docs), len(docs)) for term in query}
    scored = [(_score(counts, idf, mean), name) for name, counts in docs]
    best = sorted((-score, name) for score, name in scored if score > 0)[:limit]
    return [Hit(name, -score) for score, name in best]


def _idf(holding: int, total: int) -> float:
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def _score(counts: Counter[str], idf: dict[str, float], mean: float) -> float:
    length = _K1 * (1 - _B + _B * counts.total() / mean)
    return sum(weight * counts[term] * (_K1 + 1) / (counts[term] + length) for term, weight in idf.items())


def by_meaning(engine: Engine, vectors: Sequence[Vector], where: Where, limit: int) -> list[Hit]:
    """The nearest to any of the vectors, each by its best; vectors of another embedder mean something else."""
    ours = replace(where, embedders={engine.embedder_name})
    best: dict[str, float] = {}
    for vector in vectors:
        for hit in engine.store.nearest(vector, ours, limit):
            best[hit.id] = max(best.get(hit.id, -1.0), hit.score)
    return [Hit(name, score) for name, score in sorted(best.items(), key=lambda item: -item[1])[:limit]]


def closeness(engine: Engine, record: Record, vectors: Sequence[Vector]) -> float | None:
    """The cosine of a record's best vector, when it has one that can be compared."""
    if record.embedder != engine.embedder_name:
        return None
    return max((cosine(own, vector) for own in record.vectors for vector in vectors), default=None)


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


def neighbours(engine: Engine, vector: Vector | None, query: str, where: Where, limit: int) -> list[Record]:
    """Return the records that `find_near` finds, for a closer look at each."""
    ids = find_near(engine, vector, query, where, limit)
    return engine.store.get(ids) if ids else []
