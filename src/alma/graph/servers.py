"""Graph backends outside the memory's store: PostgreSQL, and one set of Cypher queries for Neo4j, Memgraph and Kùzu.

All values are passed as query parameters, never interpolated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, StorageError
from ..files import make_private_folder
from ..trust_register import check_store
from ..types.graph import Direction, Entity
from ..types.times import to_micros
from .rows import (
    TABLES,
    Attempt,
    GraphChange,
    Item,
    RowFilter,
    RowReader,
    Rows,
    T,
    decode_item,
    list_columns,
    sort_newest,
)

# -- PostgreSQL: two tables, and one writer of a project at a time

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS {entity} (
        project text NOT NULL, id text COLLATE "C" NOT NULL, type text NOT NULL, keys text[] NOT NULL,
        sources text[] NOT NULL, created bigint NOT NULL, data text NOT NULL, PRIMARY KEY (project, id))""",
    """CREATE TABLE IF NOT EXISTS {relation} (
        project text NOT NULL, id text COLLATE "C" NOT NULL, type text NOT NULL, subject text NOT NULL,
        object text NOT NULL, valid_from bigint, valid_to bigint, sources text[] NOT NULL, created bigint NOT NULL,
        data text NOT NULL, PRIMARY KEY (project, id))""",
    "CREATE INDEX IF NOT EXISTS alma_entity_keys ON {entity} USING gin (keys)",
    "CREATE INDEX IF NOT EXISTS alma_entity_sources ON {entity} USING gin (sources)",
    "CREATE INDEX IF NOT EXISTS alma_relation_subject ON {relation} (project, subject, object)",
    "CREATE INDEX IF NOT EXISTS alma_relation_object ON {relation} (project, object)",
    "CREATE INDEX IF NOT EXISTS alma_relation_sources ON {relation} USING gin (sources)",
)
_SQL_LOCK = 0x616C6D61
_COLUMNS = {
    "entity": "project id type keys sources created data".split(),
    "relation": "project id type subject object valid_from valid_to sources created data".split(),
}
_SQL_HOLDS = "(valid_from IS NULL OR valid_from <= %(at)s) AND (valid_to IS NULL OR %(at)s < valid_to)"
_SQL_CONDITIONS = {
    "ids": "id = ANY(%(ids)s)",
    "keys": "keys && %(keys)s::text[]",
    "types": "type = ANY(%(types)s)",
    "source": "sources @> ARRAY[%(source)s]::text[]",
    "out_ends": "subject = ANY(%(out_ends)s)",
    "in_ends": "object = ANY(%(in_ends)s)",
    "both_ends": "(subject = ANY(%(both_ends)s) OR object = ANY(%(both_ends)s))",
    "pairs": "(subject, object) IN (SELECT * FROM unnest(%(firsts)s::text[], %(seconds)s::text[]))",
    "at": _SQL_HOLDS,
}


class PostgresRows(Rows):
    """A graph in PostgreSQL. `dsn` is a libpq connection string or URL; tables are created in `schema` on first use."""

    def __init__(self, dsn: str, project: str, schema: str = "public") -> None:
        try:
            psycopg: Any = import_module("psycopg")
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "The graph in PostgreSQL") from error
        self._psycopg, self._dsn, self._project = psycopg, dsn, project
        self._tables = {name: psycopg.sql.Identifier(schema, f"alma_{name}") for name in _COLUMNS}
        self._connection: Any = None
        self._lock = threading.RLock()
        self._is_closed = False
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self.place = "postgres:" + "/".join(str(parts.get(name) or "") for name in ("host", "port", "dbname"))

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the matching items, newest first."""
        values: dict[str, Any] = where.list_conditions()
        clauses = " AND ".join(["project = %(project)s", *(_SQL_CONDITIONS[name] for name in values)])
        if where.pairs is not None:
            pairs = values.pop("pairs")
            values |= {"firsts": [first for first, _ in pairs], "seconds": [second for _, second in pairs]}
        query = f"SELECT data FROM {{{TABLES[kind]}}} WHERE {clauses} ORDER BY created DESC, id DESC LIMIT %(limit)s"
        return [decode_item(kind, text) for (text,) in self._run(query, **values, limit=limit)]

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many relationships are true at a time."""
        where = "WHERE project = %(project)s"
        counts = [self._run(f"SELECT type, count(*) FROM {{{name}}} {where} GROUP BY type") for name in _COLUMNS]
        [(current,)] = self._run(f"SELECT count(*) FROM {{relation}} {where} AND {_SQL_HOLDS}", at=to_micros(at))
        return dict(counts[0]), dict(counts[1]), current

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes in one transaction and return its result."""
        with self._connect() as connection, connection.transaction(), connection.cursor() as cursor:
            # The lock lasts until the transaction ends, so that nothing changes between reading and writing.
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_SQL_LOCK, self._project))
            result, change = attempt(self)
            for kind, put, removed in change.list_tables():
                table, columns = TABLES[kind], _COLUMNS[TABLES[kind]]
                if put:
                    values = ", ".join(f"%({name})s" for name in columns)
                    fresh = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns[2:])
                    insert = f"INSERT INTO {{{table}}} ({', '.join(columns)}) VALUES ({values})"
                    rows = [{**list_columns(one), "project": self._project} for one in put]
                    cursor.executemany(self._compose(f"{insert} ON CONFLICT (project, id) DO UPDATE SET {fresh}"), rows)
                if removed:
                    erase = self._compose(f"DELETE FROM {{{table}}} WHERE project = %s AND id = ANY(%s)")
                    cursor.execute(erase, (self._project, list(removed)))
            return result

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()

    def _run(self, query: str, **values: Any) -> Any:
        with self._connect() as connection:
            return connection.execute(self._compose(query), {"project": self._project, **values}).fetchall()

    def _compose(self, query: str) -> Any:
        """Return a query with the table names filled in; values are passed as parameters."""
        return self._psycopg.sql.SQL(query).format(**self._tables)

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        with self._lock:
            if self._is_closed:
                raise StorageError("this graph is closed; open it again to use it")
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._psycopg.connect(self._dsn, autocommit=True)
                    with self._connection.transaction():
                        # Two clients that create the tables at the same time would conflict.
                        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SQL_LOCK,))
                        for statement in _SCHEMA:
                            self._connection.execute(self._compose(statement))
                yield self._connection
            except self._psycopg.Error as error:
                raise StorageError(f"PostgreSQL reported an error: {error}") from error


# -- Cypher, in the dialect that Neo4j, Memgraph and Kùzu share

# A relationship's type is a property, not a label, because a label cannot be a query parameter. Names are separate
# nodes, so that an index finds them.

Table = list[dict[str, Any]]
Run = Callable[[str, dict[str, Any]], Table]  # Runs a query with its parameters and returns its rows.

# Open ends are stored as numbers, because engines treat missing values differently.
_ALWAYS, _NEVER = -(2**62), 2**62
_BATCH = 1000
_NODE = "MATCH (n:AlmaEntity) WHERE n.project = $project"
_NODE_BY_NAME = "MATCH (k:AlmaName)-[:AlmaNames]->(n:AlmaEntity) WHERE n.project = $project"
_EDGE = "MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity) WHERE r.project = $project"
_PAIR = """UNWIND $pairs AS pair
    MATCH (a:AlmaEntity {pk: pair.first})-[r:AlmaRelates]->(b:AlmaEntity {pk: pair.second})
    WHERE r.project = $project"""
_HOLDS = "r.valid_from <= $at AND $at < r.valid_to"
_CONDITIONS = {
    "ids": "{it}.pk IN $ids",
    "keys": "k.pk IN $keys",
    "out_ends": "a.pk IN $out_ends",
    "in_ends": "b.pk IN $in_ends",
    "types": "{it}.type IN $types",
    "at": _HOLDS,
    "source": "$source IN {it}.sources",
}

_PUT_ENTITIES = """UNWIND $rows AS row MERGE (n:AlmaEntity {pk: row.pk})
    SET n.project = row.project, n.id = row.id, n.type = row.type, n.sources = row.sources, n.created = row.created,
    n.name = row.name, n.data = row.data"""
_UNNAME = "MATCH (k:AlmaName)-[r:AlmaNames]->(n:AlmaEntity) WHERE n.pk IN $places DELETE r"
_PUT_NAMES = "UNWIND $rows AS row MERGE (k:AlmaName {pk: row.key})"
_NAME = """UNWIND $rows AS row MATCH (k:AlmaName {pk: row.key}), (n:AlmaEntity {pk: row.pk})
    CREATE (k)-[:AlmaNames]->(n)"""
_LONE_NAMES = """MATCH (k:AlmaName) WHERE k.pk IN $keys
    OPTIONAL MATCH (k)-[:AlmaNames]->(n:AlmaEntity) WITH k, count(n) AS bearers WHERE bearers = 0 DELETE k"""
_CUT = "MATCH (a:AlmaEntity)-[r:AlmaRelates]->(b:AlmaEntity) WHERE r.pk IN $places DELETE r"
_RELATE = """UNWIND $rows AS row MATCH (a:AlmaEntity {pk: row.first}), (b:AlmaEntity {pk: row.second})
    CREATE (a)-[:AlmaRelates {pk: row.pk, project: row.project, id: row.id, type: row.type, sources: row.sources,
    valid_from: row.valid_from, valid_to: row.valid_to, created: row.created, data: row.data}]->(b)"""
_REMOVE = "MATCH (n:AlmaEntity) WHERE n.pk IN $places DETACH DELETE n"
_KEYS = "MATCH (k:AlmaName)-[:AlmaNames]->(n:AlmaEntity) WHERE n.pk IN $places RETURN DISTINCT k.pk AS key"


class CypherRows(RowReader):
    """Reads and writes the rows of a project with Cypher queries."""

    def __init__(self, run: Run, project: str) -> None:
        self._run = run
        self._project = project

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the matching items, newest first. Long lists of ids are queried in batches."""
        if where.ends is not None and where.direction == Direction.BOTH:
            # A query for both directions at once would scan every relationship.
            sides = [where._replace(direction=side) for side in (Direction.OUT, Direction.IN)]
            edges = {one.id: one for side in sides for one in self.find(kind, side, limit)}
            return sort_newest(edges.values(), limit)
        values: dict[str, Any] = where.list_conditions()
        if [] in values.values():
            return []
        it, head = ("n", _NODE) if kind is Entity else ("r", _EDGE)
        listed = next((name for name in ("ids", "keys", "out_ends", "in_ends", "pairs") if name in values), "")
        clauses: list[str] = [_CONDITIONS[name].format(it=it) for name in values if name in _CONDITIONS]
        query = " AND ".join([{"keys": _NODE_BY_NAME, "pairs": _PAIR}.get(listed, head), *clauses])
        query += f" RETURN DISTINCT {it}.data AS data, {it}.created AS created, {it}.id AS id"
        if limit is not None:
            query += " ORDER BY created DESC, id DESC LIMIT $limit"
            values["limit"] = limit
        values["project"] = self._project
        parts: list[Any] = values.pop(listed, [])
        if listed == "pairs":
            parts = [{"first": self._place(first), "second": self._place(second)} for first, second in parts]
        elif listed:
            parts = self._places(parts)
        rows = self._run_parts(query, listed, parts, **values) if listed else self._run(query, values)
        return sort_newest((decode_item(kind, text) for text in {row["data"] for row in rows}), limit)

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many relationships are true at a time."""
        project = {"project": self._project}
        entities = self._run(f"{_NODE} RETURN n.type AS type, count(n) AS number", project)
        edges = self._run(f"{_EDGE} RETURN r.type AS type, count(r) AS number", project)
        [current] = self._run(f"{_EDGE} AND {_HOLDS} RETURN count(r) AS number", {**project, "at": to_micros(at)})
        by_type = [{row["type"]: row["number"] for row in rows} for rows in (entities, edges)]
        return by_type[0], by_type[1], current["number"]

    def write(self, change: GraphChange) -> None:
        """Write a change in the transaction that the queries run in."""
        tables = [
            [{**list_columns(one), "pk": self._place(one.id), "project": self._project} for one in some]
            for some in (change.entities, change.relationships)
        ]
        for row in tables[1]:
            row |= {"first": self._place(row["subject"]), "second": self._place(row["object"])}
            row["valid_from"] = _ALWAYS if row["valid_from"] is None else row["valid_from"]
            row["valid_to"] = _NEVER if row["valid_to"] is None else row["valid_to"]
        names = [{"key": self._place(key), "pk": row["pk"]} for row in tables[0] for key in row.pop("keys")]
        touched = self._places([*(one.id for one in change.entities), *change.removed_entities])
        names_before = {row["key"] for row in self._run_parts(_KEYS, "places", touched)}
        cut = [*change.removed_relationships, *(one.id for one in change.relationships)]
        self._run_parts(_UNNAME, "places", touched)
        self._run_parts(_PUT_ENTITIES, "rows", tables[0])
        self._run_parts(_PUT_NAMES, "rows", names)
        self._run_parts(_NAME, "rows", names)
        self._run_parts(_CUT, "places", self._places(cut))
        self._run_parts(_RELATE, "rows", tables[1])
        self._run_parts(_REMOVE, "places", self._places(change.removed_entities))
        self._run_parts(_LONE_NAMES, "keys", sorted(names_before))

    def _run_parts(self, query: str, name: str, values: Sequence[Any], **more: Any) -> Table:
        starts = range(0, len(values), _BATCH)
        return [row for start in starts for row in self._run(query, {name: values[start : start + _BATCH], **more})]

    def _place(self, id: str) -> str:
        return f"{self._project}\x1f{id}"

    def _places(self, ids: Iterable[str]) -> list[str]:
        return [self._place(id) for id in dict.fromkeys(ids)]


# -- Neo4j and Memgraph, with Neo4j's driver

SCHEMAS = {
    "neo4j": (
        "CREATE CONSTRAINT alma_entity IF NOT EXISTS FOR (n:AlmaEntity) REQUIRE n.pk IS UNIQUE",
        "CREATE CONSTRAINT alma_name IF NOT EXISTS FOR (n:AlmaName) REQUIRE n.pk IS UNIQUE",
        "CREATE CONSTRAINT alma_graph IF NOT EXISTS FOR (n:AlmaGraph) REQUIRE n.project IS UNIQUE",
        "CREATE INDEX alma_entity_project IF NOT EXISTS FOR (n:AlmaEntity) ON (n.project)",
        "CREATE INDEX alma_relates IF NOT EXISTS FOR ()-[r:AlmaRelates]-() ON (r.pk)",
    ),
    "memgraph": (
        "CREATE INDEX ON :AlmaEntity(pk)",
        "CREATE INDEX ON :AlmaEntity(project)",
        "CREATE INDEX ON :AlmaName(pk)",
        "CREATE CONSTRAINT ON (n:AlmaEntity) ASSERT n.pk IS UNIQUE",
        "CREATE CONSTRAINT ON (n:AlmaName) ASSERT n.pk IS UNIQUE",
        "CREATE CONSTRAINT ON (n:AlmaGraph) ASSERT n.project IS UNIQUE",
    ),
}
# Every writer updates this node first, so of two concurrent writers one waits, or fails and is retried by the driver.
_LOCK = "MERGE (g:AlmaGraph {project: $project}) SET g.writes = coalesce(g.writes, 0) + 1"


class BoltRows(CypherRows):
    """A graph in a server that speaks Bolt: Neo4j or Memgraph."""

    def __init__(
        self,
        flavour: str,
        uri: str,
        project: str,
        *,
        username: str = "",
        password: str = "",
        database: str | None = None,
    ) -> None:
        try:
            neo4j: Any = import_module("neo4j")
        except ImportError as error:
            raise MissingExtraError("neo4j", "neo4j", f"The graph in {flavour}") from error
        super().__init__(self._read, project)
        self.place = f"{flavour}:{uri}/{database or ''}"
        self._flavour, self._database = flavour, database
        self._failures = (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError)
        self._lock = threading.Lock()
        self._is_prepared = self._is_closed = False
        try:
            self._driver = neo4j.GraphDatabase.driver(uri, auth=(username, password) if username else None)
        except (neo4j.exceptions.ConfigurationError, ValueError) as error:
            raise StorageError(f"cannot connect to {flavour} at {uri!r}: {error}") from error

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes in one transaction and return its result."""

        def work(transaction: Any) -> T:
            rows = CypherRows(lambda query, values: transaction.run(query, values).data(), self._project)
            transaction.run(_LOCK, {"project": self._project}).consume()
            result, change = attempt(rows)
            rows.write(change)
            return result

        with self._open_session() as session:
            result: T = session.execute_write(work)
            return result

    def close(self) -> None:
        """Close the driver."""
        self._is_closed = True
        self._driver.close()

    def _read(self, query: str, values: dict[str, Any]) -> Table:
        with self._open_session() as session:
            rows: Table = session.execute_read(lambda each: each.run(query, values).data())
            return rows

    @contextmanager
    def _open_session(self) -> Iterator[Any]:
        if self._is_closed:
            raise StorageError("this graph is closed; open it again to use it")
        try:
            with self._driver.session(database=self._database) as session:
                with self._lock:
                    if not self._is_prepared:
                        # Both servers need a separate transaction for each statement.
                        for statement in SCHEMAS[self._flavour]:
                            session.run(statement).consume()
                        self._is_prepared = True
                yield session
        except self._failures as error:
            raise StorageError(f"{self._flavour} reported an error: {error}") from error


# -- Kùzu, or its successor Ladybug

_PACKAGES = ("ladybug", "kuzu")
_BESIDE_A_GRAPH = (".wal", ".shadow", ".tmp")
_TABLES = (
    """CREATE NODE TABLE IF NOT EXISTS AlmaEntity(pk STRING PRIMARY KEY, project STRING, id STRING, name STRING,
    type STRING, sources STRING[], created INT64, data STRING)""",
    "CREATE NODE TABLE IF NOT EXISTS AlmaName(pk STRING PRIMARY KEY)",
    "CREATE REL TABLE IF NOT EXISTS AlmaNames(FROM AlmaName TO AlmaEntity)",
    """CREATE REL TABLE IF NOT EXISTS AlmaRelates(FROM AlmaEntity TO AlmaEntity, pk STRING, project STRING, id STRING,
    type STRING, sources STRING[], valid_from INT64, valid_to INT64, created INT64, data STRING)""",
)


class KuzuEngine:
    """An open Kùzu database. Only one process at a time can open it for writing; queries run one at a time."""

    def __init__(self, path: str, *, trust: bool = False) -> None:
        self._package: Any = None
        for name in _PACKAGES:
            try:
                self._package = self._package or import_module(name)
            except ImportError:
                continue
        if self._package is None:
            raise MissingExtraError(_PACKAGES[0], "kuzu", "The graph in Kùzu")
        if path != ":memory:":
            check_store(path, trust=trust, suffixes=_BESIDE_A_GRAPH)
            make_private_folder(Path(path).parent)
        try:
            self._database = self._package.Database(path)
            self._connection = self._package.Connection(self._database)
        except RuntimeError as error:
            raise StorageError(f"cannot open the graph database {path}: {error}") from error
        self.lock = threading.RLock()
        self._is_closed = False
        for statement in _TABLES:
            self.run(statement)

    def run(self, query: str, values: dict[str, Any] | None = None) -> Table:
        """Run a query with its parameters and return its rows."""
        with self.lock:
            if self._is_closed:
                raise StorageError("this graph is closed; open it again to use it")
            try:
                cursor = self._connection.execute(query, values or {})
            except RuntimeError as error:
                raise StorageError(f"{self._package.__name__} reported an error: {error}") from error
            names = cursor.get_column_names()
            rows = []
            while cursor.has_next():
                rows.append(dict(zip(names, cursor.get_next(), strict=True)))
            cursor.close()
            return rows

    def close(self) -> None:
        """Close the database."""
        with self.lock:
            if not self._is_closed:
                self._is_closed = True
                self._connection.close()
                self._database.close()


class KuzuRows(CypherRows):
    """A graph in a file, created if missing; `:memory:` stores nothing. `engine` is an open database to use instead.

    With `trust`, the file is opened even if git tracks it or another user owns it.
    """

    def __init__(self, path: str, project: str, engine: KuzuEngine | None = None, *, trust: bool = False) -> None:
        self._engine = engine or KuzuEngine(str(path), trust=trust)
        super().__init__(self._engine.run, project)
        self.place = f"kuzu:{path}"

    def change(self, attempt: Attempt[T]) -> T:
        """Write the change that `attempt` computes in one transaction and return its result."""
        with self._engine.lock:
            self._engine.run("BEGIN TRANSACTION")
            try:
                result, change = attempt(self)
                self.write(change)
            except BaseException:
                self._engine.run("ROLLBACK")
                raise
            self._engine.run("COMMIT")
            return result

    def close(self) -> None:
        """Close the database."""
        self._engine.close()
