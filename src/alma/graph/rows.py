"""The rows of a graph: the interface of a backend, and the two backends that need no server.

A backend only stores and finds entities and relationships; `Graph` does the rest.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from ..engine.admit import make_record
from ..engine.context import Engine
from ..engine.transaction import Transaction, write
from ..errors import StorageError
from ..text import digest
from ..types.graph import Direction, Entity, Relationship, end_tags
from ..types.kinds import KINDS
from ..types.query import Where, split_batches
from ..types.record import Record, Status, new_id
from ..types.times import from_micros, to_micros

T = TypeVar("T")
Item = TypeVar("Item", Entity, Relationship)
TABLES = {Entity: "entity", Relationship: "relation"}
_TIMES = ("valid_from", "valid_to", "created_at")


class RowFilter(NamedTuple):
    """A filter for entities or relationships. None accepts all; at most one of ids, keys, ends and pairs is set."""

    ids: Collection[str] | None = None
    keys: Collection[str] | None = None  # Entities with any of these among their keys.
    ends: Collection[str] | None = None  # Relationships from these entities, to them, or both (see `direction`).
    direction: str = Direction.BOTH
    pairs: Collection[tuple[str, str]] | None = None  # Relationships from the first entity of a pair to the second.
    types: Collection[str] | None = None
    at: datetime | None = None  # Relationships that are true at this time.
    source: str | None = None  # Items that come from this record.

    def list_conditions(self) -> dict[str, Any]:
        """Return the conditions that are set, by name: ends as out_ends, in_ends or both_ends, the time as a number."""
        values = {name: value for name, value in self._asdict().items() if value is not None}
        direction = values.pop("direction")
        if self.at is not None:
            values["at"] = to_micros(self.at)
        if self.ends is not None:
            values[f"{direction}_ends"] = values.pop("ends")
        return {name: value if isinstance(value, str | int) else list(value) for name, value in values.items()}


class GraphChange(NamedTuple):
    """Items to write and to remove, all or none. No item is in both."""

    entities: Sequence[Entity] = ()
    relationships: Sequence[Relationship] = ()
    removed_entities: Sequence[str] = ()
    removed_relationships: Sequence[str] = ()

    def list_tables(self) -> list[tuple[type[Any], Sequence[Any], Sequence[str]]]:
        """Return the items to write and the ids to remove, first of relationships, then of entities."""
        edges = (Relationship, self.relationships, self.removed_relationships)
        return [edges, (Entity, self.entities, self.removed_entities)]


class RowReader(Protocol):
    """Reads the rows of a graph."""

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the matching items by descending `created_at`, then by descending id; with `ids`, in any order."""

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many relationships are true at a time."""
        edges = self.find(Relationship, RowFilter())
        entities = Counter(one.type for one in self.find(Entity, RowFilter()))
        return entities, Counter(one.type for one in edges), sum(one.holds_at(at) for one in edges)


Attempt = Callable[[RowReader], tuple[T, GraphChange]]


class Rows(RowReader, Protocol):
    """Reads and writes the rows of a graph: the interface of a backend."""

    place: str  # Identifies where the rows are stored: equal for all who see the same rows.

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes from the rows and return its result.

        No other writer gets in between. `attempt` may be called more than once.
        """

    def close(self) -> None:
        """Release the backend's connections and files."""


def sort_newest(items: Iterable[Item], limit: int | None = None) -> list[Item]:
    """Return items by descending `created_at`, then by descending id."""
    return sorted(items, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]


def list_columns(one: Entity | Relationship) -> dict[str, Any]:
    """Return the searchable values of an item, and the whole item as one line of JSON under `data`."""
    values = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in ("span", "spans")}
    values |= {name: to_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    columns = {"id": one.id, "type": one.type, "sources": list(one.sources), "created": values["created_at"]}
    if isinstance(one, Entity):
        columns |= {"name": one.name, "keys": list(one.keys)}
    else:
        columns |= {name: values[name] for name in ("subject", "object", "valid_from", "valid_to")}
    return {**columns, "data": json.dumps(values, allow_nan=False)}


def decode_item(kind: type[Item], text: str) -> Item:
    """Return the entity or relationship that `list_columns` wrote under `data`."""
    values = json.loads(text)
    values |= {name: from_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    return make_item(kind, **values)


def make_item(kind: type[Item], **values: Any) -> Item:
    """Return an entity or a relationship with these values; lists become tuples."""
    values |= {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
    return kind(**values)


# -- in the process


class MemoryRows(Rows):
    """A graph in the memory of the process: the reference that every other backend must agree with."""

    def __init__(self) -> None:
        self.place = new_id("memory")
        self._items: dict[type, dict[str, Any]] = {Entity: {}, Relationship: {}}
        # The ids of the items with each key, end or pair of ends.
        self._ids: dict[object, dict[str, None]] = defaultdict(dict)
        self._lock = threading.RLock()
        self._is_open = True

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the matching items, newest first."""
        with self._lock:
            if not self._is_open:
                raise StorageError("this graph is closed; open it again to use it")
            items: dict[str, Item] = self._items[kind]
            ids: Iterable[str] = items if where.ids is None else where.ids
            for terms in (where.keys, where.ends, where.pairs):
                if terms is not None:
                    ids = [id for term in terms for id in self._ids.get((kind, term), ())]
            chosen = [items[id] for id in dict.fromkeys(ids) if id in items]
        return sort_newest((one for one in chosen if _is_accepted(one, where)), limit)

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes, under a lock, and return its result."""
        with self._lock:
            result, change = attempt(self)
            for kind, put, removed in change.list_tables():
                items = self._items[kind]
                for id in (*removed, *(one.id for one in put)):
                    for term in _list_terms(items.pop(id)) if id in items else ():
                        self._ids[kind, term].pop(id)
                for one in put:
                    items[one.id] = one
                    for term in _list_terms(one):
                        self._ids[kind, term][one.id] = None
            return result

    def close(self) -> None:
        """Refuse further reads."""
        self._is_open = False


def _list_terms(one: Entity | Relationship) -> tuple[object, ...]:
    return one.keys if isinstance(one, Entity) else (one.subject, one.object, (one.subject, one.object))


def _is_accepted(one: Entity | Relationship, where: RowFilter) -> bool:
    if isinstance(one, Relationship):
        ends = {Direction.OUT: (one.subject,), Direction.IN: (one.object,)}
        sides = ends.get(Direction(where.direction), (one.subject, one.object))
        is_near = where.ends is None or any(side in where.ends for side in sides)
        if not is_near or (where.at is not None and not one.holds_at(where.at)):
            return False
    return (where.types is None or one.type in where.types) and (where.source is None or where.source in one.sources)


# -- in the user's own store

# Fields that a record holds outside its body.
_OWN_PLACES = frozenset("id sources created_at valid_from valid_to span spans".split())
_MANY = 1000


class RecordRows(Rows):
    """The graph of a project, as records in its memory's store. `close` is called when the graph is closed."""

    place = "records"

    def __init__(self, engine: Engine, close: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._close = close
        # In a transaction: the records it has read, by id. A record's next version is made from the one read.
        self._read: dict[str, Record] | None = None

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the matching items, newest first."""
        store = self._engine.store
        if where.ids is not None:
            ids = [self._name_record(kind, id) for id in dict.fromkeys(where.ids)]
            records = [one for one in store.get(ids) if one.status is Status.ACTIVE] if ids else []
        else:
            tags = where.keys
            if where.ends is not None:
                tags = {tag for end in where.ends for tag in end_tags(end, Direction(where.direction))}
            elif where.pairs is not None:
                tags = {f"{first} → {second}" for first, second in where.pairs}
            record_filter = Where(
                kinds={TABLES[kind]},
                projects={self._engine.project},
                statuses={Status.ACTIVE},
                tagged=tags,
                keys=where.types,
                valid_at=where.at,
                linked=None if where.source is None else {where.source},
            )
            records = list(store.scan(record_filter, limit))
        if self._read is not None:
            self._read = {one.id: one for one in records} | self._read
        items = []
        for one in records:
            values: dict[str, Any] = {**one.body, "id": one.body[one.kind], "sources": one.links}
            values |= {"valid_from": one.valid_from, "valid_to": one.valid_to} if kind is Relationship else {}
            del values[one.kind]
            items.append(make_item(kind, **values, created_at=one.created_at))
        return items

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes in a transaction of the store, and return its result."""
        removed: list[str] = []

        def step(tx: Transaction) -> T:
            rows = RecordRows(self._engine)
            rows._read = {}
            result, change = attempt(rows)
            removed[:] = rows._put(tx, change, rows._read)
            return result

        result = write(self._engine, step)
        for batch in split_batches(removed, _MANY):
            self._engine.store.delete(batch)
        return result

    def _put(self, tx: Transaction, change: GraphChange, read: dict[str, Record]) -> list[str]:
        """Write the next versions and retire what is removed; return the ids to delete after the transaction."""
        tables = change.list_tables()
        fresh = {self._name_record(kind, one.id): one for kind, put, _ in tables for one in put}
        # A writer that was killed after retiring a record and before deleting it leaves the record behind.
        unread = [id for id in fresh if id not in read]
        left_over = self._engine.store.get(unread) if unread else []
        read |= {one.id: one for one in left_over if one.status is Status.RETIRED}
        for id, one in fresh.items():
            kind, body, changes = _encode(one)
            if stored := read.get(id):
                tx.update(stored, body=body, text=KINDS[kind].text(body), status=Status.ACTIVE, **changes)
            else:
                tx.put(make_record(self._engine, kind, body, id=id, **changes))
        removed = [self._name_record(kind, id) for kind, _, ids in tables for id in ids]
        for id in removed:
            if id in read:
                tx.update(read[id], status=Status.RETIRED)
        return removed

    def close(self) -> None:
        """Call the function passed as `close`."""
        self._close()

    def _name_record(self, kind: type[Item], id: str) -> str:
        """Return the record id of an item: distinct for each project of a store, and sorting as item ids do."""
        return f"{KINDS[TABLES[kind]].prefix}_{digest(self._engine.project, size=8)}_{id}"


def _encode(one: Entity | Relationship) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the kind, the body and the other fields of the record of an entity or a relationship."""
    kind = TABLES[type(one)]
    values = {each.name: getattr(one, each.name) for each in fields(one) if each.name not in _OWN_PLACES}
    body = {name: list(each) if isinstance(each, tuple) else each for name, each in values.items()}
    body |= {kind: one.id, "attributes": dict(one.attributes)}
    changes: dict[str, Any] = {"key": one.type, "links": one.sources, "created_at": one.created_at}
    if isinstance(one, Entity):
        return kind, body, {**changes, "tags": one.keys}
    ends = (*end_tags(one.subject, Direction.OUT), *end_tags(one.object, Direction.IN))
    tags = (*ends, f"{one.subject} → {one.object}")
    return kind, body, {**changes, "tags": tags, "valid_from": one.valid_from, "valid_to": one.valid_to}
