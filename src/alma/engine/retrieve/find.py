"""Looking something up: the memories that a person or an agent asks for by its words or its meaning.

Unlike a retrieval it is for nobody in particular: it goes by relevance alone, and nothing is noted about it.
"""

from __future__ import annotations

from ...types.query import Where
from ...types.slice import Explanation
from ..context import Engine
from ..search import by_meaning, by_words, closeness
from .fuse import Candidate, relevant, similarity
from .pipeline import Scored, query_vectors, word_scores
from .score import explain, score

_LEAST = 24


def find(engine: Engine, query: str, where: Where, limit: int) -> list[Scored]:
    """The relevant ones, best first."""
    vectors = query_vectors(engine, query)
    wanted = max(2 * limit, _LEAST)
    meaning = by_meaning(engine, vectors, where, wanted)
    words = by_words(engine.store, query, where, wanted)
    records = engine.store.get(list(dict.fromkeys(hit.id for hit in (*meaning, *words))))
    said = word_scores(query, words, {record.id: record for record in records})
    pool = [Candidate(one, closeness(engine, one, vectors), said.get(one.id, 0.0)) for one in records]
    found = [_scored(engine, one, similar, query) for one, similar in zip(pool, similarity(pool), strict=True)]
    return sorted(filter(None, found), key=lambda one: (-one.score, one.record.id))[:limit]


def _scored(engine: Engine, candidate: Candidate, similar: float, query: str) -> Scored | None:
    if not relevant(candidate):
        return None
    return Scored(candidate.record, similar, _explained(engine, candidate, similar, query))


def _explained(engine: Engine, candidate: Candidate, similar: float, query: str) -> Explanation:
    total, factors = score(candidate.record, similar, engine.clock(), engine.settings)
    return explain(candidate, total, factors, query, standing=False)
