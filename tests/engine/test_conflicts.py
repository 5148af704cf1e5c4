"""Memories that contradict each other wait for a person, whose decision is remembered and can be undone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.engine.conflicts import check_conflicts
from alma.engine.transaction import write
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.stores.memory import MemoryStore
from alma.types.kinds import DomainKnowledge
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


@pytest.mark.parametrize("keep", ["newer", "older", "both"])
def test_a_decision_is_undone_by_the_id_of_the_conflict(alma: ALMA, keep: Any) -> None:
    id = open_conflict(alma)
    alma.resolve_conflict(id, keep)
    assert alma.conflicts() == []
    alma.undo(id)
    assert [one.id for one in alma.conflicts()] == [id]
    assert len(alma.list("domain_knowledge")) == 2, "what was stated stays"


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
    assert (conflict.suggestions, conflict.newer.status) == (("older", "newer", "split"), "candidate")
    with pytest.raises(ValidationError, match="'newer', 'older' or 'split'"):
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


@pytest.mark.parametrize("keep", ["older", "newer", "split"])
def test_every_suggestion_for_values_of_one_key_can_be_carried_out(embedder: LocalEmbedder, keep: Any) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    for fact, source in ((OLD, "user"), (NEW, "agent")):
        alma.add_domain_knowledge("dev", "ops", fact, source, subject="billing", attribute="database")
    [conflict] = alma.conflicts()
    assert keep in conflict.suggestions
    scopes = {"older_scope": "In staging", "newer_scope": "In production"} if keep == "split" else {}
    alma.resolve_conflict(conflict.id, keep, **scopes)
    assert len(alma.list("domain_knowledge")) == (2 if keep == "split" else 1)
    assert alma.conflicts() == []


def test_values_of_the_same_name_in_two_domains_are_not_of_one_key(alma: ALMA) -> None:
    for one, domain in zip(alma.list("domain_knowledge"), ("billing", "shop"), strict=True):
        alma.delete(one.id)
        alma.add_domain_knowledge("dev", domain, one.fact + ".", subject="db", attribute="host")  # type: ignore[attr-defined]
    open_conflict(alma)
    [conflict] = alma.conflicts()
    assert "both" in conflict.suggestions
    assert [one.status for one in alma.resolve_conflict(conflict.id, "both")] == ["active", "active"]


@pytest.mark.parametrize("by_model", [False, True])
def test_the_past_is_not_rewritten_when_a_conflict_is_resolved(alma: ALMA, model: Model, by_model: bool) -> None:
    question, ids = "Which database does the billing service run on?", list_facts(alma)

    def show(as_of: datetime | None) -> set[str]:
        return {one.id for one in alma.retrieve(question, "dev", as_of=as_of).domain_knowledge}

    before = alma.engine.clock()
    if by_model:
        model.probability = 0.95
        alma.consolidate()
    else:
        alma.resolve_conflict(open_conflict(alma), "newer")
    decided = alma.engine.clock()
    assert (show(before), show(None)) == (set(ids.values()), {ids[NEW]})
    assert {one.id: one.what for one in alma.diff(before)} == {ids[OLD]: "removed"}
    undone = alma.undo()
    between = alma.engine.clock()
    alma.revert(undone.undo)
    assert [show(at) for at in (before, decided, between, None)] == [
        set(ids.values()),
        {ids[NEW]},
        set(ids.values()),
        {ids[NEW]},
    ]


# -- a decision holds

POSTGRES, MYSQL = "Billing runs on Postgres", "Billing runs on MySQL"


def state(alma: ALMA, fact: str, source: str) -> DomainKnowledge:
    return alma.add_domain_knowledge("dev", "ops", fact, attribute="database", source=source)


@pytest.mark.parametrize(("keep", "kept", "rejected"), [("older", POSTGRES, MYSQL), ("newer", MYSQL, POSTGRES)])
def test_an_agent_does_not_overturn_a_decision(embedder: LocalEmbedder, keep: Any, kept: str, rejected: str) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    state(alma, POSTGRES, "user")
    state(alma, MYSQL, "agent")
    [conflict] = alma.conflicts()
    alma.resolve_conflict(conflict.id, keep)
    assert state(alma, rejected, "agent").status == "superseded"
    assert state(alma, kept, "agent").status == "active"
    assert (set(list_facts(alma)), alma.conflicts()) == ({kept}, [])
    assert state(alma, "Billing runs on Oracle", "agent").status == "candidate", "what was kept is a person's"
    [other] = alma.conflicts()
    alma.resolve_conflict(other.id, "older")
    assert state(alma, rejected, "user").status == "active", "a person may change their mind"
    assert set(list_facts(alma)) == {rejected}


def test_a_value_without_its_scope_does_not_come_back_after_a_split(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    state(alma, POSTGRES, "user")
    state(alma, MYSQL, "agent")
    [conflict] = alma.conflicts()
    alma.resolve_conflict(conflict.id, "split", "In production", "In staging")
    scoped = {f"In production: {POSTGRES}", f"In staging: {MYSQL}"}
    assert {state(alma, fact, "agent").fact for fact in (POSTGRES, MYSQL)} == scoped
    assert (set(list_facts(alma)), alma.conflicts()) == (scoped, [])
    alma.undo()
    assert set(list_facts(alma)) == {POSTGRES}
    assert state(alma, MYSQL, "agent").status == "candidate", "an undone decision does not hold"


def test_a_rejected_text_is_asked_about_again_when_what_was_kept_has_changed(alma: ALMA) -> None:
    alma.resolve_conflict(open_conflict(alma), "newer")
    assert alma.add_domain_knowledge("dev", "ops", OLD, source="agent").status == "superseded"
    alma.update(list_facts(alma)[NEW], fact="The billing service moves to another database")
    assert alma.add_domain_knowledge("dev", "ops", OLD, source="agent").status == "active"


def test_an_agent_does_not_bring_back_a_rule_or_a_warning_that_a_person_rejected(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("contradicts", 0.5))
    tasks = ("Deploy the service to staging", "Deploy a service to staging")
    warnings = [
        alma.add_anti_pattern("dev", pattern, "slow", condition=task, source="agent")
        for pattern, task in zip(("push the image by hand", "push the image by a script"), tasks, strict=True)
    ]
    alma.consolidate()
    [conflict] = alma.conflicts()
    alma.resolve_conflict(conflict.id, "newer")
    assert alma.get(warnings[0].id).status == "superseded"
    alma.add_anti_pattern("dev", "push the image by hand", "slow", condition=tasks[0], source="agent")
    assert alma.get(warnings[0].id).status == "superseded"
    alma.add_anti_pattern("dev", "push the image by hand", "slow", condition=tasks[0])
    assert alma.get(warnings[0].id).status == "active"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["user", "agent", "content", "archive", "older", "newer"]))
    )
)
def test_a_key_has_one_active_value_whoever_states_it_again(steps: list[tuple[str, str]]) -> None:
    alma = ALMA(MemoryStore(), HashEmbedder(16), clock=Clock())
    persons = ""
    for value, step in steps:
        fact = f"Billing runs on {value}"
        conflicts, facts = alma.conflicts(), list_facts(alma)
        if step == "archive" and facts:
            alma.update(next(iter(facts.values())), status="archived")
            persons = ""
        elif step in ("older", "newer") and conflicts:
            alma.resolve_conflict(conflicts[0].id, step)  # type: ignore[arg-type]
            persons = str(getattr(conflicts[0], step).fact)
        elif step in ("user", "agent", "content"):
            state(alma, fact, step)
            persons = fact if step == "user" else persons
        assert len(list_facts(alma)) <= 1
        assert not persons or persons in list_facts(alma), "a person's word and decision hold"
