"""Wake-ups, without any process: who is told, who is started, and what is asked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from alma.hooks import journal, worker
from alma.hooks.drain import DrainReport, ProjectMemories
from alma.hooks.paths import DataDir
from alma.hooks.worker import Worker, drain_while_requested

pytestmark = pytest.mark.system


class Fake:
    """Duties that remember what they were asked."""

    def __init__(self):
        self.drains = 0
        self.asked = []
        self.answer = lambda: True

    def drain(self, place, *, memory):
        self.drains += 1
        return DrainReport(busy=not self.answer())

    def recall_rules(self, memory, project, session, text, limit):
        self.asked.append((project, session, text, limit))
        return [("rul_1", "Use pnpm")]


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(worker, "drain", made.drain)
    monkeypatch.setattr(worker, "recall_rules", made.recall_rules)
    monkeypatch.setattr(worker, "remove_expired_daily", lambda place, memory: None)
    return made


@pytest.fixture
def place(tmp_path):
    place = DataDir(str(tmp_path / "home"))
    place.create_folders()
    return place


@pytest.fixture
def started(monkeypatch):
    """What would have been started."""
    commands = []
    monkeypatch.setattr(journal, "_start_process", lambda command, environ: commands.append(command))
    return commands


@pytest.fixture
def run_worker(place, fake):
    """Workers in threads of this process; ended with the test."""
    running = []

    def run():
        made = Worker(place, ProjectMemories(place), __file__, idle_seconds=60.0)
        thread = threading.Thread(target=made.run)
        thread.start()
        running.append((made, thread))

    yield run
    for made, thread in running:
        made.stop()
        thread.join(30)
        assert not thread.is_alive()


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def lie_for(place, seconds):
    before = time.time() - seconds
    os.utime(journal.request_file(place), (before, before))


# --- the wake-up ---


def test_the_first_one_asks_and_others_see_it(place):
    assert journal.request_drain(place) == -1
    assert 0 <= journal.request_drain(place) < 5
    assert journal.is_drain_requested(place)


def test_it_is_taken_by_one_alone(place):
    journal.request_drain(place)
    assert [journal.claim_drain(place), journal.claim_drain(place)] == [True, False]
    assert journal.request_drain(place) == -1


def test_nobody_to_tell_starts_a_worker(place, started):
    journal.wake_drain(place, "Stop")
    [command] = started
    assert command[0] == sys.executable
    assert command[1] == "-I"
    assert Path(command[2]) == Path(journal.__file__).parent / "worker.py"
    assert command[3:] == ["--home", place.home, "--sessions", place.sessions]


def test_many_wake_ups_start_one(place, started):
    for _ in range(20):
        journal.wake_drain(place, "Stop")
    assert len(started) == 1


def test_a_wake_up_that_nobody_took_starts_again(place, started):
    journal.wake_drain(place, "Stop")
    lie_for(place, 10)
    journal.wake_drain(place, "Stop")
    assert len(started) == 2
    journal.wake_drain(place, "Stop")
    assert len(started) == 2, "the one that was just started has not had its time"


def test_a_clock_that_was_set_back_is_no_excuse(place, started):
    journal.request_drain(place)
    lie_for(place, -3600)
    journal.wake_drain(place, "Stop")
    assert len(started) == 1


def test_without_a_worker_one_that_ends_is_started(place, started, monkeypatch):
    monkeypatch.setenv("CLAUDE_SMART_BACKEND_AUTOSTART", "0")
    journal.wake_drain(place, "Stop")
    assert started[0][-2:] == ["--once", "--if-wanted"]


def test_a_living_worker_is_told_and_none_is_started(place, started, fake, run_worker):
    run_worker()
    until(lambda: fake.drains == 1)
    journal.wake_drain(place, "Stop")
    until(lambda: fake.drains == 2)
    assert not started
    assert not journal.is_drain_requested(place)


def test_a_worker_that_does_not_act_is_helped(place, started, fake, run_worker):
    """It may be stopped, or busy for long: what it was told a minute ago is drained by another process."""
    run_worker()
    until(lambda: fake.drains == 1)
    journal.request_drain(place)
    lie_for(place, 100)
    journal.wake_drain(place, "Stop")
    assert started[0][-2:] == ["--once", "--if-wanted"]


def test_what_a_killed_worker_left_is_no_obstacle(place, started):
    Path(place.worker).write_text(json.dumps({"kind": "unix", "address": os.path.join(place.home, "worker.sock")}))
    journal.wake_drain(place, "Stop")
    assert len(started) == 1


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null", '{"kind": 3}', '{"kind": "tcp", "address": "x"}', "\x00"])
def test_a_damaged_file_about_the_worker_is_no_obstacle(place, started, damage):
    Path(place.worker).write_text(damage)
    journal.wake_drain(place, "Stop")
    assert len(started) == 1
    assert journal.ask_worker(place, {"op": "status"}, 0.2) is None


def test_folders_that_cannot_be_made_are_survived(tmp_path, started):
    (tmp_path / "file").write_text("")
    journal.wake_drain(DataDir(str(tmp_path / "home"), str(tmp_path / "file" / "sessions")), "Stop")
    assert not started


def test_an_interpreter_that_cannot_be_started_is_survived_and_told_in_the_log(place, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    journal.wake_drain(place, "Stop")
    assert "Stop cannot start a drain: FileNotFoundError" in Path(place.log).read_text()


# --- what is started ---


def test_it_is_in_a_session_of_its_own_before_it_does_anything(place, tmp_path):
    """The host may end, and signal its process group, before the interpreter of a worker has even started."""
    script = tmp_path / "site" / "alma" / "hooks" / "worker.py"
    script.parent.mkdir(parents=True)
    script.write_text("import os, sys; print(os.getsid(0) == os.getpid(), file=open(sys.argv[2] + '/own', 'w'))")
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(tmp_path / "site")}))
    journal.wake_drain(place, "SessionEnd")
    own = Path(place.home, "own")
    until(lambda: own.exists() and own.read_text(), 20)
    assert own.read_text() == "True\n"


def test_where_a_process_cannot_be_started_in_its_own_session_it_is_started_in_ours(place, monkeypatch):
    options = []

    def spawn(path, command, environ, *, file_actions, **given):
        options.append(given)
        if given:
            raise NotImplementedError

    monkeypatch.setattr(os, "posix_spawn", spawn)
    journal.wake_drain(place, "Stop")
    assert options == [{"setsid": True}, {}]


def test_on_windows_it_leaves_the_job_of_the_host_where_it_may(place, monkeypatch):
    flags = []

    def refuse_to_leave(command, *, creationflags, **pipes):
        flags.append(creationflags)
        if creationflags & 8:
            raise PermissionError

    for name, flag in (("NO_WINDOW", 2), ("NEW_PROCESS_GROUP", 4), ("BREAKAWAY_FROM_JOB", 8)):
        monkeypatch.setattr(subprocess, f"CREATE_{name}", flag, raising=False)
    monkeypatch.setattr(subprocess, "Popen", refuse_to_leave)
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        journal.wake_drain(place, "Stop")
    assert flags == [14, 6]


def test_the_installed_interpreter_and_code_are_used(place, tmp_path):
    script = tmp_path / "site" / "alma" / "hooks" / "worker.py"
    script.parent.mkdir(parents=True)
    script.write_text("")
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(tmp_path / "site")}))
    assert journal.find_runtime(place) == (sys.executable, str(script))


@pytest.mark.parametrize("wrong", [{"python": "/gone/python", "path": "/gone"}, {"python": 3, "path": None}, []])
def test_what_is_gone_is_replaced_by_our_own(place, wrong):
    Path(place.runtime).write_text(json.dumps(wrong))
    assert journal.find_runtime(place) == (sys.executable, os.path.join(os.path.dirname(journal.__file__), "worker.py"))


LONELY = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from alma.hooks import journal
from alma.hooks.paths import DataDir
journal.find_runtime(DataDir(sys.argv[2]))
journal.notify_worker(DataDir(sys.argv[2]), "x")
print(*sorted(set(sys.modules) - before))
"""


def test_little_is_loaded(place):
    """All of it is paid by every hook that wakes."""
    source = str(Path(journal.__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LONELY, source, place.home], capture_output=True, text=True, check=True
    )
    heavy = {"subprocess", "socket", "hashlib", "selectors", "sqlite3", "logging", "pathlib", "argparse", "threading"}
    assert not heavy & set(ran.stdout.split())


# --- draining as long as it is wanted ---


def test_what_is_asked_for_meanwhile_is_done_too(place, fake):
    fake.answer = lambda: fake.drains > 2 or journal.request_drain(place) is not None
    journal.request_drain(place)
    drain_while_requested(place, ProjectMemories(place))
    assert fake.drains == 3
    assert not journal.is_drain_requested(place)


def test_nothing_wanted_is_nothing_done(place, fake):
    drain_while_requested(place, ProjectMemories(place))
    assert fake.drains == 0


def test_who_waits_for_another_drainer_leaves_the_wake_up_for_all_to_see(place, fake, monkeypatch):
    seen = []
    monkeypatch.setattr(time, "sleep", lambda seconds: seen.append(journal.request_drain(place)))
    fake.answer = lambda: fake.drains == 3
    journal.request_drain(place)
    drain_while_requested(place, ProjectMemories(place))
    assert len(seen) == 2
    assert all(0 <= age < journal.FRESH_SECONDS for age in seen), "nobody else may start a process for it"
    assert not journal.is_drain_requested(place)


def test_waiting_for_another_drainer_has_an_end(place, fake):
    fake.answer = lambda: False
    journal.request_drain(place)
    drain_while_requested(place, ProjectMemories(place), patience=0.3)
    assert journal.is_drain_requested(place), "it is still owed"


# --- asking ---


def test_the_worker_answers(place, fake, run_worker):
    run_worker()
    answer = journal.ask_worker(place, {"op": "recall", "project": "p", "session": "s", "text": "t", "limit": 3}, 20.0)
    assert answer == {"ok": True, "rules": [["rul_1", "Use pnpm"]]}
    assert fake.asked == [("p", "s", "t", 3)]


def test_nobody_is_asked_for_nothing(place):
    assert journal.ask_worker(place, {"op": "status"}, 1.0) is None


def test_an_answer_that_does_not_come_is_not_waited_for(place):
    path = os.path.join(place.home, "silent.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        Path(place.worker).write_text(json.dumps({"kind": "unix", "address": path}))
        started = time.monotonic()
        assert journal.ask_worker(place, {"op": "status"}, 0.2) is None
        assert time.monotonic() - started < 10


def test_an_answer_in_crumbs_does_not_outlast_the_timeout(place):
    path = os.path.join(place.home, "slow.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def crumble():
        connection, _ = listener.accept()
        with connection:
            for _ in range(400):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return
                time.sleep(0.05)

    thread = threading.Thread(target=crumble)
    thread.start()
    Path(place.worker).write_text(json.dumps({"kind": "unix", "address": path}))
    started = time.monotonic()
    assert journal.ask_worker(place, {"op": "status"}, 0.3) is None
    assert time.monotonic() - started < 10
    thread.join()
    listener.close()


def test_a_worker_of_another_folder_of_journals_is_not_relied_upon(place, started, run_worker, tmp_path):
    run_worker()
    other = DataDir(place.home, str(tmp_path / "elsewhere"))
    assert not journal.notify_worker(other, __file__)
    assert journal.notify_worker(place, __file__)
    journal.wake_drain(other, "Stop")
    assert [command[command.index("--sessions") + 1] for command in started] == [other.sessions]
