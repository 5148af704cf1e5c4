"""The graph as Cypher: one set of queries for Neo4j, Memgraph and Kùzu, written in what all of them understand.

A relationship's type is a property, not a label: a label cannot be passed beside a query, and nothing is ever set into
one. Names are nodes of their own, so that they are found by an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..types.graph import Direction, Entity, Relationship
from .codec import decode_item, list_columns, to_number
from .rows import Change, EntityFilter, Item, RelationFilter, sort_newest

Run = Callable[..., list[dict[str, Any]]]
"""A query and its values; the rows by name."""
_ALWAYS, _NEVER = -(2**62), 2**62
"""Open ends as numbers: a missing value is treated differently from one engine to the next."""
_BATCH = 1000
_NODE = "MATCH (n:AlmaEntity) WHERE n.project = $project"
_NAMED = "MATCH (k:AlmaName)-[:AlmaNames]->(n:AlmaEntity) WHERE n.project = $project"
_EDGE = "MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity) WHERE r.project = $project"
_PAIR = """UNWIND $pairs AS pair
    MATCH (a:AlmaEntity {pk: pair.first})-[r:AlmaRelates]->(b:AlmaEntity {pk: pair.second})
    WHERE r.project = $project"""
_HOLDS = "r.valid_from <= $at AND $at < r.valid_to"
_NODE_CONDITIONS = {
    "ids": "n.pk IN $ids",
    "keys": "k.pk IN $keys",
    "type": "n.type = $type",
    "source": "$source IN n.sources",
}
_EDGE_CONDITIONS = {
    "ids": "r.pk IN $ids",
    "out_ends": "a.pk IN $out_ends",
    "in_ends": "b.pk IN $in_ends",
    "types": "r.type IN $types",
    "at": _HOLDS,
    "source": "$source IN r.sources",
}

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

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]:
        head = _NODE if where.keys is None else _NAMED
        return self._find(Entity, head, _NODE_CONDITIONS, where.conditions(), limit)

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]:
        if where.ends is not None and where.direction is Direction.BOTH:
            # Asked for both at once, an engine looks at every relationship there is.
            sides = [replace(where, direction=side) for side in (Direction.OUT, Direction.IN)]
            edges = {one.id: one for side in sides for one in self.find_relationships(side, limit)}
            return sort_newest(edges.values(), limit)
        if where.types is not None and not where.types:
            return []
        values = where.conditions()
        if where.at is not None:
            values["at"] = to_number(where.at)
        if where.types is not None:
            values["types"] = list(where.types)
        return self._find(Relationship, _EDGE if where.pairs is None else _PAIR, _EDGE_CONDITIONS, values, limit)

    def _find(
        self, kind: type[Item], head: str, clauses: dict[str, str], values: dict[str, Any], limit: int | None
    ) -> list[Item]:
        """Ask for a long list in parts; of each part the newest."""
        it = "n" if kind is Entity else "r"
        query = " AND ".join([head, *(clauses[name] for name in values if name in clauses)])
        query += f" RETURN DISTINCT {it}.data AS data, {it}.created AS created, {it}.id AS id"
        if limit is not None:
            query += " ORDER BY created DESC, id DESC LIMIT $limit"
            values["limit"] = limit
        values["project"] = self._project
        listed = next((name for name in ("ids", "keys", "out_ends", "in_ends", "pairs") if name in values), "")
        if listed == "pairs":
            parts: list[Any] = [{"first": self._place(a), "second": self._place(b)} for a, b in values.pop(listed)]
        elif listed:
            parts = self._places(values.pop(listed))
        rows = self._run_parts(query, listed, parts, **values) if listed else self._run(query, values)
        return sort_newest((decode_item(kind, text) for text in {row["data"] for row in rows}), limit)

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        values: dict[str, Any] = {"project": self._project}
        entities = self._run(f"{_NODE} RETURN n.type AS type, count(n) AS number", values)
        related = self._run(f"{_EDGE} RETURN r.type AS type, count(r) AS number", values)
        current = self._run(f"{_EDGE} AND {_HOLDS} RETURN count(r) AS number", {**values, "at": to_number(at)})
        by_type = [{row["type"]: row["number"] for row in rows} for rows in (entities, related)]
        return by_type[0], by_type[1], int(current[0]["number"])

    def _run_parts(self, query: str, name: str, values: Sequence[Any], **more: Any) -> list[dict[str, Any]]:
        starts = range(0, len(values), _BATCH)
        return [row for start in starts for row in self._run(query, {name: values[start : start + _BATCH], **more})]

    def _place(self, id: str) -> str:
        return f"{self._project}\x1f{id}"

    def _places(self, ids: Iterable[str]) -> list[str]:
        return [self._place(id) for id in dict.fromkeys(ids)]


class CypherWriting(CypherReading):
    """Inside a transaction of its own."""

    def write(self, change: Change) -> None:
        touched = self._places([*(one.id for one in change.entities), *change.removed_entities])
        before = {row["key"] for row in self._run_parts(KEYS, "places", touched)}
        self._run_parts(UNNAME, "places", touched)
        entities = [{**self._row(one), "name": one.name} for one in change.entities]
        self._run_parts(PUT_ENTITIES, "rows", entities)
        names = [{"key": self._place(key), "pk": self._place(one.id)} for one in change.entities for key in one.keys]
        self._run_parts(PUT_NAMES, "rows", names)
        self._run_parts(NAME, "rows", names)
        cut = [*change.removed_relationships, *(one.id for one in change.relationships)]
        self._run_parts(CUT, "places", self._places(cut))
        edges = [self._row(one) for one in change.relationships]
        for row, one in zip(edges, change.relationships, strict=True):
            row |= {"first": self._place(one.subject), "second": self._place(one.object)}
            row["valid_from"] = _ALWAYS if row["valid_from"] is None else row["valid_from"]
            row["valid_to"] = _NEVER if row["valid_to"] is None else row["valid_to"]
        self._run_parts(RELATE, "rows", edges)
        self._run_parts(REMOVE, "places", self._places(change.removed_entities))
        self._run_parts(LONE_NAMES, "keys", sorted(before))

    def _row(self, one: Entity | Relationship) -> dict[str, Any]:
        return {**list_columns(one), "pk": self._place(one.id), "project": self._project}
