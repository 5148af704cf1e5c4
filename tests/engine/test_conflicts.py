"""Memories that contradict each other wait for a person, whose decision is remembered and can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.engine.conflicts import check_conflicts
from alma.engine.transaction import write
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.stores.memory import MemoryStore
from alma.types.query import Where

from .test_consolidate import NEW, OLD, Clock, Model, list_facts


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def model() -> Model:
    return Model("contradicts", 0.5)


@pytest.fixture
def alma(embedder: LocalEmbedder, model: Model) -> ALMA:
    opened = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    for fact in (OLD, NEW):
        opened.add_domain_knowledge("dev", "ops", fact)
    return opened


def open_conflict(alma: ALMA) -> str:
    [id] = alma.consolidate().conflicts
    [conflict] = alma.conflicts()
    assert conflict.id == id
    return id


def test_a_conflict_waits_with_what_speaks_for_each_side(alma: ALMA) -> None:
    alma.record_feedback(list_facts(alma)[OLD], signal="thumbs_up")
    open_conflict(alma)
    [conflict] = alma.conflicts()
    older, newer = conflict.older, conflict.newer
    assert (older.fact, newer.fact) == (OLD, NEW)  # type: ignore[attr-defined]
    assert older.created_at < newer.created_at
    assert (older.origin, [one.ups for one in conflict.evidence]) == ("user", [1, 0])
    assert (conflict.relation, conflict.probability, conflict.found_by) == ("contradicts", 0.5, "model")
    assert conflict.suggestions == ("newer", "older", "both")


@pytest.mark.parametrize(("keep", "active"), [("newer", {NEW}), ("older", {OLD}), ("both", {NEW, OLD})])
def test_a_decision_is_remembered_and_can_be_undone(alma: ALMA, model: Model, keep: Any, active: set[str]) -> None:
    id = open_conflict(alma)
    alma.resolve_conflict(id, keep)
    assert set(list_facts(alma)) == active
    assert alma.conflicts() == []
    asked = model.asked
    assert alma.consolidate().conflicts == ()
    assert model.asked == asked, "the pair is not asked about again"
    alma.undo()
    assert set(list_facts(alma)) == {NEW, OLD}
    assert [one.id for one in alma.conflicts()] == [id]


def test_what_both_holds_is_no_longer_marked(alma: ALMA) -> None:
    alma.resolve_conflict(open_conflict(alma), "both")
    shown = alma.retrieve("Which database does billing run on?", "dev").domain_knowledge
    assert {one.fact: one.newer for one in shown} == {OLD: "", NEW: ""}


def test_a_changed_text_is_asked_about_again(alma: ALMA, model: Model) -> None:
    alma.resolve_conflict(open_conflict(alma), "both")
    alma.update(list_facts(alma)[OLD], fact="The billing service runs on Postgres 15")
    assert alma.consolidate().compared == 1


def test_a_split_says_where_each_holds(alma: ALMA, model: Model) -> None:
    id = open_conflict(alma)
    older, newer = alma.resolve_conflict(id, "split", "In staging", "In production")
    assert older.fact == f"In staging: {OLD}"  # type: ignore[attr-defined]
    assert newer.fact == f"In production: {NEW}"  # type: ignore[attr-defined]
    assert alma.conflicts() == []
    assert alma.consolidate().compared == 0
    assert alma.history(older.id)[-1]["before"] == {"fact": OLD}
    alma.undo()
    assert set(list_facts(alma)) == {NEW, OLD}


def test_rules_are_split_by_their_trigger(embedder: LocalEmbedder, model: Model) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    for rule in ("Name the branch after the ticket", "Name the branch after the feature"):
        alma.add_rule("dev", rule)
    older, newer = alma.resolve_conflict(open_conflict(alma), "split", "fixing a bug", "adding a feature")
    assert (older.trigger, newer.trigger) == ("fixing a bug", "adding a feature")  # type: ignore[attr-defined]
    assert older.rule == "Name the branch after the ticket"  # type: ignore[attr-defined]


def test_an_agents_value_that_disputes_a_persons_waits(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    key: dict[str, Any] = {"subject": "billing", "attribute": "database"}
    alma.add_domain_knowledge("dev", "ops", OLD, **key)
    alma.add_domain_knowledge("dev", "ops", NEW, source="agent", **key)
    [conflict] = alma.conflicts()
    assert (conflict.suggestions[0], conflict.newer.status) == ("older", "candidate")
    with pytest.raises(ValidationError, match="same key"):
        alma.resolve_conflict(conflict.id, "both")
    _, newer = alma.resolve_conflict(conflict.id[:12], "newer")
    assert (newer.status, newer.metadata) == ("active", {})
    assert set(list_facts(alma)) == {NEW}


def test_a_persons_word_is_not_ended_by_a_model_that_prefers_an_agents(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("replaces", 0.99))
    alma.add_domain_knowledge("dev", "ops", OLD)
    alma.add_domain_knowledge("dev", "ops", NEW, source="agent")
    done = alma.consolidate()
    assert (done.superseded, len(done.conflicts)) == ((), 1)
    assert alma.conflicts()[0].suggestions[0] == "older"


CHANGED = "The release manager is Tom now, he took over from Ana"


def test_an_edit_is_compared_with_its_look_alikes(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    alma.add_domain_knowledge("dev", "ops", "The release manager is Ana")
    fact = alma.add_domain_knowledge("dev", "ops", "Lunch is at noon")
    alma.update(fact.id, fact=CHANGED)
    [conflict] = alma.conflicts()
    assert (conflict.found_by, conflict.newer.id) == ("local", fact.id)
    alma.undo()
    assert alma.conflicts() == []


def test_a_promotion_is_compared_with_its_look_alikes(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    alma.add_domain_knowledge("dev", "ops", "The release manager is Ana")
    waiting = alma.add_domain_knowledge("dev", "ops", CHANGED, source="content")
    assert alma.conflicts() == []
    alma.update(waiting.id, status="active")
    assert len(alma.conflicts()) == 1
    [record] = alma.engine.store.get([waiting.id])
    assert write(alma.engine, lambda tx: check_conflicts(tx, record)) == [], "it is filed once"


def test_what_the_local_reader_found_does_not_keep_a_model_from_being_asked(embedder: LocalEmbedder) -> None:
    model = Model("variant", 0.9)
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    alma.add_domain_knowledge("dev", "ops", "The release manager is Ana")
    alma.add_domain_knowledge("dev", "ops", CHANGED)
    assert len(alma.consolidate().conflicts) == 1
    asking = ALMA(alma.engine.store, embedder, clock=Clock(), model=model)
    assert asking.consolidate().apart == 1
    assert asking.conflicts() == []


def test_a_conflict_of_a_deleted_memory_is_gone(alma: ALMA) -> None:
    open_conflict(alma)
    alma.delete(list_facts(alma)[OLD])
    assert alma.conflicts() == []
    assert not list(alma.engine.store.scan(Where(kinds={"comparison"})))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"keep": "split"}, ValidationError, "older_scope and newer_scope"),
        ({"keep": "newer", "older_scope": "In staging"}, ValidationError, "older_scope and newer_scope"),
        ({"keep": "mine"}, ValidationError, "newer, older, both, split"),
        ({"conflict_id": "cmp_unknown", "keep": "newer"}, NotFoundError, "alma conflicts"),
    ],
)
def test_a_wrong_decision_says_what_is_valid(
    alma: ALMA, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    id = open_conflict(alma)
    with pytest.raises(error, match=match):
        alma.resolve_conflict(**{"conflict_id": id, **arguments})
    assert [one.id for one in alma.conflicts()] == [id]


def test_only_a_person_decides(alma: ALMA) -> None:
    from dataclasses import replace

    id = open_conflict(alma)
    alma.engine = replace(alma.engine, may_approve=False)
    with pytest.raises(ScopeError, match="only a person"):
        alma.resolve_conflict(id, "newer")
