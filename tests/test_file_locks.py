from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from alma.errors import StorageError
from alma.files import try_lock

pytestmark = pytest.mark.system

HOLD = """
import sys, time
from alma.files import try_lock
lock = try_lock(sys.argv[1])
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
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    first.close()
    second = try_lock(path)
    assert second is not None
    second.close()


def test_it_is_given_back_at_the_end_of_the_block(path):
    with try_lock(path):
        assert try_lock(path) is None
    with try_lock(path) as again:
        assert again is not None


def test_another_process_is_kept_out_and_let_in(path, holders):
    process = holders(path)
    assert process.stdout.readline() == "held\n"
    assert try_lock(path) is None
    process.kill()
    process.wait()
    with try_lock(path) as lock:
        assert lock is not None


def test_a_vain_attempt_does_not_open_the_lock_for_others(path, holders):
    """Closing a file gives up what the process has locked in it, where the system knows no better."""
    with try_lock(path):
        assert try_lock(path) is None
        assert holders(path).stdout.readline() == "refused\n"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nobody can be stopped here")
def test_a_killed_holder_leaves_nothing(path, holders):
    process = holders(path)
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    lock = try_lock(path)
    assert lock is not None
    lock.close()


def test_waiting_ends_when_the_holder_does(path):
    lock = try_lock(path)
    ends = []

    def end():
        ends.append(time.monotonic())
        lock.close()

    threading.Timer(0.2, end).start()
    with try_lock(path, 60.0) as second:
        assert second is not None
        assert ends, "it did not wait"
    assert time.monotonic() - ends[0] < 30


def test_waiting_has_an_end(path):
    with try_lock(path):
        started = time.monotonic()
        assert try_lock(path, 0.3) is None
        assert 0.25 < time.monotonic() - started < 10


def test_of_many_processes_one_gets_it(path, holders):
    processes = [holders(path) for _ in range(8)]
    assert sorted(process.stdout.readline() for process in processes) == ["held\n"] + ["refused\n"] * 7


@pytest.mark.skipif(os.name == "nt", reason="Windows has other modes")
def test_the_file_is_private(path):
    before = os.umask(0)
    try:
        with try_lock(path):
            assert os.stat(path).st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_nothing_lies_beside_it(path):
    with try_lock(path):
        assert os.listdir(os.path.dirname(path)) == ["some.lock"]
        assert os.path.getsize(path) == 0


def test_a_damaged_file_is_no_obstacle(path):
    with open(path, "wb") as file:
        file.write(b"this is no database, but long enough to look like something\n" * 100)
    with try_lock(path) as lock:
        assert lock is not None
        assert try_lock(path) is None


def test_a_link_that_came_with_the_folder_is_not_followed(path, tmp_path):
    other = tmp_path / "settings"
    other.write_text("of another program\n")
    os.symlink(other, path)
    with try_lock(path) as lock:
        assert lock is not None
        assert not os.path.islink(path)
    assert other.read_text() == "of another program\n"


def test_a_lock_on_a_removed_file_does_not_count(path):
    """Whoever looks for the lock afterwards makes a new file; the old holder is one that nobody can see."""
    first = try_lock(path)
    os.unlink(path)
    second = try_lock(path)
    assert second is not None
    first.close()
    assert try_lock(path) is None
    second.close()


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(StorageError, match="some.lock cannot be locked"):
        try_lock(str(tmp_path / "missing" / "some.lock"))
