"""What every backend of a graph promises, as tests: a class to inherit from and to run with pytest.

    class TestMyGraph(GraphContract):
        def make_graph(self, project_id, clock):
            return Graph(MyRows(self.folder / "graph", project_id), project_id, clock=clock)

`self.folder` is an empty folder of the test's own. Graphs made in one test with different projects share their place.
What `Graph` itself makes of entities and relationships is the same over all backends and is not tested here; the
random histories go through all of it, with every question by name, type, direction and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest import SkipTest

from ..errors import NotFoundError, StorageError
from ..graph import Graph
from ..graph.rows import MemoryRows
from ..ports import Clock
from ..types.graph import Entity, Neighbour, Relationship
from .contract import MOMENT, FrozenClock, Room, call_safely, draw_some, refused, run_examples

with suppress(ImportError):  # Only the random histories need it.
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy

DAY = timedelta(days=1)
HOSTILE = (
    "Robert'); DROP TABLE entity;--",
    "x}) DETACH DELETE n //",
    "$name {{name}} %s ? :name",
    '"quoted" \\ back\\slash `tick`',
    "naïve 日本語 🙂 \u200b",
    "→ alice →",
)


def names(entities: Iterable[Entity]) -> list[str]:
    """Return the names of entities."""
    return [one.name for one in entities]


def near(neighbours: Iterable[Neighbour]) -> set[tuple[str, str]]:
    """Return the relationship type and entity name of each neighbour."""
    return {(one.relationship.type, one.entity.name) for one in neighbours}


class GraphContract(Room):
    """The tests that every graph must pass. Subclass it and define `make_graph`."""

    histories = 30  # How many random histories are compared with the in-memory graph.
    hub_size = 10_000
    says_closed = True

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        """Return a new, empty graph."""
        raise NotImplementedError("return a new, empty graph in a folder below self.folder")

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        """Another handle on the same graph after the first was closed."""
        raise SkipTest("the graph does not persist after it is closed")

    def setup_method(self) -> None:
        """Open an empty graph."""
        super().setup_method()
        self.clock = FrozenClock()
        self.graph = self._make_empty()

    def teardown_method(self) -> None:
        """Close the graph."""
        self.graph.close()
        super().teardown_method()

    def _make_empty(self) -> Graph:
        self._make_folder()
        return self.make_graph("p", self.clock)

    def _add(self, *names: str, type: str = "person") -> None:
        for name in names:
            self.graph.add_entity(Entity(name, type))
            self.clock.advance(seconds=1)

    def _relate(self, subject: str, kind: str, object: str, since: datetime | None = None) -> Relationship:
        self.clock.advance(seconds=1)
        return self.graph.add_relationship(Relationship(subject, kind, object, valid_from=since))

    def test_every_field_comes_back(self) -> None:
        """Every field comes back."""
        attributes = {"team": ["a", {"b": None}], "n": 1.5, "yes": True}
        bob = Entity("Robert Smith", "person", "p-1", ("Bob", "R. Smith"), attributes, ("kno_1", "epi_2"), 0.75)
        acme = Entity("Acme")
        for entity in (bob, acme):
            assert self.graph.add_entity(entity) == replace(entity, created_at=MOMENT) == self.graph.get(entity.id)
        span = (MOMENT - DAY, MOMENT + DAY)
        edge = Relationship("p-1", "works_at", "acme", "r-1", *span, 0.5, attributes, ("kno_1",))
        stored = self.graph.add_relationship(edge)
        assert stored == replace(edge, created_at=MOMENT) == self.graph.get_relationship("r-1")
        assert self.graph.relationships() == self.graph.relationships("p-1") == [stored]

    def test_hostile_names_are_only_names(self) -> None:
        """Hostile names are only names."""
        for name in HOSTILE:
            self.graph.add_entity(Entity(name, "person", aliases=(name[::-1],), attributes={name: name}))
        self._add("Eve")
        for name in HOSTILE:
            [entity] = self.graph.find(name)
            assert entity.name == name
            self._relate(entity.id, "knows", "eve")
            assert near(self.graph.neighbours(entity.id)) == {("knows", "Eve")}
        assert near(self.graph.neighbours("eve")) == {("knows", name) for name in HOSTILE}
        assert self.graph.delete_entity(self.graph.find(HOSTILE[0])[0].id)
        assert len(self.graph.find()) == len(HOSTILE)

    def test_many_at_once_all_or_none(self) -> None:
        """Many at once all or none."""
        entities = [Entity(f"e{number}") for number in range(50)]
        chain = [Relationship(f"e{number}", "next", f"e{number + 1}") for number in range(49)]
        stored, joined = self.graph.add_many([*entities, entities[0]], [*chain, chain[0]])
        assert (stored[0], joined[0]) == (stored[50], joined[49])
        bad = [Relationship("e1", "next", "e9"), Relationship("e1", "next", "nobody")]
        refused(NotFoundError, self.graph.add_many, [Entity("late")], bad)
        assert (self.graph.stats().entities, self.graph.stats().relationships) == (50, 49)

    def test_a_hub_is_bounded(self) -> None:
        """A hub is bounded."""
        size = self.hub_size
        people = [Entity(f"Person {number:05d}", "person") for number in range(size)]
        for start in range(0, size, 2500):
            some = people[start : start + 2500]
            edges = [Relationship(one.id, "works_at", "hub") for one in some]
            self.graph.add_many([Entity("Hub", "organisation"), *some], edges)
        assert len(self.graph.neighbours("hub")) == 100
        reached = self.graph.traverse("hub", depth=3, limit=50)
        assert (len(reached.entities), reached.truncated) == (51, True)
        assert len(self.graph.traverse(people[0].id, depth=2, limit=200).entities) == 201
        [path] = self.graph.paths(people[0].id, people[-1].id)
        assert names(path.entities) == [people[0].name, "Hub", people[-1].name]
        assert self.graph.stats().relationships == size
        assert self.graph.delete_entity("hub")
        assert self.graph.stats().relationships == 0

    def test_what_is_deleted_is_gone(self) -> None:
        """What is deleted is gone."""
        self._add("Bob", "Eve", "Carl")
        self._relate("bob", "knows", "eve")
        other = self._relate("eve", "knows", "carl")
        assert (self.graph.delete_entity("bob"), self.graph.delete_entity("bob")) == (True, False)
        refused(NotFoundError, self.graph.get, "bob")
        assert self.graph.find("Bob") == []
        assert self.graph.relationships("eve", history=True) == [other]
        assert (self.graph.delete_relationship(other.id), self.graph.delete_relationship(other.id)) == (True, False)
        assert self.graph.relationships(history=True) == []

    def test_projects_do_not_see_each_other(self) -> None:
        """Projects do not see each other."""
        other = self.make_graph("q", self.clock)
        try:
            self._add("Bob", "Eve")
            edge = self._relate("bob", "knows", "eve")
            assert (other.find(), other.relationships(history=True)) == ([], [])
            other.add_many([Entity("Bob"), Entity("Acme")], [Relationship("bob", "works_at", "acme")])
            assert near(self.graph.neighbours("bob")) == {("knows", "Eve")}
            assert near(other.neighbours("bob")) == {("works_at", "Acme")}
            refused(NotFoundError, other.get_relationship, edge.id)
            assert other.delete_entity("bob")
            assert self.graph.stats().relationships == 1
        finally:
            other.close()

    def test_what_was_stored_is_there_in_the_next_handle(self) -> None:
        """What was stored is there in the next handle."""
        self._add("Bob", "Eve")
        edge = self._relate("bob", "knows", "eve")
        self.graph.merge("eve", self.graph.add_entity(Entity("Evelyn")).id)
        self.graph.close()
        self.graph = self.open_again("p", self.clock)
        assert self.graph.relationships() == [edge]
        assert self.graph.get("evelyn").id == "eve"

    def test_a_closed_graph_says_so(self) -> None:
        """A closed graph says so."""
        if not self.says_closed:
            raise SkipTest("the graph belongs to another owner, who closes it")
        self.graph.close()
        self.graph.close()
        refused(StorageError, self.graph.find)

    def test_it_agrees_with_the_in_memory_graph_on_random_histories(self) -> None:
        """It agrees with the in memory graph on random histories."""
        self._need_hypothesis()
        agree_on_graph(self._make_empty, self.clock, self.histories)


# --- random histories

PEOPLE = ("Ann", "Bob", "Cy", "Dée", "bob ")
ENDS = ("ann", "bob", "cy", "dée", "nobody")
TYPES = ("thing", "person", "place")
DAYS = tuple(MOMENT + timedelta(days=day) for day in (-2, -1, 0, 1))

# A method of Graph and its arguments; a number stands for one of the relationships that are there.
GraphCall = tuple[str, tuple[Any, ...], dict[str, Any]]


def graph_calls() -> SearchStrategy[GraphCall]:
    """Return a strategy for the calls of a random history."""
    ids, nth, days = st.sampled_from(ENDS), st.integers(0, 3), st.sampled_from(DAYS)
    sources = draw_some("ab", unique=True)
    entity = st.builds(
        Entity,
        name=st.sampled_from(PEOPLE),
        type=st.sampled_from(TYPES),
        aliases=draw_some(("Ann", "Bobby", "C"), unique=True),
        attributes=st.sampled_from(({}, {"x": 1}, {"x": [2], "y": None})),
        sources=sources,
        confidence=st.sampled_from((0.5, 1.0)),
    )
    # Mostly usable: two ends that are known, and an end after the beginning.
    names = st.sampled_from((*ENDS[:-1] * 3, "nobody"))
    edge = st.builds(
        Relationship,
        names,
        st.sampled_from(("knows", "works_at")),
        names,
        valid_from=st.none() | days,
        valid_to=st.none() | days,
        sources=sources,
        attributes=st.sampled_from(({}, {"x": 1})),
    ).filter(lambda one: one.subject != one.object and (one.valid_from or DAYS[0]) <= (one.valid_to or DAYS[-1]))
    table: list[tuple[int, str, tuple[Any, ...], dict[str, Any]]] = [
        (1, "add_many", (st.lists(entity, min_size=1, max_size=3),), {}),
        (8, "add_relationship", (edge,), {"supersede": st.booleans()}),
        (3, "end_relationship", (nth, days), {}),
        (2, "merge", (ids, ids), {}),
        (1, "delete_relationship", (nth,), {}),
        (1, "delete_entity", (ids,), {}),
        (2, "forget_source", (st.sampled_from("ab"),), {"ended_at": st.none() | days}),
    ]
    return st.sampled_from([row for row in table for _ in range(row[0])]).flatmap(
        lambda row: st.tuples(st.just(row[1]), st.tuples(*row[2]), st.fixed_dictionaries(row[3]))
    )


# All that can be asked of a small graph.
QUESTIONS: list[GraphCall] = [
    ("find", (), {}),
    ("find", (), {"limit": 2}),
    ("relationships", (), {"history": True}),
    ("stats", (), {}),
    *(("find", (name,), {}) for name in (*PEOPLE, "Bobby")),
    *(("find", (), {"type": kind}) for kind in TYPES),
    *(("relationships", (), {"as_of": day}) for day in DAYS),
    *(("neighbours", (id,), {"direction": way}) for id in ENDS for way in ("out", "in", "both")),
    *(("neighbours", (id,), {"types": ["knows"], "limit": 1}) for id in ENDS),
    *(("neighbours", (id,), {"as_of": day}) for id in ENDS for day in DAYS),
    ("neighbours", ("bob",), {"types": []}),
    *(("traverse", (id,), {"depth": 3, "limit": 2}) for id in ENDS),
    *(("paths", ("bob", id), {}) for id in ENDS),
]


def agree_on_graph(make: Callable[[], Graph], clock: FrozenClock, examples: int, *, shrink: bool = True) -> None:
    """A fresh graph gives the same answers as the in-memory one, whatever happens to both.

    `shrink` looks for the shortest history that shows the difference.
    """

    def answer(graph: Graph, call: GraphCall) -> object:
        verb, args, options = call
        if isinstance(args[0] if args else None, int):
            edges = sorted(one.id for one in graph.relationships(history=True)) or ["rel_none"]
            args = (edges[args[0] % len(edges)], *args[1:])
        return call_safely(graph, verb, *args, **options)

    def run(history: list[GraphCall]) -> None:
        clock.moment = MOMENT
        graph, model = make(), Graph(MemoryRows(), "p", clock=clock)
        first: GraphCall = ("add_many", ([Entity(name, sources=("a",)) for name in PEOPLE],), {})
        try:
            for call in (first, *history):
                clock.advance(seconds=1)
                assert answer(graph, call) == answer(model, call)
            for call in QUESTIONS:
                assert answer(graph, call) == answer(model, call), call
        finally:
            graph.close()

    run_examples(run, st.lists(graph_calls(), min_size=4, max_size=14), examples, shrink=shrink)
