"""The graph that lives as long as its process: the model that every other must agree with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from ..errors import StorageError
from ..types.graph import Entity, Relationship
from ..types.ids import new_id
from .rows import Attempt, Change, Wanted, newest_first

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

    def entities(self, ids: Collection[str]) -> list[Entity]:
        with self._held():
            return [self._entities[id] for id in dict.fromkeys(ids) if id in self._entities]

    def named(self, keys: Collection[str]) -> list[Entity]:
        with self._held():
            found = [self._entities[id] for id in dict.fromkeys(id for key in keys for id in self._keys.get(key, ()))]
        return sorted(found, key=newest_first, reverse=True)

    def listed(self, type: str | None, limit: int) -> list[Entity]:
        with self._held():
            found = [one for one in self._entities.values() if type is None or one.type == type]
        return sorted(found, key=newest_first, reverse=True)[:limit]

    def relationships(self, ids: Collection[str]) -> list[Relationship]:
        with self._held():
            return [self._relationships[id] for id in dict.fromkeys(ids) if id in self._relationships]

    def edges(self, ends: Collection[str] | None, wanted: Wanted, limit: int) -> list[Relationship]:
        with self._held():
            if ends is None:
                found = [one for one in self._relationships.values() if wanted.alike(one)]
            else:
                near = dict.fromkeys(id for end in ends for id in self._at.get(end, ()))
                found = [one for id in near if wanted.accepts(one := self._relationships[id], ends)]
        return sorted(found, key=newest_first, reverse=True)[:limit]

    def between(self, pairs: Collection[tuple[str, str]]) -> list[Relationship]:
        with self._held():
            held = self._relationships
            near = dict.fromkeys(id for first, second in pairs for id in self._shared(first, second))
            return [held[id] for id in near if (held[id].subject, held[id].object) in pairs]

    def _shared(self, first: str, second: str) -> list[str]:
        few, many = sorted((self._at.get(first, {}), self._at.get(second, {})), key=len)
        return [id for id in few if id in many]

    def sourced(self, sources: Collection[str]) -> tuple[list[Entity], list[Relationship]]:
        with self._held():
            wanted = set(sources)
            return (
                [one for one in self._entities.values() if not wanted.isdisjoint(one.sources)],
                [one for one in self._relationships.values() if not wanted.isdisjoint(one.sources)],
            )

    def counts(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        with self._held():
            held = list(self._relationships.values())
            types = Counter(one.type for one in self._entities.values())
        return dict(types), dict(Counter(one.type for one in held)), sum(one.holds_at(at) for one in held)

    def change(self, attempt: Attempt[T]) -> T:
        with self._held():
            result, change = attempt(self)
            self._write(change)
            return result

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._entities, self._relationships, self._keys, self._at = {}, {}, {}, {}

    def _held(self) -> threading.RLock:
        if not self._open:
            raise StorageError("this graph is closed")
        return self._lock

    def _write(self, change: Change) -> None:
        for entity in change.entities:
            self._unname(entity.id)
            self._entities[entity.id] = entity
            for key in entity.keys:
                self._keys.setdefault(key, {})[entity.id] = None
        for one in change.relationships:
            self._unlink(one.id)
            self._relationships[one.id] = one
            for end in (one.subject, one.object):
                self._at.setdefault(end, {})[one.id] = None
        for id in change.removed_relationships:
            self._unlink(id)
        for id in change.removed_entities:
            self._unname(id)

    def _unname(self, id: str) -> None:
        held = self._entities.pop(id, None)
        for key in held.keys if held is not None else ():
            self._keys[key].pop(id, None)

    def _unlink(self, id: str) -> None:
        held = self._relationships.pop(id, None)
        if held is not None:
            for end in (held.subject, held.object):
                self._at[end].pop(id, None)
