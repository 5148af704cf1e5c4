"""Memories that say the same become one without a loss, and what is out of date is superseded; both can be undone."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.errors import ModelUnavailableError
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer, Prompt
from alma.types.kinds import AntiPattern, Heuristic
from alma.types.query import Where
from alma.types.record import COUNTS, to_json

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
@settings(max_examples=40, deadline=None)
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
    assert {loss for one in done.refused for loss in one.losses} == {"2"}


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


def test_a_merge_that_leaves_a_question_open_is_refused() -> None:
    older, newer = "The upstairs printer jams when it is humid", "When it is humid, the upstairs machine jams"
    alma = open_memory(None, (older, newer))
    for task in ("Replace the printer", "Replace the machine"):
        assert alma.retrieve(task, "dev").domain_knowledge
    [refused] = alma.consolidate().refused
    assert refused.losses == ("an answer to a recorded question",)


def test_what_a_person_said_survives_what_an_agent_says_later() -> None:
    alma = open_memory(None, WORDINGS[:1])
    alma.add_domain_knowledge("dev", "ops", WORDINGS[1], source="agent")
    alma.consolidate()
    assert set(list_facts(alma)) == {WORDINGS[0]}
    alma = open_memory(None, ("Backups run at 2",))
    alma.add_domain_knowledge("dev", "ops", "Backups run at 2 in production", source="agent")
    assert "the word of somebody who is trusted more" not in alma.consolidate().refused[0].losses
    assert len(list_facts(alma)) == 2, "the agent's detail is not lost, and the person's word is not replaced"


def test_memories_of_different_agents_and_users_stay_apart() -> None:
    alma = open_memory(None, WORDINGS[:1])
    alma.add_domain_knowledge("qa", "ops", WORDINGS[1])
    alma.add_domain_knowledge("dev", "ops", WORDINGS[2], user_id="ana")
    assert alma.consolidate().merged == ()
    assert len(list_facts(alma)) == 3


def test_without_a_model_only_certain_duplicates_are_merged(embedder: LocalEmbedder) -> None:
    alma = open_memory(embedder, (*WORDINGS[:2], "The backup is a nightly job that begins at 2"), relation="")
    plan = alma.consolidate(dry_run=True)
    done = alma.consolidate()
    assert done == plan
    assert (len(done.merged), done.superseded, done.problem) == (1, (), "no model is configured")
    assert len(list_facts(alma)) == 2
    assert alma.consolidate().compared == 0
    alma._model = Model("same")
    alma.__dict__.pop("model")
    assert alma.consolidate().compared == 1, "what the local reader was unsure about is still asked"


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


def test_a_stated_warning_takes_its_results_along(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, clock=Clock(), model=Model("same"))
    patterns = "Restarting the workers by hand", "To restart the workers by hand"
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
