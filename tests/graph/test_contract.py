"""Every backend keeps the same promises."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from alma import ALMA
from alma.errors import StorageError
from alma.graph import Graph, create_graph_store
from alma.graph.rows import MemoryRows
from alma.graph.servers import SCHEMAS, KuzuEngine, KuzuRows
from alma.ports import Clock
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import FrozenClock
from alma.testing.graphs import GraphContract, agree_on_graph, near
from alma.types.graph import Direction

from ._bolt import BoltServer

pytestmark = pytest.mark.system


class TestMemory(GraphContract):
    histories = 5
    hub_size = 300

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        return create_graph_store("memory", project_id=project_id, clock=clock)


class IgnoresTime(MemoryRows):
    def find(self, kind, where, limit=None):
        return super().find(kind, where._replace(at=None), limit)


class IgnoresDirection(MemoryRows):
    def find(self, kind, where, limit=None):
        return super().find(kind, where._replace(direction=Direction.BOTH), limit)


class OldestFirst(MemoryRows):
    def find(self, kind, where, limit=None):
        return super().find(kind, where)[::-1][:limit]


class IgnoresSources(MemoryRows):
    def find(self, kind, where, limit=None):
        return super().find(kind, where._replace(source=None), limit)


@pytest.mark.parametrize("broken", [IgnoresTime, IgnoresDirection, OldestFirst, IgnoresSources])
def test_random_histories_find_a_broken_backend(broken: type[MemoryRows]) -> None:
    clock = FrozenClock()
    with pytest.raises(AssertionError):
        agree_on_graph(lambda: Graph(broken(), "p", clock=clock), clock, 30, shrink=False)


class InAStore(GraphContract):
    """The graph in the store of a memory."""

    says_closed = False

    def store(self) -> Any:
        raise NotImplementedError

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        # A second project is opened on the same file.
        alma = ALMA(self.store(), None, project_id=project_id, clock=clock)
        graph = create_graph_store("sqlite", alma=alma, clock=clock)
        graph.rows._close = alma.close  # type: ignore[attr-defined]
        return graph

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        return self.make_graph(project_id, clock)


class TestSQLite(InAStore):
    histories = 10
    hub_size = 300

    def store(self) -> SQLiteStore:
        return SQLiteStore(self.folder / "alma.db")


class TestFile(InAStore):
    histories = 3
    hub_size = 300

    def store(self) -> FileStore:
        return FileStore(self.folder / "alma.jsonl")


class TestMemoryStore(InAStore):
    """Any store will do; one that lives in memory has no second handle."""

    histories = 5
    hub_size = 300

    def store(self) -> MemoryStore:
        self._store = MemoryStore()
        return self._store

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        if project_id == "p" or not hasattr(self, "_store"):
            self.store()
        alma = ALMA(self._store, None, project_id=project_id, clock=clock)
        return create_graph_store("sqlite", alma=alma, clock=clock)

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        return create_graph_store(
            "sqlite", alma=ALMA(self._store, None, project_id=project_id, clock=clock), clock=clock
        )


class TestKuzu(GraphContract):
    """Also what the Cypher of Neo4j and Memgraph is run on: the queries are the same."""

    histories = 5
    hub_size = 300

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        pytest.importorskip("ladybug", reason="the embedded Cypher engine is not installed: pip install ladybug")
        engine = getattr(self, "_engine", None)
        if project_id == "p":
            engine = self._engine = KuzuEngine(str(self.folder / "graph.kuzu"))
        return Graph(KuzuRows("x", project_id, engine), project_id, clock=clock)

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        return create_graph_store("kuzu", path=str(self.folder / "graph.kuzu"), project_id=project_id, clock=clock)


class TestNeo4j(GraphContract):
    """The driver and the queries of the servers, with the embedded engine answering in their place."""

    histories = 3
    hub_size = 300

    def setup_method(self) -> None:
        pytest.importorskip("neo4j", reason="Neo4j's driver is not installed: pip install neo4j")
        pytest.importorskip("ladybug", reason="the embedded Cypher engine is not installed: pip install ladybug")
        self._servers: list[BoltServer] = []
        super().setup_method()

    def teardown_method(self) -> None:
        super().teardown_method()
        for server in self._servers:
            server.close()

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        if project_id == "p":
            self._servers.append(BoltServer(str(self.folder / f"graph-{len(self._servers)}")))
        return self.open_again(project_id, clock)

    def open_again(self, project_id: str, clock: Clock, flavour: str = "neo4j") -> Graph:
        uri = self._servers[-1].uri
        return create_graph_store(
            flavour, uri=uri, username="neo4j", password="secret", project_id=project_id, clock=clock
        )

    def test_values_are_never_part_of_a_query(self) -> None:
        self._add("Bob", "Eve")
        self._relate("bob", "secretly_admires", "eve")
        self.graph.traverse("bob", types=["secretly_admires"])
        asked = " ".join(self._servers[-1].queries).lower()
        assert "bob" not in asked
        assert "admires" not in asked

    def test_memgraph_gets_the_same_queries_and_indexes_of_its_own(self) -> None:
        """So that what the contract shows of one server holds for the other."""

        def fill() -> tuple[list[str], list[str]]:
            self._add("Bob", "Eve", "Robert")
            self._relate("bob", "knows", "eve")
            self.graph.merge("robert", "bob")
            assert near(self.graph.neighbours("eve")) == {("knows", "Robert")}
            assert [len(path) for path in self.graph.paths("bob", "eve")] == [1]
            assert self.graph.stats().entities == 2
            assert self.graph.delete_entity("eve")
            assert self.graph.relationships() == []
            return self._servers[-1].schema, self._servers[-1].queries

        schema, queries = fill()
        assert schema == list(SCHEMAS["neo4j"]), "made once"
        self.graph.close()
        self.clock = FrozenClock()
        self.make_graph("p", self.clock).close()
        self.graph = self.open_again("p", self.clock, "memgraph")
        assert fill() == (list(SCHEMAS["memgraph"]), queries)

    def test_a_wrong_password_is_told(self) -> None:
        graph = create_graph_store("neo4j", uri=self._servers[-1].uri, username="neo4j", password="wrong")
        with pytest.raises(StorageError, match="password"):
            graph.find()
        graph.close()


@pytest.fixture(scope="class")
def _server(request: pytest.FixtureRequest, postgres: str) -> None:
    request.cls.dsn = postgres


@pytest.mark.usefixtures("_server")
class TestPostgres(GraphContract):
    histories = 10
    hub_size = 300
    dsn: str

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        # Every test and every history has tables of its own; what is made later in a test is put beside them.
        import psycopg

        self._schema = f"t_{uuid4().hex}" if project_id == "p" else self._schema
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(psycopg.sql.Identifier(self._schema))
            )
        return self.open_again(project_id, clock)

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        return create_graph_store("postgres", dsn=self.dsn, schema=self._schema, project_id=project_id, clock=clock)
