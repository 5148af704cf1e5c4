"""What every graph promises of walking and of merging."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from unittest import SkipTest

from ..errors import NotFoundError, ValidationError
from ..graph import Graph
from ..ports import Clock
from ..types.graph import Entity, Neighbour, Relationship
from .contract import Room, refused
from .fakes import MOMENT, FrozenClock

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
    return [one.name for one in entities]


def near(neighbours: Iterable[Neighbour]) -> set[tuple[str, str]]:
    return {(one.relationship.type, one.entity.name) for one in neighbours}


class Base(Room):
    """How a graph is made, and how a small one is told something."""

    histories = 30
    """How many random histories are compared with the in-memory graph."""

    def make_graph(self, project_id: str, clock: Clock) -> Graph:
        raise NotImplementedError("say how an empty graph is made, below self.folder")

    def open_again(self, project_id: str, clock: Clock) -> Graph:
        """Another handle on the same graph after the first was closed."""
        raise SkipTest("does not outlive its handle")

    def setup_method(self) -> None:
        super().setup_method()
        self.clock = FrozenClock()
        self.graph = self._empty()

    def teardown_method(self) -> None:
        self.graph.close()
        super().teardown_method()

    def _empty(self) -> Graph:
        self._make_folder()
        return self.make_graph("p", self.clock)

    def _add(self, *names: str, type: str = "person") -> None:
        for name in names:
            self.graph.add_entity(Entity(name, type))
            self.clock.advance(seconds=1)

    def _relate(self, subject: str, kind: str, object: str, since: datetime | None = None) -> Relationship:
        self.clock.advance(seconds=1)
        return self.graph.add_relationship(Relationship(subject, kind, object, valid_from=since))


class Walks(Base):
    # --- walking

    def test_neighbours_by_direction_and_type(self) -> None:
        self._add("Bob", "Acme", "Eve")
        self._relate("bob", "works_at", "acme")
        self._relate("eve", "knows", "bob")
        assert near(self.graph.neighbours("bob")) == {("works_at", "Acme"), ("knows", "Eve")}
        assert near(self.graph.neighbours("bob", direction="out")) == {("works_at", "Acme")}
        assert near(self.graph.neighbours("bob", direction="in")) == {("knows", "Eve")}
        assert near(self.graph.neighbours("bob", types=["knows", "hates"])) == {("knows", "Eve")}
        assert self.graph.neighbours("bob", types=[]) == []
        assert [one.entity.name for one in self.graph.neighbours("bob", limit=1)] == ["Eve"]
        refused(NotFoundError, lambda: self.graph.neighbours("nobody"))
        refused(ValidationError, lambda: self.graph.neighbours("bob", direction="up"))
        refused(ValidationError, lambda: self.graph.neighbours("bob", limit=0))

    def test_traversal_goes_as_deep_as_asked_and_round_no_cycle(self) -> None:
        self._add(*"abcde")
        for one, two in ("ab", "bc", "ca", "cd", "de"):
            self._relate(one, "next", two)
        reached = self.graph.traverse("a", depth=1, direction="out")
        assert (names(reached.entities), dict(reached.depths)) == (["a", "b"], {"a": 0, "b": 1})
        assert names(self.graph.traverse("a", depth=2, direction="out").entities) == ["a", "b", "c"]
        whole = self.graph.traverse("a", depth=10, direction="out")
        assert dict(whole.depths) == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
        assert (len(whole.relationships), whole.truncated) == (5, False)
        assert names(self.graph.traverse("a", depth=1, direction="in").entities) == ["a", "c"]
        assert names(self.graph.traverse("e", depth=10, direction="out").entities) == ["e"]
        refused(ValidationError, lambda: self.graph.traverse("a", depth=0))
        refused(ValidationError, lambda: self.graph.traverse("a", depth=11))

    def test_a_hub_is_bounded(self) -> None:
        size = self.hub_size
        people = [Entity(f"Person {number:05d}", "person") for number in range(size)]
        for start in range(0, size, 2500):
            some = people[start : start + 2500]
            self.graph.add_many(
                [Entity("Hub", "organisation"), *some], [Relationship(one.id, "works_at", "hub") for one in some]
            )
        assert len(self.graph.neighbours("hub")) == 100
        reached = self.graph.traverse("hub", depth=3, limit=50)
        assert (len(reached.entities), reached.truncated) == (51, True)
        assert len(self.graph.traverse(people[0].id, depth=2, limit=200).entities) == 201
        [path] = self.graph.paths(people[0].id, people[-1].id)
        assert names(path.entities) == [people[0].name, "Hub", people[-1].name]
        assert self.graph.stats().relationships == size
        assert self.graph.delete_entity("hub")
        assert self.graph.stats().relationships == 0

    hub_size = 10_000

    def test_paths_come_shortest_first(self) -> None:
        self._add(*"abcdef")
        for one, two in ("ab", "bc", "ad", "dc", "ae", "ed"):
            self._relate(one, "next", two)
        found = ["".join(names(path.entities)) for path in self.graph.paths("a", "c")]
        assert (set(found[:2]), found[2:]) == ({"abc", "adc"}, ["aedc"])
        [back] = self.graph.paths("c", "a", limit=1)
        assert names(back.entities) in (["c", "b", "a"], ["c", "d", "a"])
        assert [len(path) for path in self.graph.paths("a", "c", depth=2)] == [2, 2]
        assert self.graph.paths("a", "f") == self.graph.paths("a", "c", depth=1) == []
        assert [len(path) for path in self.graph.paths("a", "a")] == [0]
        for path in self.graph.paths("a", "c"):
            for at, step in enumerate(path.relationships):
                assert {step.subject, step.object} == {path.entities[at].id, path.entities[at + 1].id}

    def test_paths_are_of_their_time_and_types(self) -> None:
        self._add(*"abc")
        self._relate("a", "next", "b", MOMENT - DAY)
        later = self._relate("b", "next", "c", MOMENT - DAY)
        assert len(self.graph.paths("a", "c")) == 1
        assert self.graph.paths("a", "c", types=["other"]) == []
        self.graph.end_relationship(later.id, MOMENT)
        assert self.graph.paths("a", "c") == []
        assert len(self.graph.paths("a", "c", as_of=MOMENT - DAY / 2)) == 1

    def test_several_relationships_between_two_are_several_ways(self) -> None:
        self._add(*"ab")
        for kind in ("knows", "likes", "sees"):
            self._relate("a", kind, "b")
        assert {path.relationships[0].type for path in self.graph.paths("a", "b")} == {"knows", "likes", "sees"}

    # --- merging

    def test_merged_entities_are_one(self) -> None:
        self.graph.add_entity(Entity("Robert Smith", "person", sources=("a",), attributes={"x": 1}))
        self.graph.add_entity(Entity("Bob", "person", sources=("b",), attributes={"x": 2, "y": 2}))
        self._add("Acme", "Eve")
        self._relate("bob", "works_at", "acme")
        self._relate("eve", "knows", "bob")
        self._relate("robert smith", "likes", "bob")
        made = self.graph.merge("robert smith", "bob")
        assert (made.aliases, made.absorbed, made.sources) == (("Bob",), ("bob",), ("a", "b"))
        assert dict(made.attributes) == {"x": 1, "y": 2}
        assert self.graph.get("bob") == self.graph.get("robert smith") == made == self.graph.find("Bob")[0]
        assert near(self.graph.neighbours("bob")) == {("works_at", "Acme"), ("knows", "Eve")}
        assert self.graph.stats().entities == 3
        assert self.graph.add_entity(Entity("Bob")).id == "robert smith"
        assert self._relate("bob", "works_at", "acme").subject == "robert smith"
        assert self.graph.stats().relationships == 2

    def test_what_both_said_is_said_once(self) -> None:
        self._add("Robert", "Bob", "Acme")
        self.graph.add_relationship(Relationship("robert", "works_at", "acme", valid_from=MOMENT, sources=("a",)))
        ended = Relationship("bob", "works_at", "acme", valid_from=MOMENT - DAY, valid_to=MOMENT + DAY, sources=("b",))
        self.graph.add_relationship(ended)
        apart = Relationship(
            "bob", "works_at", "acme", valid_from=MOMENT - 9 * DAY, valid_to=MOMENT - 8 * DAY, sources=("c",)
        )
        self.graph.add_relationship(apart)
        self.graph.merge("robert", "bob")
        held = self.graph.relationships("robert", history=True)
        assert sorted((one.valid_from, one.valid_to is None, set(one.sources)) for one in held if one.valid_from) == [
            (MOMENT - 9 * DAY, False, {"c"}),
            (MOMENT - DAY, True, {"a", "b"}),
        ]

    def test_merging_with_oneself_or_the_unknown(self) -> None:
        self._add("Bob", "Eve", "Carl")
        assert self.graph.merge("bob", "bob").absorbed == ()
        refused(ValidationError, lambda: self.graph.merge("bob"))
        refused(NotFoundError, lambda: self.graph.merge("bob", "nobody"))
        self.graph.merge("bob", "eve", "carl")
        self.graph.merge("bob", "eve")
        assert (names(self.graph.find()), self.graph.get("carl").id) == (["Bob"], "bob")

    def test_chains_of_merges_lead_to_the_last(self) -> None:
        self._add("a", "b", "c")
        self.graph.merge("b", "a")
        self.graph.merge("c", "b")
        assert self.graph.get("a").id == self.graph.get("b").id == "c"

    def test_likely_merges_are_suggested(self) -> None:
        self._add("Robert Smith", "Bob", "Carla Jones")
        self._add("Acme", "Acme Corp", type="organisation")
        found = {(one.keep.name, one.other.name) for one in self.graph.suggest_merges()}
        assert found == {("Robert Smith", "Bob"), ("Acme Corp", "Acme")}
        assert len(self.graph.suggest_merges(limit=1)) == 1
