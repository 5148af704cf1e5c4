"""What was learned with one user is that user's: nobody else retrieves it, predicts from it or reads it in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.confidence import ConfidenceEngine
from alma.context import MemoryStack
from alma.embedders.hash import HashEmbedder
from alma.engine.context import Settings
from alma.extraction import AutoLearner
from alma.graph import build, create_graph_store
from alma.session import SessionManager
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import FrozenClock
from alma.types import AntiPattern, Heuristic

TASK = "Deploy the auth service"


def open_memory(**options: Any) -> ALMA:
    return ALMA(MemoryStore(), HashEmbedder(), project_id="app", **options)


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") as opened:
        yield opened


def learn(
    alma: ALMA, user: str | None, outcome: str, times: int, strategy: str = "Rolling update", **more: Any
) -> None:
    for _ in range(times):
        alma.learn("dev", TASK, outcome, strategy, user_id=user, **more)


def lessons(alma: ALMA, user: str | None) -> list[str]:
    found = alma.retrieve(TASK, "dev", user)
    return [one.strategy for one in found.heuristics] + [f"not {one.pattern}" for one in found.anti_patterns]


class TestOutcomes:
    def test_one_users_lessons_are_not_shown_to_others(self, alma: ALMA) -> None:
        learn(alma, "ana", "success", 3)
        learn(alma, "ben", "failure", 2)
        assert lessons(alma, "ana") == ["Rolling update"]
        assert lessons(alma, "ben") == ["not Rolling update"]
        assert lessons(alma, "eve") == []
        assert lessons(alma, None) == []
        [lesson] = alma.list("heuristic")
        assert isinstance(lesson, Heuristic)
        assert (lesson.user_id, lesson.occurrence_count) == ("ana", 3)

    def test_what_belongs_to_nobody_is_shown_to_all(self, alma: ALMA) -> None:
        learn(alma, None, "success", 3)
        assert lessons(alma, "ana") == lessons(alma, "ben") == lessons(alma, None) == ["Rolling update"]

    @pytest.mark.system
    def test_shared_outcomes_form_shared_lessons_and_stay_their_users(self, alma: ALMA) -> None:
        learn(alma, "ana", "success", 2, shared=True)
        learn(alma, "ben", "success", 1, shared=True)
        assert lessons(alma, "eve") == ["Rolling update"]
        assert alma.retrieve(TASK, "dev", "eve").outcomes == []
        assert len(alma.list("outcome", user_id="ana")) == 2
        alma.erase_user("ana")
        assert lessons(alma, "eve") == []
        assert len(alma.list("outcome")) == 1

    def test_a_project_may_share(self) -> None:
        alma = open_memory(settings=Settings(share_between_users=True))
        learn(alma, "ana", "success", 2)
        learn(alma, "ben", "success", 1)
        assert lessons(alma, "eve") == ["Rolling update"]

    def test_the_setting_is_read_from_the_configuration(self, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        text = "project_id: app\nembedding_provider: hash\nlearning:\n  share_between_users: true\n"
        file.write_text(text)
        with ALMA.from_config(file) as alma:
            learn(alma, "ana", "success", 3)
            assert lessons(alma, "ben") == ["Rolling update"]

    def test_a_warning_recommends_nothing_that_another_user_found(self, alma: ALMA) -> None:
        learn(alma, "ana", "success", 3, "Canary release")
        learn(alma, "ben", "failure", 2)
        [warning] = alma.retrieve(TASK, "dev", "ben").anti_patterns
        assert isinstance(warning, AntiPattern)
        assert warning.better_alternative == ""

    def test_predictions_leave_others_out(self, alma: ALMA) -> None:
        engine = ConfidenceEngine(alma)
        before = engine.assess_strategy("Rolling update", TASK, "dev", user_id="ben").predicted_success
        learn(alma, "ana", "failure", 5, error_message="timeout")
        after = engine.assess_strategy("Rolling update", TASK, "dev", user_id="ben")
        assert after.predicted_success == before
        [risk] = engine.detect_risks("Rolling update", TASK, "dev", "ben")
        assert risk.signal_type == "untested_context"
        assert engine.assess_strategy("Rolling update", TASK, "dev", user_id="ana").predicted_success < before


WAYS: dict[str, Callable[[ALMA, str | None], Any]] = {
    "fact": lambda alma, user: alma.add_domain_knowledge("dev", "auth", "Canary tokens expire in 24 h", user_id=user),
    "rule": lambda alma, user: alma.add_rule("dev", "Run canary tests before a commit", user_id=user),
    "heuristic": lambda alma, user: alma.add_heuristic("dev", "Canary release", "Watch the canary", user_id=user),
    "anti_pattern": lambda alma, user: alma.add_anti_pattern("dev", "Skip the canary", "it dies", user_id=user),
    "episode": lambda alma, user: alma.add_episode("dev", "s", [{"speaker": "A", "text": "The canary sings."}], user),
}


@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS.keys())
def test_what_is_told_for_a_user_is_shown_to_that_user_alone(
    alma: ALMA, write: Callable[[ALMA, str | None], Any]
) -> None:
    made = write(alma, "ana")
    assert made.user_id == "ana"

    def shown(user: str | None) -> str:
        stack = MemoryStack(alma, "dev", user)
        context = SessionManager("app", alma).start_session("dev", "The canary", user_id=user, orient=False)
        texts = [
            alma.retrieve("What about the canary?", "dev", user).to_prompt(),
            stack.wake_up(),
            stack.deep("the canary"),
            alma.playbook("dev", user_id=user),
            str(context.rules_of_engagement),
            str(context.relevant_heuristics),
        ]
        return "\n".join(line for text in texts for line in text.splitlines() if "remembered about" not in line).lower()

    assert "canary" in shown("ana")
    assert "canary" not in shown("ben")
    assert "canary" not in shown(None)
    assert [one.memory.id for one in alma.search("canary", user_id="ana")] == [made.id]
    assert alma.search("canary", user_id="ben") == []
    assert alma.get_stats(user_id="ana")["total_count"] == 1
    assert alma.get_stats(user_id="ben")["total_count"] == 0


def test_a_fact_of_one_user_does_not_end_that_of_another(alma: ALMA) -> None:
    first = alma.add_domain_knowledge("dev", "hosts", "The staging host is Alpha", user_id="ana")
    alma.add_domain_knowledge("dev", "hosts", "The staging host is Beta", user_id="ben")
    assert alma.get(first.id).status == "active"


def test_a_rule_of_one_user_does_not_end_that_of_another(alma: ALMA) -> None:
    ours = alma.add_rule("dev", "Use npm instead of pnpm")
    hers = alma.add_rule("dev", "Use pnpm instead of npm", user_id="ana")
    his = alma.add_rule("dev", "Use npm instead of pnpm", user_id="ben")
    assert {alma.get(one.id).status for one in (ours, hers, his)} == {"active"}


def test_what_a_conversation_with_a_user_teaches_is_that_users(alma: ALMA) -> None:
    said = [{"role": "user", "content": "Always use pnpm instead of npm in this project. Our staging host is Alpha."}]
    AutoLearner(alma).learn_from_conversation(said, agent="dev", user_id="ana", save_episode=False)
    held = alma.list(status=None)
    assert held
    assert {one.user_id for one in held} == {"ana"}


def test_the_graph_that_all_see_is_built_from_what_all_see(alma: ALMA) -> None:
    alma.add_domain_knowledge("dev", "people", "Maria works at Globex.", user_id="ana")
    alma.add_domain_knowledge("dev", "people", "Tom works at Initech.")
    build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    assert {one.name for one in graph.find()} == {"Tom", "Initech"}


def test_where_a_session_with_one_user_left_off_is_not_told_to_another(alma: ALMA) -> None:
    manager = SessionManager("app", alma)
    begun = manager.start_session("dev", "Buy a ring", user_id="ana", orient=False)
    manager.create_handoff("dev", begun.session_id, "Compared two rings", "success")
    assert "ring" in manager.get_quick_reload("dev", user_id="ana")
    for user in ("ben", None):
        context = manager.start_session("dev", user_id=user, orient=False)
        assert context.previous_handoff is None
        assert "ring" not in manager.get_quick_reload("dev", user_id=user)


# -- the law

Step = tuple[str, str, str, str]
STRATEGIES = ("Rolling update", "Canary release", "Blue-green deployment")
STEPS = st.tuples(
    st.sampled_from(("", "ana", "ben")),
    st.sampled_from(("success", "failure", "fact", "rule", "warning", "heuristic")),
    st.sampled_from(STRATEGIES),
    st.sampled_from((TASK, "Deploy the billing service", "Write the release notes")),
)


def look(alma: ALMA) -> dict[str, Any]:
    engine = ConfidenceEngine(alma)
    signals = {one: engine.assess_strategy(one, TASK, "dev", user_id="ana") for one in STRATEGIES}
    return {
        "prompt": alma.retrieve(TASK, "dev", "ana").to_prompt(),
        "predicted": {one: (signal.predicted_success, signal.occurrence_count) for one, signal in signals.items()},
        "found": sorted(
            (one.memory.status, str(getattr(one.memory, "fact", "") or getattr(one.memory, "rule", "")))
            for one in alma.search("deploy host", user_id="ana", limit=100)
        ),
        "page": alma.playbook("dev", user_id="ana"),
        "counts": alma.get_stats(user_id="ana")["by_type"],
    }


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=14))
def test_what_ana_sees_is_the_same_with_and_without_what_ben_did(steps: list[Step]) -> None:
    """Ben's steps still take their time, so that ages are the same.

    On the model store: SQLite weighs a word by how common it is in the whole file, which may change the order.
    """
    seen = []
    for but in ("", "ben"):
        clock = FrozenClock()
        seen.append(play(open_memory(clock=clock), clock, steps, but))
    assert seen[0] == seen[1]


def play(alma: ALMA, clock: FrozenClock, steps: list[Step], but: str) -> dict[str, Any]:
    for number, (user, what, strategy, task) in enumerate(steps):
        clock.advance(minutes=1)
        if not user or user != but:
            tell(alma, number, user or None, what, strategy, task)
    return look(alma)


def tell(alma: ALMA, number: int, user: str | None, what: str, strategy: str, task: str) -> None:
    if what in ("success", "failure"):
        alma.learn("dev", task, what, strategy, user_id=user, error_message="it broke" if what == "failure" else None)
    elif what == "fact":
        alma.add_domain_knowledge("dev", "hosts", f"The host for {task.lower()} is {strategy}", user_id=user)
    elif what == "rule":
        alma.add_rule("dev", f"Use {strategy} when asked to {task.lower()}", user_id=user)
    elif what == "warning":
        alma.add_anti_pattern("dev", strategy, f"reason {number}", condition=task, user_id=user)
    else:
        alma.add_heuristic("dev", task, strategy, user_id=user)
