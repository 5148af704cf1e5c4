"""Which rules a prompt calls for, by meaning and by words: few, and only those it clearly has to do with."""

from __future__ import annotations

from ..text import agreement, stems
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.rules import EVERYWHERE
from .context import Engine
from .search import by_meaning, by_words

_POOL = 20
_CLOSE = 0.45
"""The cosine from which a rule is taken to be about the same thing."""
_SOMEWHAT = 0.30
_SHARED = 0.20
_READABLE = 0.9


def relevant(engine: Engine, session: str, text: str, limit: int) -> list[Record]:
    where = Where(
        kinds={MemoryType.RULE},
        projects={engine.project, EVERYWHERE},
        users={""},
        sessions={"", session},
        statuses={Status.ACTIVE},
    )
    [vectors] = engine.encode([(text[:2000],)])
    meaning = {hit.id: hit.score for hit in by_meaning(engine, vectors, where, _POOL)} if vectors else {}
    ids = dict.fromkeys((*meaning, *(hit.id for hit in by_words(engine.store, text, where, _POOL))))
    asked = stems(text)
    # To a model of English all texts in other letters look alike: there, words must agree as well.
    readable = sum(map(str.isascii, text)) >= _READABLE * len(text)
    scored = []
    for record in engine.store.get(list(ids)):
        close = meaning.get(record.id, 0.0)
        shared = agreement(stems(record.text), asked)
        if shared < _SHARED and not (readable and record.text.isascii()):
            continue
        if close >= _CLOSE or (close >= _SOMEWHAT and shared >= _SHARED):
            scored.append((close + shared, record))
    scored.sort(key=lambda pair: (-pair[0], pair[1].id))
    return [record for _, record in scored[:limit]]
