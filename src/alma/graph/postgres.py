"""The graph in PostgreSQL: two tables, and one writer of a project at a time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any, TypeVar

from ..errors import MissingExtraError, StorageError
from ..types.graph import Direction, Entity, Relationship
from .codec import entity_of, entity_text, micros, relationship_of, relationship_text
from .rows import Attempt, Change, Wanted

T = TypeVar("T")
_TABLES = (
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
_NEWEST = "ORDER BY created DESC, id DESC"
_LOCK = 0x616C6D61
_WAYS = {
    Direction.OUT: "subject = ANY(%(ends)s)",
    Direction.IN: "object = ANY(%(ends)s)",
    Direction.BOTH: "(subject = ANY(%(ends)s) OR object = ANY(%(ends)s))",
}
_PUT_ENTITY = """INSERT INTO {entity} (project, id, type, keys, sources, created, data)
    VALUES (%(project)s, %(id)s, %(type)s, %(keys)s, %(sources)s, %(created)s, %(data)s)
    ON CONFLICT (project, id) DO UPDATE SET type = EXCLUDED.type, keys = EXCLUDED.keys, sources = EXCLUDED.sources,
    created = EXCLUDED.created, data = EXCLUDED.data"""
_PUT_RELATION = """INSERT INTO {relation}
    (project, id, type, subject, object, valid_from, valid_to, sources, created, data)
    VALUES (%(project)s, %(id)s, %(type)s, %(subject)s, %(object)s, %(valid_from)s, %(valid_to)s, %(sources)s,
    %(created)s, %(data)s)
    ON CONFLICT (project, id) DO UPDATE SET type = EXCLUDED.type, subject = EXCLUDED.subject,
    object = EXCLUDED.object, valid_from = EXCLUDED.valid_from, valid_to = EXCLUDED.valid_to,
    sources = EXCLUDED.sources, created = EXCLUDED.created, data = EXCLUDED.data"""
_HOLDS = "(valid_from IS NULL OR valid_from <= %(at)s) AND (valid_to IS NULL OR %(at)s < valid_to)"


class PostgresRows:
    """`dsn` is a connection string or URL of libpq. The tables are made in `schema` when they are first needed."""

    def __init__(self, dsn: str, project: str, schema: str = "public") -> None:
        try:
            psycopg: Any = import_module("psycopg")
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "The graph in PostgreSQL") from error
        self._psycopg = psycopg
        self._dsn = dsn
        self._project = project
        self._schema = schema
        self._connection: Any = None
        self._lock = threading.RLock()
        self._closed = False
        told = psycopg.conninfo.conninfo_to_dict(dsn)
        self.place = "postgres:" + "/".join(str(told.get(name) or "") for name in ("host", "port", "dbname"))

    # -- reading

    def entities(self, ids: Collection[str]) -> list[Entity]:
        return self._entities("id = ANY(%(ids)s)", ids=list(ids))

    def named(self, keys: Collection[str]) -> list[Entity]:
        return self._entities(f"keys && %(keys)s::text[] {_NEWEST}", keys=list(keys))

    def listed(self, type: str | None, limit: int) -> list[Entity]:
        asked = f"(%(type)s::text IS NULL OR type = %(type)s) {_NEWEST} LIMIT %(limit)s"
        return self._entities(asked, type=type, limit=limit)

    def relationships(self, ids: Collection[str]) -> list[Relationship]:
        return self._relationships("id = ANY(%(ids)s)", ids=list(ids))

    def edges(self, ends: Collection[str] | None, wanted: Wanted, limit: int) -> list[Relationship]:
        told: dict[str, Any] = {"limit": limit}
        conditions = []
        if ends is not None:
            conditions.append(_WAYS[wanted.direction])
            told["ends"] = list(ends)
        if wanted.types is not None:
            conditions.append("type = ANY(%(types)s)")
            told["types"] = list(wanted.types)
        if wanted.at is not None:
            conditions.append(_HOLDS)
            told["at"] = micros(wanted.at)
        where = " AND ".join(conditions) or "true"
        return self._relationships(f"{where} {_NEWEST} LIMIT %(limit)s", **told)

    def between(self, pairs: Collection[tuple[str, str]]) -> list[Relationship]:
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        asked = "(subject, object) IN (SELECT * FROM unnest(%(firsts)s::text[], %(seconds)s::text[]))"
        return self._relationships(asked, firsts=firsts, seconds=seconds)

    def sourced(self, sources: Collection[str]) -> tuple[list[Entity], list[Relationship]]:
        told = list(sources)
        asked = "sources && %(told)s::text[]"
        return self._entities(asked, told=told), self._relationships(asked, told=told)

    def counts(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        count = "SELECT type, count(*) FROM {table} WHERE project = %(project)s GROUP BY type"
        entities = self._run(count.replace("{table}", "{entity}"))
        relations = self._run(count.replace("{table}", "{relation}"))
        [(current,)] = self._run(
            f"SELECT count(*) FROM {{relation}} WHERE project = %(project)s AND {_HOLDS}", at=micros(at)
        )
        return dict(entities), dict(relations), int(current)

    def _entities(self, condition: str, **told: Any) -> list[Entity]:
        asked = f"SELECT data FROM {{entity}} WHERE project = %(project)s AND {condition}"
        return [entity_of(text) for (text,) in self._run(asked, **told)]

    def _relationships(self, condition: str, **told: Any) -> list[Relationship]:
        asked = f"SELECT data FROM {{relation}} WHERE project = %(project)s AND {condition}"
        return [relationship_of(text) for (text,) in self._run(asked, **told)]

    # -- writing

    def change(self, attempt: Attempt[T]) -> T:
        with self._using() as connection, connection.transaction():
            # Held until the transaction ends: what was read is still so when it is written.
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._project))
            result, change = attempt(self)
            self._write(connection, change)
            return result

    def _write(self, connection: Any, change: Change) -> None:
        with connection.cursor() as cursor:
            if change.entities:
                cursor.executemany(self._sql(_PUT_ENTITY), [self._entity(one) for one in change.entities])
            if change.relationships:
                related = [self._relation(one) for one in change.relationships]
                cursor.executemany(self._sql(_PUT_RELATION), related)
            for table, ids in (("relation", change.removed_relationships), ("entity", change.removed_entities)):
                if ids:
                    erase = f"DELETE FROM {{{table}}} WHERE project = %s AND id = ANY(%s)"
                    cursor.execute(self._sql(erase), (self._project, list(ids)))

    def _entity(self, one: Entity) -> dict[str, Any]:
        return {
            "project": self._project,
            "id": one.id,
            "type": one.type,
            "keys": list(one.keys),
            "sources": list(one.sources),
            "created": micros(one.created_at),
            "data": entity_text(one),
        }

    def _relation(self, one: Relationship) -> dict[str, Any]:
        return {
            "project": self._project,
            "id": one.id,
            "type": one.type,
            "subject": one.subject,
            "object": one.object,
            "valid_from": micros(one.valid_from),
            "valid_to": micros(one.valid_to),
            "sources": list(one.sources),
            "created": micros(one.created_at),
            "data": relationship_text(one),
        }

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # -- the connection

    def _run(self, query: str, **told: Any) -> Any:
        with self._using() as connection:
            values: Mapping[str, Any] = {"project": self._project, **told}
            return connection.execute(self._sql(query), values).fetchall()

    def _sql(self, query: str) -> Any:
        """Only the names of the tables are set into a query; all else is passed beside it."""
        sql = self._psycopg.sql
        places = {name: sql.Identifier(self._schema, f"alma_{name}") for name in ("entity", "relation")}
        return sql.SQL(query).format(**places)

    @contextmanager
    def _using(self) -> Iterator[Any]:
        with self._lock:
            if self._closed:
                raise StorageError("this graph is closed")
            try:
                yield self._open()
            except self._psycopg.Error as error:
                raise StorageError(f"PostgreSQL could not do it: {error}") from error

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._psycopg.connect(self._dsn, autocommit=True)
            with self._connection.transaction():
                # Two that make the same tables at once would trip over each other.
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                for statement in _TABLES:
                    self._connection.execute(self._sql(statement))
        return self._connection
