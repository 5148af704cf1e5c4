"""What was replaced still leads to its successor: asked in the words of the old fact, one gets the new fact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...types.query import Where
from ...types.record import Record, Status
from ..search import by_meaning, by_words
from .lookalikes import FIELDS

if TYPE_CHECKING:
    from .request import Asked

_MOST = 8
_LONGEST = 8


@dataclass(frozen=True, slots=True)
class Replaced:
    record: Record
    successor: Record
    """The memory that holds now."""


def find_replaced(asked: Asked, *, is_known: bool) -> list[Replaced]:
    """Return the superseded memories that are nearest to the task, with what took their place."""
    kinds = [kind for kind in FIELDS if kind in asked.types]
    if asked.request.as_of is not None or asked.past is not None or not kinds:
        return []
    engine = asked.engine
    where = replace(asked.where(kinds[0]), kinds=set(kinds), statuses={Status.SUPERSEDED}, valid_at=None, sessions=None)
    hits = by_meaning(engine, asked.vectors, where, _MOST)
    if not is_known:
        hits += by_words(engine.store, asked.question.text, where, _MOST)
    records = engine.store.get(list(dict.fromkeys(hit.id for hit in hits)))
    pairs = ((record, _find_successor(asked, record)) for record in records if record.superseded_by)
    return [Replaced(record, successor) for record, successor in pairs if successor is not None]


def _find_successor(asked: Asked, record: Record) -> Record | None:
    """Return what took the place of a record in the end, if it is to be seen."""
    for _ in range(_LONGEST):
        found = asked.engine.store.get([record.superseded_by]) if record.superseded_by else []
        if not found:
            return None
        record = found[0]
        if record.status is Status.ACTIVE:
            return record if _is_visible(asked, record) else None
    return None


def _is_visible(asked: Asked, record: Record) -> bool:
    where: Where = asked.where(record.kind)
    return where.accepts(record) or (replace(where, agents=None).accepts(record) and not record.agent)
