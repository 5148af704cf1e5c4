from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from alma import ALMA
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.progress import ProgressTracker
from alma.session import LastOutcome, SessionHandoff, SessionManager, SessionState
from alma.types.query import MemoryScope

if TYPE_CHECKING:
    from tests.conftest import Clock, Opener


@pytest.fixture
def manager(alma: ALMA) -> SessionManager:
    return SessionManager(alma=alma, workspace=None)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project folder with a configuration, entered."""
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(
        'alma:\n  project_id: "my-project"\n  storage: sqlite\n  embedding_provider: hash\n  embedding_dim: 64\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new_process(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# -- the seeds' example


def test_session_handoff_example_of_the_readme(configured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionManager("my-project") as manager:
        context = manager.start_session(agent="Helena", goal="Complete auth testing")
        assert context.previous_handoff is None
        manager.create_handoff(
            "Helena",
            context.session_id,
            last_action="completed_oauth_tests",
            last_outcome="success",
            next_steps=["Test refresh tokens", "Add error cases"],
        )
        context = manager.start_session(agent="Helena", goal="Go on")
        assert context.previous_handoff is not None
        print(f"Last action: {context.previous_handoff.last_action}")
        print(f"Blockers: {context.previous_handoff.blockers}")
    assert capsys.readouterr().out == "Last action: completed_oauth_tests\nBlockers: []\n"


def test_the_prd_calls_by_keyword(manager: SessionManager) -> None:
    context = manager.start_session(project_id="other", agent="Helena")
    assert context.project_id == "other"
    handoff = manager.create_handoff(
        project_id="other",
        agent="Helena",
        session_id=context.session_id,
        last_action="wrote the tests",
        last_outcome="failure",
        key_decisions=["Use JWT"],
    )
    assert handoff.project_id == "other"
    assert manager.get_previous_sessions(project_id="other", agent="Helena", limit=5) == [handoff]
    assert "wrote the tests" in manager.get_quick_reload(project_id="other", agent="Helena")
    assert manager.get_previous_sessions("Helena") == []


@pytest.mark.system
def test_a_handoff_is_there_for_another_process(configured: Path) -> None:
    with SessionManager("my-project") as manager:
        context = manager.start_session(agent="Helena", goal="Complete auth testing")
        manager.create_handoff(
            "Helena", context.session_id, last_action="did", last_outcome="success", blockers=["staging is down"]
        )
    out = new_process(
        "from alma.session import SessionManager\nm = SessionManager('my-project')\n"
        "c = m.start_session(agent='Helena')\nprint(c.previous_handoff.blockers)\nprint(m.get_quick_reload('Helena'))",
        configured,
    )
    assert out.startswith("['staging is down']")
    assert "- staging is down" in out


def test_what_the_second_handoff_leaves_out_stays_as_it_was_said(manager: SessionManager) -> None:
    session = manager.start_session("Helena", "Test the login").session_id
    manager.create_handoff(
        "Helena", session, "ran the tests", "failure", key_decisions=["Use JWT"], blockers=["no token"],
        test_status={"test_login": False}, metadata={"a": 1},
    )  # fmt: skip
    again = manager.end_session("Helena", session, next_steps=["Get a token"])
    assert (again.last_action, again.last_outcome, again.next_steps) == ("ran the tests", "failure", ["Get a token"])
    assert (again.key_decisions, again.blockers) == (["Use JWT"], ["no token"])
    assert (again.test_status, again.metadata) == ({"test_login": False}, {"a": 1})
    better = manager.end_session("Helena", session, last_outcome="success", blockers=[])
    assert (better.last_outcome, better.blockers, better.next_steps) == ("success", [], ["Get a token"])
    assert better.confidence_level > again.confidence_level
    assert len(manager.get_previous_sessions("Helena")) == 1


# -- what a session starts with


def test_a_session_in_which_nothing_happened_hides_none_before_it(manager: SessionManager) -> None:
    first = manager.start_session("Helena", "Test the login").session_id
    manager.create_handoff("Helena", first, "wrote the tests", "success", next_steps=["Test refresh tokens"])
    empty = manager.start_session("Helena", "Look around").session_id
    manager.end_session("Helena", empty)
    assert [one.session_id for one in manager.get_previous_sessions("Helena")] == [empty, first]
    assert "- Test refresh tokens" in manager.get_quick_reload("Helena")
    previous = manager.start_session("Helena").previous_handoff
    assert previous is not None
    assert previous.session_id == first


def test_empty_sessions_alone_are_told_of(manager: SessionManager) -> None:
    manager.end_session("Helena", manager.start_session("Helena", "Look around").session_id)
    assert "Goal: Look around" in manager.get_quick_reload("Helena")


def test_a_session_starts_with_what_is_known(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    item = tracker.create_work_item(title="Fix the login bug", priority=80)
    for _ in range(4):
        alma.learn(
            agent="Helena", task="Test the login form", outcome="success", strategy_used="Test empty fields first"
        )
    alma.add_rule(agent="Helena", rule="Run the tests with make test")
    context = SessionManager(alma=alma, workspace=None).start_session("Helena", "Test the login form")
    assert context.progress.items_total == 1
    assert context.suggested_focus is not None
    assert context.suggested_focus.id == item.id
    assert [one.strategy_used for one in context.recent_outcomes] == ["Test empty fields first"] * 4
    assert [one.strategy for one in context.relevant_heuristics] == ["Test empty fields first"]
    assert context.retrieval_id is not None
    assert any("make test" in rule for rule in context.rules_of_engagement)
    assert context.codebase_state is None
    assert context.environment_state is not None
    assert context.started_at.tzinfo is UTC


def test_what_was_begun_is_the_focus_before_anything_more_urgent(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    begun = tracker.create_work_item(title="Begun", priority=10, agent="Helena")
    tracker.update_status(begun.id, "in_progress")
    tracker.create_work_item(title="Urgent", priority=99)
    context = SessionManager(alma=alma, workspace=None).start_session("Helena")
    assert context.suggested_focus is not None
    assert context.suggested_focus.id == begun.id


def test_starting_a_session_claims_no_work(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    item = tracker.create_work_item(title="Anything")
    SessionManager(alma=alma, workspace=None).start_session("Helena")
    assert tracker.get_item(item.id).claimed_by is None


def test_agents_do_not_see_each_others_sessions(manager: SessionManager) -> None:
    first = manager.start_session("Helena")
    manager.create_handoff("Helena", first.session_id, "did", "success")
    assert manager.start_session("Victor").previous_handoff is None


def test_a_declared_agent_is_known_in_any_case(open_alma: Opener) -> None:
    manager = SessionManager(alma=open_alma(agents=[MemoryScope("helena")]), workspace=None)
    context = manager.start_session("Helena")
    assert context.agent == "helena"
    manager.create_handoff("HELENA", context.session_id, "did", "success")
    assert len(manager.get_previous_sessions("helena")) == 1
    with pytest.raises(ScopeError, match="helena"):
        manager.start_session("victor")


# -- along the way


def test_what_is_noted_along_the_way_is_handed_over(manager: SessionManager) -> None:
    session = manager.start_session("Helena", "Auth").session_id
    manager.update_session(
        "Helena",
        session,
        action="Wrote tests",
        decisions=["Use JWT because sessions do not scale"],
        active_files=["a.py"],
    )
    manager.update_session("Helena", session, blockers=["staging is down", "no token"], active_files=["b.py"])
    state = manager.update_session(
        "Helena", session, resolved=["No token."], action="Ran tests", outcome="failure", test_status={"t1": False}
    )
    assert state.actions == ["Wrote tests", "Ran tests"]
    assert state.blockers == ["staging is down"]
    handoff = manager.end_session("Helena", session)
    assert handoff.last_action == "Ran tests"
    assert handoff.last_outcome == "failure"
    assert handoff.current_goal == "Auth"
    assert handoff.key_decisions == ["Use JWT because sessions do not scale"]
    assert handoff.active_files == ["b.py", "a.py"]
    assert handoff.blockers == ["staging is down"]
    assert handoff.test_status == {"t1": False}


def test_what_is_resolved_must_have_been_noted(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    manager.update_session("Helena", session, blockers=["staging is down"], risk_flags=["no backup"])
    with pytest.raises(ValidationError, match=r"'production is down' is not a blocker .* staging is down; no backup"):
        manager.update_session("Helena", session, action="looked", resolved=["production is down"])
    assert manager.get_session("Helena", session).action_count == 0
    state = manager.update_session("Helena", session, resolved=["Staging is down.", "no backup"])
    assert (state.blockers, state.risk_flags) == ([], [])


def test_what_is_said_at_the_end_wins_over_what_was_noted(manager: SessionManager) -> None:
    session = manager.start_session("Helena", "Auth").session_id
    manager.update_session(
        "Helena", session, blockers=["x"], next_steps=["a"], decisions=["noted"], confidence_level=0.2
    )
    handoff = manager.create_handoff(
        "Helena", session, "did", "success", blockers=[], next_steps=["b"], key_decisions=["said"], confidence_level=0.9
    )
    assert (handoff.blockers, handoff.next_steps) == ([], ["b"])
    assert handoff.key_decisions == ["said", "noted"]
    assert handoff.confidence_level == 0.9


def test_lists_are_bounded_and_say_what_was_left_out(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    handoff = manager.create_handoff(
        "Helena",
        session,
        "did",
        "success",
        key_decisions=[f"decision {number}" for number in range(14)],
        next_steps=[f"step {number}" for number in range(12)],
        active_files=[f"file{number}.py" for number in range(40)],
    )
    assert len(handoff.key_decisions) == 10
    assert handoff.key_decisions[0] == "decision 0"
    assert handoff.next_steps == [f"step {number}" for number in range(10)]
    assert handoff.left_out == {"decisions": 4, "next_steps": 2, "files": 20}


def test_a_session_that_goes_on_for_long_stays_small(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    for number in range(60):
        state = manager.update_session(
            "Helena", session, action=f"action {number}", decisions=[f"d{number}"], active_files=[f"{number}.py"]
        )
    assert state.action_count == 60
    assert state.actions == [f"action {number}" for number in range(40, 60)]
    assert state.decisions == [f"d{number}" for number in range(59, 49, -1)]
    assert state.active_files[0] == "59.py"


def test_files_that_differ_in_case_are_two(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    handoff = manager.create_handoff("Helena", session, "did", "success", active_files=["Makefile", "makefile"])
    assert handoff.active_files == ["Makefile", "makefile"]


def test_secrets_are_not_kept(manager: SessionManager, alma: ALMA) -> None:
    session = manager.start_session("Helena", "Use the key AKIA4XQ7ZKJ2MWPT6RVN").session_id
    manager.update_session("Helena", session, action="export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a")
    handoff = manager.end_session("Helena", session)
    assert "AKIA4XQ7ZKJ2MWPT6RVN" not in handoff.current_goal
    assert "ghp_16C7" not in handoff.last_action


# -- the end


def test_a_handoff_said_twice_is_one(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    first = manager.create_handoff("Helena", session, "did this", "failure")
    second = manager.create_handoff("Helena", session, "did that", "success")
    assert second.id == first.id
    assert manager.get_previous_sessions("Helena") == [second]
    assert second.session_end == first.session_end


def test_an_ended_session_takes_no_more_notes(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    manager.end_session("Helena", session)
    with pytest.raises(ValidationError, match="has ended"):
        manager.update_session("Helena", session, action="more")
    assert manager.get_session("Helena", session).state is SessionState.ENDED
    assert manager.list_sessions("Helena", "open").sessions == []


def test_how_a_session_went_is_told_by_what_was_learned_in_it(manager: SessionManager, alma: ALMA) -> None:
    alma.learn(agent="Helena", task="before", outcome="success", strategy_used="old")
    session = manager.start_session("Helena").session_id
    alma.learn(
        agent="Helena", task="Deploy", outcome="failure", strategy_used="Rolling update", error_message="timeout"
    )
    alma.learn(agent="Victor", task="other", outcome="success", strategy_used="else")
    handoff = manager.end_session("Helena", session)
    assert (handoff.last_action, handoff.last_outcome) == ("Deploy: Rolling update", LastOutcome.FAILURE)
    assert handoff.confidence_level == pytest.approx(0.33, abs=0.01)


def test_previous_sessions_are_the_latest_first(manager: SessionManager) -> None:
    ended = []
    for number in range(4):
        session = manager.start_session("Helena").session_id
        ended.append(manager.create_handoff("Helena", session, f"action {number}", "success"))
    assert [one.last_action for one in manager.get_previous_sessions("Helena", limit=3)] == [
        "action 3",
        "action 2",
        "action 1",
    ]


def test_the_session_that_ended_last_is_the_previous_one(manager: SessionManager) -> None:
    long, short = manager.start_session("Helena").session_id, manager.start_session("Helena").session_id
    manager.create_handoff("Helena", short, "short", "success")
    manager.create_handoff("Helena", long, "long", "success")
    previous = manager.start_session("Helena").previous_handoff
    assert previous is not None
    assert previous.last_action == "long"


def test_a_handoff_has_the_fields_of_the_prd(manager: SessionManager, clock: Clock) -> None:
    session = manager.start_session("Helena", "Auth").session_id
    clock.pass_days(0.5)
    handoff = manager.create_handoff("Helena", session, "did", "interrupted", risk_flags=["flaky"])
    assert isinstance(handoff, SessionHandoff)
    assert handoff.duration_ms == (handoff.session_end - handoff.session_start) / timedelta(milliseconds=1)
    assert handoff.duration_ms > 12 * 3600 * 1000
    assert handoff.risk_flags == ["flaky"]
    assert handoff.embedding is None
    assert handoff.created_at.tzinfo is UTC


# -- bad input


def test_a_handoff_for_an_unknown_session_names_the_known(manager: SessionManager) -> None:
    with pytest.raises(NotFoundError, match="no session yet: start one"):
        manager.create_handoff("Helena", "ses_nope", "did", "success")
    known = manager.start_session("Helena").session_id
    with pytest.raises(NotFoundError, match=rf"ses_nope.*{known} \(open\)"):
        manager.create_handoff("Helena", "ses_nope", "did", "success")
    with pytest.raises(NotFoundError, match="belongs to agent 'Helena'"):
        manager.create_handoff("Victor", known, "did", "success")
    assert manager.get_previous_sessions("Helena") == []
    assert manager.get_previous_sessions("Victor") == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"last_outcome": "banana"}, "interrupted"),
        ({"last_action": ""}, "last_action"),
        ({"confidence_level": 2}, "a number from 0 to 1, not 2"),
        ({"test_status": {"t": "yes"}}, "true or false"),
        ({"test_status": ["t"]}, "must be a JSON object"),
        ({"blockers": [3]}, r"blockers\[0\]"),
        ({"next_steps": {"a": 1}}, "list of texts"),
        ({"key_decisions": [""]}, "empty"),
        ({"metadata": {"a": object()}}, "JSON"),
    ],
)
def test_a_bad_handoff_changes_nothing(manager: SessionManager, wrong: dict[str, Any], says: str) -> None:
    session = manager.start_session("Helena").session_id
    with pytest.raises(ValidationError, match=says):
        manager.create_handoff("Helena", session, **{"last_action": "did", "last_outcome": "success", **wrong})
    assert manager.get_session("Helena", session).state is SessionState.OPEN
    assert manager.get_previous_sessions("Helena") == []


def test_an_outcome_without_an_action_is_refused(manager: SessionManager) -> None:
    session = manager.start_session("Helena").session_id
    with pytest.raises(ValidationError, match="action"):
        manager.update_session("Helena", session, outcome="success")


def test_a_manager_closes_only_what_it_opened(alma: ALMA, configured: Path) -> None:
    with SessionManager(alma=alma, workspace=None) as manager:
        manager.start_session("Helena")
    assert alma.get_stats()["total_count"] == 0
    with SessionManager() as own:
        assert own.project_id == "my-project"
    assert os.path.exists(configured / ".alma" / "alma.db")


def test_alive_for_must_be_a_time() -> None:
    with pytest.raises(ValidationError, match="alive_for"):
        SessionManager(alma=None, alive_for=5)  # type: ignore[arg-type]
