"""From what is remembered to the graph, and back when it is gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.errors import ModelUnavailableError, NotFoundError, ValidationError
from alma.graph import Graph, about, build, create_graph_store, update
from alma.graph.rows import MemoryRows
from alma.stores.sqlite import SQLiteStore
from alma.testing import FrozenClock
from alma.types.asking import Answer, Prompt
from alma.types.query import Where
from alma.types.record import Status


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def alma(tmp_path: Path, clock: FrozenClock) -> ALMA:
    return ALMA(SQLiteStore(tmp_path / "alma.db"), None, project_id="p", clock=clock)


def said(alma: ALMA, name: str) -> set[tuple[str, str]]:
    graph = create_graph_store("sqlite", alma=alma)
    return {(one.relationship.type, one.entity.name) for one in graph.neighbours(name)}


def fact(alma: ALMA, text: str) -> str:
    return alma.add_domain_knowledge("dev", "people", text).id


def test_facts_rules_and_conversations_are_read(alma: ALMA) -> None:
    fact(alma, "Maria's manager is Tom.")
    alma.add_rule("dev", "We decided that releases wait for Ingrid. Ingrid manages Tom.")
    turns = [
        {"speaker": "Jon", "text": "I joined Initech last week."},
        {"speaker": "assistant", "text": "Mallory joined Initech."},
        {"speaker": "user", "text": "I joined Umbrella Inc. Lena joined Umbrella Inc."},
    ]
    alma.add_episode("dev", "s1", turns)
    told = build(alma)
    assert (told.records, told.read, told.ended) == (3, 3, 0)
    assert said(alma, "tom") == {("manager_of", "Maria"), ("manages", "Ingrid")}
    assert said(alma, "initech") == {("joined", "Jon")}
    assert said(alma, "umbrella inc") == {("joined", "Lena")}


def test_built_again_nothing_is_added(alma: ALMA) -> None:
    for text in ("Maria's manager is Tom.", "Tom works at Globex.", "Nothing to see here."):
        fact(alma, text)
    first = build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    before = (graph.find(), graph.relationships(history=True))
    for again in (build(alma), update(alma), build(alma)):
        assert (again.entities, again.relationships, again.ended) == (0, 0, 0)
    assert (graph.find(), graph.relationships(history=True)) == before
    assert (first.entities, first.relationships) == (3, 2)


def test_an_update_reads_only_what_is_new(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Maria's manager is Tom.")
    clock.advance(hours=1)
    build(alma)
    clock.advance(hours=1)
    fact(alma, "Tom works at Globex.")
    clock.advance(hours=1)
    told = update(alma)
    assert (told.records, told.read, told.relationships) == (2, 1, 1)
    clock.advance(hours=1)
    assert update(alma).read == 0


def test_old_conversations_told_late_are_new(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Maria's manager is Tom.")
    clock.advance(hours=1)
    build(alma)
    clock.advance(hours=1)
    alma.add_episode("dev", "old", [{"speaker": "Jon", "text": "I joined Initech.", "at": "2020-01-01"}])
    assert update(alma).read == 1
    graph = create_graph_store("sqlite", alma=alma)
    [one] = graph.relationships("initech")
    assert str(one.valid_from).startswith("2020-01-01")
    assert graph.relationships("initech", as_of="2019-01-01") == []


def test_relations_point_at_their_records(alma: ALMA) -> None:
    first, second = fact(alma, "Tom works at Globex."), fact(alma, "Tom works at Globex, I am sure.")
    episode = alma.add_episode("dev", "s", [{"speaker": "Jon", "text": "I joined Initech."}])
    build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    assert graph.relationships("tom")[0].sources == (first, second)
    [joined] = graph.relationships("jon")
    assert joined.sources == (episode.id,)
    assert alma.get(str(joined.attributes["turn"])).text == "I joined Initech."  # type: ignore[attr-defined]


def test_an_edited_record_says_what_it_says_now(alma: ALMA, clock: FrozenClock) -> None:
    id = fact(alma, "Maria's manager is Tom.")
    build(alma)
    clock.advance(hours=1)
    alma.update(id, fact="Maria's manager is Ingrid.")
    assert update(alma).ended > 0
    assert said(alma, "maria") == {("manager_of", "Ingrid")}
    with pytest.raises(NotFoundError):
        create_graph_store("sqlite", alma=alma).get("tom")


@pytest.mark.parametrize("status", ["superseded", "archived", "retired"])
def test_a_record_that_no_longer_holds_ends_its_relations(alma: ALMA, clock: FrozenClock, status: str) -> None:
    id = fact(alma, "Tom works at Globex.")
    build(alma)
    before = clock()
    clock.advance(days=1)
    alma.update(id, status=status)
    update(alma)
    clock.advance(days=1)
    assert said(alma, "tom") == set()
    graph = create_graph_store("sqlite", alma=alma)
    assert len(graph.neighbours("tom", as_of=before)) == 1
    assert update(alma).ended == 0


def test_what_somebody_else_also_says_goes_on(alma: ALMA, clock: FrozenClock) -> None:
    id = fact(alma, "Tom works at Globex.")
    fact(alma, "Tom works at Globex in Oslo.")
    build(alma)
    clock.advance(hours=1)
    alma.delete(id)
    update(alma)
    assert said(alma, "tom") == {("works_at", "Globex")}


def test_a_deleted_record_takes_its_own_along(alma: ALMA, clock: FrozenClock) -> None:
    id = fact(alma, "Tom works at Globex.")
    episode = alma.add_episode("dev", "s", [{"speaker": "Jon", "text": "I joined Initech."}])
    fact(alma, "Tom manages Ingrid.")
    build(alma)
    clock.advance(hours=1)
    alma.delete(id)
    alma.delete(episode.id)
    update(alma)
    graph = create_graph_store("sqlite", alma=alma)
    assert {one.name for one in graph.find()} == {"Tom", "Ingrid"}
    held = alma.engine.store.scan(Where(kinds={"entity", "relation"}))
    assert not any("Globex" in one.text or "initech" in str(one.body) for one in held)


def test_what_waits_for_review_is_not_read(alma: ALMA) -> None:
    id = fact(alma, "Mallory owns Globex.")
    alma.update(id, status="candidate")
    assert build(alma).read == 0
    assert create_graph_store("sqlite", alma=alma).find() == []


def test_merged_names_stay_merged(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Robert Smith manages Ingrid.")
    fact(alma, "Bob works at Globex.")
    build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    assert [(one.keep.name, one.other.name) for one in graph.suggest_merges()] == [("Robert Smith", "Bob")]
    graph.merge("robert smith", "bob")
    build(alma)
    clock.advance(hours=1)
    fact(alma, "Bob mentored Lena.")
    update(alma)
    assert said(alma, "bob") == {("manages", "Ingrid"), ("works_at", "Globex"), ("mentored", "Lena")}


def test_progress_is_told(alma: ALMA) -> None:
    for number in range(5):
        fact(alma, f"Tom fixed issue #{number}.")
    told: list[tuple[int, int]] = []
    build(alma, progress=lambda done, all: told.append((done, all)))
    assert told == [(number, 5) for number in range(1, 6)]


def test_other_graphs_can_be_filled(alma: ALMA) -> None:
    fact(alma, "Tom works at Globex.")
    graph = Graph(MemoryRows(), "p")
    build(alma, graph=graph)
    assert [one.name for one in graph.find()] == ["Tom", "Globex"]
    assert create_graph_store("sqlite", alma=alma).find() == []
    empty = Graph(MemoryRows(), "p")
    assert update(alma, graph=empty).read == 1


def test_the_graph_is_no_memory_and_is_not_counted(alma: ALMA) -> None:
    fact(alma, "Tom works at Globex.")
    before = alma.get_stats()["total_count"]
    build(alma)
    assert alma.get_stats()["total_count"] == before
    found = alma.retrieve("Where does Tom work?", agent="dev")
    assert [one.fact for one in found.domain_knowledge] == ["Tom works at Globex."]


def test_a_project_of_its_own(alma: ALMA) -> None:
    fact(alma, "Tom works at Globex.")
    build(alma)
    assert create_graph_store("sqlite", alma=alma, project_id="other").find() == []


def test_without_a_memory_the_configured_one_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    with ALMA.quickstart("mine", ".alma") as alma:
        fact(alma, "Tom works at Globex.")
    assert build(project_id="mine").relationships == 1
    assert update(project_id="mine").relationships == 0
    with create_graph_store("sqlite", project_id="mine") as graph:
        assert graph.get("tom").name == "Tom"
    assert about("tom", project_id="mine").now[0].entity.name == "Globex"


def test_a_writer_that_was_killed_leaves_nothing_behind(alma: ALMA) -> None:
    """Removed rows are retired first: what was not erased is not seen, and may come again."""
    fact(alma, "Tom works at Globex.")
    build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    store = alma.engine.store
    erase = type(store).delete
    try:
        type(store).delete = lambda self, ids: 0  # type: ignore[method-assign,assignment]
        assert graph.delete_entity("tom")
    finally:
        type(store).delete = erase  # type: ignore[method-assign]
    assert [one.name for one in graph.find()] == ["Globex"]
    assert any(one.status is Status.RETIRED for one in store.scan(Where(kinds={"entity"})))
    assert build(alma).relationships == 1
    assert said(alma, "tom") == {("works_at", "Globex")}


# -- with a model


class Scripted:
    name = "scripted"

    def __init__(self, *values: Any) -> None:
        self._values = list(values)
        self.asked: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.asked.append(prompt)
        value = self._values.pop(0)
        if isinstance(value, Exception):
            raise value
        return Answer(value=value, model=self.name)


def test_a_model_reads_many_records_in_one_call(alma: ALMA) -> None:
    for text in ("the falcon rewrite needs tom", "the canteen closes at two", "bob left for acme"):
        fact(alma, text)
    entities = [{"name": "bob", "type": "person"}, {"name": "acme", "type": "organization"}]
    relations = [{"subject": "bob", "relation": "left for", "object": "acme"}]
    model = Scripted({"texts": [{"n": 2, "entities": entities, "relations": relations}]})
    built = build(alma, model=model)
    assert (built.relationships, built.reader, len(model.asked)) == (1, "scripted", 1)
    assert said(alma, "acme") == {("left_for", "bob")}
    assert update(alma, model=Scripted()).relationships == 0


def test_what_a_model_could_not_read_is_read_again_later(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Tom works at Globex, and the falcon flies.")
    built = build(alma, model=Scripted(ModelUnavailableError("not logged in")))
    assert (built.relationships, built.reader) == (1, "local (scripted failed: not logged in)")
    clock.advance(days=1)
    answer = {"texts": [{"n": 0, "entities": [{"name": "falcon", "type": "project"}]}]}
    again = update(alma, model=Scripted(answer))
    assert (again.read, again.entities, again.reader) == (1, 1, "scripted")
    clock.advance(days=1)
    assert update(alma, model=Scripted()).read == 0


# -- the card


def test_a_card_tells_what_is_known(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Robert Smith manages Ingrid.")
    old = fact(alma, "Bob works at Globex.")
    fact(alma, "The canteen closes at two.")
    build(alma)
    create_graph_store("sqlite", alma=alma).merge("robert smith", "bob")
    clock.advance(days=1)
    alma.update(old, status="superseded")
    update(alma)
    card = about("Bob", alma)
    assert (card.entity.name, [one.entity.name for one in card.now]) == ("Robert Smith", ["Ingrid"])
    assert [one.type for one in card.ended] == ["works_at"]
    assert [one.fact for one in card.facts] == ["Robert Smith manages Ingrid."]  # type: ignore[attr-defined]
    assert "also called Bob" in str(card)
    assert "Robert Smith works_at Globex (until 2026-01-03)" in str(card)
    assert "Robert Smith manages Ingrid (since 2026-01-02)" in str(card)
    then = about("Bob", alma, as_of="2026-01-02T04:00:00Z")
    assert {one.entity.name for one in then.now} == {"Ingrid", "Globex"}
    assert {one.fact for one in then.facts} == {  # type: ignore[attr-defined]
        "Robert Smith manages Ingrid.", "Bob works at Globex."
    }  # fmt: skip
    assert then.ended == ()


def test_a_past_profile_leaves_out_what_was_recorded_later(alma: ALMA, clock: FrozenClock) -> None:
    fact(alma, "Bob works at Globex.")
    then = clock()
    clock.advance(days=30)
    fact(alma, "Bob works at Initech.")
    build(alma)
    profile = about("Bob", alma, as_of=then + timedelta(days=1))
    assert [one.fact for one in profile.facts] == ["Bob works at Globex."]  # type: ignore[attr-defined]
    assert "Initech" not in str(profile)
    assert len(about("Bob", alma).facts) == 2


def test_a_card_of_nobody(alma: ALMA) -> None:
    with pytest.raises(NotFoundError, match="alma graph build"):
        about("Nobody", alma)
    with pytest.raises(ValidationError):
        about("  ", alma)


def test_what_is_new_is_counted_beside_what_has_ended(alma: ALMA, clock: FrozenClock) -> None:
    job, _ = fact(alma, "Maria works at Globex."), fact(alma, "Tom manages Maria.")
    build(alma)
    clock.advance(days=1)
    alma.update(job, fact="Maria works at Hooli.")
    told = build(alma)
    assert (told.entities, told.relationships, told.ended > 0) == (1, 1, True)
    alma.delete(job)
    assert not create_graph_store("sqlite", alma=alma).find("Hooli"), "what only a deleted memory said goes with it"
    told = build(alma)
    assert (told.entities, told.relationships, told.ended) == (0, 0, 0), "and never fewer than none"
