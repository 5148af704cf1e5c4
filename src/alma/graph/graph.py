"""`Graph`: who and what is known in a project, over the rows of any backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from ..engine import validate
from ..engine.admit import clean
from ..errors import NotFoundError, ValidationError
from ..ports import Clock
from ..types import times
from ..types.graph import (
    Direction,
    Entity,
    GraphStats,
    Neighbour,
    Path,
    Relationship,
    Subgraph,
    Suggestion,
    relationship_id,
)
from ..types.names import name_key
from . import checks, settle, walk
from .likeness import suggestions
from .rows import Change, Reading, Rows, Wanted

_COMPARED = 5_000
"""So many entities are looked at for suggestions, the newest."""


class Graph:
    """The whole of `alma.ports.GraphStore`; a backend gives only `Rows`."""

    def __init__(self, rows: Rows, project_id: str = "default", *, clock: Clock = times.now) -> None:
        self.project_id = validate.name("project_id", project_id)
        self.rows = rows
        self.clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.rows.close()

    # -- telling

    def add_entity(self, entity: Entity) -> Entity:
        return self.add_many([entity])[0][0]

    def add_relationship(self, relationship: Relationship, *, supersede: bool = False) -> Relationship:
        given = checks.relationship(relationship)

        def attempt(held: Reading) -> tuple[Relationship, Change]:
            telling = Telling(held, self.clock())
            telling.know([], [given])
            made = telling.relate(given, supersede=supersede)
            if made is None:
                raise ValidationError(f"a relationship needs two entities; both ends are {given.subject!r}")
            return made, telling.change()

        return self.rows.change(attempt)

    def add_many(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship] = ()
    ) -> tuple[list[Entity], list[Relationship]]:
        """One whose two ends turn out to be the same entity is left out."""
        made, joined = self.tell(entities, relationships)
        return made, [one for one in joined if one is not None]

    def tell(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship]
    ) -> tuple[list[Entity], list[Relationship | None]]:
        """As `add_many`, and each is answered: with None where both ends are the same entity."""
        named = [checks.entity(one) for one in validate.many("entities", entities)]
        related = [checks.relationship(one) for one in validate.many("relationships", relationships)]

        def attempt(held: Reading) -> tuple[tuple[list[Entity], list[Relationship | None]], Change]:
            telling = Telling(held, self.clock())
            telling.know(named, related)
            ids = [telling.name(one) for one in named]
            made = [telling.relate(given) for given in related]
            joined = [telling.relationships[one.id] if one is not None else None for one in made]
            return ([telling.entities[id] for id in ids], joined), telling.change()

        return self.rows.change(attempt)

    def end_relationship(self, id: str, at: datetime | str | None = None) -> Relationship:
        name = validate.name("id", id)

        def attempt(held: Reading) -> tuple[Relationship, Change]:
            one = _relationship(held, name, self.project_id)
            moment = checks.moment("at", at, self.clock())
            if one.valid_from is not None and moment < one.valid_from:
                raise ValidationError(f"{name} began at {one.valid_from.isoformat()}; it cannot end before that")
            ended = replace(one, valid_to=moment)
            return ended, Change(relationships=(ended,))

        return self.rows.change(attempt)

    def merge(self, keep: str, *others: str) -> Entity:
        if not others:
            raise ValidationError("merge needs at least two ids: the one that is kept, and those that are the same")

        def attempt(held: Reading) -> tuple[Entity, Change]:
            first = self._entity(held, keep)
            rest = {one.id: one for id in others if (one := self._entity(held, id)).id != first.id}
            return _merged(held, first, list(rest.values()))

        return self.rows.change(attempt)

    def forget_source(self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()) -> int:
        return sum(self.forgotten(source, ended_at=ended_at, keep=keep))

    def forgotten(
        self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()
    ) -> tuple[int, int, int]:
        """As `forget_source`, told apart: how many entities and relationships went, and how many ended."""
        name = validate.name("source", source)
        moment = validate.moment("ended_at", ended_at)
        kept = frozenset(keep)

        def attempt(held: Reading) -> tuple[tuple[int, int, int], Change]:
            change = _without(held, name, moment, kept)
            gone = len(change.removed_entities), len(change.removed_relationships), _ended(change, moment)
            return gone, change

        return self.rows.change(attempt)

    def delete_entity(self, id: str) -> bool:
        name = validate.name("id", id)

        def attempt(held: Reading) -> tuple[bool, Change]:
            found = _resolved(held, name)
            if found is None:
                return False, Change()
            related = _all_edges(held, [found.id])
            gone = tuple(one.id for one in related)
            return True, Change(removed_entities=(found.id,), removed_relationships=gone)

        return self.rows.change(attempt)

    def delete_relationship(self, id: str) -> bool:
        name = validate.name("id", id)

        def attempt(held: Reading) -> tuple[bool, Change]:
            found = tuple(one.id for one in held.relationships([name]))
            return bool(found), Change(removed_relationships=found)

        return self.rows.change(attempt)

    # -- asking

    def get(self, id: str) -> Entity:
        return self._entity(self.rows, id)

    def get_relationship(self, id: str) -> Relationship:
        return _relationship(self.rows, validate.name("id", id), self.project_id)

    def find(self, name: str | None = None, *, type: str | None = None, limit: int = 50) -> list[Entity]:
        wanted = None if type is None else checks.type_name("type", type)
        most = checks.limit(limit)
        if name is None:
            return self.rows.listed(wanted, most)
        key = name_key(validate.name("name", name))
        found = [one for one in self.rows.named([key]) if wanted is None or one.type == wanted]
        return found[:most]

    def relationships(
        self,
        id: str | None = None,
        *,
        direction: str = Direction.BOTH,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        history: bool = False,
        limit: int = 100,
    ) -> list[Relationship]:
        wanted = self._wanted(direction, types, as_of)
        if history:
            wanted = replace(wanted, at=None)
        ends = None if id is None else [self.get(id).id]
        return self.rows.edges(ends, wanted, checks.limit(limit))

    def neighbours(
        self,
        id: str,
        *,
        direction: str = Direction.BOTH,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        limit: int = 100,
    ) -> list[Neighbour]:
        own = self.get(id).id
        edges = self.rows.edges([own], self._wanted(direction, types, as_of), checks.limit(limit))
        found = {one.id: one for one in self.rows.entities({edge.other(own) for edge in edges})}
        return [Neighbour(found[edge.other(own)], edge) for edge in edges if edge.other(own) in found]

    def traverse(
        self,
        id: str,
        depth: int = 2,
        *,
        direction: str = Direction.BOTH,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        limit: int = 100,
    ) -> Subgraph:
        wanted = self._wanted(direction, types, as_of)
        return walk.traverse(self.rows, self.get(id), checks.depth(depth), wanted, checks.limit(limit))

    def paths(
        self,
        start: str,
        end: str,
        *,
        depth: int = 4,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        limit: int = 10,
    ) -> list[Path]:
        wanted = self._wanted(Direction.BOTH, types, as_of)
        return walk.paths(self.rows, self.get(start), self.get(end), checks.depth(depth), wanted, checks.limit(limit))

    def suggest_merges(self, limit: int = 20) -> list[Suggestion]:
        return suggestions(self.rows.listed(None, _COMPARED))[: checks.limit(limit)]

    def stats(self) -> GraphStats:
        entities, relationships, current = self.rows.counts(self.clock())
        return GraphStats(
            entities=sum(entities.values()),
            relationships=sum(relationships.values()),
            current=current,
            entity_types=dict(sorted(entities.items())),
            relationship_types=dict(sorted(relationships.items())),
        )

    def _entity(self, held: Reading, id: str) -> Entity:
        found = _resolved(held, validate.name("id", id))
        if found is None:
            raise NotFoundError(f"there is no entity {id!r} in the graph of project {self.project_id!r}")
        return found

    def _wanted(self, direction: str, types: Iterable[str] | None, as_of: datetime | str | None) -> Wanted:
        return Wanted(
            direction=validate.choice("direction", direction, Direction),
            types=checks.types(types),
            at=checks.moment("as_of", as_of, self.clock()),
        )


class Telling:
    """What a list of statements makes of what is held."""

    def __init__(self, held: Reading, now: datetime) -> None:
        self.entities: dict[str, Entity] = {}
        self.relationships: dict[str, Relationship] = {}
        self._held = held
        self._now = now
        self._ids: dict[str, str] = {}
        self._between: dict[tuple[str, str], list[Relationship]] = {}
        self._changed: dict[str, None] = {}

    def know(self, named: Sequence[Entity], related: Sequence[Relationship]) -> None:
        """Look up at once all that will be spoken of."""
        ends = [end for one in related for end in (one.subject, one.object)]
        self._ids = _resolve(self._held, dict.fromkeys([*(one.id for one in named), *ends]), self.entities)
        pairs = {self._place(one) for one in related}
        self._between = {place: [] for place in pairs if place[0] and place[1]}
        for one in self._held.between(self._between) if self._between else ():
            self._between[one.subject, one.object].append(one)

    def _place(self, one: Relationship) -> tuple[str, str]:
        return self._ids.get(one.subject, ""), self._ids.get(one.object, "")

    def name(self, given: Entity) -> str:
        """The id that the entity is held by."""
        id = self._ids.get(given.id, given.id)
        known = self.entities.get(id)
        fresh = _first(given, self._now) if known is None else settle.told_again(known, given)
        if fresh != known:
            self.entities[id] = fresh
            self._changed[id] = None
        self._ids[given.id] = id
        return id

    def relate(self, given: Relationship, *, supersede: bool = False) -> Relationship | None:
        subject, object = self._end(given.subject), self._end(given.object)
        if subject == object:
            return None
        own = given.id if given.id != relationship_id(given.subject, given.type, given.object, given.valid_from) else ""
        # Without an id of its own it gets one here, where its ends are known.
        told = replace(given, subject=subject, object=object, id=own)
        if own:
            self._unlike(told)
        between = [self.relationships.get(one.id, one) for one in self._between.get((subject, object), ())]
        same = [one for one in between if one.type == told.type]
        held = next((one for one in same if own and one.id == own), None) or settle.matching(same, told, self._now)
        if held is None:
            fresh = settle.begun(told, same, self._now)
        else:
            fresh = settle.confirmed(held, told, [one for one in same if one.id != held.id])
        if supersede:
            fresh, ended = settle.superseding(fresh, self._rivals(told), self._now)
            for one in ended:
                self._keep(one)
        self._keep(fresh)
        return fresh

    def change(self) -> Change:
        return Change(
            entities=tuple(self.entities[id] for id in self._changed),
            relationships=tuple(self.relationships.values()),
        )

    def _end(self, id: str) -> str:
        known = self._ids.get(id) or self._ids.get(clean(id))
        if known is None:
            raise NotFoundError(f"there is no entity {id!r}; add it before its relationships")
        return known

    def _rivals(self, told: Relationship) -> list[Relationship]:
        wanted = Wanted(direction=Direction.OUT, types={told.type})
        found = {one.id: one for one in self._held.edges([told.subject], wanted, checks.MAX_LIMIT)}
        found |= self.relationships
        return [one for one in found.values() if (one.subject, one.type) == (told.subject, told.type)]

    def _unlike(self, told: Relationship) -> None:
        for one in [*self._held.relationships([told.id]), *filter(None, [self.relationships.get(told.id)])]:
            if (one.subject, one.type, one.object) != (told.subject, told.type, told.object):
                raise ValidationError(f"{told.id!r} is the id of another relationship: {one.subject} {one.type}")

    def _keep(self, one: Relationship) -> None:
        self.relationships[one.id] = one
        between = self._between.setdefault((one.subject, one.object), [])
        if all(held.id != one.id for held in between):
            between.append(one)


def _first(given: Entity, now: datetime) -> Entity:
    aliases = settle.told_again(replace(given, aliases=()), given).aliases
    return replace(given, aliases=aliases, sources=given.sources[-settle.MOST_SOURCES :], created_at=now)


def _resolved(held: Reading, id: str) -> Entity | None:
    found: dict[str, Entity] = {}
    ids = _resolve(held, [id], found)
    return found[ids[id]] if id in ids else None


def _resolve(held: Reading, ids: Iterable[str], found: dict[str, Entity]) -> dict[str, str]:
    """By which id each is held: its own, that of the one it was merged into, or that of the only one so named."""
    wanted = list(ids)
    found |= {one.id: one for one in held.entities(wanted)}
    known = {id: id for id in wanted if id in found}
    missing = [id for id in wanted if id not in known]
    if not missing:
        return known
    named = held.named({key for id in missing for key in (id, name_key(id))})
    for id in missing:
        merged = [one for one in named if id in one.absorbed]
        called = merged or [one for one in named if name_key(id) in one.keys]
        if len(called) == 1:
            found[called[0].id] = called[0]
            known[id] = called[0].id
    return known


def _relationship(held: Reading, id: str, project: str) -> Relationship:
    found = held.relationships([id])
    if not found:
        raise NotFoundError(f"there is no relationship {id!r} in the graph of project {project!r}")
    return found[0]


def _all_edges(held: Reading, ends: Sequence[str]) -> list[Relationship]:
    """However many there are: what is removed or merged must be whole."""
    limit = checks.MAX_LIMIT
    while len(found := held.edges(ends, Wanted(), limit)) == limit:
        limit *= 10
    return found


def _merged(held: Reading, keep: Entity, others: Sequence[Entity]) -> tuple[Entity, Change]:
    if not others:
        return keep, Change()
    gone = [one.id for one in others]
    made = settle.united(keep, others)
    moved = [settle.repointed(one, gone, keep.id) for one in _all_edges(held, [keep.id, *gone])]
    loops = [one.id for one in moved if one.subject == one.object]
    kept, same = settle.collapsed([one for one in moved if one.subject != one.object])
    return made, Change((made,), tuple(kept), tuple(gone), (*loops, *same))


def _without(held: Reading, source: str, ended_at: datetime | None, keep: frozenset[str]) -> Change:
    """Less one source. An entity that nothing else speaks of goes too; one that was ended stays for the past's sake."""
    entities, relationships = held.sourced([source])
    less = [replace(one, sources=_left(one.sources, source)) for one in relationships if one.id not in keep]
    bare = [one for one in less if not one.sources]
    gone = {one.id for one in bare} if ended_at is None else set()
    ends = [replace(one, valid_to=_no_later(one, ended_at)) for one in bare if ended_at is not None]
    named = [replace(one, sources=_left(one.sources, source)) for one in entities if one.id not in keep]
    lone = [one for one in named if not one.sources and not _spoken_of(held, one.id, gone)]
    orphans = {one.id for one in lone} if ended_at is None else set()
    return Change(
        entities=tuple(one for one in named if one.id not in orphans),
        relationships=(*(one for one in less if one.sources), *ends),
        removed_entities=tuple(orphans),
        removed_relationships=tuple(gone),
    )


def _left(sources: Sequence[str], source: str) -> tuple[str, ...]:
    return tuple(one for one in sources if one != source)


def _no_later(one: Relationship, moment: datetime) -> datetime:
    began = max(moment, one.valid_from) if one.valid_from is not None else moment
    return began if one.valid_to is None else min(one.valid_to, began)


def _spoken_of(held: Reading, id: str, gone: set[str]) -> bool:
    return any(one.id not in gone for one in held.edges([id], Wanted(), len(gone) + 1))


def _ended(change: Change, moment: datetime | None) -> int:
    return 0 if moment is None else sum(not one.sources for one in change.relationships)
