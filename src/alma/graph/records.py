"""The graph in the user's own store: entities and relations are records like everything else that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

from ..engine.admit import build, commit, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..ports import Countable
from ..types.graph import Direction, Entity, Relationship, end_tags
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status
from .rows import Attempt, Change, Wanted

T = TypeVar("T")
ENTITY, RELATION = "entity", "relation"
_MANY = 1000


class RecordRows:
    """`close` is what is to be done when the graph is let go of; by default nothing, the store is its owner's."""

    place = "records"

    def __init__(self, engine: Engine, close: Callable[[], None] | None = None) -> None:
        self._engine = engine
        self._close = close

    # -- reading

    def entities(self, ids: Collection[str]) -> list[Entity]:
        return [_entity(one) for one in self._get(ENTITY, ids)]

    def named(self, keys: Collection[str]) -> list[Entity]:
        return [_entity(one) for one in self._scan(ENTITY, tagged=set(keys))]

    def listed(self, type: str | None, limit: int) -> list[Entity]:
        return [_entity(one) for one in self._scan(ENTITY, limit, keys=None if type is None else {type})]

    def relationships(self, ids: Collection[str]) -> list[Relationship]:
        return [_relationship(one) for one in self._get(RELATION, ids)]

    def edges(self, ends: Collection[str] | None, wanted: Wanted, limit: int) -> list[Relationship]:
        tags = None if ends is None else {tag for end in ends for tag in end_tags(end, wanted.direction)}
        found = self._scan(RELATION, limit, tagged=tags, keys=wanted.types, valid_at=wanted.at)
        return [_relationship(one) for one in found]

    def between(self, pairs: Collection[tuple[str, str]]) -> list[Relationship]:
        tags = {_both(first, second) for first, second in pairs}
        return [_relationship(one) for one in self._scan(RELATION, tagged=tags)]

    def sourced(self, sources: Collection[str]) -> tuple[list[Entity], list[Relationship]]:
        linked = set(sources)
        return (
            [_entity(one) for one in self._scan(ENTITY, linked=linked)],
            [_relationship(one) for one in self._scan(RELATION, linked=linked)],
        )

    def counts(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        types: Counter[str] = Counter(one.key for one in self._scan(ENTITY))
        related: Counter[str] = Counter(one.key for one in self._scan(RELATION))
        return dict(types), dict(related), self._number(RELATION, valid_at=at)

    def _number(self, kind: str, **conditions: Any) -> int:
        where = self._where(kind, **conditions)
        store = self._engine.store
        return sum(store.count(where).values()) if isinstance(store, Countable) else sum(1 for _ in store.scan(where))

    def _get(self, kind: str, ids: Iterable[str]) -> list[Record]:
        wanted = [record_id(self._engine.project, kind, id) for id in dict.fromkeys(ids)]
        found = [one for one in self._engine.store.get(wanted) if one.status is Status.ACTIVE] if wanted else []
        return self._seen(found)

    def _scan(self, kind: str, limit: int | None = None, **conditions: Any) -> list[Record]:
        return self._seen(list(self._engine.store.scan(self._where(kind, **conditions), limit)))

    def _where(self, kind: str, **conditions: Any) -> Where:
        return Where(kinds={kind}, projects={self._engine.project}, statuses={Status.ACTIVE}, **conditions)

    def _seen(self, records: list[Record]) -> list[Record]:
        return records

    # -- writing

    def change(self, attempt: Attempt[T]) -> T:
        removed: list[str] = []

        def once() -> tuple[T, list[Record]]:
            writing = _Writing(self._engine)
            result, change = attempt(writing)
            removed[:] = writing.removed(change)
            return result, writing.records(change)

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
        self._held: dict[str, Record] = {}

    def _seen(self, records: list[Record]) -> list[Record]:
        for one in records:
            self._held.setdefault(one.id, one)
        return records

    def records(self, change: Change) -> list[Record]:
        """The next versions. What goes is retired in the same transaction, and erased after it."""
        self._left_over(change)
        put = [self._put(ENTITY, one.id, **_of_entity(one)) for one in change.entities]
        put += [self._put(RELATION, one.id, **_of_relationship(one)) for one in change.relationships]
        gone = [self._held[id] for id in self.removed(change) if id in self._held]
        return put + [revise(self._engine, one, status=Status.RETIRED) for one in gone]

    def removed(self, change: Change) -> list[str]:
        project = self._engine.project
        return [record_id(project, ENTITY, id) for id in change.removed_entities] + [
            record_id(project, RELATION, id) for id in change.removed_relationships
        ]

    def _put(self, kind: str, id: str, *, body: dict[str, Any], **fields: Any) -> Record:
        name = record_id(self._engine.project, kind, id)
        held = self._held.get(name)
        if held is None:
            draft = Draft(kind=kind, body=body, provenance=Provenance(Origin.SYSTEM))
            return build(self._engine, draft, (), id=name, **fields)
        text = KINDS[kind].text(body)
        return revise(self._engine, held, body=body, text=text, status=Status.ACTIVE, **fields)

    def _left_over(self, change: Change) -> None:
        """What was retired by a writer that was killed before it erased it may come back."""
        project = self._engine.project
        ids = [record_id(project, ENTITY, one.id) for one in change.entities]
        ids += [record_id(project, RELATION, one.id) for one in change.relationships]
        unseen = [id for id in ids if id not in self._held]
        if unseen:
            self._held |= {one.id: one for one in self._engine.store.get(unseen) if one.status is Status.RETIRED}


def record_id(project: str, kind: str, id: str) -> str:
    """Two projects of one store may know people of the same name. Records sort as what they hold does."""
    home = blake2b(project.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{KINDS[kind].prefix}_{home}_{id}"


def _both(subject: str, object: str) -> str:
    return f"{subject} → {object}"


def _of_entity(one: Entity) -> dict[str, Any]:
    return {
        "body": {
            "entity": one.id,
            "name": one.name,
            "type": one.type,
            "aliases": list(one.aliases),
            "attributes": dict(one.attributes),
            "confidence": one.confidence,
            "absorbed": list(one.absorbed),
        },
        "key": one.type,
        "tags": one.keys,
        "links": one.sources,
        "created_at": one.created_at,
    }


def _entity(record: Record) -> Entity:
    body = record.body
    return Entity(
        name=body["name"],
        type=body["type"],
        id=body["entity"],
        aliases=tuple(body["aliases"]),
        attributes=body["attributes"],
        sources=record.links,
        confidence=body["confidence"],
        absorbed=tuple(body["absorbed"]),
        created_at=record.created_at,
    )


def _of_relationship(one: Relationship) -> dict[str, Any]:
    return {
        "body": {
            "relation": one.id,
            "subject": one.subject,
            "type": one.type,
            "object": one.object,
            "attributes": dict(one.attributes),
            "confidence": one.confidence,
        },
        "key": one.type,
        "tags": (
            *end_tags(one.subject, Direction.OUT),
            *end_tags(one.object, Direction.IN),
            _both(one.subject, one.object),
        ),
        "links": one.sources,
        "valid_from": one.valid_from,
        "valid_to": one.valid_to,
        "created_at": one.created_at,
    }


def _relationship(record: Record) -> Relationship:
    body = record.body
    return Relationship(
        subject=body["subject"],
        type=body["type"],
        object=body["object"],
        id=body["relation"],
        valid_from=record.valid_from,
        valid_to=record.valid_to,
        confidence=body["confidence"],
        attributes=body["attributes"],
        sources=record.links,
        created_at=record.created_at,
    )
