"""The graph in a server that speaks Bolt: Neo4j or Memgraph, through Neo4j's own driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from ..errors import MissingExtraError, StorageError
from .cypher import CypherReading, CypherWriting
from .rows import Attempt

T = TypeVar("T")
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
LOCK = "MERGE (g:AlmaGraph {project: $project}) SET g.writes = coalesce(g.writes, 0) + 1"
"""Everybody who writes touches this node first. Of two at once one waits, or fails and is tried again by the driver."""


class BoltRows(CypherReading):
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
        self._flavour = flavour
        self._database = database
        self._failures = (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError)
        self._lock = threading.Lock()
        self._prepared = False
        self._closed = False
        try:
            self._driver = neo4j.GraphDatabase.driver(uri, auth=(username, password) if username else None)
        except (neo4j.exceptions.ConfigurationError, ValueError) as error:
            raise StorageError(f"{flavour} at {uri!r} cannot be used: {error}") from error

    def change(self, attempt: Attempt[T]) -> T:
        def work(transaction: Any) -> T:
            def run(query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
                rows: list[dict[str, Any]] = transaction.run(query, values).data()
                return rows

            run(LOCK, {"project": self._project})
            writing = CypherWriting(run, self._project)
            result, change = attempt(writing)
            writing.write(change)
            return result

        with self._session() as session:
            made: T = session.execute_write(work)
            return made

    def close(self) -> None:
        self._closed = True
        self._driver.close()

    def _read(self, query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        with self._session() as session:
            rows: list[dict[str, Any]] = session.execute_read(lambda each: each.run(query, values).data())
            return rows

    @contextmanager
    def _session(self) -> Iterator[Any]:
        if self._closed:
            raise StorageError("this graph is closed")
        try:
            with self._driver.session(database=self._database) as session:
                self._prepare(session)
                yield session
        except self._failures as error:
            raise StorageError(f"{self._flavour} could not do it: {error}") from error

    def _prepare(self, session: Any) -> None:
        """Indexes and constraints, each in a transaction of its own as both servers want it."""
        with self._lock:
            if not self._prepared:
                for statement in SCHEMAS[self._flavour]:
                    session.run(statement).consume()
                self._prepared = True
