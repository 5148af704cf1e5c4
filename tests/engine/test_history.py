"""History: laws of undoing and of looking back, and what a person sees of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.admit import draft_record
from alma.engine.facts import add_facts
from alma.engine.transaction import write
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.schema import plain
from alma.stores.memory import MemoryStore
from alma.types.kinds import Heuristic, Outcome, Result
from alma.types.query import Team, Where
from alma.types.record import Origin, Provenance

TASKS = ("Deploy the auth service", "Fix the login test", "When may I deploy?")
FACTS = ("The deploy window is 9 to 17 h", "Staging runs on db2", "Logs are kept for 30 days")
STRATEGIES = ("Blue-green deployment", "Clear the session cookie")


class Ticking:
    """A clock that goes on a second each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def open_memory(store: MemoryStore | None = None, project: str = "default", clock: Ticking | None = None) -> ALMA:
    teams = [Team("team", ("dev", "ops"))]
    return ALMA(store or MemoryStore(), HashEmbedder(64), clock=clock or Ticking(), teams=teams, project_id=project)


def open_neighbour(alma: ALMA) -> ALMA:
    """Open another project on the same store."""
    store: Any = alma.engine.store
    clock: Any = alma.engine.clock
    return open_memory(store, "neighbour", clock)


def use_rules(alma: ALMA) -> None:
    """Count a use of the rules of all projects, and of a fact of this one."""
    ids = [one.id for one in (alma.add_domain_knowledge("dev", "zoo", "A wombat is grey"), *alma.list("rule"))]
    alma.record_usage(ids, ids)


def see(alma: ALMA) -> list[Any]:
    """Return all that is in use, as a user sees and finds it; confidence depends on the time of looking."""
    hidden = ("confidence", "confidence_interval")
    memories = [plain(one) for one in alma.list(limit=1000)]
    stored = {one.id: one for one in alma.engine.store.get([str(one["id"]) for one in memories])}
    for one in memories:
        record = stored[str(one["id"])]
        one |= {"text": record.text, "vectors": sorted(map(bytes.hex, record.vectors))}
        if record.kind == "rule":
            del one["updated_at"]  # A neighbour may have used it since.
        one["waits"] = [it.id for it in alma.conflicts() if record.id in (it.older.id, it.newer.id)]
    return sorted(
        ({name: value for name, value in one.items() if name not in hidden} for one in memories),
        key=lambda one: str(one["id"]),
    )


def list_changes(alma: ALMA) -> list[str]:
    """Return the ids of the changes that this project made, oldest first."""
    changesets = list(alma.engine.store.scan(Where(kinds={"changeset"}, projects={"default", "everywhere"})))[::-1]
    return list(dict.fromkeys(one.key for one in changesets if one.body.get("made_in", "default") == "default"))


def shown(alma: ALMA, task: str, as_of: datetime | None = None) -> list[tuple[Any, ...]]:
    found = alma.retrieve(task, "dev", "ana", as_of=as_of)
    return [(one.id, one.newer, str(getattr(one, "success_count", "")), one.tags, repr(one)) for one in found]


# -- random histories: each step is a number that picks an operation and its arguments

Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 17), st.integers(0, 2), st.integers(0, 99)), min_size=1, max_size=8)
TEXTS = {"DomainKnowledge": "fact", "Heuristic": "strategy", "AntiPattern": "pattern"}


def apply(alma: ALMA, step: Step) -> None:
    """Make one change, as far as it is possible. A neighbour uses the shared rule meanwhile."""
    number, which, pick = step
    agent, source = ("dev", "dev", "ops")[which], ("user", "agent")[pick % 2]
    memories = [one for one in alma.list(limit=100) if type(one).__name__ in TEXTS]
    chosen = memories[pick % len(memories)] if memories else None
    conflicts = alma.conflicts()
    if number <= 2:
        outcome = (Result.SUCCESS, Result.FAILURE, Result.SUCCESS)[pick % 3]
        error = f"boom {pick % 5}" if pick % 3 == 1 else None
        alma.learn(agent, TASKS[which % 2], outcome, STRATEGIES[pick % 2], error_message=error)
    elif number == 3:
        alma.add_domain_knowledge(agent, "deployment", FACTS[which], tags=[f"t{pick % 3}"])
    elif number == 4:
        alma.add_domain_knowledge("dev", "deployment", f"Port {pick % 3}", attribute=f"port{which}", source=source)
    elif number == 5:
        alma.add_user_preference("ana", "style", f"Answers in {pick % 4} lines", attribute="length")
    elif number == 6:
        alma.add_heuristic("dev", TASKS[which], STRATEGIES[pick % 2], source=source)
    elif number == 7:
        alma.add_anti_pattern("dev", STRATEGIES[pick % 2], "it is slow", condition=TASKS[which], source=source)
    elif number == 8:
        alma.add_episode("dev", f"s{which}", [{"speaker": "ana", "text": f"Turn {pick}", "id": str(pick)}])
    elif number == 9 and conflicts:
        alma.resolve_conflict(conflicts[0].id, ("older", "newer")[pick % 2])
    elif number == 10:
        alma.add_rule("dev", f"Use tool {pick % 4} for builds", reach=("project", "always")[pick % 2])
        use_rules(open_neighbour(alma))
    elif chosen is None:
        alma.add_rule("dev", f"Use tool {pick} for builds")
    elif number == 11:
        alma.update(chosen.id, {TEXTS[type(chosen).__name__]: f"{FACTS[which]}, as of {pick}"})
    elif number == 12:
        alma.update(chosen.id, status="archived")
    elif number == 13:
        alma.record_feedback(chosen.id, signal=("thumbs_up", "thumbs_down", "used")[which])
    elif number == 14:
        alma.review("archive", ids=[one.id for one in memories[: which + 1]])
    elif number == 15:
        alma.promote(chosen.id, ("team", "project", "agent")[which])
    elif number == 16:
        same = [one.id for one in memories if type(one).__name__ == ("DomainKnowledge", "Heuristic")[pick % 2]]
        alma.merge(same[:2], into=same[0] if same else "")
    else:
        alma.update(chosen.id, tags=[f"n{pick}"])


def change(alma: ALMA, step: Step) -> list[str]:
    """Make one change; return the ids of the changes that it led to, none if it was refused."""
    before = list_changes(alma)
    with suppress(ValidationError):
        apply(alma, step)
    return [one for one in list_changes(alma) if one not in before]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_undoing_a_change_gives_what_was_before_and_redoing_it_what_was_after(steps: list[Step]) -> None:
    alma = open_memory()
    for step in steps:
        before = see(alma)
        made = change(alma, step)
        after = see(alma)
        undone = [alma.undo() for _ in made]
        assert [one.change for one in undone] == made[::-1]
        assert see(alma) == before
        for one in reversed(undone):
            alma.revert(one.undo)
        assert see(alma) == after


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_undoing_everything_gives_an_empty_memory(steps: list[Step]) -> None:
    alma = open_memory()
    states = []
    for step in steps:
        state = see(alma)
        states += [state] * len(change(alma, step))
    for state in reversed(states):
        alma.undo()
        assert see(alma) == state
    with pytest.raises(NotFoundError, match="no change to undo"):
        alma.undo()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(0, 99))
def test_counts_and_lessons_are_those_of_the_outcomes_that_hold(steps: list[Step], pick: int) -> None:
    alma = open_memory()
    for step in steps:
        change(alma, step)
    changes = list_changes(alma)
    for at in {pick % max(1, len(changes)), pick // 7 % max(1, len(changes))}:
        with suppress(ValidationError, IndexError):
            alma.revert(changes[at])
    outcomes = Counter((one.agent, one.strategy_used, one.outcome) for one in alma.list(Outcome, limit=100))
    counted: Counter[tuple[str, str, Result]] = Counter()
    for group in alma.engine.store.scan(Where(kinds={"strategy"})):
        place, evidence = (group.agent, group.body["strategy"]), group.evidence
        counted += Counter({(*place, Result.SUCCESS): evidence.successes, (*place, Result.FAILURE): evidence.failures})
        lessons = alma.engine.store.scan(Where(kinds={"heuristic", "anti_pattern"}, linked={group.id}))
        active = [one for one in lessons if one.status == "active"]
        assert len(active) <= 1
        assert all(one.evidence.with_results_of(evidence) == one.evidence for one in active)
    assert counted == outcomes


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_a_retrieval_in_the_past_shows_what_it_showed_then(steps: list[Step]) -> None:
    alma = open_memory()
    clock: Any = alma.engine.clock
    past = []
    for step in steps:
        change(alma, step)
        moment = clock()
        past.append((moment, [shown(alma, task, moment) for task in TASKS]))
    for moment, answers in past:
        assert [shown(alma, task, moment) for task in TASKS] == answers


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_a_retrieval_as_of_now_is_a_retrieval(steps: list[Step]) -> None:
    alma = open_memory()
    for step in steps:
        change(alma, step)
    now = datetime(2026, 6, 1, tzinfo=UTC)
    alma.engine = type(alma.engine)(
        **{name: getattr(alma.engine, name) for name in alma.engine.__slots__} | {"clock": lambda: now}
    )
    for task in TASKS:
        assert shown(alma, task, now) == shown(alma, task)


# -- single cases


def test_counts_are_subtracted_after_later_changes() -> None:
    alma = open_memory()
    for _ in range(3):
        alma.learn("dev", TASKS[0], "success", STRATEGIES[0])
    first = alma.learn("dev", TASKS[0], "success", STRATEGIES[0])
    alma.learn("dev", TASKS[0], "failure", STRATEGIES[0])
    [heuristic] = alma.list(Heuristic)
    assert (heuristic.success_count, heuristic.occurrence_count) == (4, 5)
    alma.revert(alma.history(first.id)[0]["change"])
    [heuristic] = alma.list(Heuristic)
    assert (heuristic.success_count, heuristic.occurrence_count) == (3, 4)
    alma.learn("dev", TASKS[0], "success", STRATEGIES[0])
    [heuristic] = alma.list(Heuristic)
    assert (heuristic.success_count, heuristic.occurrence_count) == (4, 5)


def test_a_text_that_was_changed_again_is_not_overwritten() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, fact="The deploy window is 8 to 18 h")
    change = alma.history(fact.id)[-1]["change"]
    alma.update(fact.id, fact="The deploy window is all day")
    later = alma.history(fact.id)[-1]["change"]
    with pytest.raises(ValidationError, match=later):
        alma.revert(change)
    assert alma.get(fact.id).fact == "The deploy window is all day"  # type: ignore[attr-defined]
    alma.revert(later)
    alma.revert(change)
    assert alma.get(fact.id).fact == FACTS[0]  # type: ignore[attr-defined]


def test_a_conversation_that_is_undone_is_no_longer_found() -> None:
    alma = open_memory()
    alma.add_episode("dev", "s1", [{"speaker": "ana", "text": "The wombat sleeps in the barn"}])
    assert alma.retrieve("Where does the wombat sleep?", "dev").episodes
    undone = alma.undo()
    assert not alma.retrieve("Where does the wombat sleep?", "dev").episodes
    alma.revert(undone.undo)
    assert alma.retrieve("Where does the wombat sleep?", "dev").episodes


def test_a_dry_run_changes_nothing_and_says_the_same() -> None:
    alma = open_memory()
    alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    before = see(alma)
    planned = alma.undo(dry_run=True)
    assert see(alma) == before
    done = alma.undo()
    assert (planned.change, planned.memories) == (done.change, done.memories)
    assert not planned.undo


def test_an_agent_does_not_undo_what_a_person_said() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0], source="user")
    alma.engine = type(alma.engine)(
        **{name: getattr(alma.engine, name) for name in alma.engine.__slots__} | {"may_approve": False}
    )
    with pytest.raises(ScopeError, match="stated by a person"):
        alma.undo()
    assert alma.get(fact.id).status == "active"


def test_the_past_of_a_deleted_memory_is_gone_too() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", "The wombat sleeps in the barn")
    alma.update(fact.id, fact="The wombat sleeps in the shed")
    moment = alma.engine.clock()
    alma.update(fact.id, fact="The wombat is awake")
    alma.delete(fact.id)
    assert not alma.retrieve("Where does the animal sleep?", "dev", as_of=moment).domain_knowledge
    assert "wombat" not in repr(list(alma.engine.store._records.values()))  # type: ignore[attr-defined]
    [deleted] = [one for one in alma.diff(moment) if one.id == fact.id]
    assert (deleted.what, deleted.before, deleted.after) == ("deleted", "", "")


def test_words_of_a_deleted_outcome_leave_the_past_of_its_lessons() -> None:
    alma = open_memory()
    for number in range(3):
        alma.learn("dev", TASKS[0], "failure", STRATEGIES[0], error_message=f"the wombat bit {number}")
    for outcome in alma.list("outcome"):
        alma.delete(outcome.id)
    assert "wombat" not in repr(list(alma.engine.store._records.values()))  # type: ignore[attr-defined]


def test_the_difference_between_two_times() -> None:
    alma = open_memory()
    window = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    logs = alma.add_domain_knowledge("dev", "deployment", FACTS[2])
    since = alma.engine.clock()
    alma.update(window.id, fact="The deploy window is 8 to 18 h")
    alma.update(logs.id, status="archived")
    staging = alma.add_domain_knowledge("dev", "deployment", FACTS[1])
    until = alma.engine.clock()
    alma.record_feedback(staging.id)
    found = {one.id: (one.what, bool(one.before), bool(one.after)) for one in alma.diff(since, until)}
    assert found == {
        window.id: ("reworded", True, True),
        logs.id: ("removed", True, False),
        staging.id: ("added", False, True),
    }
    assert {one.id: one.what for one in alma.diff(until)} == {staging.id: "counted"}
    assert alma.diff(alma.engine.clock()) == []


def test_blame_names_the_change_that_brought_a_text_in() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, fact="The deploy window is 8 to 18 h")
    alma.update(fact.id, tags=["deploy"])
    [edited] = alma.blame("8 to 18 h")
    assert (edited.memory.id, edited.change.verb, edited.change.call) == (fact.id, "edited", "update")
    [created] = alma.blame("deploy window")
    assert (created.change.verb, created.change.call) == ("created", "add_knowledge")
    assert alma.blame("giraffe") == []
    for place in ("Straße", "İstanbul"):
        fact = alma.add_domain_knowledge("dev", "places", f"The office is in {place} 4")
        assert [one.memory.id for one in alma.blame(place)] == [fact.id]


def test_a_memory_names_the_conversation_that_it_was_learned_from() -> None:
    from alma.extraction import AutoLearner

    alma = open_memory()
    messages = [{"role": "user", "content": "Remember that the deploy window is 9 to 17 h."}]
    AutoLearner(alma).learn_from_conversation(messages, agent="dev", session_id="s1", save_episode=True)
    [fact], [episode] = alma.list("domain_knowledge"), alma.list("episode")
    assert alma.history(fact.id)[0]["episodes"] == (episode.id,)


@pytest.mark.parametrize("count", [1, 7, 30])
def test_bisecting_finds_the_change(count: int) -> None:
    alma = open_memory()
    for number in range(count):
        alma.add_domain_knowledge("dev", "zoo", f"Wombat number {number} is grey")
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    wanted = alma.history(fact.id)[0]["change"]
    for number in range(count):
        alma.add_domain_knowledge("dev", "zoo", f"Koala number {number} is grey")
    point = alma.bisect("When is the deploy window?", "dev", shows="9 to 17")
    assert (point.change, point.gained, point.call) == (wanted, (fact.id,), "add_knowledge")
    assert point.retrievals <= 4 + count.bit_length()
    with pytest.raises(NotFoundError, match="not shown"):
        alma.bisect("When is the deploy window?", "dev", shows="never said")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda alma: alma.revert("chs_nothing"), "there is no change 'chs_nothing'"),
        (lambda alma: alma.revert(alma.add_domain_knowledge("dev", "d", "A fact").id), "there is no change"),
        (lambda alma: alma.diff("soon"), "since"),
        (lambda alma: alma.bisect("x", "dev"), "nothing changed in this period"),
    ],
)
def test_bad_calls_say_what_is_wrong(call: Callable[[ALMA], object], message: str) -> None:
    with pytest.raises((NotFoundError, ValidationError), match=message):
        call(open_memory())


def count_results(alma: ALMA) -> list[tuple[int, int]]:
    return [(one.success_count, one.occurrence_count) for one in alma.list(Heuristic)]


def learn(alma: ALMA, times: int = 1) -> None:
    for _ in range(times):
        alma.learn("dev", TASKS[0], "success", STRATEGIES[0])


def test_outcomes_that_were_undone_do_not_count() -> None:
    alma = open_memory()
    learn(alma)
    alma.undo()
    learn(alma, 2)
    assert count_results(alma) == []
    learn(alma)
    assert count_results(alma) == [(3, 3)]


def test_a_change_is_undone_once() -> None:
    alma = open_memory()
    learn(alma, 5)
    change = alma.undo().change
    with pytest.raises(ValidationError, match="already undone"):
        alma.revert(change)
    assert count_results(alma) == [(4, 4)]


def test_reverting_a_change_after_an_outcome_was_deleted_does_not_count_it_twice() -> None:
    alma = open_memory()
    learn(alma, 6)
    change = alma.history(alma.list("outcome")[1].id)[0]["change"]
    alma.delete(alma.list("outcome")[0].id)
    assert count_results(alma) == [(5, 5)]
    alma.revert(change)
    assert count_results(alma)[0][1] == len(alma.list("outcome"))


def test_undo_after_redo_undoes_the_same_change() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, fact="The deploy window is 8 to 18 h")
    undone = alma.undo()
    alma.revert(undone.undo)
    alma.undo()
    assert alma.get(fact.id).fact == FACTS[0]  # type: ignore[attr-defined]
    assert alma.get(fact.id).status == "active"


@pytest.mark.parametrize("error", ["Traceback:\n  Quux line 3\nValueError", "Quux  two spaces ", "Quux " * 80])
def test_words_of_a_deleted_error_are_in_no_former_value(error: str) -> None:
    alma = open_memory()
    for text in ("boom", error, "boom again"):
        alma.learn("dev", TASKS[0], "failure", STRATEGIES[0], error_message=text)
    [outcome] = [one for one in alma.list("outcome") if "Quux" in str(one)]
    alma.delete(outcome.id)
    assert "Quux" not in repr(list(alma.engine.store._records.values()))  # type: ignore[attr-defined]


def test_a_caller_without_approval_undoes_only_its_own_changes() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0], source="agent")
    alma.record_feedback(fact.id, signal="thumbs_down")
    person = alma.engine
    alma.engine = replace(person, may_approve=False, actor="mcp")
    with pytest.raises(ScopeError, match="made by somebody else"):
        alma.undo()
    other = alma.add_domain_knowledge("dev", "deployment", FACTS[1], source="agent")
    alma.undo()
    assert alma.get(other.id).status == "retired"


def test_the_first_change_can_be_found() -> None:
    alma = ALMA(MemoryStore(), HashEmbedder(64))
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    assert alma.bisect("When is the deploy window?", "dev", shows="9 to 17").gained == (fact.id,)


def add_ports(alma: ALMA, *numbers: int) -> list[str]:
    """Add values of one explicit key, each of which replaces the one before."""
    return [
        alma.add_domain_knowledge("dev", "api", f"The port is {number}", subject="api", attribute="port").id
        for number in numbers
    ]


def list_ports(alma: ALMA) -> list[str]:
    return [one.id for one in alma.list("domain_knowledge")]


@pytest.mark.parametrize("undo", ["revert", "undo"])
def test_a_key_has_one_active_value_after_a_revert(undo: str) -> None:
    alma = open_memory()
    first, second, third = add_ports(alma, 1, 2, 3)
    change = alma.history(second)[0]["change"]
    with pytest.raises(ValidationError, match=f"{first} cannot become active.*{third}.*The port is 3.*alma undo"):
        alma.revert(change) if undo == "revert" else alma.undo(first)
    assert list_ports(alma) == [third]
    alma.undo(third)
    assert list_ports(alma) == [second]
    alma.revert(change)
    assert list_ports(alma) == [first]


def test_an_archived_value_does_not_come_back_beside_a_newer_one() -> None:
    alma = open_memory()
    [first] = add_ports(alma, 1)
    alma.update(first, status="archived")
    archived = alma.history(first)[-1]["change"]
    [second] = add_ports(alma, 2)
    with pytest.raises(ValidationError, match=second):
        alma.revert(archived)
    assert list_ports(alma) == [second]


def test_undo_after_a_deletion_names_the_deletion_and_the_change_before_it() -> None:
    alma = open_memory()
    kept = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    other = alma.add_domain_knowledge("dev", "deployment", FACTS[1])
    alma.delete(other.id)
    change = alma.history(kept.id)[0]["change"]
    with pytest.raises(ValidationError, match=f"deleted {other.id} .*cannot be undone.*alma revert {change}"):
        alma.undo()
    assert alma.get(kept.id).status == "active"
    later = alma.add_domain_knowledge("dev", "deployment", FACTS[2])
    assert [one.id for one in alma.undo().memories] == [later.id], "what is newer than the deletion can be undone"
    alma.update(kept.id, tags=["deploy"])
    alma.undo(kept.id)
    alma.revert(change)
    assert alma.get(kept.id).status == "retired"


def test_undo_after_the_only_memory_was_deleted_names_the_deletion() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.delete(fact.id)
    with pytest.raises(ValidationError, match=f"deleted {fact.id} on .*cannot be undone$"):
        alma.undo()


def test_history_lists_the_fields_that_changed() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, tags=["a", "b"])
    alma.update(fact.id, status="archived")
    alma.undo()
    alma.update(fact.id, {"fact": FACTS[1], "domain": "deployment"})
    changes = [(one["verb"], one["before"]) for one in alma.history(fact.id)[1:]]
    assert changes == [
        ("edited", {"tags": []}),
        ("edited", {"status": "active"}),
        ("undone", {"status": "archived"}),
        ("edited", {"fact": FACTS[0]}),
    ]
    alma.undo()
    assert alma.history(fact.id)[-1]["before"] == {"fact": FACTS[1]}


def test_an_update_that_changes_nothing_is_no_change() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, {"fact": FACTS[1]})
    before = alma.history(fact.id)
    alma.update(fact.id, {"fact": FACTS[1]}, tags=[])
    assert alma.history(fact.id) == before
    alma.undo()
    assert alma.get(fact.id).fact == FACTS[0]


class Adjusted(Ticking):
    """A clock that can be set back."""

    def set_back(self, hours: float) -> None:
        self.now -= timedelta(hours=hours)


@pytest.mark.parametrize("reopened", [False, True])
def test_changes_keep_their_order_when_the_clock_is_set_back(reopened: bool) -> None:
    clock, store = Adjusted(), MemoryStore()
    alma = ALMA(store, HashEmbedder(64), clock=clock)
    fact = alma.add_domain_knowledge("dev", "deployment", "The deploy window is version 1")
    before = clock()
    clock.now += timedelta(hours=5)
    alma.update(fact.id, fact="The deploy window is version 2")
    clock.set_back(2)
    if reopened:
        alma = ALMA(store, HashEmbedder(64), clock=clock)
    alma.update(fact.id, fact="The deploy window is version 3")
    clock.set_back(2)
    alma.update(fact.id, fact="The deploy window is version 4")

    then = alma.retrieve("When is the deploy window?", "dev", as_of=before)
    assert [one.fact for one in then.domain_knowledge] == ["The deploy window is version 1"]
    [difference] = alma.diff(before)
    assert (difference.before[-1], difference.after[-1]) == ("1", "4")
    assert [line["before"].get("fact", "")[-1:] for line in alma.history(fact.id)] == ["", "1", "2", "3"]
    for version in (3, 2, 1):
        alma.undo()
        assert alma.get(fact.id).fact == f"The deploy window is version {version}"  # type: ignore[attr-defined]


def test_a_deletion_is_the_last_change_when_the_clock_is_set_back() -> None:
    clock = Adjusted()
    alma = ALMA(MemoryStore(), HashEmbedder(64), clock=clock)
    alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    other = alma.add_domain_knowledge("dev", "deployment", FACTS[1])
    clock.set_back(2)
    alma.delete(other.id)
    with pytest.raises(ValidationError, match=f"deleted {other.id}"):
        alma.undo()


def test_a_change_of_a_clock_that_was_wrong_does_not_date_later_ones() -> None:
    clock, store = Adjusted(), MemoryStore()
    clock.now += timedelta(days=10_000)
    ALMA(store, HashEmbedder(64), clock=clock).add_domain_knowledge("dev", "deployment", FACTS[0])
    clock.now -= timedelta(days=9_000)
    alma = ALMA(store, HashEmbedder(64), clock=clock)
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[1])
    assert alma.history(fact.id)[0]["at"] <= clock.now


# -- several agents and projects


def test_a_change_of_memories_of_two_agents_is_undone_as_a_whole() -> None:
    alma = open_memory()
    ids = [alma.add_domain_knowledge(agent, "deployment", FACTS[0]).id for agent in ("dev", "ops")]
    alma.review("archive", ids=ids)
    assert {one.id for one in alma.undo().memories} == set(ids)
    assert [alma.get(id).status for id in ids] == ["active", "active"]


def test_the_rest_of_a_change_is_undone_when_one_of_its_memories_was_deleted() -> None:
    alma = open_memory()
    first, second = (alma.add_domain_knowledge(agent, "deployment", FACTS[0]).id for agent in ("dev", "ops"))
    alma.review("archive", ids=[first, second])
    alma.delete(first)
    assert [one.id for one in alma.undo(second).memories] == [second]
    assert alma.get(second).status == "active"


def test_a_change_that_was_redone_is_not_overwritten() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    alma.update(fact.id, fact=FACTS[1])
    first = alma.history(fact.id)[-1]["change"]
    alma.update(fact.id, fact=FACTS[2])
    undone = alma.undo()
    alma.revert(undone.undo)
    with pytest.raises(ValidationError, match=f"changed again by {undone.change}"):
        alma.revert(first)
    assert alma.get(fact.id).fact == FACTS[2]  # type: ignore[attr-defined]


def test_undo_leaves_calls_of_other_projects_alone() -> None:
    alma = open_memory()
    rule = alma.add_rule("dev", "Always run the tests before a commit", reach="always")
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    neighbour = open_neighbour(alma)
    use_rules(neighbour)
    shared = alma.history(rule.id)[0]["change"]
    used = next(one.key for one in alma.engine.store.scan(Where(kinds={"changeset"}, linked={rule.id})))
    with pytest.raises(NotFoundError, match=f"there is no change '{used}' of this project's memories alone"):
        alma.revert(used)
    assert [one.id for one in alma.undo().memories] == [fact.id]
    assert alma.undo().change == shared
    assert neighbour.undo().change == used
    stored = alma.engine.store.get([rule.id, neighbour.list("domain_knowledge")[0].id])
    assert [one.evidence.uses for one in stored] == [0, 0]


def test_undo_is_not_refused_for_a_deletion_of_another_project() -> None:
    alma = open_memory()
    rule = alma.add_rule("dev", "Always run the tests before a commit", reach="always")
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    neighbour = open_neighbour(alma)
    neighbour.add_domain_knowledge("dev", "zoo", "A wombat is grey")
    neighbour.delete(rule.id)
    with pytest.raises(ValidationError, match=f"deleted {rule.id}"):
        neighbour.undo()
    assert [one.id for one in alma.undo().memories] == [fact.id]


# -- lessons


def fail(alma: ALMA, times: int = 1) -> None:
    for number in range(times):
        alma.learn("dev", TASKS[0], "failure", STRATEGIES[0], error_message=f"boom {number}")


def test_an_outcome_in_the_middle_is_reverted_with_its_error() -> None:
    alma = open_memory()
    fail(alma, 4)
    second = sorted(alma.list(Outcome), key=lambda one: one.timestamp)[1]
    alma.revert(alma.history(second.id)[0]["change"])
    [warning] = alma.list("anti_pattern")
    assert (warning.occurrence_count, warning.why_bad) == (  # type: ignore[attr-defined]
        3,
        "program output: `boom 3`, `boom 2`, `boom 0`",
    )


def test_a_lesson_ends_with_the_outcomes_that_formed_it() -> None:
    alma = open_memory()
    learn(alma, 3)
    alma.revert(alma.history(alma.list(Outcome)[1].id)[0]["change"])
    assert count_results(alma) == []
    learn(alma)
    assert count_results(alma) == [(3, 3)]


def test_a_stated_lesson_does_not_count_an_outcome_that_was_undone() -> None:
    alma = open_memory()
    learn(alma)
    change = list_changes(alma)[-1]
    alma.add_heuristic("dev", TASKS[0], STRATEGIES[0])
    assert count_results(alma) == [(1, 1)]
    alma.revert(change)
    assert count_results(alma) == [(0, 0)]


def test_a_strategy_has_one_lesson_after_a_redo() -> None:
    alma = open_memory()
    fail(alma, 2)
    undone = alma.undo()
    learn(alma, 4)
    alma.revert(undone.undo)
    assert count_results(alma) == [(4, 6)]
    assert alma.list("anti_pattern") == []


def test_a_lesson_is_not_restored_beside_its_opposite() -> None:
    alma = open_memory()
    advice = alma.add_heuristic("dev", TASKS[0], STRATEGIES[0])
    undone = alma.undo()
    warning = alma.add_anti_pattern("dev", STRATEGIES[0], "it is slow", condition=TASKS[0])
    with pytest.raises(ValidationError, match=f"{advice.id} cannot become active.*{warning.id}"):
        alma.revert(undone.undo)
    with pytest.raises(ValidationError, match=f"{advice.id} cannot become active"):
        alma.update(advice.id, status="active")
    assert alma.get(warning.id).status == "active"


def test_a_lesson_that_waits_for_a_person_goes_on_waiting() -> None:
    alma = open_memory()
    alma.add_heuristic("dev", TASKS[0], STRATEGIES[0])
    warning = alma.add_anti_pattern("dev", STRATEGIES[0], "it is slow", condition=TASKS[0], source="agent")
    assert warning.status == "candidate"
    learn(alma)
    assert alma.get(warning.id).status == "candidate"
    fail(alma, 6)
    assert alma.get(warning.id).status == "candidate", "a person stated the opposite"


def read_vectors(alma: ALMA, id: str) -> set[bytes]:
    return set(alma.engine.store.get([id])[0].vectors)


@pytest.mark.parametrize("is_learned", [False, True])
def test_a_lesson_is_found_by_its_own_words_after_an_edit_is_undone(is_learned: bool) -> None:
    alma = open_memory()
    if is_learned:
        learn(alma, 3)
        [lesson] = alma.list(Heuristic)
    else:
        lesson = alma.add_heuristic("dev", TASKS[0], STRATEGIES[0])
    vectors, moment = read_vectors(alma, lesson.id), alma.engine.clock()
    asked = [[one.id for one in alma.retrieve(task, "dev").heuristics] for task in TASKS]
    alma.update(lesson.id, condition="Bake an apple pie", strategy="Use cold butter")
    edited = read_vectors(alma, lesson.id)
    assert [[one.id for one in alma.retrieve(task, "dev", as_of=moment).heuristics] for task in TASKS] == asked
    undone = alma.undo()
    assert read_vectors(alma, lesson.id) == vectors
    alma.revert(undone.undo)
    assert read_vectors(alma, lesson.id) == edited


# -- conversations

FENCE, PARTY = ({"speaker": "ana", "text": text} for text in ("The fence is green", "The party is in Zurich"))


def test_words_of_undone_turns_are_not_searched() -> None:
    alma = open_memory()
    episode = alma.add_episode("dev", "s1", [FENCE])
    alma.add_episode("dev", "s1", [FENCE, PARTY])
    undone = alma.undo()
    assert not alma.search("party in Zurich")
    assert "Zurich" not in alma.engine.store.get([episode.id])[0].text
    alma.revert(undone.undo)
    assert [one.memory.id for one in alma.search("party in Zurich")] == [episode.id]


def test_an_undone_turn_stays_away_when_its_conversation_is_restored() -> None:
    alma = open_memory()
    episode = alma.add_episode("dev", "s1", [FENCE])
    alma.add_episode("dev", "s1", [FENCE, PARTY])
    alma.undo()
    for status in ("archived", "active"):
        alma.update(episode.id, status=status)
    turns = alma.get(episode.id).turns  # type: ignore[attr-defined]
    assert [one.status for one in turns] == ["active", "retired"]


# -- deletions


def test_a_deletion_holds_again_when_its_restatement_is_undone() -> None:
    alma = open_memory()
    alma.delete(alma.add_domain_knowledge("dev", "deployment", FACTS[0]).id)
    again = alma.add_domain_knowledge("dev", "deployment", FACTS[0])
    undone = alma.undo()
    by_agent = alma.add_domain_knowledge("dev", "deployment", FACTS[0], source="agent")
    assert (by_agent.status, by_agent.metadata["resembles"]) == ("candidate", "a deleted memory")
    alma.undo()
    alma.revert(undone.undo)
    assert alma.get(again.id).status == "active"
    assert alma.add_domain_knowledge("ops", "deployment", FACTS[0], source="agent").status == "active"


def test_a_restatement_in_other_words_is_redone() -> None:
    alma = open_memory()
    alma.delete(alma.add_domain_knowledge("dev", "ops", "Backups run at 2").id)
    again = alma.add_domain_knowledge("dev", "ops", "The backups run at 2")
    undone = alma.undo()
    alma.revert(undone.undo)
    assert (alma.get(again.id).status, alma.get(again.id).metadata) == ("active", {})


def test_a_revert_does_not_bring_back_what_was_deleted_since() -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "deployment", FACTS[0], source="agent")
    alma.update(fact.id, fact=FACTS[1])
    edited = alma.history(fact.id)[-1]["change"]
    alma.delete(alma.add_domain_knowledge("dev", "deployment", FACTS[0]).id)
    alma.revert(edited)
    assert alma.get(fact.id).status == "candidate"


# -- facts for another time


def test_a_fact_for_an_earlier_time_ends_the_one_before_it_at_that_time() -> None:
    alma = open_memory()
    first = alma.add_domain_knowledge("dev", "api", "The port is 1", attribute="port")
    since, between = alma.engine.clock(), alma.engine.clock()
    body = {"domain": "api", "fact": "The port is 2", "attribute": "port", "metadata": {}}
    draft = draft_record(alma.engine, "domain_knowledge", body, agent="dev", provenance=Provenance(Origin.USER))
    [second] = write(alma.engine, lambda tx: add_facts(tx, [replace(draft, valid_from=since)]))
    for time, id in ((between, second.id), (first.created_at, first.id)):
        then = alma.retrieve("Which port is it?", "dev", as_of=time)
        assert [one.id for one in then.domain_knowledge] == [id]


# -- lines of a prompt and of a table


def test_blame_takes_a_line_of_a_prompt_or_of_a_table() -> None:
    alma = open_memory()
    learn(alma, 3)
    fact = alma.add_domain_knowledge("dev", "ops", "Backups run at two in the morning")
    alma.add_domain_knowledge("dev", "ops", "Logs are kept")
    for line in (
        "- Backups run at two in the morning (2026-11-17)",
        "ops: Backups run at two in the morning",
        "ops: Backups run at two in the mor…",
    ):
        assert [one.memory.id for one in alma.blame(line)] == [fact.id], line
    [lesson] = alma.list(Heuristic)
    for line in (f"{TASKS[0]}: {STRATEGIES[0]}", f"- {TASKS[0]}: {STRATEGIES[0]} (worked 3 of 3, last 2026-01-01)"):
        assert lesson.id in [one.memory.id for one in alma.blame(line)], line
    alma.update(fact.id, fact="Backups run at three in the morning")
    [author] = alma.blame("- Backups run at three in the morning (2026-11-17)")
    assert (author.memory.id, author.change.verb) == (fact.id, "edited")
