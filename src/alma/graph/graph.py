"""`Graph`: who and what is known in a project, over the rows of any backend."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Annotated, Any, Self

from .. import words
from ..engine import validate
from ..engine.admit import clean
from ..errors import NotFoundError, ValidationError
from ..operations import About, Effect, Group
from ..ports import Clock
from ..text import name_key
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
from .memory import RecordRows
from .revision import MAX_LIMIT, Revision, merge_entities, remove_source, resolve_entities, suggest_merges
from .rows import GraphChange, RowFilter, RowReader, Rows

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


def _check_common(value: Any, kind: type[Any]) -> dict[str, Any]:
    if not isinstance(value, kind):
        raise ValidationError(f"this must be an alma.graph.{kind.__name__}, not {type(value).__name__}")
    return {
        "type": check_type("type", value.type),
        "attributes": clean(validate.metadata(value.attributes)),
        "sources": validate.names("sources", value.sources),
        "confidence": validate.number("confidence", value.confidence, 0.0, 1.0),
    }


def _check_entity(value: Entity) -> Entity:
    common = _check_common(value, Entity)
    name = clean(validate.name("name", value.name))
    id = clean(validate.name("id", value.id))
    return replace(
        value,
        name=name,
        id=Entity(name).id if Entity(value.name).id == value.id else id,
        aliases=tuple(clean(one) for one in validate.names("aliases", value.aliases)),
        absorbed=validate.names("absorbed", value.absorbed),
        spans=(),
        **common,
    )


def _check_relationship(value: Relationship) -> Relationship:
    common = _check_common(value, Relationship)
    common |= {name: validate.name(name, getattr(value, name)) for name in ("subject", "object")}
    start, end = (validate.moment(name, getattr(value, name)) for name in ("valid_from", "valid_to"))
    if start is not None and end is not None and end < start:
        raise ValidationError(f"valid_to ({end.isoformat()}) must not lie before valid_from ({start.isoformat()})")
    is_derived = value.id == relationship_id(value.subject, value.type, value.object, value.valid_from)
    # One without an id of its own gets it when its ends are known.
    id = "" if is_derived else validate.name("id", value.id)
    return replace(value, id=id, valid_from=start, valid_to=end, span=None, **common)


Name = Annotated[str, About("a name, an alias or an id", check=validate.name)]
Start = Annotated[str, About("a name, an alias or an id", check=validate.name, shown_as="name")]
Way = Annotated[str, About("from it, to it, or both", tuple(Direction))]
Types = Annotated[Iterable[str] | None, About("only relations of these types")]
AsOf = Annotated[words.Moment, About("as it was at this moment, such as 2026-05-07", check=validate.moment)]
Depth = Annotated[int, About("at most so many steps", least=1, most=_MAX_DEPTH)]
Limit = Annotated[int, About("at most so many", least=1, most=MAX_LIMIT)]


operation = Group("graph", lambda alma: Graph(RecordRows(alma.engine), alma.project_id, clock=alma.engine.clock))


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
        stored = self.add_many([], [relationship], supersede=supersede)[1]
        if not stored:
            raise ValidationError(f"a relationship needs two entities; both ends are {relationship.subject!r}")
        return stored[0]

    def add_many(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship] = (), *, supersede: bool = False
    ) -> tuple[list[Entity], list[Relationship]]:
        """Add all or none, in one transaction. Relationships whose ends are the same entity are left out."""
        named = [_check_entity(one) for one in validate.many("entities", entities)]
        related = [_check_relationship(one) for one in validate.many("relationships", relationships)]

        def attempt(rows: RowReader) -> tuple[tuple[list[Entity], list[Relationship]], GraphChange]:
            revision = Revision(rows, self.clock(), named, related)
            ids = [revision.add_entity(one) for one in named]
            stored = [revision.add_relationship(one, supersede=supersede) for one in related]
            edges = [revision.relationships[one.id] for one in stored if one is not None]
            return ([revision.entities[id] for id in ids], edges), revision.to_change()

        return self.rows.change(attempt)

    def end_relationship(self, id: str, at: datetime | str | None = None) -> Relationship:
        """Record that it held until then, or until now."""
        moment = validate.moment("at", at) or self.clock()

        def attempt(rows: RowReader) -> tuple[Relationship, GraphChange]:
            one = self._require_relationship(rows, id)
            if one.valid_from and moment < one.valid_from:
                raise ValidationError(f"{id} began at {one.valid_from.isoformat()}; it cannot end before that")
            ended = replace(one, valid_to=moment)
            return ended, GraphChange((), [ended])

        return self.rows.change(attempt)

    def merge(self, keep: str, *others: str) -> Entity:
        """Make entities one: names, relationships and sources of the others go to the one that is kept."""
        if not others:
            raise ValidationError("merge needs at least two ids: the one that is kept, and those that are the same")

        def attempt(rows: RowReader) -> tuple[Entity, GraphChange]:
            first, *rest = (self._require_entity(rows, id) for id in (keep, *others))
            return merge_entities(rows, first, {one.id: one for one in rest if one.id != first.id}.values())

        return self.rows.change(attempt)

    def forget_source(self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()) -> int:
        """End what came from this record alone at a moment, or remove it when none is given; return how much that was.

        The ids in `keep` stay as they are.
        """
        name, moment, kept = validate.name("source", source), validate.moment("ended_at", ended_at), frozenset(keep)
        return sum(self.rows.change(lambda rows: remove_source(rows, name, moment, kept)))

    def delete_entity(self, id: str) -> bool:
        """Remove it for good with all its relationships; whether it was there."""
        name = validate.name("id", id)

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            gone = [one.id for one in resolve_entities(rows, [name]).values()]
            edges = rows.find(Relationship, RowFilter(ends=gone)) if gone else []
            return bool(gone), GraphChange((), (), gone, [one.id for one in edges])

        return self.rows.change(attempt)

    def delete_relationship(self, id: str) -> bool:
        where = RowFilter(ids=[validate.name("id", id)])

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            gone = [one.id for one in rows.find(Relationship, where)]
            return bool(gone), GraphChange(removed_relationships=gone)

        return self.rows.change(attempt)

    # -- reading

    def get(self, id: str) -> Entity:
        return self._require_entity(self.rows, id)

    def resolve(self, name: str) -> Entity:
        """Return the entity with this id, name or alias: the newest, when several have the name."""
        try:
            return self.get(name)
        except NotFoundError:
            for one in self.find(name, limit=1):
                return one
            raise

    def get_relationship(self, id: str) -> Relationship:
        return self._require_relationship(self.rows, id)

    @operation(Effect.READS, "find_entities")
    def find(
        self,
        name: Annotated[str | None, About("a name or an alias; without it the newest", check=validate.name)] = None,
        *,
        type: Annotated[str | None, About("such as person, organisation, file, package", check=check_type)] = None,
        limit: Limit = 50,
    ) -> list[Entity]:
        """Find whom and what the graph knows.

        Notes:
            By name or alias, by type, or all: newest first. Case and white space make no difference.
        """
        keys = None if name is None else [name_key(name)]
        return self.rows.find(Entity, RowFilter(keys=keys, types=None if type is None else [type]), limit)

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
        where = where._replace(ends=None if id is None else [self.get(id).id], at=None if history else where.at)
        return self.rows.find(Relationship, where, validate.whole("limit", limit, 1, MAX_LIMIT))

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
        edges = self.relationships(own, direction=direction, types=types, as_of=as_of, limit=limit)
        others = self.rows.find(Entity, RowFilter(ids={edge.other(own) for edge in edges}))
        by_id = {one.id: one for one in others}
        return [Neighbour(by_id[edge.other(own)], edge) for edge in edges if edge.other(own) in by_id]

    @operation(Effect.READS, "traverse_graph")
    def traverse(
        self,
        id: Start,
        depth: Depth = 2,
        *,
        direction: Way = Direction.BOTH,
        types: Types = None,
        as_of: AsOf = None,
        limit: Limit = 100,
    ) -> Subgraph:
        """What can be reached from an entity, nearest first.

        Notes:
            The entities at most `depth` steps away, at most `limit` of them.
        """
        where = self._make_filter(direction, types, as_of)
        return _walk(self.rows, self.resolve(id), depth, where, limit)

    @operation(Effect.READS, "find_paths")
    def paths(
        self, start: Name, end: Name, *, depth: Depth = 4, types: Types = None, as_of: AsOf = None, limit: Limit = 10
    ) -> list[Path]:
        """How two entities hang together, the shortest way first.

        Notes:
            Ways that visit nobody twice, along or against the arrows.
        """
        where = self._make_filter(Direction.BOTH, types, as_of)
        return _find_paths(self.rows, self.resolve(start), self.resolve(end), depth, where, limit)

    @operation(Effect.CHANGES, idempotent=True)
    def merge_entities(
        self,
        keep: Name,
        others: Annotated[list[str], About("who or what is the same: names, aliases or ids")],
    ) -> Entity:
        """Make several entities one: 'Bob' and 'Robert Smith'. Their relations and names become its own."""
        return self.merge(self.resolve(keep).id, *(self.resolve(one).id for one in others))

    @operation(Effect.READS)
    def suggest_merges(self, limit: Limit = 20) -> list[Suggestion]:
        """Which entities may be one and the same.

        Notes:
            Surest first.
        """
        return suggest_merges(self.rows.find(Entity, RowFilter(), _COMPARED))[:limit]

    @operation(Effect.READS, "graph_stats")
    def stats(self) -> GraphStats:
        """How much the graph holds, by type."""
        entities, edges, current = self.rows.count_types(self.clock())
        by_type = [dict(sorted(each.items())) for each in (entities, edges)]
        return GraphStats(sum(entities.values()), sum(edges.values()), current, *by_type)

    def _require_entity(self, rows: RowReader, id: str) -> Entity:
        name = validate.name("id", id)
        entity = resolve_entities(rows, [name]).get(name)
        if entity is None:
            raise NotFoundError(
                f"nobody and nothing is called {id!r} in the graph of project {self.project_id!r}; "
                "build_graph reads what is new (in Python: alma.graph.update)"
            )
        return entity

    def _make_filter(self, direction: str, types: Iterable[str] | None, as_of: datetime | str | None) -> RowFilter:
        return RowFilter(
            direction=validate.choice("direction", direction, Direction),
            types=None if types is None else [check_type("types", one) for one in validate.names("types", types)],
            at=validate.moment("as_of", as_of) or self.clock(),
        )

    def _require_relationship(self, rows: RowReader, id: str) -> Relationship:
        for one in rows.find(Relationship, RowFilter(ids=[validate.name("id", id)])):
            return one
        raise NotFoundError(f"there is no relationship {id!r} in the graph of project {self.project_id!r}")


GraphStore = Graph  # The name for annotations: every backend is reached through it.


# -- walking; every walk is bounded, however large a hub is


def _walk(rows: RowReader, start: Entity, depth: int, where: RowFilter, limit: int) -> Subgraph:
    """Walk step by step, so that the nearest are there when the limit is reached."""
    depths = {start.id: 0}
    edges: dict[str, Relationship] = {}
    frontier = [start.id]
    truncated = False
    most = min(_EDGES * limit, _MAX_EDGES)
    for step in range(1, depth + 1):
        nearby = rows.find(Relationship, where._replace(ends=frontier), most) if frontier else []
        ends = dict.fromkeys(end for edge in nearby for end in (edge.subject, edge.object) if end not in depths)
        frontier = list(ends)[: limit + 1 - len(depths)]
        truncated |= len(nearby) == most or len(frontier) < len(ends)
        depths |= dict.fromkeys(frontier, step)
        edges |= {edge.id: edge for edge in nearby if edge.subject in depths and edge.object in depths}
    entities = {one.id: one for one in rows.find(Entity, RowFilter(ids=depths))}
    order = sorted(entities, key=lambda id: (depths[id], id))
    related = tuple(one for one in edges.values() if one.subject in entities and one.object in entities)
    return Subgraph(tuple(entities[id] for id in order), related, {id: depths[id] for id in order}, truncated)


def _find_paths(rows: RowReader, start: Entity, end: Entity, depth: int, where: RowFilter, limit: int) -> list[Path]:
    """Find the ways from one to the other, shortest first."""
    edges: dict[str, Relationship] = {}
    # The relationships that may lie on a way are within half of it from either end.
    for side, steps in ((start.id, (depth + 1) // 2), (end.id, depth // 2)):
        seen = last = {side}
        for _ in range(steps):
            nearby = rows.find(Relationship, where._replace(ends=last), _MAX_EDGES) if last else []
            edges |= {one.id: one for one in nearby}
            last = {id for one in nearby for id in (one.subject, one.object)} - seen
            seen = seen | last
    joined: dict[str, list[Relationship]] = defaultdict(list)
    for _, edge in sorted(edges.items()):
        joined[edge.subject].append(edge)
        joined[edge.object].append(edge)
    # How far each entity is from the end: one that is too far away is not entered.
    distances = {end.id: 0}
    for id in (reached := [end.id]):
        for other in (edge.other(id) for edge in joined[id]):
            if other not in distances:
                distances[other] = distances[id] + 1
                reached.append(other)
    ways: list[tuple[list[str], list[Relationship]]] = []
    waiting: deque[tuple[list[str], list[Relationship]]] = deque([([start.id], [])])
    tries = 0
    while waiting and len(ways) < limit:
        nodes, way = waiting.popleft()
        if nodes[-1] == end.id:
            ways.append((nodes, way))
            continue
        for edge in joined[nodes[-1]]:
            other = edge.other(nodes[-1])
            is_near = len(nodes) + distances.get(other, depth) <= depth
            if is_near and other not in nodes and tries < _MAX_TRIES:
                tries += 1
                waiting.append(([*nodes, other], [*way, edge]))
    entities = {one.id: one for one in rows.find(Entity, RowFilter(ids={id for nodes, _ in ways for id in nodes}))}
    return [Path(tuple(entities[id] for id in nodes), tuple(way)) for nodes, way in ways]
