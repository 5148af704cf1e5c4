"""`Graph`: who and what is known in a project, over the rows of any backend."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
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
from .rows import Change, EntityFilter, Reading, RelationFilter, Rows

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
        """The entity as it is held now: one that is known by its id or merged into another gains what is new."""
        return self.add_many([entity])[0][0]

    def add_relationship(self, relationship: Relationship, *, supersede: bool = False) -> Relationship:
        """Return the stored relationship; stating the same one again confirms it and adds no second.

        With `supersede` the others of this subject and type end where it begins.
        """
        stated = _check_relationship(relationship)

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
        named = [_check_entity(one) for one in validate.many("entities", entities)]
        related = [_check_relationship(one) for one in validate.many("relationships", relationships)]

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
        """Of one entity, or of all: newest first."""
        where = self._filter(direction, types, as_of)
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
        """Those one step away and how, newest first."""
        own = self.get(id).id
        where = replace(self._filter(direction, types, as_of), ends=[own])
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
        """Those at most `depth` steps away, nearest first, at most `limit` of them."""
        where = self._filter(direction, types, as_of)
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
        """Ways from one to the other that visit nobody twice, shortest first, along or against the arrows."""
        where = self._filter(Direction.BOTH, types, as_of)
        ends = self.get(start), self.get(end)
        return _find_paths(self.rows, *ends, validate.whole("depth", depth, 1, _MAX_DEPTH), where, check_limit(limit))

    def suggest_merges(self, limit: int = 20) -> list[Suggestion]:
        """Which entities may be one, surest first."""
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
            types=None if names is None else frozenset(check_type("types", one) for one in names),
            at=validate.moment("as_of", as_of) or self.clock(),
        )


GraphStore = Graph  # The name for annotations: every backend is reached through it.


# -- walking; every walk is bounded, however large a hub is


def _walk(rows: Reading, start: Entity, depth: int, where: RelationFilter, limit: int) -> Subgraph:
    """Step by step, so that the nearest are there when the limit is reached."""
    depths = {start.id: 0}
    edges: dict[str, Relationship] = {}
    frontier: Collection[str] = [start.id]
    truncated = False
    for step in range(1, depth + 1):
        most = min(_EDGES * limit, _MAX_EDGES)
        found = rows.find_relationships(replace(where, ends=frontier), most)
        truncated |= len(found) == most
        reached: dict[str, None] = {}
        for edge in found:
            for end in (edge.subject, edge.object):
                if end not in depths and end not in reached:
                    if len(depths) + len(reached) > limit:
                        truncated = True
                    else:
                        reached[end] = None
        depths |= dict.fromkeys(reached, step)
        edges |= {edge.id: edge for edge in found if edge.subject in depths and edge.object in depths}
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


def _find_paths(rows: Reading, start: Entity, end: Entity, depth: int, where: RelationFilter, limit: int) -> list[Path]:
    if start.id == end.id:
        return [Path((start,), ())]
    edges = _find_between(rows, start.id, end.id, depth, where)
    ways = _list_ways(edges, start.id, end.id, depth, limit)
    entities = {one.id: one for one in rows.find_entities(EntityFilter(ids={id for nodes, _ in ways for id in nodes}))}
    return [Path(tuple(entities[id] for id in nodes), tuple(along)) for nodes, along in ways]


def _find_between(rows: Reading, start: str, end: str, depth: int, where: RelationFilter) -> dict[str, Relationship]:
    """The relationships that may lie on a way, looked for from both ends: the smaller side takes the next step."""
    edges: dict[str, Relationship] = {}
    sides = {start: ({start}, {start}), end: ({end}, {end})}
    """Of each end: all that is seen, and what was seen last."""
    for _ in range(depth):
        open_sides = [side for side, (_, last) in sides.items() if last]
        if not open_sides or len(edges) >= _MAX_EDGES:
            break
        side = min(open_sides, key=lambda one: (len(sides[one][1]), one != start))
        seen, last = sides[side]
        found = rows.find_relationships(replace(where, ends=last), _MAX_EDGES)
        edges |= {one.id: one for one in found}
        fresh = {id for one in found for id in (one.subject, one.object)} - seen
        sides[side] = (seen | fresh, fresh)
    return edges


Steps = dict[str, list[tuple[str, Relationship]]]


def _list_ways(
    edges: dict[str, Relationship], start: str, end: str, depth: int, limit: int
) -> list[tuple[list[str], list[Relationship]]]:
    steps: Steps = defaultdict(list)
    for one in sorted(edges.values(), key=lambda edge: edge.id):
        steps[one.subject].append((one.object, one))
        steps[one.object].append((one.subject, one))
    far = {end: 0}
    frontier = [end]
    while frontier:
        reached = [other for id in frontier for other, _ in steps.get(id, ()) if other not in far]
        far |= dict.fromkeys(reached, far[frontier[0]] + 1)
        frontier = list(dict.fromkeys(reached))
    if far.get(start, depth + 1) > depth:
        return []
    found: list[tuple[list[str], list[Relationship]]] = []
    budget = [_MAX_TRIES]
    for length in range(far[start], depth + 1):
        for nodes in _list_nodes(steps, far, [start], end, length, budget):
            for along in _list_edges(steps, nodes):
                found.append((nodes, along))
                if len(found) == limit:
                    return found
    return found


def _list_nodes(
    steps: Steps, far: dict[str, int], nodes: list[str], end: str, left: int, budget: list[int]
) -> Iterator[list[str]]:
    """The ways of exactly so many steps; what is too far from the end is not entered."""
    budget[0] -= 1
    if budget[0] < 0:
        return
    if left == 0:
        if nodes[-1] == end:
            yield nodes
        return
    for other in dict.fromkeys(other for other, _ in steps[nodes[-1]]):
        if other not in nodes and far[other] <= left - 1 and (other != end or left == 1):
            yield from _list_nodes(steps, far, [*nodes, other], end, left - 1, budget)


def _list_edges(steps: Steps, nodes: list[str]) -> Iterator[list[Relationship]]:
    """One for each choice among several relationships between the same two; few, the first of each step first."""
    choices = [[edge for other, edge in steps[one] if other == two] for one, two in pairwise(nodes)]
    yield [some[0] for some in choices]
    for place, some in enumerate(choices):
        for other in some[1:]:
            yield [other if at == place else each[0] for at, each in enumerate(choices)]
