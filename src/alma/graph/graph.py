"""`Graph`: who and what is known in a project, over the rows of any backend."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable
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
    name_key,
    relationship_id,
)
from .revision import MAX_LIMIT, Revision, merge_entities, remove_source, resolve_entities, suggest_merges
from .rows import EntityFilter, GraphChange, RelationFilter, RowReader, Rows

_COMPARED = 5_000  # So many entities are looked at for suggestions, the newest.
_EDGES = 4  # So many relationships are looked at in one step for each entity that is wanted.
_MAX_DEPTH = 10
_MAX_EDGES = 20_000
_MAX_TRIES = 100_000
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_JOINT = re.compile(r"[\s-]+")


# -- what comes from outside


def check_type(label: str, value: object) -> str:
    """`Works At`, `WORKS-AT` and `works_at` are one; anything but letters, digits and underscores is refused."""
    name = _JOINT.sub("_", validate.name(label, value)).lower()
    if not _TYPE.fullmatch(name):
        raise ValidationError(
            f"{label} must be a letter followed by letters, digits or underscores, at most 64 in all, such as "
            f"works_at, not {value!r}"
        )
    return name


def check_limit(value: object) -> int:
    return validate.whole("limit", value, 1, MAX_LIMIT)


def _check_entity(value: object) -> Entity:
    if not isinstance(value, Entity):
        raise ValidationError(f"an entity must be an alma.graph.Entity, not {type(value).__name__}")
    name = clean(validate.name("name", value.name))
    own = validate.name("id", value.id)
    is_derived = Entity(value.name).id == value.id
    return replace(
        value,
        name=name,
        id=Entity(name).id if is_derived else clean(own),
        type=check_type("type", value.type),
        aliases=tuple(clean(one) for one in validate.names("aliases", value.aliases)),
        attributes=clean(validate.metadata(value.attributes)),
        sources=validate.names("sources", value.sources),
        absorbed=validate.names("absorbed", value.absorbed),
        confidence=validate.number("confidence", value.confidence, 0.0, 1.0),
        spans=(),
    )


def _check_relationship(value: object) -> Relationship:
    if not isinstance(value, Relationship):
        raise ValidationError(f"a relationship must be an alma.graph.Relationship, not {type(value).__name__}")
    start = validate.moment("valid_from", value.valid_from)
    end = validate.moment("valid_to", value.valid_to)
    if start is not None and end is not None and end < start:
        raise ValidationError(f"valid_to ({end.isoformat()}) must not lie before valid_from ({start.isoformat()})")
    ends = (value.subject, value.type, value.object)
    is_derived = all(isinstance(one, str) for one in ends) and value.id == relationship_id(*ends, value.valid_from)
    return replace(
        value,
        subject=validate.name("subject", value.subject),
        object=validate.name("object", value.object),
        type=check_type("type", value.type),
        # One without an id of its own gets it when its ends are known.
        id="" if is_derived else validate.name("id", value.id),
        valid_from=start,
        valid_to=end,
        attributes=clean(validate.metadata(value.attributes)),
        sources=validate.names("sources", value.sources),
        confidence=validate.number("confidence", value.confidence, 0.0, 1.0),
        span=None,
    )


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
        """Return the entity as it is stored: one with the same id, or merged into another, gains what is new."""
        return self.add_many([entity])[0][0]

    def add_relationship(self, relationship: Relationship, *, supersede: bool = False) -> Relationship:
        """Return the stored relationship; stating the same one again confirms it and adds no second.

        With `supersede` the others of this subject and type end where it begins.
        """
        stated = _check_relationship(relationship)

        def attempt(rows: RowReader) -> tuple[Relationship, GraphChange]:
            revision = Revision(rows, self.clock(), [], [stated])
            stored = revision.add_relationship(stated, supersede=supersede)
            if stored is None:
                raise ValidationError(f"a relationship needs two entities; both ends are {stated.subject!r}")
            return stored, revision.to_change()

        return self.rows.change(attempt)

    def add_many(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship] = ()
    ) -> tuple[list[Entity], list[Relationship]]:
        """Add all or none, in one transaction. Relationships whose ends are the same entity are left out."""
        stored, related = self.add_each(entities, relationships)
        return stored, [one for one in related if one is not None]

    def add_each(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship]
    ) -> tuple[list[Entity], list[Relationship | None]]:
        """Add as `add_many` does; for a relationship whose ends are the same entity the answer has None."""
        named = [_check_entity(one) for one in validate.many("entities", entities)]
        related = [_check_relationship(one) for one in validate.many("relationships", relationships)]

        def attempt(rows: RowReader) -> tuple[tuple[list[Entity], list[Relationship | None]], GraphChange]:
            revision = Revision(rows, self.clock(), named, related)
            ids = [revision.add_entity(one) for one in named]
            stored = [revision.add_relationship(one) for one in related]
            edges = [None if one is None else revision.relationships[one.id] for one in stored]
            return ([revision.entities[id] for id in ids], edges), revision.to_change()

        return self.rows.change(attempt)

    def end_relationship(self, id: str, at: datetime | str | None = None) -> Relationship:
        """Record that it held until then, or until now."""
        name = validate.name("id", id)

        def attempt(rows: RowReader) -> tuple[Relationship, GraphChange]:
            one = self._require_relationship(rows, name)
            moment = validate.moment("at", at) or self.clock()
            if one.valid_from is not None and moment < one.valid_from:
                raise ValidationError(f"{name} began at {one.valid_from.isoformat()}; it cannot end before that")
            ended = replace(one, valid_to=moment)
            return ended, GraphChange(relationships=(ended,))

        return self.rows.change(attempt)

    def merge(self, keep: str, *others: str) -> Entity:
        """Make entities one: names, relationships and sources of the others go to the one that is kept."""
        if not others:
            raise ValidationError("merge needs at least two ids: the one that is kept, and those that are the same")

        def attempt(rows: RowReader) -> tuple[Entity, GraphChange]:
            first = self._require_entity(rows, keep)
            rest = {one.id: one for id in others if (one := self._require_entity(rows, id)).id != first.id}
            return merge_entities(rows, first, list(rest.values()))

        return self.rows.change(attempt)

    def forget_source(self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()) -> int:
        """End what came from this record alone at a moment, or remove it when none is given; return how much that was.

        The ids in `keep` stay as they are.
        """
        return sum(self.forget_each(source, ended_at=ended_at, keep=keep))

    def forget_each(
        self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()
    ) -> tuple[int, int, int]:
        """Do the same, and count removed entities, removed relationships, and relationships that ended."""
        name = validate.name("source", source)
        moment = validate.moment("ended_at", ended_at)
        kept = frozenset(keep)

        def attempt(rows: RowReader) -> tuple[tuple[int, int, int], GraphChange]:
            change = remove_source(rows, name, moment, kept)
            ended = sum(not one.sources for one in change.relationships)
            return (len(change.removed_entities), len(change.removed_relationships), ended), change

        return self.rows.change(attempt)

    def delete_entity(self, id: str) -> bool:
        """Remove it for good with all its relationships; whether it was there."""
        name = validate.name("id", id)

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            entity = resolve_entities(rows, [name]).get(name)
            if entity is None:
                return False, GraphChange()
            edges = rows.find_relationships(RelationFilter(ends=[entity.id]))
            removed = tuple(one.id for one in edges)
            return True, GraphChange(removed_entities=(entity.id,), removed_relationships=removed)

        return self.rows.change(attempt)

    def delete_relationship(self, id: str) -> bool:
        name = validate.name("id", id)

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            removed = tuple(one.id for one in rows.find_relationships(RelationFilter(ids=[name])))
            return bool(removed), GraphChange(removed_relationships=removed)

        return self.rows.change(attempt)

    # -- reading

    def get(self, id: str) -> Entity:
        return self._require_entity(self.rows, id)

    def get_relationship(self, id: str) -> Relationship:
        return self._require_relationship(self.rows, validate.name("id", id))

    def find(self, name: str | None = None, *, type: str | None = None, limit: int = 50) -> list[Entity]:
        """Find entities by name or alias, by type, or all: newest first. Case and white space make no difference."""
        kind = None if type is None else check_type("type", type)
        most = check_limit(limit)
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
        """List the relationships of one entity, or all: newest first."""
        where = self._make_filter(direction, types, as_of)
        ends = None if id is None else [self.get(id).id]
        where = replace(where, ends=ends, at=None if history else where.at)
        return self.rows.find_relationships(where, check_limit(limit))

    def neighbours(
        self,
        id: str,
        *,
        direction: str = Direction.BOTH,
        types: Iterable[str] | None = None,
        as_of: datetime | str | None = None,
        limit: int = 100,
    ) -> list[Neighbour]:
        """List the entities one step away and how they are related, newest first."""
        own = self.get(id).id
        where = replace(self._make_filter(direction, types, as_of), ends=[own])
        edges = self.rows.find_relationships(where, check_limit(limit))
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
        """Return the entities at most `depth` steps away, nearest first, at most `limit` of them."""
        where = self._make_filter(direction, types, as_of)
        return _walk(self.rows, self.get(id), validate.whole("depth", depth, 1, _MAX_DEPTH), where, check_limit(limit))

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
        """Find ways from one to the other that visit nobody twice, shortest first, along or against the arrows."""
        where = self._make_filter(Direction.BOTH, types, as_of)
        ends = self.get(start), self.get(end)
        return _find_paths(self.rows, *ends, validate.whole("depth", depth, 1, _MAX_DEPTH), where, check_limit(limit))

    def suggest_merges(self, limit: int = 20) -> list[Suggestion]:
        """Return pairs of entities that may be one, surest first."""
        most = check_limit(limit)
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

    def _require_entity(self, rows: RowReader, id: str) -> Entity:
        name = validate.name("id", id)
        entity = resolve_entities(rows, [name]).get(name)
        if entity is None:
            raise NotFoundError(f"there is no entity {id!r} in the graph of project {self.project_id!r}")
        return entity

    def _require_relationship(self, rows: RowReader, id: str) -> Relationship:
        for one in rows.find_relationships(RelationFilter(ids=[id])):
            return one
        raise NotFoundError(f"there is no relationship {id!r} in the graph of project {self.project_id!r}")

    def _make_filter(self, direction: str, types: Iterable[str] | None, as_of: datetime | str | None) -> RelationFilter:
        names = None if types is None else validate.names("types", types)
        return RelationFilter(
            direction=validate.choice("direction", direction, Direction),
            types=None if names is None else frozenset(check_type("types", one) for one in names),
            at=validate.moment("as_of", as_of) or self.clock(),
        )


GraphStore = Graph  # The name for annotations: every backend is reached through it.


# -- walking; every walk is bounded, however large a hub is


def _walk(rows: RowReader, start: Entity, depth: int, where: RelationFilter, limit: int) -> Subgraph:
    """Walk step by step, so that the nearest are there when the limit is reached."""
    depths = {start.id: 0}
    edges: dict[str, Relationship] = {}
    frontier: Collection[str] = [start.id]
    truncated = False
    for step in range(1, depth + 1):
        most = min(_EDGES * limit, _MAX_EDGES)
        nearby = rows.find_relationships(replace(where, ends=frontier), most)
        truncated |= len(nearby) == most
        reached: dict[str, None] = {}
        for edge in nearby:
            for end in (edge.subject, edge.object):
                if end not in depths and end not in reached:
                    if len(depths) + len(reached) > limit:
                        truncated = True
                    else:
                        reached[end] = None
        depths |= dict.fromkeys(reached, step)
        edges |= {edge.id: edge for edge in nearby if edge.subject in depths and edge.object in depths}
        frontier = list(reached)
        if not frontier:
            break
    entities = {one.id: one for one in rows.find_entities(EntityFilter(ids=depths))}
    order = sorted(entities, key=lambda id: (depths[id], id))
    return Subgraph(
        entities=tuple(entities[id] for id in order),
        relationships=tuple(one for one in edges.values() if one.subject in entities and one.object in entities),
        depths={id: depths[id] for id in order},
        truncated=truncated,
    )


def _find_paths(
    rows: RowReader, start: Entity, end: Entity, depth: int, where: RelationFilter, limit: int
) -> list[Path]:
    if start.id == end.id:
        return [Path((start,), ())]
    steps: dict[str, list[tuple[str, Relationship]]] = defaultdict(list)
    for one in sorted(_find_between(rows, start.id, end.id, depth, where).values(), key=lambda edge: edge.id):
        steps[one.subject].append((one.object, one))
        steps[one.object].append((one.subject, one))
    # How far each entity is from the end: one that is too far away is not entered.
    distances = {end.id: 0}
    reached = [end.id]
    for id in reached:
        for other, _ in steps[id]:
            if other not in distances:
                distances[other] = distances[id] + 1
                reached.append(other)
    ways: list[tuple[list[str], list[Relationship]]] = []
    waiting: deque[tuple[list[str], list[Relationship]]] = deque([([start.id], [])])
    tries = 0
    while waiting and len(ways) < limit:
        nodes, edges = waiting.popleft()
        if nodes[-1] == end.id:
            ways.append((nodes, edges))
            continue
        for other, edge in steps[nodes[-1]]:
            is_near = len(edges) + 1 + distances.get(other, depth) <= depth
            if is_near and other not in nodes and tries < _MAX_TRIES:
                tries += 1
                waiting.append(([*nodes, other], [*edges, edge]))
    entities = {one.id: one for one in rows.find_entities(EntityFilter(ids={id for nodes, _ in ways for id in nodes}))}
    return [Path(tuple(entities[id] for id in nodes), tuple(edges)) for nodes, edges in ways]


def _find_between(rows: RowReader, start: str, end: str, depth: int, where: RelationFilter) -> dict[str, Relationship]:
    """Return the relationships that may lie on a way, from both ends: the smaller side takes the next step."""
    edges: dict[str, Relationship] = {}
    sides = {start: ({start}, {start}), end: ({end}, {end})}  # Of each end: all that was seen, and what was last.
    for _ in range(depth):
        open_sides = [side for side, (_, last) in sides.items() if last]
        if not open_sides or len(edges) >= _MAX_EDGES:
            break
        side = min(open_sides, key=lambda one: (len(sides[one][1]), one != start))
        seen, last = sides[side]
        nearby = rows.find_relationships(replace(where, ends=last), _MAX_EDGES)
        edges |= {one.id: one for one in nearby}
        fresh = {id for one in nearby for id in (one.subject, one.object)} - seen
        sides[side] = (seen | fresh, fresh)
    return edges
