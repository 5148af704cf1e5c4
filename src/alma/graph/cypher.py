"""The graph as Cypher: one set of queries for Neo4j, Memgraph and Kùzu, written in what all of them understand.

A relationship's type is a property, not a label: a label cannot be passed beside a query, and nothing is ever set into
one. Names are nodes of their own, so that they are found by an index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..types.graph import Direction, Entity, Relationship
from .codec import entity_of, entity_text, micros, relationship_of, relationship_text
from .rows import Change, Wanted, newest_first

Run = Callable[..., list[dict[str, Any]]]
"""A query and its values; the rows by name."""
_ALWAYS, _NEVER = -(2**62), 2**62
"""Open ends as numbers: a missing value is treated differently from one engine to the next."""
_BATCH = 1000
_NEWEST = "ORDER BY {it}.created DESC, {it}.id DESC"
_EDGE = "MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity) WHERE r.project = $project"
_WAYS = {
    Direction.OUT: " AND a.pk IN $places",
    Direction.IN: " AND b.pk IN $places",
}
_HOLDS = " AND r.valid_from <= $at AND $at < r.valid_to"

PUT_ENTITIES = """UNWIND $rows AS row MERGE (n:AlmaEntity {pk: row.pk})
    SET n.project = row.project, n.id = row.id, n.type = row.type, n.sources = row.sources, n.created = row.created,
    n.name = row.name, n.data = row.data"""
UNNAME = "MATCH (k:AlmaName)-[r:AlmaNames]->(n:AlmaEntity) WHERE n.pk IN $places DELETE r"
PUT_NAMES = "UNWIND $rows AS row MERGE (k:AlmaName {pk: row.key})"
NAME = """UNWIND $rows AS row MATCH (k:AlmaName {pk: row.key}), (n:AlmaEntity {pk: row.pk})
    CREATE (k)-[:AlmaNames]->(n)"""
LONE_NAMES = """MATCH (k:AlmaName) WHERE k.pk IN $keys
    OPTIONAL MATCH (k)-[:AlmaNames]->(n:AlmaEntity) WITH k, count(n) AS bearers WHERE bearers = 0 DELETE k"""
CUT = "MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity) WHERE r.pk IN $places DELETE r"
RELATE = """UNWIND $rows AS row MATCH (a:AlmaEntity {pk: row.first}), (b:AlmaEntity {pk: row.second})
    CREATE (a)-[:AlmaRelates {pk: row.pk, project: row.project, id: row.id, type: row.type, sources: row.sources,
    valid_from: row.valid_from, valid_to: row.valid_to, created: row.created, data: row.data}]->(b)"""
REMOVE = "MATCH (n:AlmaEntity) WHERE n.pk IN $places DETACH DELETE n"
KEYS = "MATCH (k:AlmaName)-[:AlmaNames]->(n:AlmaEntity) WHERE n.pk IN $places RETURN DISTINCT k.pk AS key"


class CypherReading:
    def __init__(self, run: Run, project: str) -> None:
        self._run = run
        self._project = project

    def entities(self, ids: Collection[str]) -> list[Entity]:
        asked = "MATCH (n:AlmaEntity) WHERE n.pk IN $places RETURN n.data AS data"
        return [entity_of(row["data"]) for row in self._parted(asked, "places", self._places(ids))]

    def named(self, keys: Collection[str]) -> list[Entity]:
        asked = "MATCH (k:AlmaName)-[:AlmaNames]->(n:AlmaEntity) WHERE k.pk IN $keys RETURN DISTINCT n.data AS data"
        found = {row["data"] for row in self._parted(asked, "keys", self._places(keys))}
        return sorted(map(entity_of, found), key=newest_first, reverse=True)

    def listed(self, type: str | None, limit: int) -> list[Entity]:
        asked = "MATCH (n:AlmaEntity) WHERE n.project = $project"
        told: dict[str, Any] = {"project": self._project, "limit": limit}
        if type is not None:
            asked += " AND n.type = $type"
            told["type"] = type
        asked += f" RETURN n.data AS data {_NEWEST.format(it='n')} LIMIT $limit"
        return [entity_of(row["data"]) for row in self._run(asked, told)]

    def relationships(self, ids: Collection[str]) -> list[Relationship]:
        asked = f"{_EDGE} AND r.pk IN $places RETURN r.data AS data"
        found = self._parted(asked, "places", self._places(ids), project=self._project)
        return [relationship_of(row["data"]) for row in found]

    def edges(self, ends: Collection[str] | None, wanted: Wanted, limit: int) -> list[Relationship]:
        if ends is not None and wanted.direction is Direction.BOTH:
            # Asked for both at once, an engine looks at every relationship there is.
            sides = [replace(wanted, direction=side) for side in (Direction.OUT, Direction.IN)]
            found = {one.id: one for side in sides for one in self.edges(ends, side, limit)}
            return sorted(found.values(), key=newest_first, reverse=True)[:limit]
        if wanted.types is not None and not wanted.types:
            return []
        asked = _EDGE
        told: dict[str, Any] = {"project": self._project, "limit": limit}
        if wanted.types is not None:
            asked += " AND r.type IN $types"
            told["types"] = list(wanted.types)
        if wanted.at is not None:
            asked += _HOLDS
            told["at"] = micros(wanted.at)
        if ends is not None:
            asked += _WAYS[wanted.direction]
            told["places"] = self._places(ends)
        asked += f" RETURN r.data AS data {_NEWEST.format(it='r')} LIMIT $limit"
        return [relationship_of(row["data"]) for row in self._run(asked, told)]

    def between(self, pairs: Collection[tuple[str, str]]) -> list[Relationship]:
        asked = """UNWIND $rows AS row
            MATCH (a:AlmaEntity {pk: row.first})-[r:AlmaRelates]->(b:AlmaEntity {pk: row.second})
            RETURN r.data AS data"""
        rows = [{"first": self._place(first), "second": self._place(second)} for first, second in pairs]
        return [relationship_of(row["data"]) for row in self._parted(asked, "rows", rows)]

    def sourced(self, sources: Collection[str]) -> tuple[list[Entity], list[Relationship]]:
        nodes = """UNWIND $sources AS source MATCH (n:AlmaEntity)
            WHERE n.project = $project AND source IN n.sources RETURN DISTINCT n.data AS data"""
        edges = """UNWIND $sources AS source MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity)
            WHERE r.project = $project AND source IN r.sources RETURN DISTINCT r.data AS data"""
        told = {"project": self._project, "sources": list(sources)}
        return (
            [entity_of(row["data"]) for row in self._run(nodes, told)],
            [relationship_of(row["data"]) for row in self._run(edges, told)],
        )

    def counts(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        told: dict[str, Any] = {"project": self._project}
        nodes = "MATCH (n:AlmaEntity) WHERE n.project = $project RETURN n.type AS type, count(n) AS number"
        entities = {row["type"]: row["number"] for row in self._run(nodes, told)}
        edges = f"{_EDGE} RETURN r.type AS type, count(r) AS number"
        related = {row["type"]: row["number"] for row in self._run(edges, told)}
        current = self._run(f"{_EDGE}{_HOLDS} RETURN count(r) AS number", {**told, "at": micros(at)})
        return entities, related, int(current[0]["number"])

    def _parted(self, query: str, name: str, values: Sequence[Any], **more: Any) -> Iterable[dict[str, Any]]:
        """A long list in parts."""
        for start in range(0, len(values), _BATCH):
            yield from self._run(query, {name: values[start : start + _BATCH], **more})

    def _place(self, id: str) -> str:
        return f"{self._project}\x1f{id}"

    def _places(self, ids: Iterable[str]) -> list[str]:
        return [self._place(id) for id in dict.fromkeys(ids)]


class CypherWriting(CypherReading):
    """Inside a transaction of its own."""

    def write(self, change: Change) -> None:
        touched = self._places([*(one.id for one in change.entities), *change.removed_entities])
        before = {row["key"] for row in self._parted(KEYS, "places", touched)}
        self._each(UNNAME, "places", touched)
        self._each(PUT_ENTITIES, "rows", [self._entity(one) for one in change.entities])
        names = [{"key": self._place(key), "pk": self._place(one.id)} for one in change.entities for key in one.keys]
        self._each(PUT_NAMES, "rows", names)
        self._each(NAME, "rows", names)
        cut = [*change.removed_relationships, *(one.id for one in change.relationships)]
        self._each(CUT, "places", self._places(cut))
        self._each(RELATE, "rows", [self._relation(one) for one in change.relationships])
        self._each(REMOVE, "places", self._places(change.removed_entities))
        self._each(LONE_NAMES, "keys", sorted(before))

    def _each(self, query: str, name: str, values: Sequence[Any]) -> None:
        for _ in self._parted(query, name, values):
            pass

    def _entity(self, one: Entity) -> dict[str, Any]:
        return {
            "pk": self._place(one.id),
            "project": self._project,
            "id": one.id,
            "name": one.name,
            "type": one.type,
            "sources": list(one.sources),
            "created": micros(one.created_at),
            "data": entity_text(one),
        }

    def _relation(self, one: Relationship) -> dict[str, Any]:
        start, end = micros(one.valid_from), micros(one.valid_to)
        return {
            "pk": self._place(one.id),
            "first": self._place(one.subject),
            "second": self._place(one.object),
            "project": self._project,
            "id": one.id,
            "type": one.type,
            "sources": list(one.sources),
            "valid_from": _ALWAYS if start is None else start,
            "valid_to": _NEVER if end is None else end,
            "created": micros(one.created_at),
            "data": relationship_text(one),
        }
