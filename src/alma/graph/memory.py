"""The graph without a server: in the process, or in the user's own store as records like all other memories."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from ..engine.admit import make_record
from ..engine.context import Engine
from ..engine.transaction import Transaction, write
from ..errors import StorageError
from ..text import digest
from ..types.graph import Direction, Entity, Relationship, end_tags
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record, Status, new_id
from .rows import TABLES, Attempt, GraphChange, Item, RowFilter, Rows, T, make_item, sort_newest


class MemoryRows(Rows):
    """The graph that lives as long as its process: the model that every other must agree with."""

    place = ""

    def __init__(self) -> None:
        self.place = new_id("memory")
        self._items: dict[type, dict[str, Any]] = {Entity: {}, Relationship: {}}
        # The ids of what each key, end or pair of ends finds.
        self._ids: dict[object, dict[str, None]] = defaultdict(dict)
        self._lock = threading.RLock()
        self._is_open = True

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        with self._lock:
            if not self._is_open:
                raise StorageError("this graph is closed")
            items: dict[str, Item] = self._items[kind]
            ids: Iterable[str] = items if where.ids is None else where.ids
            for terms in (where.keys, where.ends, where.pairs):
                if terms is not None:
                    ids = [id for term in terms for id in self._ids.get((kind, term), ())]
            chosen = [items[id] for id in dict.fromkeys(ids) if id in items]
        return sort_newest((one for one in chosen if _is_accepted(one, where)), limit)

    def change(self, attempt: Attempt[T]) -> T:
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

# The fields that have places of their own in a record; the others are its body.
_OWN_PLACES = frozenset("id sources created_at valid_from valid_to span spans".split())
_MANY = 1000


class RecordRows(Rows):
    """The graph of a project in its memory's store. `close` is called when the graph is closed."""

    place = "records"

    def __init__(self, engine: Engine, close: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._close = close
        # In a transaction: what it read. The next version of a record is made from that version.
        self._read: dict[str, Record] | None = None

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
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
            wanted = Where(
                kinds={TABLES[kind]},
                projects={self._engine.project},
                statuses={Status.ACTIVE},
                tagged=tags,
                keys=where.types,
                valid_at=where.at,
                linked=None if where.source is None else {where.source},
            )
            records = list(store.scan(wanted, limit))
        if self._read is not None:
            self._read = {one.id: one for one in records} | self._read
        return [_decode(kind, one) for one in records]

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
        tables = change.list_tables()
        fresh = {self._name_record(kind, one.id): one for kind, put, _ in tables for one in put}
        # What was retired by a writer that was killed before it erased it may come back.
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
        self._close()

    def _name_record(self, kind: type[Item], id: str) -> str:
        """Two projects of one store may know people of the same name. Records sort as what they hold does."""
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


def _decode(kind: type[Item], record: Record) -> Item:
    values: dict[str, Any] = dict(record.body)
    if kind is Relationship:
        values |= {"valid_from": record.valid_from, "valid_to": record.valid_to}
    id = values.pop(record.kind)
    return make_item(kind, **values, id=id, sources=record.links, created_at=record.created_at)
