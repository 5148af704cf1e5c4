"""The graph in the user's own store: entities and relations are records like everything else that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

from ..engine.admit import build, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.transaction import commit
from ..ports import Countable
from ..types.graph import Direction, Entity, Relationship, end_tags
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status
from .rows import Attempt, Change, EntityFilter, Item, RelationFilter

T = TypeVar("T")
ENTITY, RELATION = "entity", "relation"
_BODIES: dict[str, tuple[str, ...]] = {
    ENTITY: ("name", "type", "aliases", "attributes", "confidence", "absorbed"),
    RELATION: ("subject", "type", "object", "attributes", "confidence"),
}
"""The fields that are kept in a record's body; the others have places of their own."""
_MANY = 1000


class RecordRows:
    """`close` is what is to be done when the graph is let go of; by default nothing, the store is its owner's."""

    place = "records"

    def __init__(self, engine: Engine, close: Callable[[], None] | None = None) -> None:
        self._engine = engine
        self._close = close

    # -- reading

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
        found = self._find(RELATION, where.ids, limit, tagged=tags, keys=where.types, valid_at=where.at, linked=linked)
        return [_decode(Relationship, one) for one in found]

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        types, related = (Counter(one.key for one in self._find(kind)) for kind in (ENTITY, RELATION))
        store, where = self._engine.store, self._where(RELATION, valid_at=at)
        current = store.count(where).values() if isinstance(store, Countable) else (1 for _ in store.scan(where))
        return dict(types), dict(related), sum(current)

    def _find(
        self, kind: str, ids: Collection[str] | None = None, limit: int | None = None, **conditions: Any
    ) -> list[Record]:
        if ids is None:
            return list(self._engine.store.scan(self._where(kind, **conditions), limit))
        names = [record_id(self._engine.project, kind, id) for id in dict.fromkeys(ids)]
        return [one for one in self._engine.store.get(names) if one.status is Status.ACTIVE] if names else []

    def _where(self, kind: str, **conditions: Any) -> Where:
        return Where(kinds={kind}, projects={self._engine.project}, statuses={Status.ACTIVE}, **conditions)

    # -- writing

    def change(self, attempt: Attempt[T]) -> T:
        removed: list[str] = []

        def once() -> tuple[T, list[Record]]:
            writing = _Writing(self._engine)
            result, change = attempt(writing)
            records, removed[:] = writing.list_records(change)
            return result, records

        result = commit(self._engine, once)
        for start in range(0, len(removed), _MANY):
            self._engine.store.delete(removed[start : start + _MANY])
        return result

    def close(self) -> None:
        if self._close is not None:
            self._close()


class _Writing(RecordRows):
    """Remembers what it read: the next version of a record is made from the version that was looked at."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._seen: dict[str, Record] = {}

    def _find(self, kind: str, *ids_and_limit: Any, **conditions: Any) -> list[Record]:
        records = super()._find(kind, *ids_and_limit, **conditions)
        for one in records:
            self._seen.setdefault(one.id, one)
        return records

    def list_records(self, change: Change) -> tuple[list[Record], list[str]]:
        """Return the next versions, and the ids to erase: what goes is retired in the same transaction before."""
        project = self._engine.project
        items = [(ENTITY, one) for one in change.entities] + [(RELATION, one) for one in change.relationships]
        fresh = {record_id(project, kind, one.id): _encode(kind, one) for kind, one in items}
        # What was retired by a writer that was killed before it erased it may come back.
        unseen = [id for id in fresh if id not in self._seen]
        left_over = self._engine.store.get(unseen) if unseen else []
        self._seen |= {one.id: one for one in left_over if one.status is Status.RETIRED}
        records = []
        for id, (kind, body, fields) in fresh.items():
            if stored := self._seen.get(id):
                text = KINDS[kind].text(body)
                records.append(revise(self._engine, stored, body=body, text=text, status=Status.ACTIVE, **fields))
            else:
                draft = Draft(kind=kind, body=body, provenance=Provenance(Origin.SYSTEM))
                records.append(build(self._engine, draft, (), id=id, **fields))
        removed = [record_id(project, ENTITY, id) for id in change.removed_entities]
        removed += [record_id(project, RELATION, id) for id in change.removed_relationships]
        retired = [self._seen[id] for id in removed if id in self._seen]
        return records + [revise(self._engine, one, status=Status.RETIRED) for one in retired], removed


def record_id(project: str, kind: str, id: str) -> str:
    """Two projects of one store may know people of the same name. Records sort as what they hold does."""
    home = blake2b(project.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{KINDS[kind].prefix}_{home}_{id}"


def _encode(kind: str, one: Entity | Relationship) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the kind, the body and the other fields of the record of an entity or a relationship."""
    values = {name: getattr(one, name) for name in _BODIES[kind]}
    body = {kind: one.id, **{name: list(each) if isinstance(each, tuple) else each for name, each in values.items()}}
    body["attributes"] = dict(one.attributes)
    fields: dict[str, Any] = {"key": one.type, "links": one.sources, "created_at": one.created_at}
    if isinstance(one, Entity):
        return kind, body, {**fields, "tags": one.keys}
    ends = (*end_tags(one.subject, Direction.OUT), *end_tags(one.object, Direction.IN))
    fields["tags"] = (*ends, f"{one.subject} → {one.object}")
    return kind, body, {**fields, "valid_from": one.valid_from, "valid_to": one.valid_to}


def _decode(kind: type[Item], record: Record) -> Item:
    values = {name: record.body[name] for name in _BODIES[record.kind]}
    values |= {name: tuple(values[name]) for name in ("aliases", "absorbed") if name in values}
    if record.kind == RELATION:
        values |= {"valid_from": record.valid_from, "valid_to": record.valid_to}
    return kind(**values, id=record.body[record.kind], sources=record.links, created_at=record.created_at)
