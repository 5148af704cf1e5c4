"""`Graph`: who and what is known in a project, over the rows of any backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from ..engine import validate
from ..errors import NotFoundError, ValidationError
from ..ports import Clock
from ..types import times
from ..types.graph import Direction, Entity, GraphStats, Neighbour, Path, Relationship, Subgraph, Suggestion, name_key
from . import checks, walk
from .likeness import suggest_merges
from .revision import Revision, merge_entities, remove_source, resolve_entities
from .rows import Change, EntityFilter, Reading, RelationFilter, Rows

_COMPARED = 5_000
"""So many entities are looked at for suggestions, the newest."""


class Graph:
    """Keeps the entities and relationships of one project. The in-memory one is the model (`alma.testing`).

    `as_of` is the moment asked about, now when it is left out; with `history` the ended ones are there too. A merged
    entity answers to all its ids. What is not usable raises ValidationError, an unknown id NotFoundError.
    """

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

    # -- writing

    def add_entity(self, entity: Entity) -> Entity:
        """The entity as it is held now: one that is known by its id or merged into another gains what is new."""
        return self.add_many([entity])[0][0]

    def add_relationship(self, relationship: Relationship, *, supersede: bool = False) -> Relationship:
        """Return the stored relationship; stating the same one again confirms it and adds no second.

        With `supersede` the others of this subject and type end where it begins.
        """
        stated = checks.relationship(relationship)

        def attempt(rows: Reading) -> tuple[Relationship, Change]:
            revision = Revision(rows, self.clock(), [], [stated])
            stored = revision.add_relationship(stated, supersede=supersede)
            if stored is None:
                raise ValidationError(f"a relationship needs two entities; both ends are {stated.subject!r}")
            return stored, revision.to_change()

        return self.rows.change(attempt)

    def add_many(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship] = ()
    ) -> tuple[list[Entity], list[Relationship]]:
        """All or none, in one transaction. One whose two ends turn out to be the same entity is left out."""
        stored, related = self.add_each(entities, relationships)
        return stored, [one for one in related if one is not None]

    def add_each(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship]
    ) -> tuple[list[Entity], list[Relationship | None]]:
        """As `add_many`, and each is answered: with None where both ends are the same entity."""
        named = [checks.entity(one) for one in validate.many("entities", entities)]
        related = [checks.relationship(one) for one in validate.many("relationships", relationships)]

        def attempt(rows: Reading) -> tuple[tuple[list[Entity], list[Relationship | None]], Change]:
            revision = Revision(rows, self.clock(), named, related)
            ids = [revision.add_entity(one) for one in named]
            stored = [revision.add_relationship(one) for one in related]
            edges = [None if one is None else revision.relationships[one.id] for one in stored]
            return ([revision.entities[id] for id in ids], edges), revision.to_change()

        return self.rows.change(attempt)

    def end_relationship(self, id: str, at: datetime | str | None = None) -> Relationship:
        """It held until then, or until now."""
        name = validate.name("id", id)

        def attempt(rows: Reading) -> tuple[Relationship, Change]:
            one = self._relationship(rows, name)
            moment = validate.moment("at", at) or self.clock()
            if one.valid_from is not None and moment < one.valid_from:
                raise ValidationError(f"{name} began at {one.valid_from.isoformat()}; it cannot end before that")
            ended = replace(one, valid_to=moment)
            return ended, Change(relationships=(ended,))

        return self.rows.change(attempt)

    def merge(self, keep: str, *others: str) -> Entity:
        """They are one: names, relationships and sources of the others go to the one that is kept."""
        if not others:
            raise ValidationError("merge needs at least two ids: the one that is kept, and those that are the same")

        def attempt(rows: Reading) -> tuple[Entity, Change]:
            first = self._entity(rows, keep)
            rest = {one.id: one for id in others if (one := self._entity(rows, id)).id != first.id}
            return merge_entities(rows, first, list(rest.values()))

        return self.rows.change(attempt)

    def forget_source(self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()) -> int:
        """What came from this record alone ends at a moment, or is removed when none is given; how much that was.

        The ids in `keep` stay as they are.
        """
        return sum(self.forget_each(source, ended_at=ended_at, keep=keep))

    def forget_each(
        self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()
    ) -> tuple[int, int, int]:
        """As `forget_source`, counted apart: entities and relationships that were removed, and those that ended."""
        name = validate.name("source", source)
        moment = validate.moment("ended_at", ended_at)
        kept = frozenset(keep)

        def attempt(rows: Reading) -> tuple[tuple[int, int, int], Change]:
            change = remove_source(rows, name, moment, kept)
            ended = sum(not one.sources for one in change.relationships)
            return (len(change.removed_entities), len(change.removed_relationships), ended), change

        return self.rows.change(attempt)

    def delete_entity(self, id: str) -> bool:
        """Remove it for good with all its relationships; whether it was there."""
        name = validate.name("id", id)

        def attempt(rows: Reading) -> tuple[bool, Change]:
            entity = resolve_entities(rows, [name]).get(name)
            if entity is None:
                return False, Change()
            edges = rows.find_relationships(RelationFilter(ends=[entity.id]))
            removed = tuple(one.id for one in edges)
            return True, Change(removed_entities=(entity.id,), removed_relationships=removed)

        return self.rows.change(attempt)

    def delete_relationship(self, id: str) -> bool:
        name = validate.name("id", id)

        def attempt(rows: Reading) -> tuple[bool, Change]:
            removed = tuple(one.id for one in rows.find_relationships(RelationFilter(ids=[name])))
            return bool(removed), Change(removed_relationships=removed)

        return self.rows.change(attempt)

    # -- reading

    def get(self, id: str) -> Entity:
        return self._entity(self.rows, id)

    def get_relationship(self, id: str) -> Relationship:
        return self._relationship(self.rows, validate.name("id", id))

    def find(self, name: str | None = None, *, type: str | None = None, limit: int = 50) -> list[Entity]:
        """By name or alias, by type, or all: newest first. Case and white space make no difference."""
        kind = None if type is None else checks.type_name("type", type)
        most = checks.limit(limit)
        keys = None if name is None else [name_key(validate.name("name", name))]
        return self.rows.find_entities(EntityFilter(keys=keys, type=kind), most)

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
        """Of one entity, or of all: newest first."""
        where = self._filter(direction, types, as_of)
        ends = None if id is None else [self.get(id).id]
        where = replace(where, ends=ends, at=None if history else where.at)
        return self.rows.find_relationships(where, checks.limit(limit))

    def neighbours(
        self,
        id: str,
        *,
        direction: str = Direction.BOTH,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        limit: int = 100,
    ) -> list[Neighbour]:
        """Those one step away and how, newest first."""
        own = self.get(id).id
        where = replace(self._filter(direction, types, as_of), ends=[own])
        edges = self.rows.find_relationships(where, checks.limit(limit))
        others = self.rows.find_entities(EntityFilter(ids={edge.other(own) for edge in edges}))
        by_id = {one.id: one for one in others}
        return [Neighbour(by_id[edge.other(own)], edge) for edge in edges if edge.other(own) in by_id]

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
        """Those at most `depth` steps away, nearest first, at most `limit` of them."""
        where = self._filter(direction, types, as_of)
        return walk.traverse(self.rows, self.get(id), checks.depth(depth), where, checks.limit(limit))

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
        """Ways from one to the other that visit nobody twice, shortest first, along or against the arrows."""
        where = self._filter(Direction.BOTH, types, as_of)
        ends = self.get(start), self.get(end)
        return walk.find_paths(self.rows, *ends, checks.depth(depth), where, checks.limit(limit))

    def suggest_merges(self, limit: int = 20) -> list[Suggestion]:
        """Which entities may be one, surest first."""
        most = checks.limit(limit)
        return suggest_merges(self.rows.find_entities(EntityFilter(), _COMPARED))[:most]

    def stats(self) -> GraphStats:
        entities, relationships, current = self.rows.count_types(self.clock())
        return GraphStats(
            entities=sum(entities.values()),
            relationships=sum(relationships.values()),
            current=current,
            entity_types=dict(sorted(entities.items())),
            relationship_types=dict(sorted(relationships.items())),
        )

    def _entity(self, rows: Reading, id: str) -> Entity:
        name = validate.name("id", id)
        entity = resolve_entities(rows, [name]).get(name)
        if entity is None:
            raise NotFoundError(f"there is no entity {id!r} in the graph of project {self.project_id!r}")
        return entity

    def _relationship(self, rows: Reading, id: str) -> Relationship:
        for one in rows.find_relationships(RelationFilter(ids=[id])):
            return one
        raise NotFoundError(f"there is no relationship {id!r} in the graph of project {self.project_id!r}")

    def _filter(self, direction: str, types: Iterable[str] | None, as_of: datetime | str | None) -> RelationFilter:
        names = None if types is None else validate.names("types", types)
        return RelationFilter(
            direction=validate.choice("direction", direction, Direction),
            types=None if names is None else frozenset(checks.type_name("types", one) for one in names),
            at=validate.moment("as_of", as_of) or self.clock(),
        )


GraphStore = Graph
"""The name for annotations: every backend is reached through it."""
