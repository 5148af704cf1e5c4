"""The worker in a thread of this process: what it answers, what it survives, and when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from alma import ALMA
from alma.files import try_lock
from alma.hooks import drain, journal, worker
from alma.hooks.drain import DrainReport, ProjectMemories
from alma.hooks.paths import DataDir
from alma.hooks.project import WorkingCopy, write_copy
from alma.hooks.worker import Worker

pytestmark = pytest.mark.system


@pytest.fixture
def place(tmp_path):
    place = DataDir(str(tmp_path / "home"))
    place.create_folders()
    return place


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def logged(place):
    path = Path(place.log)
    return path.read_text() if path.exists() else ""


class Fake:
    """What the worker is asked for, counted instead of done."""

    def __init__(self):
        self.drains = 0
        self.tidied = 0
        self.kept_up = 0
        self.upkeep = lambda should_stop: None
        self.reading = lambda: None

    def drain(self, place, *, memory):
        self.drains += 1
        return DrainReport()

    def remove_expired_daily(self, place, memory):
        self.tidied += 1

    def read_sessions(self, place, memory):
        self.reading()

    def run_due_upkeep(self, place, memory, should_stop):
        self.kept_up += 1
        self.upkeep(should_stop)

    def recall_rules(self, memory, project, session, text, limit):
        if text == "raise":
            raise RuntimeError("a recall that fails")
        return [("rul_1", text)] * limit

    def recall_exchanges(self, memory, project, text, limit):
        return [("exc_1", 0.5)] * limit


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    for name in (
        "drain",
        "remove_expired_daily",
        "read_sessions",
        "recall_rules",
        "recall_exchanges",
        "run_due_upkeep",
    ):
        monkeypatch.setattr(worker, name, getattr(made, name))
    return made


@pytest.fixture
def run_worker(place, fake):
    running = []

    def run(idle=60.0):
        made = Worker(place, ProjectMemories(place), __file__, idle_seconds=idle)
        thread = threading.Thread(target=made.run)
        thread.start()
        running.append((made, thread))
        return made, thread

    yield run
    for made, thread in running:
        made.stop()
        # It waits a second for a request before it notices.
        journal.ask_worker(place, {"op": "status"}, 1.0)
        thread.join(30)
        assert not thread.is_alive()


def raw(place, *lines):
    """What the worker answers to lines sent as they are."""
    info = json.loads(Path(place.worker).read_text())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(info["address"])
        for line in lines:
            connection.sendall(line)
        try:
            return connection.recv(65536)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize("nonsense", [b"\n", b"[]\n", b"nonsense\n", b"\xff\xfe\n"])
def test_nonsense_is_survived(place, run_worker, nonsense):
    run_worker()
    raw(place, nonsense)
    assert journal.ask_worker(place, {"op": "status"}, 20.0)["ok"]


def test_a_flood_is_cut_off(place, run_worker):
    run_worker()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        raw(place, b"x" * 2_000_000)
    assert journal.ask_worker(place, {"op": "status"}, 20.0)["ok"]


def test_many_silent_guests_do_not_keep_others_out_for_long(place, run_worker):
    run_worker()
    info = json.loads(Path(place.worker).read_text())
    guests = []
    for _ in range(30):
        guest = socket.socket(socket.AF_UNIX)
        guest.connect(info["address"])
        guests.append(guest)
    until(lambda: journal.ask_worker(place, {"op": "status"}, 5.0), 60)
    for guest in guests:
        guest.close()


def test_an_unknown_request_names_the_valid_ones(place, run_worker):
    run_worker()
    answer = journal.ask_worker(place, {"op": "recal"}, 20.0)
    assert answer == {
        "ok": False,
        "error": "unknown request 'recal'. Did you mean 'recall'? Valid: drain, recall, status, stop.",
    }


@pytest.mark.parametrize("wrong", [{}, {"project": "p", "session": "s", "text": 3}, {"project": None}])
def test_a_recall_of_the_wrong_shape_is_refused(place, run_worker, wrong):
    run_worker()
    answer = journal.ask_worker(place, {"op": "recall", **wrong}, 20.0)
    assert answer["error"] == "recall needs the texts project, session and text, and a whole number limit"


def test_a_recall_has_a_limit(place, run_worker):
    run_worker()
    asked = {"op": "recall", "project": "p", "session": "s", "text": "t"}
    assert len(journal.ask_worker(place, {**asked, "limit": 10**9}, 20.0)["rules"]) == 50
    assert len(journal.ask_worker(place, {**asked, "limit": -1}, 20.0)["rules"]) == 1


def test_exchanges_are_recalled_only_if_asked_for(place, run_worker):
    run_worker()
    asked = {"op": "recall", "project": "p", "session": "s", "text": "t"}
    assert "exchanges" not in journal.ask_worker(place, asked, 20.0)
    assert journal.ask_worker(place, {**asked, "evidence": 2}, 20.0)["exchanges"] == [["exc_1", 0.5]] * 2
    assert len(journal.ask_worker(place, {**asked, "evidence": 10**9}, 20.0)["exchanges"]) == 100
    answer = journal.ask_worker(place, {**asked, "evidence": "2"}, 20.0)
    assert answer["error"] == "evidence must be a whole number: the most exchanges to return"


def test_a_recall_that_fails_is_survived_and_its_text_is_not_logged(place, run_worker):
    run_worker()
    assert journal.ask_worker(place, {"op": "recall", "project": "p", "session": "s", "text": "raise"}, 20.0) is None
    until(lambda: "Worker request: RuntimeError in test_worker_service.py" in logged(place))
    assert "a recall that fails" not in logged(place)
    assert journal.ask_worker(place, {"op": "status"}, 20.0)["ok"]


def test_the_status_says_who(place, run_worker):
    run_worker()
    told = journal.ask_worker(place, {"op": "status"}, 20.0)
    assert told["pid"] == os.getpid()
    assert abs(told["since"] - time.time()) < 30


def test_now_and_then_it_drains_unasked(fake, run_worker, monkeypatch):
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.2)
    run_worker()
    until(lambda: fake.drains >= 3)
    until(lambda: fake.tidied >= 2)


def test_a_wake_up_that_reached_nobody_is_found(place, fake, run_worker):
    run_worker()
    until(lambda: fake.drains == 1)
    journal.request_drain(place)
    until(lambda: fake.drains == 2)


def test_its_own_drains_do_not_keep_it_alive(fake, run_worker, monkeypatch):
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.05)
    _, thread = run_worker(idle=2.0)
    thread.join(30)
    assert not thread.is_alive()
    assert fake.drains > 2


def test_requests_of_hooks_keep_it_alive(place, run_worker):
    made, thread = run_worker(idle=4.0)
    began = time.monotonic()
    while time.monotonic() < began + 4.4:
        time.sleep(0.2)
        assert journal.ask_worker(place, {"op": "recall", "project": "p", "session": "s", "text": "t"}, 20.0)["ok"]
    assert thread.is_alive()
    made.stop()


def test_what_belongs_to_another_is_left_alone(place, run_worker):
    _, thread = run_worker(idle=1.0)
    other = {"kind": "unix", "address": "elsewhere", "pid": 1}
    Path(place.worker).write_text(json.dumps(other))
    thread.join(30)
    assert not thread.is_alive()
    assert json.loads(Path(place.worker).read_text()) == other


# --- the daily tidying ---


def test_it_tidies_once_a_day(place, monkeypatch):
    calls = []
    monkeypatch.setattr(drain, "remove_expired", lambda place, memory: calls.append(place))
    memory = ProjectMemories(place)
    drain.remove_expired_daily(place, memory)
    drain.remove_expired_daily(place, memory)
    assert len(calls) == 1
    yesterday = time.time() - 90_000
    os.utime(os.path.join(place.home, "tidied"), (yesterday, yesterday))
    with try_lock(place.drain_lock):
        drain.remove_expired_daily(place, memory)
        assert len(calls) == 1, "not while somebody drains"
    drain.remove_expired_daily(place, memory)
    assert len(calls) == 2


def test_a_server_that_takes_its_time_holds_up_no_drain(place, fake, run_worker, monkeypatch):
    answered, asked = threading.Event(), threading.Event()
    monkeypatch.setattr("alma.hooks.worker.sync_team", lambda *given: asked.set() or answered.wait(60))
    _, thread = run_worker(idle=0.2)
    try:
        assert asked.wait(60)
        before = fake.drains
        assert journal.notify_worker(place, __file__)
        journal.request_drain(place)
        until(lambda: fake.drains > before)
        time.sleep(0.6)
        assert thread.is_alive()
    finally:
        answered.set()


def test_a_model_that_takes_its_time_holds_up_no_drain(place, fake, run_worker):
    answered = threading.Event()
    fake.reading = lambda: answered.wait(60)
    made, thread = run_worker(idle=0.2)
    try:
        until(lambda: made._tasks["model"].is_alive())
        before = fake.drains
        assert journal.notify_worker(place, __file__)
        journal.request_drain(place)
        until(lambda: fake.drains > before)
        # It does not end as idle while a model is being asked.
        time.sleep(0.6)
        assert thread.is_alive()
    finally:
        answered.set()
        thread.join(30)
    assert not thread.is_alive()


# --- upkeep ---


def test_it_does_the_upkeep_once_when_it_is_idle(place, fake, run_worker):
    drains = []
    fake.upkeep = lambda should_stop: drains.append(fake.drains)
    _, thread = run_worker(idle=0.5)
    thread.join(30)
    assert not thread.is_alive()
    assert drains == [1], "once, and after the drain"


def test_drains_go_on_during_upkeep(place, fake, run_worker):
    is_done = threading.Event()
    fake.upkeep = lambda should_stop: is_done.wait(60)
    _, thread = run_worker(idle=0.2)
    try:
        until(lambda: fake.kept_up == 1)
        before = fake.drains
        journal.request_drain(place)
        until(lambda: fake.drains > before)
        assert thread.is_alive()
    finally:
        is_done.set()


def test_upkeep_ends_when_the_worker_is_stopped(place, fake, run_worker):
    ends = []
    fake.upkeep = lambda should_stop: until(should_stop) or ends.append(time.monotonic())
    _, thread = run_worker(idle=0.2)
    until(lambda: fake.kept_up == 1)
    assert journal.ask_worker(place, {"op": "stop"}, 20.0)["ok"]
    thread.join(30)
    assert not thread.is_alive()
    until(lambda: ends)


def learn_long_ago(memory, project):
    long_ago = memory.alma.engine.clock() - timedelta(days=900)
    past = ALMA(memory.alma.engine.store, project_id=project, clock=lambda: long_ago)
    return past.learn("dev", "Deploy the auth service", "success", "Blue-green deployment").id


@pytest.mark.parametrize(("hours", "status"), [(24, "archived"), (0, "active")])
def test_upkeep_covers_the_known_projects_unless_it_is_switched_off(place, monkeypatch, hours, status):
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    Path(place.config).write_text(json.dumps({"upkeep_hours": hours}))
    write_copy(place, WorkingCopy("c1", "git:shop", "/shop"))
    with ProjectMemories(place) as memory:
        known, unknown = learn_long_ago(memory, "git:shop"), learn_long_ago(memory, "elsewhere")
        drain.run_due_upkeep(place, memory)
        drain.run_due_upkeep(place, memory, lambda: True)
        statuses = [str(one.status) for one in memory.alma.engine.store.get([known, unknown])]
    assert statuses == [status, "active"]


def test_upkeep_makes_no_store_where_there_is_none(place):
    with ProjectMemories(place) as memory:
        drain.run_due_upkeep(place, memory)
    assert not os.path.exists(place.db)
