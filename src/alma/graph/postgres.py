"""The graph in PostgreSQL: two tables, and one writer of a project at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError, StorageError
from ..types.times import to_micros
from .rows import TABLES, Attempt, Item, RowFilter, Rows, T, decode_item, list_columns

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
_LOCK = 0x616C6D61
_PUT = {
    "entity": """INSERT INTO {entity} (project, id, type, keys, sources, created, data)
        VALUES (%(project)s, %(id)s, %(type)s, %(keys)s, %(sources)s, %(created)s, %(data)s)
        ON CONFLICT (project, id) DO UPDATE SET type = EXCLUDED.type, keys = EXCLUDED.keys,
        sources = EXCLUDED.sources, created = EXCLUDED.created, data = EXCLUDED.data""",
    "relation": """INSERT INTO {relation}
        (project, id, type, subject, object, valid_from, valid_to, sources, created, data)
        VALUES (%(project)s, %(id)s, %(type)s, %(subject)s, %(object)s, %(valid_from)s, %(valid_to)s, %(sources)s,
        %(created)s, %(data)s)
        ON CONFLICT (project, id) DO UPDATE SET type = EXCLUDED.type, subject = EXCLUDED.subject,
        object = EXCLUDED.object, valid_from = EXCLUDED.valid_from, valid_to = EXCLUDED.valid_to,
        sources = EXCLUDED.sources, created = EXCLUDED.created, data = EXCLUDED.data""",
}
_HOLDS = "(valid_from IS NULL OR valid_from <= %(at)s) AND (valid_to IS NULL OR %(at)s < valid_to)"
_CONDITIONS = {
    "ids": "id = ANY(%(ids)s)",
    "keys": "keys && %(keys)s::text[]",
    "types": "type = ANY(%(types)s)",
    "source": "sources @> ARRAY[%(source)s]::text[]",
    "out_ends": "subject = ANY(%(out_ends)s)",
    "in_ends": "object = ANY(%(in_ends)s)",
    "both_ends": "(subject = ANY(%(both_ends)s) OR object = ANY(%(both_ends)s))",
    "pairs": "(subject, object) IN (SELECT * FROM unnest(%(firsts)s::text[], %(seconds)s::text[]))",
    "at": _HOLDS,
}


class PostgresRows(Rows):
    """`dsn` is a connection string or URL of libpq. The tables are made in `schema` when they are first needed."""

    place = ""

    def __init__(self, dsn: str, project: str, schema: str = "public") -> None:
        try:
            psycopg: Any = import_module("psycopg")
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres", "The graph in PostgreSQL") from error
        self._psycopg = psycopg
        self._dsn = dsn
        self._project = project
        self._tables = {name: psycopg.sql.Identifier(schema, f"alma_{name}") for name in _PUT}
        self._connection: Any = None
        self._lock = threading.RLock()
        self._is_closed = False
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self.place = "postgres:" + "/".join(str(parts.get(name) or "") for name in ("host", "port", "dbname"))

    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        values: dict[str, Any] = where.list_conditions()
        clauses = " AND ".join(["project = %(project)s", *(_CONDITIONS[name] for name in values)])
        if where.pairs is not None:
            pairs = values.pop("pairs")
            values |= {"firsts": [first for first, _ in pairs], "seconds": [second for _, second in pairs]}
        query = f"SELECT data FROM {{{TABLES[kind]}}} WHERE {clauses} ORDER BY created DESC, id DESC LIMIT %(limit)s"
        return [decode_item(kind, text) for (text,) in self._run(query, **values, limit=limit)]

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        where = "WHERE project = %(project)s"
        counts = [self._run(f"SELECT type, count(*) FROM {{{name}}} {where} GROUP BY type") for name in _PUT]
        [(current,)] = self._run(f"SELECT count(*) FROM {{relation}} {where} AND {_HOLDS}", at=to_micros(at))
        return dict(counts[0]), dict(counts[1]), current

    def change(self, attempt: Attempt[T]) -> T:
        with self._connect() as connection, connection.transaction(), connection.cursor() as cursor:
            # Held until the transaction ends: what was read is still so when it is written.
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._project))
            result, change = attempt(self)
            for kind, put, removed in change.list_tables():
                table = TABLES[kind]
                rows = [{**list_columns(one), "project": self._project} for one in put]
                if rows:
                    cursor.executemany(self._compose(_PUT[table]), rows)
                if removed:
                    erase = self._compose(f"DELETE FROM {{{table}}} WHERE project = %s AND id = ANY(%s)")
                    cursor.execute(erase, (self._project, list(removed)))
            return result

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()

    def _run(self, query: str, **values: Any) -> Any:
        with self._connect() as connection:
            return connection.execute(self._compose(query), {"project": self._project, **values}).fetchall()

    def _compose(self, query: str) -> Any:
        """Only the names of the tables are set into a query; all else is passed beside it."""
        return self._psycopg.sql.SQL(query).format(**self._tables)

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        with self._lock:
            if self._is_closed:
                raise StorageError("this graph is closed")
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._psycopg.connect(self._dsn, autocommit=True)
                    with self._connection.transaction():
                        # Two that make the same tables at once would trip over each other.
                        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                        for statement in _SCHEMA:
                            self._connection.execute(self._compose(statement))
                yield self._connection
            except self._psycopg.Error as error:
                raise StorageError(f"PostgreSQL could not do it: {error}") from error
