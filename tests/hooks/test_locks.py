from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from alma.errors import StorageError
from alma.hooks.locks import held

HOLD = """
import sys, time
from alma.hooks.locks import held
lock = held(sys.argv[1])
print("held" if lock else "refused", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "some.lock")


@pytest.fixture
def holders():
    """Other processes that take a lock; ended with the test."""
    started = []

    def start(path, seconds=60.0):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, path, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_only_one_has_it(path):
    first = held(path)
    assert first is not None
    assert held(path) is None
    first.release()
    second = held(path)
    assert second is not None
    second.release()


def test_it_is_given_back_at_the_end_of_the_block(path):
    with held(path):
        assert held(path) is None
    with held(path) as again:
        assert again is not None


def test_another_process_is_kept_out_and_let_in(path, holders):
    process = holders(path)
    assert process.stdout.readline() == "held\n"
    assert held(path) is None
    process.kill()
    process.wait()
    with held(path) as lock:
        assert lock is not None


def test_a_vain_attempt_does_not_open_the_lock_for_others(path, holders):
    """Closing a file gives up what the process has locked in it, where the system knows no better."""
    with held(path):
        assert held(path) is None
        assert holders(path).stdout.readline() == "refused\n"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nobody can be stopped here")
def test_a_killed_holder_leaves_nothing(path, holders):
    process = holders(path)
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    lock = held(path)
    assert lock is not None
    lock.release()


def test_waiting_ends_when_the_holder_does(path):
    lock = held(path)
    threading.Timer(0.2, lock.release).start()
    started = time.monotonic()
    with held(path, 5.0) as second:
        assert second is not None
    assert 0.1 < time.monotonic() - started < 3


def test_waiting_has_an_end(path):
    with held(path):
        started = time.monotonic()
        assert held(path, 0.3) is None
        assert 0.25 < time.monotonic() - started < 2


def test_of_many_processes_one_gets_it(path, holders):
    processes = [holders(path, 3.0) for _ in range(8)]
    assert sorted(process.stdout.readline() for process in processes) == ["held\n"] + ["refused\n"] * 7


@pytest.mark.skipif(os.name == "nt", reason="Windows has other modes")
def test_the_file_is_private(path):
    before = os.umask(0)
    try:
        with held(path):
            assert os.stat(path).st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_nothing_lies_beside_it(path):
    with held(path):
        assert os.listdir(os.path.dirname(path)) == ["some.lock"]
        assert os.path.getsize(path) == 0


def test_a_damaged_file_is_no_obstacle(path):
    with open(path, "wb") as file:
        file.write(b"this is no database, but long enough to look like something\n" * 100)
    with held(path) as lock:
        assert lock is not None
        assert held(path) is None


def test_a_lock_on_a_removed_file_does_not_count(path):
    """Whoever looks for the lock afterwards makes a new file; the old holder is one that nobody can see."""
    first = held(path)
    os.unlink(path)
    second = held(path)
    assert second is not None
    first.release()
    assert held(path) is None
    second.release()


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(StorageError, match="some.lock cannot be made"):
        held(str(tmp_path / "missing" / "some.lock"))
