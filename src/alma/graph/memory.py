"""The graph that lives as long as its process: the model that every other must agree with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from ..errors import StorageError
from ..types.graph import Direction, Entity, Relationship
from ..types.record import new_id
from .rows import Attempt, Change, EntityFilter, RelationFilter, sort_newest

T = TypeVar("T")


class MemoryRows:
    def __init__(self) -> None:
        self.place = new_id("memory")
        self._entities: dict[str, Entity] = {}
        self._relationships: dict[str, Relationship] = {}
        self._keys: dict[str, dict[str, None]] = {}
        """The ids of the entities that each key finds."""
        self._at: dict[str, dict[str, None]] = {}
        """The ids of each entity's relationships."""
        self._lock = threading.RLock()
        self._open = True

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]:
        with self._lock_open():
            ids: Iterable[str] = self._entities if where.ids is None else where.ids
            if where.keys is not None:
                ids = (id for key in where.keys for id in self._keys.get(key, ()))
            entities = [self._entities[id] for id in dict.fromkeys(ids) if id in self._entities]
        return sort_newest(
            (
                one
                for one in entities
                if (where.type is None or one.type == where.type)
                and (where.source is None or where.source in one.sources)
            ),
            limit,
        )

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]:
        with self._lock_open():
            ids: Iterable[str] = self._relationships if where.ids is None else where.ids
            if where.ends is not None:
                ids = (id for end in where.ends for id in self._at.get(end, ()))
            elif where.pairs is not None:
                ends = ((self._at.get(first, {}), self._at.get(second, {})) for first, second in where.pairs)
                ids = (id for some, others in ends for id in min(some, others, key=len))
            relationships = [self._relationships[id] for id in dict.fromkeys(ids) if id in self._relationships]
        return sort_newest((one for one in relationships if _is_accepted(one, where)), limit)

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        with self._lock_open():
            relationships = list(self._relationships.values())
            types = Counter(one.type for one in self._entities.values())
        current = sum(one.holds_at(at) for one in relationships)
        return dict(types), dict(Counter(one.type for one in relationships)), current

    def change(self, attempt: Attempt[T]) -> T:
        with self._lock_open():
            result, change = attempt(self)
            self._write(change)
            return result

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._entities, self._relationships, self._keys, self._at = {}, {}, {}, {}

    def _lock_open(self) -> threading.RLock:
        if not self._open:
            raise StorageError("this graph is closed")
        return self._lock

    def _write(self, change: Change) -> None:
        for id in (*(one.id for one in change.entities), *change.removed_entities):
            former = self._entities.pop(id, None)
            for key in former.keys if former is not None else ():
                self._keys[key].pop(id, None)
        for id in (*(one.id for one in change.relationships), *change.removed_relationships):
            past = self._relationships.pop(id, None)
            for end in (past.subject, past.object) if past is not None else ():
                self._at[end].pop(id, None)
        for entity in change.entities:
            self._entities[entity.id] = entity
            for key in entity.keys:
                self._keys.setdefault(key, {})[entity.id] = None
        for one in change.relationships:
            self._relationships[one.id] = one
            for end in (one.subject, one.object):
                self._at.setdefault(end, {})[one.id] = None


def _is_accepted(one: Relationship, where: RelationFilter) -> bool:
    if where.ends is not None:
        is_outward = where.direction is not Direction.IN and one.subject in where.ends
        if not is_outward and (where.direction is Direction.OUT or one.object not in where.ends):
            return False
    return (
        (where.pairs is None or (one.subject, one.object) in where.pairs)
        and (where.types is None or one.type in where.types)
        and (where.at is None or one.holds_at(where.at))
        and (where.source is None or where.source in one.sources)
    )
