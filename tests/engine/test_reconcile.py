"""A model says how look-alikes relate: once for each pair, and so that it can be undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.errors import ModelUnavailableError
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer, Prompt
from alma.types.query import Where

OLD, NEW = "The billing service runs on Postgres 14", "The billing service runs on MySQL 8"
QUESTION = "Which database does billing run on?"


class Model:
    """Gives every pair the same relation."""

    name = "scripted"

    def __init__(self, relation: str = "replaces", probability: float = 0.95) -> None:
        self.relation = relation
        self.probability = probability
        self.asked = 0

    def ask(self, prompt: Prompt) -> Answer:
        self.asked += 1
        if self.relation == "fails":
            raise ModelUnavailableError("the model is out")
        pairs: list[dict[str, Any]] = json.loads(prompt.text)["pairs"]
        answers = [{"n": one["n"], "relation": self.relation, "probability": self.probability} for one in pairs]
        return Answer(value={"pairs": answers}, model=self.name)


class Clock:
    now = datetime(2026, 1, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def alma(embedder: LocalEmbedder, model: Model) -> ALMA:
    opened = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    for fact in (OLD, NEW):
        opened.add_domain_knowledge("dev", "ops", fact)
    return opened


def shown(alma: ALMA) -> dict[str, bool]:
    return {one.fact: bool(one.newer) for one in alma.retrieve(QUESTION, "dev").domain_knowledge}


@pytest.mark.parametrize("relation", ["replaces", "contradicts", "same"])
def test_what_is_out_of_date_is_superseded_and_can_be_restored(alma: ALMA, model: Model, relation: str) -> None:
    model.relation = relation
    done = alma.reconcile()
    assert (done.compared, len(done.superseded), done.waiting, done.problem) == (1, 1, 0, "")
    assert shown(alma) == {NEW: False}
    [old] = done.superseded
    assert [one["verb"] for one in alma.history(old)] == ["created", "superseded"]
    alma.update(old, status="active")
    assert set(shown(alma)) == {NEW, OLD}
    assert alma.reconcile().compared == 0, "what a person restored stays"


@pytest.mark.parametrize("relation", ["variant", "unrelated"])
def test_different_things_are_no_longer_marked(alma: ALMA, model: Model, relation: str) -> None:
    assert shown(alma) == {NEW: False, OLD: True}
    model.relation = relation
    assert alma.reconcile().apart == 1
    assert shown(alma) == {NEW: False, OLD: False}
    alma.reconcile()
    assert model.asked == 1, "each pair is asked about once"


def test_an_edited_memory_is_compared_again(alma: ALMA, model: Model) -> None:
    model.relation = "variant"
    alma.reconcile()
    [old] = [one for one in alma.list() if one.fact == OLD]  # type: ignore[attr-defined]
    alma.update(old.id, fact="The billing service runs on Postgres 15")
    assert alma.reconcile().compared == 1


def test_a_failed_answer_changes_nothing_and_is_asked_again(alma: ALMA, model: Model) -> None:
    model.relation = "fails"
    done = alma.reconcile()
    assert (done.compared, done.waiting, done.problem) == (0, 1, "the model is out")
    assert shown(alma) == {NEW: False, OLD: True}
    model.relation = "replaces"
    assert alma.reconcile().superseded


@pytest.mark.parametrize(("relation", "probability"), [("unsure", 0.4), ("replaces", 0.5)])
def test_an_unsure_answer_leaves_the_mark(alma: ALMA, model: Model, relation: str, probability: float) -> None:
    model.relation, model.probability = relation, probability
    assert not alma.reconcile().superseded
    assert shown(alma) == {NEW: False, OLD: True}


def test_an_agent_does_not_end_what_a_person_said(embedder: LocalEmbedder, model: Model) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    alma.add_domain_knowledge("dev", "ops", OLD)
    alma.add_domain_knowledge("dev", "ops", NEW, source="agent")
    assert not alma.reconcile().superseded
    assert shown(alma) == {NEW: False, OLD: True}


def test_without_a_model_it_says_so(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    for fact in (OLD, NEW):
        alma.add_domain_knowledge("dev", "ops", fact)
    done = alma.reconcile()
    assert (done.compared, done.waiting, done.problem) == (0, 1, "no model is configured")
    assert shown(alma) == {NEW: False, OLD: True}


def test_what_was_deleted_leaves_no_comparison(alma: ALMA, model: Model) -> None:
    model.relation = "variant"
    alma.reconcile()
    [old] = [one for one in alma.list() if one.fact == OLD]  # type: ignore[attr-defined]
    alma.delete(old.id)
    assert not list(alma.engine.store.scan(Where(kinds={"comparison"})))
