"""The worker as a process. It runs a copy of alma whose drain only takes notes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import alma
from alma.files import try_lock
from alma.hooks import journal, worker
from alma.hooks.paths import DataDir

pytestmark = pytest.mark.system

SOURCE = Path(alma.__file__).parent

FAKE_DRAIN = '''
"""Notes the process and every line of the journals, so that a test can see who drained what."""
import os, time
from pathlib import Path
from ..files import try_lock

class ProjectMemories:
    def __init__(self, place): pass
    def close(self): pass
    def __enter__(self): return self
    def __exit__(self, *error): pass

class DrainReport:
    def __init__(self, busy=False): self.busy, self.waiting, self.problems = busy, 0, []

def drain(place, *, memory=None, wait=0.0):
    lock = try_lock(place.drain_lock, wait)
    if lock is None:
        return DrainReport(True)
    with lock:
        home = Path(place.home)
        with open(home / "drains", "a") as file:
            file.write(f"{os.getpid()}\\n")
        if (home / "fails").exists():
            (home / "fails").unlink()
            raise RuntimeError("a drain that fails")
        lines = [line for path in Path(place.sessions).glob("*.jsonl") for line in path.read_text().splitlines()]
        if (home / "slow").exists():
            time.sleep(float((home / "slow").read_text()))
        (home / "seen.new").write_text("\\n".join(lines))
        os.replace(home / "seen.new", home / "seen")
    return DrainReport()

def remove_expired_daily(place, memory):
    pass

def read_sessions(place, memory):
    pass

def run_due_upkeep(place, memory, should_stop=None):
    pass

def recall_rules(memory, project, session, text, limit=5):
    return [("rul_1", text)]

def recall_exchanges(memory, project, text, limit):
    return []

def warm_up(place, memory):
    pass
'''

WAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from alma.hooks.paths import DataDir
from alma.hooks.journal import wake_drain as wake
wake(DataDir(sys.argv[2]), "Stop")
"""

posix = pytest.mark.skipif(os.name == "nt", reason="needs signals")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the alma whose drain takes notes."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(SOURCE, folder / "alma", ignore=shutil.ignore_patterns("minilm", "__pycache__"))
    (folder / "alma" / "hooks" / "drain.py").write_text(FAKE_DRAIN)
    return folder


@pytest.fixture
def place(tmp_path, site):
    place = DataDir(str(tmp_path / "home"))
    place.create_folders()
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(site)}))
    configure(place, worker_idle_seconds=300)
    yield place
    end_all(place)


def configure(place, **settings):
    Path(place.config).write_text(json.dumps(settings))


def processes(place):
    """The workers and drainers of a place that are alive."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if place.home.encode() not in (entry / "cmdline").read_bytes().split(b"\0"):
                continue
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(int(entry.name))
    return found


def end_all(place):
    for pid in processes(place):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes(place))


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        # Often all processes of the machine are looked at.
        time.sleep(0.05)


def drains(place):
    path = Path(place.home, "drains")
    return path.read_text().split() if path.exists() else []


def logged(place):
    path = Path(place.log)
    return path.read_text() if path.exists() else ""


def seen(place):
    path = Path(place.home, "seen")
    return path.read_text().splitlines() if path.exists() else []


def said(place, session, line):
    with open(place.journal_file(session), "a") as file:
        file.write(f"{line}\n")


def run_wake(place, site):
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WAKE, str(site), place.home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def start_worker(place, site, *more):
    script = site / "alma" / "hooks" / "worker.py"
    command = [sys.executable, "-I", str(script), "--home", place.home, *more]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def status(place):
    return journal.ask_worker(place, {"op": "status"}, 20.0)


def read_request_time(place):
    """When the pending request was made; 0 if there is none."""
    try:
        return os.stat(journal.request_file(place)).st_mtime_ns
    except FileNotFoundError:
        return 0


def settled(place, site):
    """A worker that is up and has drained."""
    run_wake(place, site).communicate()
    until(lambda: drains(place) and status(place))
    return status(place)["pid"]


# --- as a process ---


def test_a_wake_up_starts_a_worker_that_drains(place, site):
    said(place, "a", "first")
    pid = settled(place, site)
    until(lambda: seen(place) == ["first"])
    assert processes(place) == [pid]
    said(place, "a", "second")
    run_wake(place, site).communicate()
    until(lambda: seen(place) == ["first", "second"])
    assert set(drains(place)) == {str(pid)}


def test_twenty_wake_ups_at_once_make_one_worker(place, site):
    for number in range(20):
        said(place, f"s{number}", f"line {number}")
    wakers = [run_wake(place, site) for _ in range(20)]
    for waker in wakers:
        waker.communicate()
    until(lambda: len(seen(place)) == 20)
    until(lambda: len(processes(place)) == 1)
    assert set(drains(place)) == {str(status(place)["pid"])}


@posix
def test_the_hook_is_free_at_once(place, site):
    """The host waits until nobody holds the hook's pipes any more, so the worker must not."""
    Path(place.home, "slow").write_text("90")
    waker = run_wake(place, site)
    out, errors = waker.communicate(timeout=60)
    assert (out, errors, waker.returncode) == (b"", b"", 0)
    until(lambda: drains(place))
    assert not seen(place), "the drain has just begun"


@posix
def test_a_pipe_that_the_hook_itself_inherited_is_let_go(place, site):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    Path(place.home, "slow").write_text("60")
    waker = subprocess.Popen([sys.executable, "-I", "-S", "-c", WAKE, str(site), place.home], close_fds=False)
    os.close(write)
    waker.wait()
    until(lambda: drains(place))
    os.set_blocking(read, False)
    assert os.read(read, 1) == b""
    os.close(read)


@posix
def test_the_worker_has_a_session_of_its_own(place, site):
    pid = settled(place, site)
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == place.home


@posix
def test_killed_it_is_replaced(place, site):
    pid = settled(place, site)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes(place))
    assert Path(place.worker).exists(), "it had no time to tidy up"
    said(place, "a", "after the kill")
    assert settled(place, site) != pid
    until(lambda: seen(place) == ["after the kill"])


@posix
def test_killed_in_a_drain_the_next_one_goes_on(place, site):
    said(place, "a", "line")
    Path(place.home, "slow").write_text("60")
    run_wake(place, site).communicate()
    until(lambda: drains(place))
    end_all(place)
    Path(place.home, "slow").unlink()
    run_wake(place, site).communicate()
    until(lambda: seen(place) == ["line"])


def test_a_second_worker_ends_at_once(place, site):
    pid = settled(place, site)
    second = start_worker(place, site)
    assert second.communicate(timeout=60) == (b"", b"")
    assert second.returncode == 0
    assert processes(place) == [pid]
    assert status(place)["pid"] == pid


def test_idle_it_ends_and_leaves_nothing(place, site):
    configure(place, worker_idle_seconds=1)
    run_wake(place, site).communicate()
    until(lambda: drains(place))
    until(lambda: not processes(place))
    assert not Path(place.worker).exists()
    assert not Path(place.home, "worker.sock").exists()
    assert not Path(place.log).exists()


def test_it_ends_when_its_home_is_gone(place, site):
    configure(place, worker_idle_seconds=8)
    settled(place, site)
    # The worker may write a file between the listing of a folder and its removal.
    until(lambda: shutil.rmtree(place.home, ignore_errors=True) or not os.path.exists(place.home))
    until(lambda: not processes(place))
    assert not os.path.exists(place.home), "what was removed is not made again"


@posix
def test_asked_or_told_by_the_system_it_ends(place, site):
    settled(place, site)
    assert journal.ask_worker(place, {"op": "stop"}, 20.0) == {"ok": True}
    until(lambda: not processes(place))
    os.kill(settled(place, site), signal.SIGTERM)
    until(lambda: not processes(place))
    assert not Path(place.worker).exists()


def test_after_an_update_the_new_code_takes_over(place, site, tmp_path):
    first = settled(place, site)
    newer = tmp_path / "newer"
    shutil.copytree(site, newer)
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(newer)}))
    run_wake(place, newer).communicate()
    until(lambda: not processes(place))
    second = settled(place, newer)
    assert second != first
    assert status(place)["code"] == str(newer / "alma" / "hooks" / "worker.py")


def test_code_that_changed_under_it_ends_it(place, site, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(site, own)
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(own)}))
    settled(place, own)
    with open(own / "alma" / "__init__.py", "a") as file:
        file.write("# newer\n")
    until(lambda: not processes(place))


def test_a_drain_that_fails_is_survived_and_told_in_the_log(place, site):
    Path(place.home, "fails").write_text("")
    said(place, "a", "line")
    pid = settled(place, site)
    until(lambda: "Worker drain: RuntimeError in drain.py" in logged(place))
    run_wake(place, site).communicate()
    until(lambda: seen(place) == ["line"])
    assert status(place)["pid"] == pid


def test_without_a_worker_it_drains_once_and_ends(place, site, monkeypatch):
    monkeypatch.setenv("CLAUDE_SMART_BACKEND_AUTOSTART", "0")
    said(place, "a", "line")
    run_wake(place, site).communicate()
    until(lambda: seen(place) == ["line"])
    until(lambda: not processes(place))
    assert not Path(place.worker).exists()


def test_drainers_that_end_lose_no_wake_up(place, site, monkeypatch):
    """Lines are written while drains of every length begin and end; after its wake-up each is taken in."""
    monkeypatch.setenv("CLAUDE_SMART_BACKEND_AUTOSTART", "0")
    Path(place.home, "slow").write_text("0.05")
    for number in range(14):
        said(place, f"s{number % 3}", f"line {number}")
        run_wake(place, site).communicate()
        time.sleep(0.013 * (number % 7))
    until(lambda: len(seen(place)) == 14)
    until(lambda: not processes(place))


def test_a_long_drain_gathers_no_crowd(place, site, monkeypatch):
    monkeypatch.setenv("CLAUDE_SMART_BACKEND_AUTOSTART", "0")
    with try_lock(place.drain_lock):
        for number in range(10):
            said(place, "a", f"line {number}")
            run_wake(place, site).communicate()
        # One waits; others may have been started because it took long, and look for a moment.
        until(lambda: len(processes(place)) <= 2)
    until(lambda: len(seen(place)) == 10)
    until(lambda: not processes(place))


def test_a_worker_that_ends_all_the_time_loses_no_wake_up(place, site):
    configure(place, worker_idle_seconds=0)
    for number in range(18):
        said(place, f"s{number % 3}", f"line {number}")
        run_wake(place, site).communicate()
        time.sleep(0.031 * (number % 9))
    until(lambda: len(seen(place)) == 18)
    until(lambda: not processes(place))
    assert not journal.is_drain_requested(place)


def test_another_drainer_is_waited_for(place, site):
    with try_lock(place.drain_lock):
        said(place, "a", "line")
        once = start_worker(place, site, "--once")
        # It claims the request, finds the lock taken, and makes the request again.
        times = set()
        until(lambda: len(times.add(read_request_time(place)) or times - {0}) > 2)
        assert once.poll() is None
        until(lambda: 0 <= journal.request_drain(place) < 2)  # It keeps others from being started.
    until(lambda: seen(place) == ["line"])
    assert once.communicate(timeout=60) == (b"", b"")


@posix
def test_its_files_are_private(place, site):
    settled(place, site)
    for name in ("worker.json", "worker.sock", "worker.lock", "drain.lock"):
        assert os.stat(os.path.join(place.home, name)).st_mode & 0o777 == 0o600, name


def test_where_there_can_be_no_socket_it_drains_once(tmp_path, site):
    place = DataDir(str(tmp_path / ("long" * 30) / "home"))
    place.create_folders()
    Path(place.runtime).write_text(json.dumps({"python": sys.executable, "path": str(site)}))
    try:
        said(place, "a", "line")
        run_wake(place, site).communicate()
        until(lambda: seen(place) == ["line"])
        until(lambda: not processes(place))
        assert not Path(place.worker).exists()
        assert not Path(place.log).exists()
    finally:
        end_all(place)


def test_what_it_cannot_do_is_told_in_the_log(place, monkeypatch):
    monkeypatch.chdir(place.home)
    monkeypatch.setattr(worker, "serve", lambda place: 1 / 0)
    assert worker.main(["--home", place.home]) == 1
    assert "Worker exited: ZeroDivisionError in test_worker.py" in logged(place)


def test_asked_to_stop_with_the_session_it_does_and_loses_nothing(place, site, monkeypatch):
    pid = settled(place, site)
    said(place, "a", "the last words")
    monkeypatch.setenv("CLAUDE_SMART_BACKEND_STOP_ON_END", "1")
    ending = WAKE.replace('"Stop"', '"SessionEnd"')
    subprocess.run([sys.executable, "-I", "-S", "-c", ending, str(site), place.home], check=True)
    until(lambda: not processes(place))
    assert pid not in processes(place)
    assert seen(place) == ["the last words"]
    assert not Path(place.worker).exists()


def test_one_of_another_folder_is_drained_at_once_beside_the_worker(place, site, tmp_path):
    pid = settled(place, site)
    other = DataDir(place.home, str(tmp_path / "elsewhere"))
    other.create_folders()
    said(other, "b", "from elsewhere")
    journal.request_drain(other)
    second = start_worker(place, site, "--sessions", other.sessions)
    assert second.communicate(timeout=60) == (b"", b"")
    assert seen(place) == ["from elsewhere"]
    assert processes(place) == [pid]
