"""Memories that say the same become one without a loss, and what is out of date is superseded; both can be undone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.engine import consolidate
from alma.errors import ModelUnavailableError, ValidationError
from alma.projects import limit_memory
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer, Prompt
from alma.types.kinds import KINDS, AntiPattern, Heuristic, Wording
from alma.types.query import Hit, Where
from alma.types.record import COUNTS, to_json

OLD, NEW = "The billing service runs on Postgres 14", "The billing service runs on MySQL 8"
QUESTION = "Which database does billing run on?"


class Model:
    """Gives every pair the same relation; `checked`, if given, when it is asked about the details of a pair."""

    name = "scripted"

    def __init__(self, relation: str = "replaces", probability: float = 0.95) -> None:
        self.relation = relation
        self.checked = ""
        self.probability = probability
        self.asked = 0
        self.details: list[tuple[list[str], list[str]]] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.asked += 1
        if self.relation == "fails":
            raise ModelUnavailableError("the model is out")
        pairs: list[dict[str, Any]] = json.loads(prompt.text)["pairs"]
        details = [(one["only_old"], one["only_new"]) for one in pairs if "only_old" in one]
        self.details += details
        relation = self.checked if details and self.checked else self.relation
        answers = [{"n": one["n"], "relation": relation, "probability": self.probability} for one in pairs]
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


@pytest.mark.parametrize("relation", ["replaces", "contradicts"])
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


@pytest.mark.parametrize(("relation", "probability"), [("unsure", 0.4), ("unsure", 0.0), ("replaces", 0.5)])
def test_an_unsure_answer_leaves_the_mark(alma: ALMA, model: Model, relation: str, probability: float) -> None:
    model.relation, model.probability = relation, probability
    assert not alma.reconcile().superseded
    assert shown(alma) == {NEW: False, OLD: True}
    alma.reconcile()
    assert model.asked == 1, "an unsure answer is an answer"


def test_an_agent_does_not_end_what_a_person_said(embedder: LocalEmbedder, model: Model) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    alma.add_domain_knowledge("dev", "ops", OLD)
    alma.add_domain_knowledge("dev", "ops", NEW, source="agent")
    assert not alma.reconcile().superseded
    assert shown(alma) == {NEW: False, OLD: False}, "nor does it outdate it"


@pytest.mark.parametrize("is_person", [True, False])
@pytest.mark.parametrize("relation", ["same", "replaces"])
def test_nor_with_a_model_of_its_own(relation: str, is_person: bool) -> None:
    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Model(relation))
    say(alma, "The deploy host of billing is ours", "The deploy host of billing is ours today", source="user")
    (alma if is_person else limit_memory(alma, "an agent")).consolidate()
    assert len(alma.list("domain_knowledge")) == (1 if is_person else 2)


def test_without_a_model_it_says_so(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    for fact in (OLD, NEW):
        alma.add_domain_knowledge("dev", "ops", fact)
    done = alma.reconcile()
    assert (done.superseded, done.merged, done.waiting) == ((), (), 1)
    assert done.problem == "no model is configured"
    assert shown(alma) == {NEW: False, OLD: True}


def test_what_was_deleted_leaves_no_comparison(alma: ALMA, model: Model) -> None:
    model.relation = "variant"
    alma.reconcile()
    [old] = [one for one in alma.list() if one.fact == OLD]  # type: ignore[attr-defined]
    alma.delete(old.id)
    assert not list(alma.engine.store.scan(Where(kinds={"comparison"})))


# -- merging

WORDINGS = (
    "Backups run every night at 2",
    "The backup runs every night at 2",
    "A backup is run at 2 every night",
    "Every night at 2 a backup runs",
)


def open_memory(embedder: LocalEmbedder | None, facts: tuple[str, ...], relation: str = "same", **more: Any) -> ALMA:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model(relation) if relation else None)
    for fact in facts:
        alma.add_domain_knowledge("dev", "ops", fact, **more)
    return alma


def list_facts(alma: ALMA, status: str = "active") -> dict[str, str]:
    return {one.fact: one.id for one in alma.list("domain_knowledge", status=status)}  # type: ignore[attr-defined, arg-type]


def sum_counts(alma: ALMA, kind: str = "domain_knowledge") -> Counter[str]:
    sums: Counter[str] = Counter()
    for record in alma.engine.store.scan(Where(kinds={kind}, statuses={"active"})):
        sums.update({name: getattr(record.evidence, name) for name in COUNTS})
        sums["recent"] += len(record.evidence.recent)
    return sums


def dump(alma: ALMA) -> list[str]:
    return sorted(json.dumps(to_json(one), sort_keys=True) for one in alma.engine.store.scan(Where()))


FEEDBACK = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["used", "ignored", "thumbs_up", "thumbs_down"])))


@given(count=st.integers(2, 4), feedback=FEEDBACK, times=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_counts_add_up_once_however_often_memories_are_merged_and_taken_apart(
    count: int, feedback: list[tuple[int, str]], times: int
) -> None:
    alma = open_memory(None, WORDINGS[:count])
    ids = [list_facts(alma)[fact] for fact in WORDINGS[:count]]
    for at, signal in feedback:
        alma.record_feedback(ids[at % count], signal=signal)  # type: ignore[arg-type]
    before = sum_counts(alma)
    stored = dump(alma)
    plan = alma.consolidate(dry_run=True)
    assert dump(alma) == stored
    done = alma.consolidate()
    assert done == plan
    assert [len(one.sources) for one in done.merged] == [count - 1]
    for _ in range(times):
        assert (sum_counts(alma), len(list_facts(alma))) == (before, 1)
        undone = alma.undo()
        assert sum_counts(alma) == before
        assert set(list_facts(alma)) == set(WORDINGS[:count])
        again = alma.consolidate()
        assert (again.merged, set(list_facts(alma))) == ((), set(WORDINGS[:count])), "the undo holds"
        alma.revert(undone.undo)


def test_what_both_have_taken_over_counts_once() -> None:
    alma = open_memory(None, WORDINGS[:3])
    first, second, third = (list_facts(alma)[fact] for fact in WORDINGS[:3])
    for id in (first, second, third):
        alma.record_feedback(id, signal="thumbs_up")
    alma.merge([first, second], second)
    alma.update(first, status="active")
    alma.merge([first, third], third)
    alma.merge([second, third], third)
    assert sum_counts(alma)["ups"] == 3


STEPS = st.tuples(st.sampled_from(["rate", "merge", "restore"]), st.integers(0, 3), st.integers(0, 3))


@given(steps=st.lists(STEPS, max_size=12))
@settings(max_examples=30, deadline=None)
def test_every_rating_counts_once_in_whatever_order_memories_are_merged(steps: list[tuple[str, int, int]]) -> None:
    alma = open_memory(None, WORDINGS)
    ids = [list_facts(alma)[fact] for fact in WORDINGS]

    def merge(source: str, into: str) -> None:
        if source != into and alma.get(source).status == alma.get(into).status == "active":
            alma.merge([source, into], into)

    for step, one, other in steps:
        if step == "rate":
            alma.record_feedback(ids[one], signal="thumbs_up")
        elif step == "restore":
            alma.update(ids[one], status="active")
        else:
            merge(ids[one], ids[other])
    for id in ids:
        alma.update(id, status="active")
    for id in ids[1:]:
        merge(id, ids[0])
    assert sum_counts(alma)["ups"] == sum(step == "rate" for step, *_ in steps)


def test_a_merged_memory_cites_its_sources_and_takes_their_tags() -> None:
    alma = open_memory(None, WORDINGS[:1], tags=["nightly"])
    alma.add_domain_knowledge("dev", "ops", WORDINGS[1], tags=["backup"])
    [merge] = alma.consolidate().merged
    survivor, [source] = alma.get(merge.survivor), merge.sources
    assert survivor.metadata["merged_from"] == [source]
    assert set(survivor.tags) == {"nightly", "backup"}
    line = alma.history(source)[-1]
    assert (line["verb"], merge.survivor in line["why"]) == ("merged", True)
    assert source in alma.history(merge.survivor)[-1]["why"]
    assert alma.get(source).status == "superseded"


def test_what_was_restored_and_is_merged_again_counts_what_is_new_only() -> None:
    alma = open_memory(None, WORDINGS[:2])
    old = list_facts(alma)[WORDINGS[0]]
    alma.record_feedback(old, signal="used")
    alma.consolidate()
    for uses in (2, 3):
        for record in alma.list("domain_knowledge", status="superseded"):
            alma.update(record.id, status="active")
        alma.record_feedback(old, signal="used")
        assert alma.consolidate().merged == (), "what a person restored stays"
        alma.engine.store.delete([one.id for one in alma.engine.store.scan(Where(kinds={"comparison"}))])
        assert len(alma.consolidate().merged) == 1
        assert sum_counts(alma)["uses"] == uses


@pytest.mark.parametrize(
    ("older", "newer", "loss"),
    [
        ("Requests time out after 30 seconds", "Requests time out after 30 minutes", "30 seconds"),
        ("Push with git push --force-with-lease", "Push with git push", "--force-with-lease"),
        ("The cron job must not run twice", "The cron job must run twice", "not run"),
        ("The reports go to Lyon", "The reports go to Nice", "Lyon"),
    ],
)
def test_a_merge_that_would_lose_something_is_refused(older: str, newer: str, loss: str) -> None:
    alma = open_memory(None, (older, newer))
    plan = alma.consolidate(dry_run=True)
    done = alma.consolidate()
    assert plan == done
    assert done.merged == ()
    [refused] = done.refused
    assert loss in refused.losses
    assert set(list_facts(alma)) == {older, newer}
    again = alma.consolidate()
    assert (again.compared, again.refused) == (0, done.refused), "it is reported again without asking again"


YEAR = ("Dumps of the database are removed after 1 year", "We purge each database dump once it is 12 months old")


def test_details_that_seem_to_compete_are_asked_about_once_more_and_stay_quoted() -> None:
    alma = open_memory(None, YEAR)
    [merge] = alma.consolidate().merged
    assert alma.model.details == [(["1 year"], ["12 months"])]  # type: ignore[union-attr]
    survivor = alma.get(merge.survivor)
    assert [one.text for one in survivor.wordings] == [one for one in YEAR if one != survivor.fact]
    alma.undo()
    assert set(list_facts(alma)) == {*YEAR}


@pytest.mark.parametrize("checked", ["variant", "contradicts", "unsure"])
def test_what_the_second_answer_finds_to_differ_stays_apart_and_is_not_asked_again(checked: str) -> None:
    alma = open_memory(None, YEAR)
    alma.model.checked = checked  # type: ignore[union-attr]
    done = alma.consolidate()
    assert (done.merged, done.superseded) == ((), ()), "the answers differ, so nothing is ended"
    assert len(done.conflicts) == len(alma.conflicts()) == (checked == "contradicts")
    asked = alma.model.asked  # type: ignore[union-attr]
    again = alma.consolidate()
    assert (again.merged, alma.model.asked) == ((), asked)  # type: ignore[union-attr]
    assert set(list_facts(alma)) == {*YEAR}


def say(alma: ALMA, *facts: str, source: str = "agent") -> list[str]:
    return [alma.add_domain_knowledge("dev", "ops", fact, source=source).id for fact in facts]


def read_all(alma: ALMA) -> str:
    """Return the texts of all active facts with their other wordings."""
    facts: list[Any] = alma.list("domain_knowledge")
    return "; ".join(text for one in facts for text in (one.fact, *(it.text for it in one.wordings)))


def test_what_does_not_fit_into_a_survivor_stays_a_memory() -> None:
    alma = open_memory(None, ("The nightly backup of billing runs",))
    names = ("Anna", "Bernd", "Carla", "Dieter", "Emil", "Frida", "Gustav", "Hanna", "Ines", "Jonas", "Karla", "Ludwig")
    say(alma, *(f"The nightly backup of billing runs for {name}" for name in names))
    for _ in range(2):
        alma.consolidate()
        assert [name for name in names if name not in read_all(alma)] == []


def test_what_contradicts_a_source_is_not_merged_beside_it() -> None:
    texts = ("Database dumps are kept for 30 days", "We purge each database dump once it is 12 months old")

    class Divided(Model):
        def ask(self, prompt: Prompt) -> Answer:
            pairs: list[dict[str, Any]] = json.loads(prompt.text)["pairs"]
            relations = ["contradicts" if {one["old"], one["new"]} == {*texts} else "same" for one in pairs]
            rows = [
                {"n": one["n"], "relation": it, "probability": 0.6 if it != "same" else 0.95}
                for one, it in zip(pairs, relations, strict=True)
            ]
            return Answer(value={"pairs": rows}, model=self.name)

    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Divided())
    say(alma, "Database dumps are purged", source="user")
    say(alma, *texts)
    done = alma.consolidate()
    assert [len(one.sources) for one in done.merged] == [1]
    assert len(alma.list("domain_knowledge")) == 2


def test_numbers_of_two_sources_that_compete_are_not_quoted_together() -> None:
    alma = open_memory(None, ("Database dumps are purged",))
    say(alma, "Dumps of the database are removed after 1 year", "We purge each database dump once it is 18 months old")
    alma.consolidate()
    assert len(alma.list("domain_knowledge")) == 2


def test_every_merge_that_is_reported_has_happened() -> None:
    alma = open_memory(None, YEAR[:1])
    say(alma, YEAR[1], "Database dumps are removed after 1 year in Paris")
    plan = alma.consolidate(dry_run=True)
    done = alma.consolidate()
    assert plan == done
    ended = {one.id for one in alma.list("domain_knowledge", status="superseded")}
    assert ended == {id for one in done.merged for id in one.sources}
    assert len(done.merged) == len({one.survivor for one in done.merged})


def test_a_decision_holds_after_a_survivor_took_over_a_wording() -> None:
    alma = open_memory(None, ("Dumps of the database are removed after 2 weeks in Lyon", YEAR[0]), "contradicts")
    model: Any = alma.model
    model.probability = 0.5
    [conflict] = alma.consolidate().conflicts
    alma.resolve_conflict(conflict, "both")
    say(alma, "Database dumps are removed after 1 year in Paris")
    model.relation, model.probability = "same", 0.95
    assert len(alma.consolidate().merged) == 1
    model.relation = "replaces"
    assert alma.consolidate().superseded == ()
    assert "Lyon" in read_all(alma)


def test_words_of_a_deleted_source_are_gone_after_two_merges() -> None:
    alma = open_memory(None, ("Backups run at 2",))
    [source] = say(alma, "Backups run at 2 in Paris")
    alma.consolidate()
    say(alma, "Each night the backups are made at 2 with rsync", source="user")
    alma.consolidate()
    assert read_all(alma).count("Paris") == 1
    alma.delete(source)
    assert "Paris" not in read_all(alma)


def test_a_rule_keeps_what_may_not_be_quoted_in_it_as_a_rule_of_its_own() -> None:
    alma = open_memory(None, ())
    alma.add_rule("dev", "Remove dumps of the database after 1 year")
    other = alma.add_rule("dev", "Purge each database dump once it is 12 months old", source="agent")
    alma.update(other.id, status="active")
    alma.consolidate()
    rules: list[Any] = alma.list("rule")
    assert any("12 months" in text for one in rules for text in (one.rule, *(it.text for it in one.wordings)))


def test_the_vectors_of_long_texts_are_those_of_the_joined_memory(embedder: LocalEmbedder) -> None:
    long = " ".join(f"The backup of the shop number {number} runs each night." for number in range(25))
    alma = open_memory(embedder, (long,))
    say(alma, f"{long} It runs in Paris.")
    [merge] = alma.consolidate().merged
    [survivor] = alma.engine.store.get([merge.survivor])
    [fresh] = alma.engine.encode([KINDS[survivor.kind].passages(survivor.body)])
    assert survivor.vectors == fresh


def test_a_persons_merge_that_was_undone_stays_undone() -> None:
    alma = open_memory(None, ("Backups run at 2", "Backups of billing run at 2 in Paris"))
    ids = list(list_facts(alma).values())
    alma.merge(ids, ids[0])
    alma.undo()
    assert alma.consolidate().merged == ()


def test_texts_that_differ_in_nothing_but_a_detail_are_not_asked_about_again() -> None:
    alma = open_memory(None, ("The dumps are removed after 1 year", "The dumps are removed after 12 months"))
    assert alma.consolidate().merged == ()
    assert alma.model.details == []  # type: ignore[union-attr]


def test_an_unsure_model_merges_nothing_however_often_it_is_run() -> None:
    alma = open_memory(None, WORDINGS[:2])
    alma.model.probability = 0.5  # type: ignore[union-attr]
    assert [alma.consolidate().merged for _ in range(2)] == [(), ()]


def test_of_several_only_those_are_merged_that_lose_nothing() -> None:
    alma = open_memory(None, ("Backups run at 2", "The backup runs at 2", "Backups run at 2 in production"))
    done = alma.consolidate()
    assert set(list_facts(alma)) == {"Backups run at 2 in production"}, "it says what the others say"
    assert [len(one.sources) for one in done.merged] == [2]
    alma = open_memory(None, ("Backups run at 2", "The backup runs at 2", "Backups run at 3"))
    done = alma.consolidate()
    assert set(list_facts(alma)) == {"The backup runs at 2", "Backups run at 3"}
    assert {loss for one in done.refused for loss in one.losses} == {"3"}


def test_another_domain_is_a_loss() -> None:
    alma = open_memory(None, ("It runs on version 14",))
    alma.add_domain_knowledge("dev", "billing", "It runs on version 14.")
    [refused] = alma.consolidate().refused
    assert refused.losses == ("domain: ops",)


def test_a_recorded_question_must_still_be_answered() -> None:
    older, newer = "The upstairs printer jams when it is humid", "When it is humid, the upstairs machine jams"
    alma = open_memory(None, (older, newer))
    assert alma.consolidate(dry_run=True).merged, "nothing is lost as long as nobody asked"
    assert [one.fact for one in alma.retrieve("Replace the printer", "dev").domain_knowledge] == [older]
    [merge] = alma.consolidate().merged
    assert merge.survivor == list_facts(alma)[older], "the older one answers what both answered"


def test_the_wording_that_a_question_needs_is_kept() -> None:
    older, newer = "The upstairs printer jams when it is humid", "When it is humid, the upstairs machine jams"
    tasks = ("Replace the printer", "Replace the machine")
    alma = open_memory(None, (older, newer))
    for task in tasks:
        assert alma.retrieve(task, "dev").domain_knowledge
    [merge] = alma.consolidate().merged
    for task in tasks:
        assert [one.id for one in alma.retrieve(task, "dev").domain_knowledge] == [merge.survivor]
    survivor = alma.get(merge.survivor)
    assert {survivor.fact, *(one.text for one in survivor.wordings)} == {older, newer}


def test_a_wording_has_a_vector_until_it_is_deleted(embedder: LocalEmbedder) -> None:
    alma = open_memory(embedder, YEAR)
    own = {one.id: one.vectors for one in alma.engine.store.scan(Where(kinds={"domain_knowledge"}))}
    [merge] = alma.consolidate().merged
    [survivor] = alma.engine.store.get([merge.survivor])
    assert survivor.vectors == (*own[merge.sources[0]], *own[merge.survivor]), "that of its own words is the last"
    alma.delete(merge.sources[0])
    [survivor] = alma.engine.store.get([merge.survivor])
    assert survivor.vectors == own[merge.survivor]


def test_what_a_person_said_survives_what_an_agent_says_later() -> None:
    alma = open_memory(None, WORDINGS[:1])
    alma.add_domain_knowledge("dev", "ops", WORDINGS[1], source="agent")
    alma.consolidate()
    assert set(list_facts(alma)) == {WORDINGS[0]}


def test_a_detail_of_an_agent_is_quoted_beside_what_a_person_said() -> None:
    alma = open_memory(None, ("Backups run at 2",))
    alma.add_domain_knowledge("dev", "ops", "Backups run at 2 in production", source="agent")
    [merge] = alma.consolidate().merged
    [fact] = alma.list("domain_knowledge")
    assert (fact.fact, fact.origin, fact.id) == ("Backups run at 2", "user", merge.survivor)
    assert fact.wordings == (Wording("Backups run at 2 in production", "agent"),)
    prompt = alma.retrieve("When do backups run in production?", "dev").to_prompt()
    assert "noted by an agent: “Backups run at 2 in production”" in prompt
    assert alma.search("production")[0].memory.id == fact.id
    alma.undo()
    assert [one.wordings for one in alma.list("domain_knowledge")] == [(), ()]


def test_a_quoted_wording_is_deleted_with_its_memory() -> None:
    alma = open_memory(None, ("Backups run at 2",))
    detail = alma.add_domain_knowledge("dev", "ops", "Backups run at 2 in production", source="agent")
    alma.consolidate()
    alma.delete(detail.id)
    [fact] = alma.list("domain_knowledge")
    assert not fact.wordings
    stored = json.dumps([to_json(one) for one in alma.engine.store.scan(Where())])
    assert "in production" not in stored


def test_another_wording_goes_with_the_text_that_a_person_edits() -> None:
    alma = open_memory(None, ("Backups run at 2",))
    alma.add_domain_knowledge("dev", "ops", "Backups run at 2 in production", source="agent")
    [merge] = alma.consolidate().merged
    assert alma.update(merge.survivor, tags=["nightly"]).wordings
    assert not alma.update(merge.survivor, fact="Backups run at 4").wordings


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ask Mia in Lyon about invoices", "Ask Tom in Nice about invoices"),
        ("Use npm install --force", "Use npm install to get the packages"),
        ("Never retry payments that failed", "Retry payments that failed"),
    ],
)
def test_values_that_compete_are_not_quoted_beside_each_other(older: str, newer: str) -> None:
    alma = open_memory(None, (older, newer))
    done = alma.consolidate()
    assert done.merged == ()
    assert done.refused


def test_a_rule_keeps_the_other_wording_of_its_person_in_its_line() -> None:
    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Model("same"))
    for rule in ("Announce deployments in #releases", "Announce each deployment in #releases before 5 pm"):
        alma.add_rule("dev", rule)
    [merge] = alma.consolidate().merged
    [record] = alma.engine.store.get([merge.survivor])
    assert "before 5 pm" in record.body["line"]


def test_a_merged_strategy_is_found_by_the_tasks_of_both(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("same"))
    tasks = {
        "Clear the cache first": "Fix the stale price page",
        "Empty the cache before anything else": "Repair login",
    }
    for strategy, task in tasks.items():
        for _ in range(3):
            alma.learn("dev", task, "success", strategy, task_type="web")
    assert len(alma.consolidate().merged) == 1
    for task in tasks.values():
        [lesson] = alma.retrieve(task, "dev").heuristics
        assert lesson.occurrence_count == 6


def test_memories_of_different_agents_and_users_stay_apart() -> None:
    alma = open_memory(None, WORDINGS[:1])
    alma.add_domain_knowledge("qa", "ops", WORDINGS[1])
    alma.add_domain_knowledge("dev", "ops", WORDINGS[2], user_id="ana")
    assert alma.consolidate().merged == ()
    assert len(list_facts(alma)) == 3


def add_at_once(alma: ALMA, *facts: str, **more: Any) -> list[str]:
    """Add facts that are not compared with each other."""
    rows = [{"type": "domain_knowledge", "agent": "dev", "domain": "ops", "fact": fact, **more} for fact in facts]
    return [one.id for one in alma.add_many(rows)]


def test_without_a_model_only_certain_duplicates_are_merged(embedder: LocalEmbedder) -> None:
    alma = open_memory(embedder, (), relation="")
    add_at_once(alma, "Backups run at night, at 2", "The backups run at night at 2.", "A nightly backup begins at 2")
    plan = alma.consolidate(dry_run=True)
    done = alma.consolidate()
    assert done == plan
    assert (len(done.merged), done.superseded, done.problem) == (1, (), "no model is configured")
    assert len(list_facts(alma)) == 2
    assert alma.consolidate().compared == 0
    alma._model = Model("same")
    alma.__dict__.pop("model")
    assert alma.consolidate().compared == 1, "what the local reader was unsure about is still asked"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The gateway must be called over HTTP", "The gateway must be called over HTTPS"),
        ("Option A is the default", "Option is the default"),
        ("Start the job with the option a", "Start the job with the option"),
        ("Set the timeout to 9s", "Set the timeout to 9"),
        ("Table order holds sales", "Table orders holds sales"),
        ("No, release on Mondays", "No release on Mondays"),
        ("Write it in C", "Write it in C++"),
    ],
)
def test_without_a_model_texts_with_other_words_stay_apart(embedder: LocalEmbedder, first: str, second: str) -> None:
    for facts in ((first, second), (second, first)):
        alma = open_memory(embedder, (), relation="")
        add_at_once(alma, *facts)
        assert alma.consolidate().merged == ()
        alma = open_memory(embedder, facts, relation="")
        assert set(list_facts(alma)) == {first, second}


# -- more memories than one run compares


OTHERS = "ferry violin granite orchid compass lantern walnut harbour copper meadow".split()
TWINS = "Backups of the payroll database run at 2", "The backups of the payroll database run at 2"


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_the_newest_memories_are_compared_with_all_others(
    monkeypatch: pytest.MonkeyPatch, embedder: HashEmbedder | None
) -> None:
    monkeypatch.setattr(consolidate, "_MAX_RECORDS", 3)
    alma = ALMA(MemoryStore(), embedder, clock=Clock())
    add_at_once(alma, TWINS[0], *OTHERS, TWINS[1])
    assert len(alma.consolidate(dry_run=True).merged) == len(alma.consolidate().merged) == 1


def test_older_memories_are_compared_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidate, "_MAX_RECORDS", 3)
    clock = Clock()
    alma = ALMA(MemoryStore(), HashEmbedder(), clock=clock)
    add_at_once(alma, *OTHERS[:4], *TWINS, *OTHERS[4:])
    days = 0
    while not alma.consolidate().merged:
        days += 1
        clock.now += timedelta(days=1)
    assert days <= 10


class CountingStore(MemoryStore):
    """A store that counts the searches by words."""

    searches = 0

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        """Count the search, and find nothing."""
        self.searches += 1
        return []


def test_of_many_memories_only_those_are_compared_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidate, "_MAX_RECORDS", 3)
    store, clock = CountingStore(), Clock()
    alma = ALMA(store, clock=clock)
    add_at_once(alma, *OTHERS[:5])
    alma.consolidate(dry_run=True)
    alma.consolidate()
    first, store.searches = store.searches, 0
    monkeypatch.setattr(Clock, "__call__", lambda self: self.now)
    alma.consolidate()
    assert first > 0
    assert store.searches == 0, "nothing changed since"
    alma.add_domain_knowledge("dev", "ops", OTHERS[5])
    store.searches = 0
    alma.consolidate()
    assert store.searches > 0
    clock.now -= timedelta(days=400)
    store.searches = 0
    alma.consolidate()
    assert store.searches > 1, "with a clock that was set back, all are compared again"


def test_older_strategies_are_compared_in_turn(monkeypatch: pytest.MonkeyPatch, embedder: LocalEmbedder) -> None:
    monkeypatch.setattr(consolidate, "_MAX_RECORDS", 2)
    alma = open_strategies(embedder, ("+", "+"))
    for word in OTHERS[:4]:
        alma.learn("dev", TASK, "success", f"Polish the {word}")
    alma.model.relation = "unrelated"  # type: ignore[union-attr]
    compared = 0
    for _ in range(10):
        compared += alma.consolidate().compared
        alma.engine.clock.now += timedelta(days=1)  # type: ignore[attr-defined]
    asked = {frozenset(one.links) for one in alma.engine.store.scan(Where(kinds={"comparison"}))}
    first = [one.id for one in alma.engine.store.scan(Where(kinds={"strategy"})) if one.body["strategy"] in SAME]
    assert frozenset(first) in asked
    assert compared == len(asked), "each pair is asked about once"


def test_rules_keep_when_they_apply() -> None:
    alma = ALMA(MemoryStore(), clock=Clock(), model=Model("same"))
    for rule, trigger in (("Run the linter first", "committing"), ("First run the linter", "pushing")):
        alma.add_rule("dev", rule, trigger)
    [refused] = alma.consolidate().refused
    assert refused.losses == ("trigger: committing",)


# -- strategies


TASK = "Deploy the auth service"
SAME = "Clear the cache before the deployment", "Before the deployment, empty the cache"


def open_strategies(embedder: LocalEmbedder, results: tuple[str, str]) -> ALMA:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("same"))
    for strategy, row in zip(SAME, results, strict=True):
        for result in row:
            outcome = {"+": "success", "-": "failure", "~": "partial"}[result]
            alma.learn("dev", TASK, outcome, strategy)  # type: ignore[arg-type]
    return alma


def list_groups(alma: ALMA) -> list[tuple[str, int, int]]:
    groups = alma.engine.store.scan(Where(kinds={"strategy"}, statuses={"active"}))
    return [(one.body["strategy"], one.evidence.successes, one.evidence.results) for one in groups]


@pytest.mark.parametrize("results", [("++", "+"), ("+-+", "--~"), ("-", "-"), ("+++", "+++"), ("++++", "---")])
def test_the_results_of_one_strategy_in_two_wordings_are_counted_together(
    embedder: LocalEmbedder, results: tuple[str, str]
) -> None:
    alma = open_strategies(embedder, results)
    assert len(list_groups(alma)) == 2, "they are two strategies before"
    stored, before = dump(alma), sum_counts(alma, "strategy")
    plan = alma.consolidate(dry_run=True)
    assert dump(alma) == stored
    assert alma.consolidate() == plan
    [(_, successes, total)] = list_groups(alma)
    joined = "".join(results)
    assert (successes, total) == (joined.count("+"), len(joined))
    assert sum_counts(alma, "strategy") == before
    [group] = alma.engine.store.scan(Where(kinds={"strategy"}, statuses={"active"}))
    assert all(one[0] <= other[0] for one, other in pairwise(group.evidence.recent)), "in the order of time"
    heuristics, warnings = alma.list(Heuristic), alma.list(AntiPattern)
    assert len(heuristics) + len(warnings) <= 1
    assert all(one.occurrence_count == len(joined) for one in heuristics)
    assert all(one.occurrence_count == joined.count("-") for one in warnings)
    assert alma.consolidate().compared == 0
    alma.undo()
    assert sorted(total for *_, total in list_groups(alma)) == sorted(map(len, results))
    assert sum_counts(alma, "strategy") == before


def test_a_later_outcome_in_the_merged_wording_counts_for_the_survivor(embedder: LocalEmbedder) -> None:
    alma = open_strategies(embedder, ("+", "+"))
    [merge] = alma.consolidate().merged
    for strategy in SAME:
        alma.learn("dev", TASK, "success", strategy)
    assert [row[1:] for row in list_groups(alma)] == [(4, 4)]
    assessed = [alma.engine.store.get([id])[0].status for id in merge.sources]
    assert assessed == ["superseded"]
    [heuristic] = alma.list("heuristic")
    assert heuristic.occurrence_count == 4  # type: ignore[attr-defined]


def test_the_lesson_of_a_merged_strategy_is_restored_by_undoing_the_merge(embedder: LocalEmbedder) -> None:
    alma = open_strategies(embedder, ("+++", "+++"))
    alma.consolidate()
    [merged] = alma.list("heuristic", status="superseded")
    with pytest.raises(ValidationError, match="undo the merge to restore it: `alma revert") as error:
        alma.update(merged.id, status="active")
    alma.revert(str(error.value).rpartition("revert ")[2].rstrip("`"))
    lessons: list[Any] = alma.list("heuristic")
    assert sorted(one.occurrence_count for one in lessons) == [3, 3]


def test_a_stated_warning_takes_its_results_along(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("same"))
    patterns = "Restarting the workers by hand", "Start the jobs over manually"
    for pattern in patterns:
        alma.add_anti_pattern("dev", pattern, "It hides the leak", condition="jobs hang")
    alma.learn("dev", "jobs hang", "failure", patterns[0])
    alma.learn("dev", "jobs hang", "failure", patterns[1])
    before = len(alma.list("anti_pattern"))
    done = alma.consolidate()
    assert (before, len(done.merged)) == (2, 1)
    [warning] = alma.list("anti_pattern")
    assert warning.occurrence_count == 2  # type: ignore[attr-defined]
    alma.undo()
    assert sorted(one.occurrence_count for one in alma.list("anti_pattern")) == [1, 1]  # type: ignore[attr-defined]


def test_a_lesson_that_was_deleted_does_not_come_back_by_a_merge(embedder: LocalEmbedder) -> None:
    alma = open_strategies(embedder, ("+++", "+"))
    [heuristic] = alma.list("heuristic")
    alma.delete(heuristic.id)
    done = alma.consolidate()
    assert (done.merged, [one.losses for one in done.refused]) == ((), [("a person deleted a lesson",)])
    assert alma.list("heuristic") == []


def test_deleting_the_survivor_deletes_what_was_merged_into_it() -> None:
    alma = open_memory(None, WORDINGS[:2])
    [merge] = alma.consolidate().merged
    alma.delete(merge.survivor)
    assert alma.list("domain_knowledge", status=None) == []
    for wording in WORDINGS[:2]:
        assert alma.add_domain_knowledge("dev", "ops", wording, source="agent").status == "candidate"


@pytest.mark.parametrize("source", ["user", "agent"])
def test_a_merged_wording_that_arrives_again_confirms_the_survivor(source: str) -> None:
    alma = open_memory(None, WORDINGS[:2])
    [merge] = alma.consolidate().merged
    again = alma.add_domain_knowledge("dev", "ops", WORDINGS[0], source=source)
    assert again.id == merge.survivor
    assert alma.consolidate().compared == 0
    alma.undo()
    assert len(list_facts(alma)) == 1


def test_a_person_who_repeats_what_was_merged_into_an_agents_memory_states_it_anew() -> None:
    alma = open_memory(None, WORDINGS[:2], source="agent")
    [merge] = alma.consolidate().merged
    stated = alma.add_domain_knowledge("dev", "ops", WORDINGS[0])
    assert (stated.id != merge.survivor, stated.origin) == (True, "user")


def test_a_merged_rule_that_is_taught_again_counts_for_the_survivor() -> None:
    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Model("same"))
    rules = ("Announce deployments in #releases", "Tell #releases about each deployment")
    for rule in rules:
        alma.add_rule("dev", rule)
    [merge] = alma.consolidate().merged
    again = [alma.add_rule("dev", rule) for rule in rules]
    assert {one.id for one in again} == {merge.survivor}
    assert alma.get(merge.survivor).repeats == 2


# -- deleted memories that came back in other words

DELETED = "The payments gateway of the shop refuses cards from banks outside of Europe"
TURNED = "From banks outside of Europe, cards are refused by the payments gateway of the shop"
RETURNED = "Cards of non-European banks are refused by the payments gateway"


@pytest.fixture
def returned() -> ALMA:
    """A memory in which an agent repeated a deleted fact twice, once in words that its tombstone does not recognise."""
    alma = ALMA(MemoryStore(), HashEmbedder(), clock=Clock(), model=Model("same"))
    alma.delete(alma.add_domain_knowledge("dev", "cards", DELETED).id)
    repeated = [alma.add_domain_knowledge("dev", "cards", text, source="agent") for text in (RETURNED, TURNED)]
    assert [one.status for one in repeated] == ["active", "candidate"]
    return alma


def test_a_memory_that_says_the_same_as_a_deleted_one_waits(returned: ALMA) -> None:
    assert returned.consolidate(dry_run=True).held_back == returned.consolidate().held_back != ()
    assert list(list_facts(returned)) == []
    waiting = returned.get(list_facts(returned, "candidate")[RETURNED])
    assert waiting.metadata["resembles"] == "a deleted memory"
    assert [one["verb"] for one in returned.history(waiting.id)] == ["created", "held back"]
    assert returned.consolidate().compared == 0
    # Its words were recognised by a model once, and are by the tombstone from now on.
    again = "The payments gateway refuses the cards of non-European banks"
    assert returned.add_domain_knowledge("dev", "cards", again, source="agent").status == "candidate"


def test_what_was_held_back_by_mistake_comes_back_for_good(returned: ALMA) -> None:
    returned.consolidate()
    returned.undo()
    assert list(list_facts(returned)) == [RETURNED]
    assert returned.consolidate().held_back == ()


def test_what_a_person_accepts_is_not_held_back_again(returned: ALMA) -> None:
    [held] = returned.consolidate().held_back
    returned.update(held, status="active")
    other = "Outside of Europe, the shop refuses cards from banks: the payments gateway"
    assert returned.add_domain_knowledge("dev", "cards", other, source="agent").status == "candidate"
    assert returned.consolidate().held_back == ()
    assert list(list_facts(returned)) == [RETURNED]


def test_what_was_there_before_the_deletion_stays() -> None:
    alma = ALMA(MemoryStore(), HashEmbedder(), clock=Clock(), model=Model("same"))
    double = alma.add_domain_knowledge("dev", "cards", RETURNED, source="agent")
    alma.delete(alma.add_domain_knowledge("dev", "cards", DELETED).id)
    assert alma.add_domain_knowledge("dev", "cards", TURNED, source="agent").status == "candidate"
    assert alma.consolidate().held_back == ()
    assert alma.get(double.id).status == "active"


def test_what_a_person_states_is_not_held_back(returned: ALMA) -> None:
    returned.add_domain_knowledge("dev", "cards", RETURNED)
    assert returned.consolidate().held_back == ()


@pytest.mark.parametrize("relation", ["contradicts", "variant", "unsure"])
def test_other_values_are_not_held_back_and_asked_about_once(returned: ALMA, relation: str) -> None:
    model = returned.model
    assert isinstance(model, Model)
    model.relation = relation
    done = returned.consolidate()
    assert (done.held_back, done.conflicts, returned.conflicts()) == ((), (), [])
    returned.consolidate()
    assert model.asked == 1
    # Once a person accepts the candidate, both are active: now they may contradict each other.
    [waiting] = returned.list(status="candidate")
    returned.update(waiting.id, status="active")
    returned.consolidate()
    assert (model.asked, len(list_facts(returned))) == ((2, 1) if relation == "contradicts" else (1, 2))


def test_a_model_that_fails_holds_nothing_back_and_is_reported(returned: ALMA) -> None:
    model = returned.model
    assert isinstance(model, Model)
    model.relation = "fails"
    done = returned.consolidate()
    assert (done.held_back, done.waiting, done.problem) == ((), 1, "the model is out")
    assert list(list_facts(returned)) == [RETURNED]
    model.relation = "same"
    assert len(returned.consolidate().held_back) == 1


def test_what_a_person_restored_is_not_held_back(returned: ALMA) -> None:
    id = list_facts(returned)[RETURNED]
    for status in ("archived", "active"):
        returned.update(id, status=status)
    assert returned.consolidate().held_back == ()


def test_what_a_person_states_in_nearly_the_same_words_is_not_held_back(returned: ALMA) -> None:
    known, words = list_facts(returned)[RETURNED], f"The {RETURNED[0].lower()}{RETURNED[1:]}!"
    stated = returned.add_domain_knowledge("dev", "cards", words)
    assert (stated.id, stated.origin, stated.fact) == (known, "user", words)
    assert returned.consolidate().held_back == ()


def test_what_is_deleted_while_the_model_answers_stays_deleted(returned: ALMA, monkeypatch: pytest.MonkeyPatch) -> None:
    model, candidate = returned.model, list_facts(returned, "candidate")[TURNED]
    assert isinstance(model, Model)
    ask = model.ask

    def delete_and_ask(prompt: Prompt) -> Answer:
        monkeypatch.undo()
        returned.delete(candidate)
        return ask(prompt)

    monkeypatch.setattr(model, "ask", delete_and_ask)
    returned.consolidate()
    assert list(list_facts(returned)) == [RETURNED]


@pytest.mark.parametrize("others", [5, None, [1], {"x": 1}, "x"])
def test_a_tombstone_with_odd_sketches_of_others_still_has_its_own(returned: ALMA, others: Any) -> None:
    store = returned.engine.store
    [stone] = store.scan(Where(kinds={"tombstone"}))
    store.put([replace(stone, version=stone.version + 1, body={**stone.body, "others": others})])
    # Another one has not read the tombstones yet.
    alma = ALMA(store, HashEmbedder(), clock=Clock(), model=Model("same"))
    again = "Cards from banks outside of Europe are refused by the payments gateway of the shop"
    assert alma.add_domain_knowledge("dev", "cards", again, source="agent").status == "candidate"
    assert alma.consolidate().held_back == (list_facts(alma, "candidate")[RETURNED],)


def test_a_tombstone_of_an_earlier_version_holds_back_without_a_sketch(returned: ALMA) -> None:
    store, key = returned.engine.store, returned.add_domain_knowledge("dev", "cards", "x y z", source="agent").id
    [stone] = store.scan(Where(kinds={"tombstone"}))
    body = {"record": stone.body["record"], "kind": stone.body["kind"]}
    [candidate] = [one for one in store.scan(Where(kinds={"domain_knowledge"})) if one.body["fact"] == TURNED]
    store.put([replace(stone, version=stone.version + 1, body=body, key=candidate.key)])
    returned.delete(key)
    assert len(returned.consolidate().held_back) == 1


def test_changes_that_are_undone_out_of_order_leave_the_sketches_of_others(returned: ALMA) -> None:
    second = "Non-European banks: their cards get refused at payment"
    assert returned.add_domain_knowledge("dev", "cards", second, source="agent").status == "active"
    held_back = returned.consolidate().held_back
    changes = [returned.history(id)[-1]["change"] for id in held_back]
    assert len(set(changes)) == 2

    def count_sketches() -> int:
        [stone] = returned.engine.store.scan(Where(kinds={"tombstone"}))
        return len(stone.body["others"])

    counts = []
    for change in changes:
        returned.revert(change)
        counts.append(count_sketches())
    assert counts == [1, 0]


def test_a_preview_of_upkeep_leaves_out_what_it_archives_first(returned: ALMA) -> None:
    id = list_facts(returned)[RETURNED]
    done = consolidate.reconcile(returned.engine, consolidate.open_reader(Model("same")), dry_run=True, excluded=[id])
    assert (done.held_back, done.compared) == ((), 0)


def test_what_a_person_accepts_is_checked_for_conflicts_though_a_model_compared_it(embedder: LocalEmbedder) -> None:
    model = Model("contradicts")
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=model)
    alma.delete(alma.add_domain_knowledge("dev", "ops", OLD).id)
    alma.add_domain_knowledge("dev", "ops", NEW, source="agent")
    waiting = alma.add_domain_knowledge("dev", "ops", f"Yes, {OLD[0].lower()}{OLD[1:]}", source="agent")
    assert waiting.status == "candidate"
    alma.consolidate()
    assert (model.asked, alma.conflicts()) == (1, [])
    alma.update(waiting.id, status="active")
    assert len(alma.conflicts()) == 1
