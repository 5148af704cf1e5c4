"""The graph without a server: in the process, or in the user's own store as records like all other memories."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, TypeVar

from ..engine.admit import Draft, build
from ..engine.context import Engine
from ..engine.transaction import Transaction, write
from ..errors import StorageError
from ..ports import Countable
from ..text import digest
from ..types.graph import Direction, Entity, Relationship, end_tags
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, new_id
from .rows import Attempt, EntityFilter, GraphChange, Item, RelationFilter, sort_newest

T = TypeVar("T")


class MemoryRows:
    """The graph that lives as long as its process: the model that every other must agree with."""

    def __init__(self) -> None:
        self.place = new_id("memory")
        self._entities: dict[str, Entity] = {}
        self._relationships: dict[str, Relationship] = {}
        self._keys: dict[str, dict[str, None]] = {}  # The ids of the entities that each key finds.
        self._edges: dict[str, dict[str, None]] = {}  # The ids of each entity's relationships.
        self._lock = threading.RLock()
        self._is_open = True

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]:
        with self._lock_open():
            ids: Iterable[str] = self._entities if where.ids is None else where.ids
            if where.keys is not None:
                ids = (id for key in where.keys for id in self._keys.get(key, ()))
            entities = [self._entities[id] for id in dict.fromkeys(ids) if id in self._entities]
        typed = (one for one in entities if where.type in (None, one.type))
        return sort_newest((one for one in typed if where.source is None or where.source in one.sources), limit)

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]:
        with self._lock_open():
            ids: Iterable[str] = self._relationships if where.ids is None else where.ids
            if where.ends is not None:
                ids = (id for end in where.ends for id in self._edges.get(end, ()))
            elif where.pairs is not None:
                ends = ((self._edges.get(first, {}), self._edges.get(second, {})) for first, second in where.pairs)
                ids = (id for some, others in ends for id in min(some, others, key=len))
            edges = [self._relationships[id] for id in dict.fromkeys(ids) if id in self._relationships]
        return sort_newest((one for one in edges if _is_accepted(one, where)), limit)

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        with self._lock_open():
            edges = list(self._relationships.values())
            types = Counter(one.type for one in self._entities.values())
        return dict(types), dict(Counter(one.type for one in edges)), sum(one.holds_at(at) for one in edges)

    def change(self, attempt: Attempt[T]) -> T:
        with self._lock_open():
            result, change = attempt(self)
            for id in (*(one.id for one in change.entities), *change.removed_entities):
                if former := self._entities.pop(id, None):
                    for key in former.keys:
                        self._keys[key].pop(id, None)
            for id in (*(one.id for one in change.relationships), *change.removed_relationships):
                if past := self._relationships.pop(id, None):
                    for end in (past.subject, past.object):
                        self._edges[end].pop(id, None)
            for entity in change.entities:
                self._entities[entity.id] = entity
                for key in entity.keys:
                    self._keys.setdefault(key, {})[entity.id] = None
            for edge in change.relationships:
                self._relationships[edge.id] = edge
                for end in (edge.subject, edge.object):
                    self._edges.setdefault(end, {})[edge.id] = None
            return result

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            self._entities, self._relationships, self._keys, self._edges = {}, {}, {}, {}

    def _lock_open(self) -> threading.RLock:
        if not self._is_open:
            raise StorageError("this graph is closed")
        return self._lock


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


# -- in the user's own store

ENTITY, RELATION = "entity", "relation"
# The fields that are stored in a record's body; the others have places of their own.
_BODIES: dict[str, tuple[str, ...]] = {
    ENTITY: ("name", "type", "aliases", "attributes", "confidence", "absorbed"),
    RELATION: ("subject", "type", "object", "attributes", "confidence"),
}
_MANY = 1000


class RecordRows:
    """The graph of a project in its memory's store. `close` is called when the graph is closed."""

    place = "records"

    def __init__(self, engine: Engine, close: Callable[[], None] | None = None) -> None:
        self._engine = engine
        self._close = close
        # In a transaction: what it read. The next version of a record is made from that version.
        self._read: dict[str, Record] | None = None

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]:
        types = None if where.type is None else {where.type}
        linked = None if where.source is None else {where.source}
        records = self._find(ENTITY, where.ids, limit, tagged=where.keys, keys=types, linked=linked)
        return [_decode(Entity, one) for one in records]

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]:
        tags = None
        if where.ends is not None:
            tags = {tag for end in where.ends for tag in end_tags(end, where.direction)}
        elif where.pairs is not None:
            tags = {f"{first} → {second}" for first, second in where.pairs}
        linked = None if where.source is None else {where.source}
        records = self._find(
            RELATION, where.ids, limit, tagged=tags, keys=where.types, valid_at=where.at, linked=linked
        )
        return [_decode(Relationship, one) for one in records]

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        types, related = (Counter(one.key for one in self._find(kind)) for kind in (ENTITY, RELATION))
        store, where = self._engine.store, self._where(RELATION, valid_at=at)
        current = store.count(where).values() if isinstance(store, Countable) else (1 for _ in store.scan(where))
        return dict(types), dict(related), sum(current)

    def _where(self, kind: str, **conditions: Any) -> Where:
        return Where(kinds={kind}, projects={self._engine.project}, statuses={Status.ACTIVE}, **conditions)

    def _find(
        self, kind: str, ids: Collection[str] | None = None, limit: int | None = None, **conditions: Any
    ) -> list[Record]:
        if ids is None:
            records = list(self._engine.store.scan(self._where(kind, **conditions), limit))
        else:
            names = [self._name_record(kind, id) for id in dict.fromkeys(ids)]
            stored = self._engine.store.get(names) if names else []
            records = [one for one in stored if one.status is Status.ACTIVE]
        if self._read is not None:
            self._read = {**{one.id: one for one in records}, **self._read}
        return records

    def change(self, attempt: Attempt[T]) -> T:
        removed: list[str] = []

        def step(tx: Transaction) -> T:
            rows = RecordRows(self._engine)
            rows._read = {}
            result, change = attempt(rows)
            removed[:] = rows._put(tx, change, rows._read)
            return result

        result = write(self._engine, step)
        for start in range(0, len(removed), _MANY):
            self._engine.store.delete(removed[start : start + _MANY])
        return result

    def _put(self, tx: Transaction, change: GraphChange, read: dict[str, Record]) -> list[str]:
        """Put the next versions, and return the ids to erase afterwards: what goes is retired before."""
        items = [(ENTITY, one) for one in change.entities] + [(RELATION, one) for one in change.relationships]
        fresh = {self._name_record(kind, one.id): (kind, one) for kind, one in items}
        # What was retired by a writer that was killed before it erased it may come back.
        unread = [id for id in fresh if id not in read]
        left_over = self._engine.store.get(unread) if unread else []
        read |= {one.id: one for one in left_over if one.status is Status.RETIRED}
        for id, (kind, one) in fresh.items():
            body, fields = _encode(kind, one)
            if stored := read.get(id):
                text = KINDS[kind].text(body)
                tx.update(stored, body=body, text=text, status=Status.ACTIVE, **fields)
            else:
                draft = Draft(kind=kind, body=body, provenance=Provenance(Origin.SYSTEM))
                tx.put(build(self._engine, draft, (), id=id, **fields))
        removed = [self._name_record(ENTITY, id) for id in change.removed_entities]
        removed += [self._name_record(RELATION, id) for id in change.removed_relationships]
        for id in removed:
            if id in read:
                tx.update(read[id], status=Status.RETIRED)
        return removed

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def _name_record(self, kind: str, id: str) -> str:
        """Two projects of one store may know people of the same name. Records sort as what they hold does."""
        return f"{KINDS[kind].prefix}_{digest(self._engine.project, size=8)}_{id}"


def _encode(kind: str, one: Entity | Relationship) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the body and the other fields of the record of an entity or a relationship."""
    values = {name: getattr(one, name) for name in _BODIES[kind]}
    body = {kind: one.id, **{name: list(each) if isinstance(each, tuple) else each for name, each in values.items()}}
    body["attributes"] = dict(one.attributes)
    fields: dict[str, Any] = {"key": one.type, "links": one.sources, "created_at": one.created_at}
    if isinstance(one, Entity):
        return body, {**fields, "tags": one.keys}
    ends = (*end_tags(one.subject, Direction.OUT), *end_tags(one.object, Direction.IN))
    fields["tags"] = (*ends, f"{one.subject} → {one.object}")
    return body, {**fields, "valid_from": one.valid_from, "valid_to": one.valid_to}


def _decode(kind: type[Item], record: Record) -> Item:
    values = {name: record.body[name] for name in _BODIES[record.kind]}
    values |= {name: tuple(values[name]) for name in ("aliases", "absorbed") if name in values}
    if record.kind == RELATION:
        values |= {"valid_from": record.valid_from, "valid_to": record.valid_to}
    return kind(**values, id=record.body[record.kind], sources=record.links, created_at=record.created_at)
