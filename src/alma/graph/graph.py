"""`Graph`: the entities and relationships of a project, over the rows of any backend."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from .. import words
from ..engine import validate
from ..engine.admit import clean
from ..errors import NotFoundError, ValidationError
from ..opening import Closeable
from ..operations import About, Effect, Group
from ..ports import Clock
from ..text import name_key
from ..types import times
from ..types.graph import (
    THING,
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
from .rows import GraphChange, Item, RecordRows, RowFilter, RowReader, Rows

_MAX_LIMIT = 10_000
_MAX_SOURCES = 200  # How many source records of an item are stored, newest last.
_MAX_ALIASES = 100
_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_COMPARED = 5_000  # How many of the newest entities are compared for merge suggestions.
_EDGES = 4  # How many relationships are read in one step for each entity of the limit.
_MAX_EDGES = 20_000
_MAX_TRIES = 100_000
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_JOINT = re.compile(r"[\s-]+")


# -- values from callers


def check_type(label: str, value: object) -> str:
    """Return a type in its normal form: `Works At` becomes `works_at`; raise ValidationError if it has other signs."""
    name = _JOINT.sub("_", validate.name(label, value)).lower()
    if not _TYPE.fullmatch(name):
        raise ValidationError(
            f"{label} must be a letter followed by letters, digits or underscores, at most 64 in all, such as "
            f"works_at, not {value!r}"
        )
    return name


def _check_item(value: Item, kind: type[Item]) -> Item:
    """Return an entity or a relationship from a caller, checked and without secrets."""
    if not isinstance(value, kind):
        raise ValidationError(f"expected an alma.graph.{kind.__name__}, not {type(value).__name__}")
    changes: dict[str, Any] = {
        "type": check_type("type", value.type),
        "attributes": clean(validate.metadata("attributes", value.attributes)),
        "sources": validate.names("sources", value.sources),
        "confidence": validate.number("confidence", value.confidence, 0.0, 1.0),
    }
    if isinstance(value, Entity):
        name, id = (clean(validate.name(label, getattr(value, label))) for label in ("name", "id"))
        aliases = tuple(clean(one) for one in validate.names("aliases", value.aliases))
        changes |= {"name": name, "id": Entity(name).id if Entity(value.name).id == value.id else id}
        changes |= {"aliases": aliases, "absorbed": validate.names("absorbed", value.absorbed), "spans": ()}
    else:
        changes |= {name: validate.name(name, getattr(value, name)) for name in ("subject", "object")}
        start, end = (validate.moment(name, getattr(value, name)) for name in ("valid_from", "valid_to"))
        if start is not None and end is not None and end < start:
            raise ValidationError(f"valid_to ({end.isoformat()}) must not be before valid_from ({start.isoformat()})")
        is_derived = value.id == relationship_id(value.subject, value.type, value.object, value.valid_from)
        # A relationship without its own id gets one once its ends are resolved.
        id = "" if is_derived else validate.name("id", value.id)
        changes |= {"id": id, "valid_from": start, "valid_to": end, "span": None}
    return replace(value, **changes)


Name = Annotated[str, About("a name, an alias or an id", check=validate.name)]
AsOf = Annotated[words.Moment, About("show the state at this time, such as 2026-05-07", check=validate.moment)]
Limit = Annotated[int, About("maximum results", least=1, most=_MAX_LIMIT)]
operation = Group("graph", lambda alma: Graph(RecordRows(alma.engine), alma.project_id, clock=alma.engine.clock))


class Graph(Closeable):
    """The entities and relationships of one project. The in-memory backend is the reference (`alma.testing`).

    `as_of` is the time to look at, now by default; `history` also returns relationships that have ended. A merged
    entity is found by each of its former ids. Invalid arguments raise ValidationError, unknown ids NotFoundError.
    """

    def __init__(self, rows: Rows, project_id: str = "default", *, clock: Clock = times.now) -> None:
        self.project_id = validate.name("project_id", project_id)
        self.rows = rows
        self.clock = clock

    def close(self) -> None:
        """Close the backend."""
        self.rows.close()

    # -- writing

    def add_entity(self, entity: Entity) -> Entity:
        """Add an entity and return it as stored; an existing entity with that id gains the new names and attributes."""
        return self.add_many([entity])[0][0]

    def add_relationship(self, relationship: Relationship, *, supersede: bool = False) -> Relationship:
        """Add a relationship and return it as stored; adding the same one again confirms it and creates no duplicate.

        With `supersede`, other relationships of this subject and type end when this one starts.
        """
        stored = self.add_many([], [relationship], supersede=supersede)[1]
        if not stored:
            raise ValidationError(
                f"a relationship needs two different entities, but both ends are {relationship.subject!r}"
            )
        return stored[0]

    def add_many(
        self, entities: Iterable[Entity], relationships: Iterable[Relationship] = (), *, supersede: bool = False
    ) -> tuple[list[Entity], list[Relationship]]:
        """Add entities and relationships, all or none, and return them as stored.

        Relationships whose ends turn out to be the same entity are left out.
        """
        nodes = [_check_item(one, Entity) for one in validate.many("entities", entities)]
        edges = [_check_item(one, Relationship) for one in validate.many("relationships", relationships)]
        return self.rows.change(lambda rows: _Revision(rows, self.clock(), nodes, edges).apply(supersede))

    def end_relationship(self, id: str, at: datetime | str | None = None) -> Relationship:
        """End a relationship at a time, now by default, and return it."""
        moment = validate.moment("at", at) or self.clock()

        def attempt(rows: RowReader) -> tuple[Relationship, GraphChange]:
            one = self._require_relationship(rows, id)
            if one.valid_from and moment < one.valid_from:
                raise ValidationError(
                    f"relationship {id!r} started at {times.format_minute(one.valid_from)}; it cannot end before that"
                )
            ended = replace(one, valid_to=moment)
            return ended, GraphChange((), [ended])

        return self.rows.change(attempt)

    def merge(self, keep: str, *others: str) -> Entity:
        """Merge entities into `keep` and return it; it gets the names, relationships and sources of the others."""
        if not others:
            raise ValidationError("merging needs at least two entities: the one to keep, and others to merge into it")

        def attempt(rows: RowReader) -> tuple[Entity, GraphChange]:
            first, *rest = (self._require_entity(rows, id) for id in (keep, *others))
            return _merge_entities(rows, first, {one.id: one for one in rest if one.id != first.id}.values())

        return self.rows.change(attempt)

    @operation(Effect.CHANGES, idempotent=True)
    def merge_entities(
        self,
        keep: Annotated[str, About("the entity to keep: a name, an alias or an id", check=validate.name)],
        others: Annotated[list[str], About("entities to merge into it: names, aliases or ids")],
    ) -> Entity:
        """Merge several entities into one, such as 'Bob' and 'Robert Smith', with their names and relations."""
        return self.merge(self.resolve(keep).id, *(self.resolve(one).id for one in others))

    def forget_source(self, source: str, *, ended_at: datetime | str | None = None, keep: Iterable[str] = ()) -> int:
        """Remove the items that only this record supports, or end them at `ended_at`; return how many there were.

        Items whose ids are in `keep` are not touched.
        """
        return sum(self.withdraw_source(source, ended_at, keep))

    def withdraw_source(
        self, source: str, ended_at: datetime | str | None = None, keep: Iterable[str] = ()
    ) -> tuple[int, int, int]:
        """Do as `forget_source`, and return counts: entities removed, relationships removed, relationships ended."""
        name, moment, spared = validate.name("source", source), validate.moment("ended_at", ended_at), frozenset(keep)
        return self.rows.change(lambda rows: _remove_source(rows, name, moment, spared))

    def delete_entity(self, id: str) -> bool:
        """Delete an entity and all its relationships; return whether it existed."""
        name = validate.name("id", id)

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            gone = [one.id for one in _resolve_entities(rows, [name]).values()]
            edges = rows.find(Relationship, RowFilter(ends=gone)) if gone else []
            return bool(gone), GraphChange((), (), gone, [one.id for one in edges])

        return self.rows.change(attempt)

    def delete_relationship(self, id: str) -> bool:
        """Delete a relationship; return whether it existed."""
        where = RowFilter(ids=[validate.name("id", id)])

        def attempt(rows: RowReader) -> tuple[bool, GraphChange]:
            gone = [one.id for one in rows.find(Relationship, where)]
            return bool(gone), GraphChange(removed_relationships=gone)

        return self.rows.change(attempt)

    # -- reading

    def get(self, id: str) -> Entity:
        """Return the entity with this id, a former id or an unambiguous name; raise NotFoundError if there is none."""
        return self._require_entity(self.rows, id)

    def resolve(self, name: str) -> Entity:
        """Return the entity with this id, name or alias; the newest if several have the name."""
        try:
            return self.get(name)
        except NotFoundError:
            for one in self.find(name, limit=1):
                return one
            raise

    def get_relationship(self, id: str) -> Relationship:
        """Return one relationship; raise NotFoundError if there is none."""
        return self._require_relationship(self.rows, id)

    @operation(Effect.READS, "find_entities")
    def find(
        self,
        name: Annotated[
            str | None, About("a name or an alias (default: the newest entities)", check=validate.name)
        ] = None,
        *,
        type: Annotated[str | None, About("such as person, organisation, file or package", check=check_type)] = None,
        limit: Limit = 50,
    ) -> list[Entity]:
        """Find entities in the graph.

        Notes:
            By name or alias, by type, or all; newest first. Case and white space are ignored.
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
        """Return the relationships of one entity, or of all, newest first."""
        where = self._make_filter(direction, types, as_of)
        where = where._replace(ends=None if id is None else [self.get(id).id], at=None if history else where.at)
        return self.rows.find(Relationship, where, validate.whole("limit", limit, 1, _MAX_LIMIT))

    def neighbours(self, id: str, **options: Any) -> list[Neighbour]:
        """Return the entities one step away with their relationships, newest first. Options as for `relationships`."""
        own = self.get(id).id
        edges = self.relationships(own, **options)
        others = {one.id: one for one in self.rows.find(Entity, RowFilter(ids={edge.other(own) for edge in edges}))}
        return [Neighbour(others[edge.other(own)], edge) for edge in edges if edge.other(own) in others]

    @operation(Effect.READS, "traverse_graph")
    def traverse(
        self,
        id: Annotated[str, About("a name, an alias or an id", check=validate.name, shown_as="name")],
        depth: Annotated[
            int | None, About("maximum number of steps (default 2, or 4 with `to`)", least=1, most=10)
        ] = None,
        *,
        to: Annotated[
            str | None, About("return the paths to this entity: a name, an alias or an id", check=validate.name)
        ] = None,
        direction: Annotated[
            str, About("follow relations from it, to it, or both; paths always use both", tuple(Direction))
        ] = "both",
        types: Annotated[Iterable[str] | None, About("only relations of these types")] = None,
        as_of: AsOf = None,
        limit: Limit = 100,
    ) -> Subgraph:
        """List what can be reached from an entity, nearest first; or the paths to another entity, shortest first.

        Notes:
            Returns at most `limit` entities at most `depth` steps away. With `to`, returns at most `limit` paths that
            visit no entity twice, along or against the arrows.
        """
        where = self._make_filter(direction if to is None else Direction.BOTH, types, as_of)
        start = self.resolve(id)
        if to is None:
            return _walk(self.rows, start, depth or 2, where, limit)
        paths = _find_paths(self.rows, start, self.resolve(to), depth or 4, where, limit)
        steps = [(step, entity.id, entity) for path in paths for step, entity in enumerate(path.entities)]
        nearest: dict[str, tuple[int, Entity]] = {}
        for step, key, entity in sorted(steps, key=lambda one: one[:2]):
            nearest.setdefault(key, (step, entity))
        edges = {edge.id: edge for path in paths for edge in path.relationships}
        depths = {key: step for key, (step, _) in nearest.items()}
        entities = tuple(entity for _, entity in nearest.values())
        return Subgraph(entities, tuple(edges.values()), depths, paths=tuple(paths))

    def paths(self, start: str, end: str, *, depth: int = 4, limit: int = 10, **options: Any) -> list[Path]:
        """Return the paths from one entity to another, shortest first, as `traverse` with `to`."""
        return list(self.traverse(start, depth, to=end, limit=limit, **options).paths)

    def suggest_merges(self, limit: int = 20) -> list[Suggestion]:
        """Return pairs of entities that may be the same, most likely first."""
        most = validate.whole("limit", limit, 1, _MAX_LIMIT)
        entities = self.rows.find(Entity, RowFilter(), _COMPARED)
        suggestions: dict[tuple[str, str], Suggestion] = {}
        for one, other, why, score in (*_compare_spelling(entities), *_compare_people(entities)):
            # The one with the longer name is the one to keep.
            keep, gone = sorted((one, other), key=lambda each: (-len(each.name), each.id))
            is_alike = one.type == other.type or THING in (one.type, other.type)
            if one.id != other.id and is_alike:
                suggestions.setdefault((keep.id, gone.id), Suggestion(keep, gone, why, score))
        return sorted(suggestions.values(), key=lambda each: (-each.score, each.keep.id, each.other.id))[:most]

    @operation(Effect.READS, "graph_stats")
    def stats(
        self,
        suggestions: Annotated[
            int, About("number of entity pairs to suggest for merging", least=0, most=_MAX_LIMIT)
        ] = 0,
    ) -> GraphStats:
        """Count entities and relations by type; optionally suggest entities that may be the same."""
        entities, edges, current = self.rows.count_types(self.clock())
        pairs = tuple(self.suggest_merges(suggestions)) if suggestions else ()
        types = dict(sorted(entities.items())), dict(sorted(edges.items()))
        return GraphStats(sum(entities.values()), sum(edges.values()), current, types[0], types[1], pairs)

    def _require_entity(self, rows: RowReader, id: str) -> Entity:
        name = validate.name("id", id)
        entity = _resolve_entities(rows, [name]).get(name)
        if entity is None:
            raise NotFoundError(
                f"there is no entity {id!r} in the graph of project {self.project_id!r}. "
                "Check the spelling, or build the graph (`alma graph build`) to add new memories to it"
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


GraphStore = Graph  # For annotations: callers reach every backend through `Graph`.


# -- traversal; every walk is bounded, however many relationships an entity has


def _walk(rows: RowReader, start: Entity, depth: int, where: RowFilter, limit: int) -> Subgraph:
    """Return what is reachable from an entity, breadth first, so that the limit cuts off the farthest."""
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
    """Return the paths from one entity to the other, shortest first."""
    edges: dict[str, Relationship] = {}
    # A relationship on a path is at most half its length away from one of the ends.
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
    # Distances to the end: entities that are too far away are not entered.
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


# -- applying statements; a statement that is already stored is confirmed, not duplicated


def _resolve_entities(rows: RowReader, ids: Iterable[str]) -> dict[str, Entity]:
    """Return entities by the ids passed: their own, the id of one that was merged into them, or an unambiguous name."""
    unique = list(dict.fromkeys(ids))
    resolved = {one.id: one for one in rows.find(Entity, RowFilter(ids=unique))}
    missing = [id for id in unique if id not in resolved]
    keys = {key for id in missing for key in (id, name_key(id))}
    by_name = rows.find(Entity, RowFilter(keys=keys)) if missing else []
    for id in missing:
        merged = [one for one in by_name if id in one.absorbed]
        candidates = merged or [one for one in by_name if name_key(id) in one.keys]
        if len(candidates) == 1:
            resolved[id] = candidates[0]
    return resolved


class _Revision:
    """Computes which entities and relationships a list of statements adds or changes."""

    def __init__(
        self, rows: RowReader, now: datetime, entities: Sequence[Entity], relationships: Sequence[Relationship]
    ) -> None:
        self._rows, self._now = rows, now
        self._stated_entities, self._stated_relationships = entities, relationships
        ends = [end for one in relationships for end in (one.subject, one.object)]
        resolved = _resolve_entities(rows, [*(one.id for one in entities), *ends])
        self._ids = {id: one.id for id, one in resolved.items()}
        self._entities = {one.id: one for one in resolved.values()}
        self._relationships: dict[str, Relationship] = {}
        self._changed: dict[str, Entity] = {}
        self._between: dict[tuple[str, str], dict[str, Relationship]] = defaultdict(dict)
        pairs = {(self._ids.get(one.subject, ""), self._ids.get(one.object, "")) for one in relationships}
        resolved_pairs = [pair for pair in pairs if all(pair)]
        for one in rows.find(Relationship, RowFilter(pairs=resolved_pairs)) if resolved_pairs else ():
            self._between[one.subject, one.object][one.id] = one

    def apply(self, supersede: bool) -> tuple[tuple[list[Entity], list[Relationship]], GraphChange]:
        """Return the statements as they will be stored, and the change that stores them."""
        ids = []
        for stated in self._stated_entities:
            id = self._ids.setdefault(stated.id, stated.id)
            stored = self._entities.get(id)
            merged = _merge_entity(stored or replace(stated, created_at=self._now), stated)
            if merged != stored:
                self._entities[id] = self._changed[id] = merged
            ids.append(id)
        edges = [self._add_relationship(stated, supersede) for stated in self._stated_relationships]
        added = [self._relationships[one.id] for one in edges if one is not None]
        change = GraphChange(list(self._changed.values()), list(self._relationships.values()))
        return ([self._entities[id] for id in ids], added), change

    def _add_relationship(self, stated: Relationship, supersede: bool) -> Relationship | None:
        """Return the relationship as it will be stored, or None if both ends are the same entity."""
        ends = []
        for id in (stated.subject, stated.object):
            end = self._ids.get(id) or self._ids.get(clean(id))
            if end is None:
                raise NotFoundError(f"there is no entity {id!r} in the graph; add it before its relationships")
            ends.append(end)
        if ends[0] == ends[1]:
            return None
        derived = relationship_id(stated.subject, stated.type, stated.object, stated.valid_from)
        # A relationship without its own id gets one here, now that its ends are resolved.
        own = "" if stated.id == derived else stated.id
        stated = replace(stated, subject=ends[0], object=ends[1], id=own)
        between = self._between[ends[0], ends[1]]
        same = [one for one in between.values() if one.type == stated.type]
        if own and own not in {one.id for one in same}:
            for other in (*self._relationships.values(), *self._rows.find(Relationship, RowFilter(ids=[own]))):
                if other.id == own:
                    raise ValidationError(
                        f"the id {own!r} already belongs to another relationship: {other.subject} {other.type}"
                    )
        fresh = _state_relationship(stated, same, own, self._now)
        for one in self._supersede(fresh) if supersede else [fresh]:
            self._relationships[one.id] = self._between[one.subject, one.object][one.id] = fresh = one
        return fresh

    def _supersede(self, fresh: Relationship) -> Iterator[Relationship]:
        """Yield the rivals of a new relationship, ended when it starts, and then the new one itself.

        The new one ends when a later rival started.
        """
        where = RowFilter(ends=[fresh.subject], direction=Direction.OUT, types=[fresh.type])
        stored = {one.id: one for one in self._rows.find(Relationship, where, _MAX_LIMIT)} | self._relationships
        start, (_, end) = fresh.valid_from or self._now, _find_span(fresh)
        for one in stored.values():
            is_rival = (one.subject, one.type) == (fresh.subject, fresh.type) and one.object != fresh.object
            since, until = _find_span(one)
            if is_rival and since <= start < until:
                yield replace(one, valid_to=start)
            elif is_rival and start < since:
                end = min(end, since)
        yield _set_span(fresh, _find_span(fresh)[0], end)


# -- one statement and what is stored


def _find_span(one: Relationship) -> tuple[datetime, datetime]:
    return one.valid_from or _ALWAYS, one.valid_to or _NEVER


def _set_span(one: Relationship, start: datetime, end: datetime, **changes: Any) -> Relationship:
    since, until = None if start == _ALWAYS else start, None if end == _NEVER else end
    return replace(one, valid_from=since, valid_to=until, **changes)


def _merge_common(stored: Item, stated: Item) -> dict[str, Any]:
    return {
        "attributes": {**stored.attributes, **stated.attributes},
        "sources": tuple(dict.fromkeys((*stored.sources, *stated.sources)))[-_MAX_SOURCES:],
        "confidence": max(stored.confidence, stated.confidence),
    }


def _merge_entity(stored: Entity, stated: Entity) -> Entity:
    """Return the stored entity with the new aliases, attributes and sources; it keeps its name and a specific type."""
    # Aliases that differ only in spelling count once.
    aliases = {name_key(one): one for one in reversed((*stored.aliases, stated.name, *stated.aliases))}
    aliases.pop(name_key(stored.name), None)
    return replace(
        stored,
        type=stated.type if stored.type == THING else stored.type,
        aliases=tuple(reversed(aliases.values()))[-_MAX_ALIASES:],
        absorbed=tuple(dict.fromkeys((*stored.absorbed, *stated.absorbed))),
        **_merge_common(stored, stated),
    )


def _state_relationship(stated: Relationship, same: Sequence[Relationship], own: str, now: datetime) -> Relationship:
    """Return the relationship that a statement confirms among those with the same ends and type, or a new one.

    It confirms the latest one whose time overlaps. That one then spans both times, and ends if either has an end. A
    statement without any time is true now: if the stored one has ended, a new one starts now.
    """
    is_timeless = stated.valid_from is None and stated.valid_to is None
    since, until = _find_span(stated)
    since = now if is_timeless else since
    matches = [one for one in same if since < _find_span(one)[1] and _find_span(one)[0] < until]
    stored = next((one for one in same if one.id == own), None) or max(matches, key=_rank_start, default=None)
    if stored is None:
        start = now if is_timeless and same else stated.valid_from
        id = stated.id if start == stated.valid_from else ""
        return replace(stated, id=id, valid_from=start, created_at=now, sources=stated.sources[-_MAX_SOURCES:])
    first, last = _find_span(stored)
    start = first if is_timeless else min(first, since)
    end = max(filter(None, (stored.valid_to, stated.valid_to)), default=_NEVER)
    for one in same:
        # The span must not run into other relationships of the same ends and type.
        if one.id != stored.id and _find_span(one)[1] <= first:
            start = max(start, _find_span(one)[1])
        elif one.id != stored.id and last <= _find_span(one)[0]:
            end = min(end, _find_span(one)[0])
    return _set_span(stored, start, end, **_merge_common(stored, stated))


def _rank_start(one: Relationship) -> tuple[datetime, str]:
    return _find_span(one)[0], one.id


# -- merging entities and removing sources


def _merge_entities(rows: RowReader, keep: Entity, others: Collection[Entity]) -> tuple[Entity, GraphChange]:
    """Return the merged entity and the change that merges: `keep` wins where values differ.

    Relationships of the same ends and type that then overlap in time become one.
    """
    if not others:
        return keep, GraphChange()
    removed = [one.id for one in others]
    merged = keep
    for other in others:
        attributes, absorbed = {**other.attributes, **merged.attributes}, (*other.absorbed, other.id)
        merged = _merge_entity(merged, replace(other, attributes=attributes, absorbed=absorbed))
    remaining: dict[tuple[str, str, str], list[Relationship]] = defaultdict(list)
    dropped: list[str] = []
    for edge in sorted(rows.find(Relationship, RowFilter(ends=[keep.id, *removed])), key=_rank_start):
        subject, object = (keep.id if end in removed else end for end in (edge.subject, edge.object))
        moved = replace(edge, subject=subject, object=object)
        same = remaining[subject, edge.type, object]
        start, end = _find_span(moved)
        if subject == object:
            dropped.append(edge.id)
        elif same and start < _find_span(same[-1])[1]:
            first, last = _find_span(same[-1])
            same[-1] = _set_span(same[-1], min(first, start), max(last, end), **_merge_common(same[-1], moved))
            dropped.append(edge.id)
        else:
            same.append(moved)
    return merged, GraphChange([merged], [one for some in remaining.values() for one in some], removed, dropped)


def _remove_source(
    rows: RowReader, source: str, ended_at: datetime | None, keep: Collection[str]
) -> tuple[tuple[int, int, int], GraphChange]:
    """Remove a source; return counts (entities removed, relationships removed, relationships ended) and the change.

    Without `ended_at`, an entity that has no source and no relationship left is removed too.
    """
    where = RowFilter(source=source)

    def withdraw(items: Iterable[Item]) -> list[Item]:
        lost = (one for one in items if one.id not in keep)
        return [replace(one, sources=tuple(each for each in one.sources if each != source)) for one in lost]

    entities, edges = withdraw(rows.find(Entity, where)), withdraw(rows.find(Relationship, where))
    alone = [one for one in edges if not one.sources]
    supported = [one for one in edges if one.sources]
    if ended_at is not None:
        ended = [
            replace(one, valid_to=min(_find_span(one)[1], max(ended_at, one.valid_from or ended_at))) for one in alone
        ]
        return (0, 0, len(ended)), GraphChange(entities, [*supported, *ended])
    removed = {one.id for one in alone}
    orphans = []
    for one in entities:
        related = [] if one.sources else rows.find(Relationship, RowFilter(ends=[one.id]), len(removed) + 1)
        if not one.sources and removed.issuperset(edge.id for edge in related):
            orphans.append(one.id)
    counts = (len(orphans), len(removed), 0)
    return counts, GraphChange([one for one in entities if one.id not in orphans], supported, orphans, list(removed))


# -- entities that may be the same, judged by their names alone

_SHORT_FOR = """abigail abby|alexander alex sasha|alexandra alex sandra|andrew andy drew|anthony tony|barbara barb|
benjamin ben|catherine cathy kate|charles charlie chuck|christina chris tina|christopher chris|cynthia cindy|
daniel dan danny|david dave|deborah deb debbie|donald don|dorothy dot|edward ed eddie ted|
elizabeth liz beth betty eliza|emily em|eugene gene|franklin frank|frederick fred|gabriel gabe|gregory greg|
henry hank harry|jacob jake|james jim jimmy|janet jan|jeffrey jeff|jennifer jen jenny|jessica jess|
john jack johnny|jonathan jon|joseph joe joey|joshua josh|judith judy|katherine kate kathy katie|kenneth ken|
kimberly kim|lawrence larry|leonard leo len|margaret maggie meg peggy|matthew matt|melanie mel|
michael mike mick|nathaniel nate|nicholas nick|pamela pam|patricia pat trish|patrick pat|peter pete|
philip phil|raymond ray|rebecca becky|richard rick dick|robert bob rob bobby|ronald ron|samantha sam|
samuel sam|stephanie steph|stephen steve|steven steve|susan sue|theodore ted theo|theresa terry|
thomas tom tommy|timothy tim|victoria vicky|vincent vince|walter walt|william bill will billy|zachary zach"""
_LEGAL = frozenset("inc inc. corp corp. corporation ltd ltd. llc gmbh ag co co. company plc sa bv group".split())
_PLAIN = re.compile(r"[^\w]+|_")
_SURE, _LIKELY, _PERHAPS = 0.9, 0.7, 0.4


def _compare_spelling(entities: Sequence[Entity]) -> Iterator[tuple[Entity, Entity, str, float]]:
    """Yield pairs that differ only in punctuation or legal form, or that share a name or alias."""
    first: dict[tuple[str, str], Entity] = {}
    for one in entities:
        words = name_key(one.name).replace(",", "").split()
        while len(words) > 1 and words[-1] in _LEGAL:
            words.pop()
        plain = _PLAIN.sub("", name_key(one.name))
        reasons = [("same spelling apart from punctuation", plain, _SURE)] if len(plain) > 2 else []
        reasons += [(f"both are called {key!r}", key, _LIKELY) for key in one.keys]
        if one.type in ("organisation", THING):
            reasons.append(("same name apart from the legal form", " ".join(words), _LIKELY))
        for why, key, score in reasons:
            yield first.setdefault((why, key), one), one, why, score


def _compare_people(entities: Sequence[Entity]) -> Iterator[tuple[Entity, Entity, str, float]]:
    """Yield pairs of a short name and the full name of a person."""
    short_names = {names[0]: names[1:] for line in _SHORT_FOR.split("|") if (names := line.split())}
    by_short: dict[str, list[Entity]] = defaultdict(list)
    for one in entities:
        first, *rest = name_key(one.name).split()
        if one.type == "person" and rest:
            shorts = (first, *short_names.get(first, ()))
            for short in {*shorts, *(f"{each} {rest[-1]}" for each in (*shorts, first[:1]))}:
                by_short[short].append(one)
    for one in entities:
        called = name_key(one.name).replace(".", "").lstrip("@")
        same = [other for other in by_short.get(called, ()) if other.id != one.id]
        for other in same if one.type in ("person", THING) else ():
            score = _PERHAPS if len(same) > 1 else _LIKELY if " " not in called else _SURE
            yield one, other, f"{one.name!r} is short for {other.name!r}", score
