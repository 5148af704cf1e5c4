"""Sessions that never ended: who is taken for dead, and what they hand over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.session import SessionManager, SessionState
from alma.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from tests.conftest import Clock

pytestmark = pytest.mark.system

posix = pytest.mark.skipif(os.name != "posix", reason="only there can another process be asked about")

HOLDER = """
import sys, time
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.session import SessionManager
from alma.stores.sqlite import SQLiteStore

alma = ALMA(SQLiteStore(sys.argv[1]), HashEmbedder(), project_id="p")
manager = SessionManager(alma=alma, workspace=None)
session = manager.start_session("Helena", "Complete auth testing").session_id
manager.update_session("Helena", session, action="Wrote the OAuth tests", decisions=["Use PKCE"], blockers=["no token"])
print(session, flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alma.db"


@pytest.fixture
def shared(path: Path) -> Iterator[SessionManager]:
    with ALMA(SQLiteStore(path), HashEmbedder(), project_id="p") as alma:
        yield SessionManager(alma=alma, workspace=None)


@pytest.fixture
def holder(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that holds a session, and the session's id."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    session = process.stdout.readline().strip()
    assert session
    yield process, session
    process.kill()
    process.communicate()


@posix
def test_a_killed_session_hands_over_what_is_known(
    shared: SessionManager, holder: tuple[subprocess.Popen[str], str]
) -> None:
    process, session = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    context = shared.start_session("Helena", "Go on")
    previous = context.previous_handoff
    assert previous is not None
    assert previous.session_id == session
    assert previous.last_outcome == "interrupted"
    assert previous.last_action == "Wrote the OAuth tests"
    assert previous.current_goal == "Complete auth testing"
    assert previous.key_decisions == ["Use PKCE"]
    assert previous.blockers == ["no token"]
    assert "Continue with: Complete auth testing" in previous.next_steps
    assert "without a handoff" in previous.risk_flags[0]
    assert context.open_sessions == []
    assert shared.get_session("Helena", session).state is SessionState.INTERRUPTED


@posix
def test_a_process_that_nobody_asked_after_is_dead_all_the_same(
    shared: SessionManager, holder: tuple[subprocess.Popen[str], str]
) -> None:
    process, session = holder
    process.send_signal(signal.SIGKILL)
    # Not waited for: it stays in the table of processes.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    previous = shared.start_session("Helena").previous_handoff
    assert previous is not None
    assert previous.session_id == session


def test_a_session_alive_in_another_process_is_not_taken_for_crashed(
    shared: SessionManager, holder: tuple[subprocess.Popen[str], str]
) -> None:
    _, session = holder
    context = shared.start_session("Helena", "Another thing")
    assert context.previous_handoff is None
    assert [one.id for one in context.open_sessions] == [session]
    assert context.open_sessions[0].actions == ["Wrote the OAuth tests"]
    assert shared.get_session("Helena", session).state is SessionState.OPEN


def test_a_session_not_seen_for_long_is_taken_for_crashed(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None, alive_for=timedelta(minutes=30))
    first = manager.start_session("Helena", "Auth").session_id
    clock.pass_days(1 / 24 / 4)
    assert manager.start_session("Helena").previous_handoff is None
    clock.pass_days(1 / 24 / 2)
    manager.update_session("Helena", first)
    clock.pass_days(1 / 24 / 4)
    context = manager.start_session("Helena")
    assert [one.id for one in context.open_sessions] == [first]
    clock.pass_days(1)
    previous = manager.start_session("Helena").previous_handoff
    assert previous is not None
    assert previous.last_outcome == "interrupted"
    assert len(manager.get_previous_sessions("Helena")) == 3


def test_an_interrupted_session_tells_what_was_learned_in_it(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    manager.start_session("Helena", "Deploy")
    alma.learn(agent="Helena", task="Deploy auth", outcome="success", strategy_used="Blue-green")
    clock.pass_days(0.01)
    alma.learn(agent="Helena", task="Deploy web", outcome="failure", strategy_used="Rolling", error_message="timed out")
    clock.pass_days(1)
    previous = manager.start_session("Helena").previous_handoff
    assert previous is not None
    assert previous.last_action == "Deploy web: Rolling"
    assert previous.confidence_level == 0.5
    # It lived until it last learned something.
    assert previous.session_end > previous.session_start + timedelta(minutes=14)


def test_learning_is_a_sign_of_life(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    first = manager.start_session("Helena").session_id
    clock.pass_days(0.9)
    alma.learn(agent="Helena", task="Deploy", outcome="success", strategy_used="Blue-green")
    assert [one.id for one in manager.start_session("Helena").open_sessions] == [first]


def test_a_session_that_comes_back_goes_on_and_hands_over_itself(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    first = manager.start_session("Helena", "Auth").session_id
    clock.pass_days(1)
    manager.start_session("Helena")
    assert manager.get_session("Helena", first).state is SessionState.INTERRUPTED
    assert manager.update_session("Helena", first, action="Woke up").state is SessionState.OPEN
    handoff = manager.create_handoff("Helena", first, "Finished", "success")
    assert [one for one in manager.get_previous_sessions("Helena") if one.session_id == first] == [handoff]


@posix
def test_what_a_command_line_starts_outlives_its_process(path: Path, shared: SessionManager) -> None:
    code = HOLDER.replace("workspace=None)", "workspace=None, held=False)").replace("time.sleep(60)", "")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    context = shared.start_session("Helena")
    assert context.previous_handoff is None
    assert [one.id for one in context.open_sessions] == [done.stdout.strip()]


def test_a_crash_is_handed_over_once_however_many_notice_it(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    crashed = manager.start_session("Helena").session_id
    clock.pass_days(1)
    threads = [threading.Thread(target=manager.start_session, args=("Helena",)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.session_id for one in manager.get_previous_sessions("Helena", limit=50)] == [crashed]


def test_notes_of_several_threads_are_all_kept(alma: ALMA) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    session = manager.start_session("Helena").session_id

    def note(number: int) -> None:
        manager.update_session("Helena", session, action=f"action {number}", active_files=[f"{number}.py"])

    threads = [threading.Thread(target=note, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = manager.get_session("Helena", session)
    assert state.action_count == 8
    assert sorted(state.active_files) == sorted(f"{number}.py" for number in range(8))


def test_nothing_is_handed_over_for_a_session_of_another_project(alma: ALMA, clock: Clock) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    manager.start_session("Helena", project_id="other")
    clock.pass_days(1)
    assert manager.start_session("Helena").previous_handoff is None
    assert manager.start_session("Helena", project_id="other").previous_handoff is not None
