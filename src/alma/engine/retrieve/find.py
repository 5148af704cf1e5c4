"""Looking something up: the memories that a person or an agent asks for by its words or its meaning.

Unlike a retrieval it is for nobody in particular: it goes by relevance alone, leaves nothing out, and nothing is noted
about it.
"""

from __future__ import annotations

from ...types.query import Where
from ..context import Engine
from ..search import by_meaning, by_words, find_closeness
from .fuse import Candidate, similarity
from .pipeline import Scored, query_vectors
from .score import explain, score
from .shares import share_words

_LEAST = 24


def find(engine: Engine, query: str, where: Where, limit: int) -> list[Scored]:
    """Return the nearest, best first."""
    vectors = query_vectors(engine, query)
    wanted = max(2 * limit, _LEAST)
    hits = (*by_meaning(engine, vectors, where, wanted), *by_words(engine.store, query, where, wanted))
    records = engine.store.get(list(dict.fromkeys(hit.id for hit in hits)))
    shares = share_words(query, records, is_known=engine.knows(query))
    close = find_closeness(engine, records, vectors)
    pool = [Candidate(one, close.get(one.id), shares[one.id]) for one in records]
    found = []
    for candidate, similar in zip(pool, similarity(pool), strict=True):
        total, factors = score(candidate.record, similar, engine.clock(), engine.settings)
        found.append(Scored(candidate.record, similar, explain(candidate, total, factors, query, standing=False)))
    return sorted(found, key=lambda one: (-one.score, one.record.id))[:limit]
