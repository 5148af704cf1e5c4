"""What a graph makes of what it is given, whichever backend keeps its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from alma import ALMA
from alma.errors import NotFoundError, ValidationError
from alma.graph import create_graph_store
from alma.stores.memory import MemoryStore
from alma.testing import MOMENT, FrozenClock
from alma.types.graph import Entity, Neighbour, Relationship

DAY = timedelta(days=1)


def refused(error: type[Exception], action: Callable[[], object]) -> Exception:
    with pytest.raises(error) as raised:
        action()
    return raised.value


def names(entities: Iterable[Entity]) -> list[str]:
    return [one.name for one in entities]


def near(neighbours: Iterable[Neighbour]) -> set[tuple[str, str]]:
    return {(one.relationship.type, one.entity.name) for one in neighbours}


class TestInMemory:
    def setup_method(self) -> None:
        self.clock = FrozenClock()
        self.graph = create_graph_store("memory", project_id="p", clock=self.clock)

    def teardown_method(self) -> None:
        self.graph.close()

    def _add(self, *names: str, type: str = "person") -> None:
        for name in names:
            self.graph.add_entity(Entity(name, type))
            self.clock.advance(seconds=1)

    def _relate(self, subject: str, kind: str, object: str, since: datetime | None = None) -> Relationship:
        self.clock.advance(seconds=1)
        return self.graph.add_relationship(Relationship(subject, kind, object, valid_from=since))

    def test_where_a_text_names_it_is_not_kept(self) -> None:
        assert self.graph.add_entity(Entity("Acme", spans=((0, 4),))).spans == ()
        self._add("Bob")
        assert self.graph.add_relationship(Relationship("acme", "hired", "bob", span=(0, 9))).span is None

    def test_an_entity_told_again_gains_what_is_new(self) -> None:
        self.graph.add_entity(Entity("Acme", sources=("a",), attributes={"x": 1, "y": 1}, confidence=0.5))
        again = Entity("ACME", "organisation", aliases=("Acme Corp",), sources=("b",), attributes={"y": 2}, id="acme")
        made = self.graph.add_entity(again)
        assert (made.name, made.type, made.aliases) == ("Acme", "organisation", ("Acme Corp",))
        assert (made.sources, dict(made.attributes), made.confidence) == (("a", "b"), {"x": 1, "y": 2}, 1.0)
        assert self.graph.find() == [made]

    def test_a_known_type_is_not_lost(self) -> None:
        self._add("Jordan")
        assert self.graph.add_entity(Entity("Jordan", "place")).type == "person"
        assert self.graph.add_entity(Entity("Jordan")).type == "person"

    def test_an_only_alias_is_enough_to_be_known(self) -> None:
        self.graph.add_entity(Entity("Robert Smith", "person", aliases=("Bob",)))
        assert self.graph.add_entity(Entity("Bob", "person")).id == "robert smith"
        assert self.graph.get("bob").name == "Robert Smith"
        assert len(self.graph.find()) == 1

    def test_an_alias_of_two_is_nobody_in_particular(self) -> None:
        for name in ("Robert Smith", "Robert Jones"):
            self.graph.add_entity(Entity(name, "person", aliases=("Bob",)))
        refused(NotFoundError, lambda: self.graph.get("bob"))
        assert self.graph.add_entity(Entity("Bob", "person")).id == "bob"
        assert len(self.graph.find("bob")) == 3

    def test_what_is_no_entity_is_refused(self) -> None:
        for bad in (
            Entity(""),
            Entity(" \t"),
            Entity("x" * 201),
            Entity("a\x00b"),
            Entity("\ud800"),
            Entity("a", "no type!"),
            Entity("a", ""),
            Entity("a", aliases=("",)),
            Entity("a", attributes={"x": object()}),
            Entity("a", confidence=2.0),
        ):
            refused(ValidationError, partial(self.graph.add_entity, bad))
        refused(ValidationError, lambda: self.graph.add_entity("Bob"))  # type: ignore[arg-type]
        assert self.graph.find() == []

    def test_ends_must_be_known(self) -> None:
        self._add("Bob")
        for one in (Relationship("bob", "knows", "eve"), Relationship("eve", "knows", "bob")):
            error = refused(NotFoundError, partial(self.graph.add_relationship, one))
            assert "eve" in str(error)
        refused(NotFoundError, lambda: self.graph.add_many([Entity("Carl")], [Relationship("carl", "knows", "eve")]))
        assert names(self.graph.find()) == ["Bob"]

    def test_what_is_no_relationship_is_refused(self) -> None:
        self._add("Bob", "Eve")
        for bad in (
            Relationship("bob", "knows]->() DELETE n //", "eve"),
            Relationship("bob", "", "eve"),
            Relationship("bob", "9lives", "eve"),
            Relationship("bob", "x" * 65, "eve"),
            Relationship("", "knows", "eve"),
            Relationship("bob", "knows", "bob"),
            Relationship("bob", "knows", "BOB"),
            Relationship("bob", "knows", "eve", valid_from=MOMENT, valid_to=MOMENT - DAY),
            Relationship("bob", "knows", "eve", valid_from=MOMENT.replace(tzinfo=None)),
            Relationship("bob", "knows", "eve", valid_from="soon"),  # type: ignore[arg-type]
            Relationship("bob", "knows", "eve", confidence=-1.0),
        ):
            refused(ValidationError, partial(self.graph.add_relationship, bad))
        assert self.graph.relationships() == []

    def test_types_are_folded(self) -> None:
        self._add("Bob", "Acme")
        for kind in ("Works At", "WORKS-AT", "works_at"):
            assert self._relate("bob", kind, "acme").type == "works_at"
        assert len(self.graph.relationships(types=["WORKS AT"])) == 1

    def test_an_id_of_another_relationship_is_refused(self) -> None:
        self._add("Bob", "Eve", "Carl")
        self.graph.add_relationship(Relationship("bob", "knows", "eve", id="r"))
        refused(ValidationError, lambda: self.graph.add_relationship(Relationship("bob", "knows", "carl", id="r")))

    def test_said_again_it_is_confirmed(self) -> None:
        self._add("Bob", "Acme")
        first = self.graph.add_relationship(
            Relationship("bob", "works_at", "acme", valid_from=MOMENT, sources=("a",), confidence=0.5)
        )
        again = self.graph.add_relationship(
            Relationship("bob", "works_at", "acme", valid_from=MOMENT - DAY, sources=("b",), attributes={"x": 1})
        )
        assert again == replace(first, valid_from=MOMENT - DAY, sources=("a", "b"), confidence=1.0, attributes={"x": 1})
        assert self.graph.relationships(history=True) == [again]

    def test_many_at_once_leave_out_what_points_at_itself(self) -> None:
        self.graph.add_entity(Entity("Robert", aliases=("Bob",)))
        made, joined = self.graph.add_many([Entity("Bob"), Entity("Robert")], [Relationship("bob", "is", "robert")])
        assert ({one.id for one in made}, joined) == ({"robert"}, [])

    def test_what_has_not_begun_does_not_hold_yet(self) -> None:
        self._add("Bob", "Acme")
        self._relate("bob", "works_at", "acme", MOMENT + DAY)
        assert self.graph.neighbours("bob") == []
        self.clock.advance(days=2)
        assert len(self.graph.neighbours("bob")) == 1

    def test_a_new_one_supersedes(self) -> None:
        self._add("Bob", "Acme", "Globex", "Initech")
        self._relate("bob", "works_at", "acme", MOMENT - 10 * DAY)
        self._relate("bob", "likes", "acme")
        newer = Relationship("bob", "works_at", "globex", valid_from=MOMENT - DAY)
        self.graph.add_relationship(newer, supersede=True)
        assert near(self.graph.neighbours("bob")) == {("works_at", "Globex"), ("likes", "Acme")}
        assert [one.valid_to for one in self.graph.relationships("bob", types=["works_at"], history=True)] == [
            None,
            MOMENT - DAY,
        ]
        older = Relationship("bob", "works_at", "initech", valid_from=MOMENT - 5 * DAY)
        assert self.graph.add_relationship(older, supersede=True).valid_to == MOMENT - DAY
        at = MOMENT - 2 * DAY
        assert near(self.graph.neighbours("bob", types=["works_at"], as_of=at)) == {("works_at", "Initech")}

    def test_what_has_ended_can_begin_again(self) -> None:
        self._add("Bob", "Acme")
        first = self._relate("bob", "works_at", "acme")
        self.graph.end_relationship(first.id)
        assert self.graph.neighbours("bob") == []
        self.clock.advance(days=1)
        again = self._relate("bob", "works_at", "acme")
        assert again.id != first.id
        assert again.valid_from == self.clock()
        assert len(self.graph.relationships("bob", history=True)) == 2
        assert self.graph.relationships("bob", as_of=MOMENT + DAY / 2) == []

    def test_older_word_does_not_reopen_what_has_ended(self) -> None:
        self._add("Bob", "Acme")
        first = self._relate("bob", "works_at", "acme", MOMENT - 10 * DAY)
        self.graph.end_relationship(first.id, MOMENT - DAY)
        assert self._relate("bob", "works_at", "acme", MOMENT - 3 * DAY).valid_to == MOMENT - DAY
        assert len(self.graph.relationships("bob", history=True)) == 1

    def test_it_cannot_end_before_it_began(self) -> None:
        self._add("Bob", "Acme")
        made = self._relate("bob", "works_at", "acme", MOMENT)
        refused(ValidationError, lambda: self.graph.end_relationship(made.id, MOMENT - DAY))
        refused(NotFoundError, lambda: self.graph.end_relationship("rel_unknown"))

    def test_what_came_from_one_record_alone_goes_with_it(self) -> None:
        self.graph.add_many(
            [Entity("Bob", sources=("a", "b")), Entity("Eve", sources=("a",)), Entity("Carl", sources=("b",))],
            [
                Relationship("bob", "knows", "eve", sources=("a",)),
                Relationship("bob", "knows", "carl", sources=("a", "b")),
            ],
        )
        assert self.graph.forget_source("a") == 2
        assert {one.name: one.sources for one in self.graph.find()} == {"Bob": ("b",), "Carl": ("b",)}
        assert [(one.object, one.sources) for one in self.graph.relationships()] == [("carl", ("b",))]
        assert self.graph.forget_source("a") == self.graph.forget_source("unknown") == 0

    def test_what_came_from_one_record_alone_ends_with_it(self) -> None:
        self.graph.add_many(
            [Entity("Bob", sources=("a",)), Entity("Eve", sources=("a",))],
            [Relationship("bob", "knows", "eve", sources=("a",), valid_from=MOMENT - 9 * DAY)],
        )
        assert self.graph.forget_source("a", ended_at=MOMENT - DAY) == 1
        assert self.graph.neighbours("bob") == []
        assert len(self.graph.neighbours("bob", as_of=MOMENT - 2 * DAY)) == 1

    def test_what_a_record_still_says_stays(self) -> None:
        _, [first, second] = self.graph.add_many(
            [Entity(name, sources=("a",)) for name in ("Bob", "Eve", "Carl")],
            [Relationship("bob", "knows", other, sources=("a",)) for other in ("eve", "carl")],
        )
        assert self.graph.forget_source("a", keep=[first.id, "bob", "eve"]) == 2
        assert [one.id for one in self.graph.relationships(history=True)] == [first.id]
        assert second.id != first.id
        assert sorted(names(self.graph.find())) == ["Bob", "Eve"]

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


class TestInAStore(TestInMemory):
    def setup_method(self) -> None:
        self.clock = FrozenClock()
        alma = ALMA(MemoryStore(), None, project_id="p", clock=self.clock)
        self.graph = create_graph_store("sqlite", alma=alma, clock=self.clock)
