"""History: laws of undoing and of looking back, and what a person sees of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.schema import plain
from alma.stores.memory import MemoryStore
from alma.types.kinds import Heuristic, Result

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


def open_memory() -> ALMA:
    return ALMA(MemoryStore(), HashEmbedder(64), clock=Ticking())


def see(alma: ALMA) -> list[Any]:
    """Return all that is in use, as a user sees it; confidence depends on the time of looking."""
    hidden = ("confidence", "confidence_interval")
    memories = [plain(one) for one in alma.list(limit=1000)]
    return sorted(
        ({name: value for name, value in one.items() if name not in hidden} for one in memories),
        key=lambda one: str(one["id"]),
    )


def shown(alma: ALMA, task: str, as_of: datetime | None = None) -> list[tuple[Any, ...]]:
    found = alma.retrieve(task, "dev", "ana", as_of=as_of)
    return [(one.id, one.newer, str(getattr(one, "success_count", "")), one.tags, repr(one)) for one in found]


# -- random histories: each step is a number that picks an operation and its arguments

Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 99)), min_size=1, max_size=12)


def apply(alma: ALMA, step: Step) -> None:
    """Make one change."""
    number, which, pick = step
    memories = [one for one in alma.list(limit=100) if type(one).__name__ in ("DomainKnowledge", "Heuristic")]
    chosen = memories[pick % len(memories)] if memories else None
    if number <= 2:
        outcome = (Result.SUCCESS, Result.FAILURE, Result.SUCCESS)[pick % 3]
        alma.learn("dev", TASKS[which], outcome, STRATEGIES[pick % 2], error_message="boom" if pick % 3 == 1 else None)
    elif number == 3:
        alma.add_domain_knowledge("dev", "deployment", FACTS[which], tags=[f"t{pick % 3}"])
    elif number == 4:
        alma.add_domain_knowledge("dev", "deployment", f"Port {pick}", subject="api", attribute=f"port{which}")
    elif number == 5:
        alma.add_user_preference("ana", "style", f"Answers in {pick % 4} lines", attribute="length")
    elif chosen is None:
        alma.add_rule("dev", f"Use tool {pick} for builds")
    elif number == 6 and type(chosen).__name__ == "DomainKnowledge":
        alma.update(chosen.id, fact=f"{FACTS[which]}, as of {pick}")
    elif number == 7:
        alma.update(chosen.id, status="archived")
    elif number == 8:
        alma.record_feedback(chosen.id, signal=("thumbs_up", "thumbs_down", "used")[which])
    else:
        alma.update(chosen.id, tags=[f"n{pick}"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_undoing_a_change_gives_what_was_before(steps: list[Step]) -> None:
    alma = open_memory()
    for step in steps:
        before = see(alma)
        apply(alma, step)
        undone = alma.undo()
        assert see(alma) == before
        after_undo = alma.revert(undone.undo)
        assert after_undo.change == undone.undo


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_undoing_everything_gives_an_empty_memory(steps: list[Step]) -> None:
    alma = open_memory()
    states = []
    for step in steps:
        states.append(see(alma))
        apply(alma, step)
    for state in reversed(states):
        alma.undo()
        assert see(alma) == state
    with pytest.raises(NotFoundError, match="no change to undo"):
        alma.undo()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_a_retrieval_in_the_past_shows_what_it_showed_then(steps: list[Step]) -> None:
    alma = open_memory()
    clock: Any = alma.engine.clock
    past = []
    for step in steps:
        apply(alma, step)
        moment = clock()
        past.append((moment, [shown(alma, task, moment) for task in TASKS]))
    for moment, answers in past:
        assert [shown(alma, task, moment) for task in TASKS] == answers


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_a_retrieval_as_of_now_is_a_retrieval(steps: list[Step]) -> None:
    alma = open_memory()
    for step in steps:
        apply(alma, step)
    now = datetime(2026, 6, 1, tzinfo=UTC)
    alma.engine = type(alma.engine)(
        **{name: getattr(alma.engine, name) for name in alma.engine.__slots__} | {"clock": lambda: now}
    )
    for task in TASKS:
        assert shown(alma, task, now) == shown(alma, task)


# -- single cases


def test_counts_are_taken_back_after_later_changes() -> None:
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


def test_a_conversation_that_is_taken_back_is_no_longer_found() -> None:
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


def test_an_agent_does_not_take_back_what_a_person_said() -> None:
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
    found = {one.id: one.what for one in alma.diff(since, until)}
    assert found == {window.id: "reworded", logs.id: "removed", staging.id: "added"}
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


def test_outcomes_that_were_taken_back_do_not_count() -> None:
    alma = open_memory()
    learn(alma)
    alma.undo()
    learn(alma, 2)
    assert count_results(alma) == []
    learn(alma)
    assert count_results(alma) == [(3, 3)]


def test_a_change_is_taken_back_once() -> None:
    alma = open_memory()
    learn(alma, 5)
    change = alma.undo().change
    with pytest.raises(ValidationError, match="already taken back"):
        alma.revert(change)
    assert count_results(alma) == [(4, 4)]


def test_taking_back_the_learning_of_a_deleted_outcome_does_not_count_it_twice() -> None:
    alma = open_memory()
    learn(alma, 6)
    alma.delete(alma.list("outcome")[0].id)
    assert count_results(alma) == [(5, 5)]
    alma.undo()
    assert count_results(alma)[0][1] == len(alma.list("outcome"))


def test_undo_after_redo_takes_back_the_same_change() -> None:
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


def test_a_caller_without_approval_takes_back_only_its_own_changes() -> None:
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
