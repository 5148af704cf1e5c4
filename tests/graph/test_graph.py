"""Graphs by name, several writers at once, and walking against a slower way to the same answers."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import alma.graph
from alma import ALMA
from alma.errors import ConfigError, MissingExtraError, StorageError
from alma.graph import Entity, Graph, Relationship, create_graph_store
from alma.graph.rows import MemoryRows
from alma.stores.sqlite import SQLiteStore


def test_an_unknown_backend_names_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="memory, sqlite, postgres, neo4j, memgraph, kuzu") as told:
        create_graph_store("neo4")
    assert "'neo4j'" in str(told.value)


@pytest.mark.parametrize("backend", ["memory", "postgres", "neo4j", "kuzu", "sqlite"])
def test_unknown_options_are_told(backend: str) -> None:
    with pytest.raises(ConfigError, match="has no option .colour.; its options are"):
        create_graph_store(backend, colour="red")


@pytest.mark.parametrize(
    ("backend", "package", "extra", "options"),
    [
        ("postgres", "psycopg", "postgres", {"dsn": "dbname=x"}),
        ("neo4j", "neo4j", "neo4j", {"uri": "bolt://localhost"}),
        ("memgraph", "neo4j", "neo4j", {"uri": "bolt://localhost"}),
        ("kuzu", "ladybug", "kuzu", {"path": ":memory:"}),
    ],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, backend: str, package: str, extra: str, options: dict[str, Any]
) -> None:
    def missing(name: str, *_: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("alma.graph.servers.import_module", missing)
    with pytest.raises(MissingExtraError, match=rf"'\.\[{extra}\]") as told:
        create_graph_store(backend, **options)
    assert told.value.package == package


def test_a_server_that_is_not_there_is_told() -> None:
    pytest.importorskip("psycopg")
    graph = create_graph_store("postgres", dsn="host=/nowhere dbname=x connect_timeout=1")
    with pytest.raises(StorageError, match="PostgreSQL"):
        graph.find()


def test_the_names_of_the_package() -> None:
    for name in alma.graph.__all__:
        assert getattr(alma.graph, name) is not None
    with pytest.raises(AttributeError):
        alma.graph.nothing  # noqa: B018


def test_secrets_do_not_enter_a_graph() -> None:
    graph = create_graph_store("memory")
    key = "sk-ant-api03-" + "a1B2" * 24
    made = graph.add_entity(Entity(f"token {key}", attributes={"password": "hunter2hunter2"}))
    assert key not in made.name + made.id + str(made.attributes)
    assert "hunter2hunter2" not in str(made.attributes)


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_many_writers_lose_nothing(tmp_path: Path, kind: str) -> None:
    """Each adds its own source to the same entity and relation."""
    store = SQLiteStore(tmp_path / "alma.db")
    memory = Graph(MemoryRows(), "p")

    def write(number: int) -> None:
        opened = ALMA(store, None, project_id="p")
        graph = create_graph_store("sqlite", alma=opened) if kind == "sqlite" else memory
        source = (f"s{number}",)
        graph.add_many(
            [Entity("Bob", sources=source), Entity("Acme", sources=source)],
            [Relationship("bob", "works_at", "acme", sources=source)],
        )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    graph = create_graph_store("sqlite", alma=ALMA(store, None, project_id="p")) if kind == "sqlite" else memory
    assert set(graph.get("bob").sources) == {f"s{number}" for number in range(8)}
    [held] = graph.relationships()
    assert set(held.sources) == {f"s{number}" for number in range(8)}
    store.close()


NODES = "abcdef"
pairs = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=12)


def of(edges: list[tuple[str, str]]) -> Graph:
    graph = Graph(MemoryRows(), "p")
    told = [Relationship(one, "to", two) for one, two in edges if one != two]
    graph.add_many([Entity(name) for name in NODES], told)
    return graph


@given(pairs, st.sampled_from(("out", "in", "both")), st.integers(1, 6))
def test_traversal_is_what_step_by_step_gives(edges: list[tuple[str, str]], way: str, depth: int) -> None:
    steps = {(one, two) for one, two in edges if one != two}
    both = steps | {(two, one) for one, two in steps}
    arrows = {"out": steps, "in": both - steps | {(two, one) for one, two in steps}, "both": both}[way]
    far = {"a": 0}
    for step in range(1, depth + 1):
        for one, two in arrows:
            if far.get(one) == step - 1:
                far.setdefault(two, step)
    if way == "in":
        far = {"a": 0}
        back = {(two, one) for one, two in steps}
        for step in range(1, depth + 1):
            for one, two in back:
                if far.get(one) == step - 1:
                    far.setdefault(two, step)
    assert dict(of(edges).traverse("a", depth, direction=way).depths) == far


@given(pairs, st.integers(1, 5))
def test_paths_are_all_ways_that_visit_nobody_twice(edges: list[tuple[str, str]], depth: int) -> None:
    near = {frozenset(pair) for pair in edges if pair[0] != pair[1]}
    wanted = set()
    for size in range(depth):
        for between in itertools.permutations("bcde", size):
            way = ("a", *between, "f")
            if all(frozenset(step) in near for step in itertools.pairwise(way)):
                wanted.add(way)
    found = of(edges).paths("a", "f", depth=depth, limit=1000)
    assert {tuple(one.name for one in path.entities) for path in found} == wanted
    assert [len(path) for path in found] == sorted(len(path) for path in found)


moments = st.none() | st.integers(0, 6).map(lambda day: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day))


@given(st.lists(st.tuples(moments, moments), min_size=1, max_size=4))
def test_what_was_told_to_hold_holds_unless_somebody_knew_an_end(told: list[tuple[Any, Any]]) -> None:
    """Never more than one at a moment says the same of the same two."""
    graph = Graph(MemoryRows(), "p")
    graph.add_many([Entity("a"), Entity("b")])
    for start, end in told:
        if start is None or end is None or start <= end:
            graph.add_relationship(Relationship("a", "to", "b", valid_from=start, valid_to=end))
    for day in range(-1, 8):
        at = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=day)
        assert len(graph.relationships("a", as_of=at)) <= 1
