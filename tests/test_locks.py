"""One memory, several threads and processes: readers do not wait, and forks come to no harm."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_command, share_forks

from alma import ALMA, ALMAError
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore
from alma.upkeep import export_to, import_from

pytestmark = pytest.mark.system

WAIT = 12
"""Less than a writer would wait for the lock, and more than a busy machine needs."""
TASK = "Deploy the auth service"
LEARN: dict[str, Any] = {"agent": "dev", "task": TASK, "outcome": "success", "strategy_used": "Blue-green deployment"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alma.db"


@pytest.fixture
def alma(path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(path), HashEmbedder()) as opened:
        for _ in range(3):
            opened.learn(**LEARN)
        yield opened


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Another process, or as good as one, holds the writer's lock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class TestRetrievalsBesideAWriter:
    def test_a_retrieval_does_not_wait(self, alma: ALMA, path: Path) -> None:
        with writing(path):
            began = time.monotonic()
            found = [alma.retrieve(TASK, "dev") for _ in range(3)]
            assert time.monotonic() - began < WAIT
        assert all(one.heuristics and one.retrieval_id for one in found)
        made = alma.learn(**LEARN, retrieval_id=found[0].retrieval_id)
        assert made.retrieval_id == found[0].retrieval_id
        assert alma.get_stats()["retrieval_count"] == 3
        shown = [one.id for one in found[1]]
        assert alma.record_usage(shown, shown[:1]).recorded == tuple(shown)

    def test_its_note_is_written_with_the_next_retrieval_or_at_the_end(self, alma: ALMA, path: Path) -> None:
        with writing(path):
            first = alma.retrieve(TASK, "dev")
        second = alma.retrieve(TASK, "dev")
        assert alma.get_stats()["retrieval_count"] == 2
        with writing(path):
            third = alma.retrieve(TASK, "dev")
        alma.close()
        with ALMA(SQLiteStore(path), HashEmbedder()) as again:
            for number, found in enumerate((first, second, third)):
                again.learn(**{**LEARN, "task": f"{TASK} {number}"}, retrieval_id=found.retrieval_id)

    def test_what_cannot_be_written_at_the_end_is_logged(
        self, alma: ALMA, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with writing(path):
            found = alma.retrieve(TASK, "dev")
            began = time.monotonic()
            alma.close()
            assert time.monotonic() - began < WAIT
        assert found.retrieval_id
        assert found.retrieval_id in caplog.text

    def test_a_thread_that_waits_to_write_does_not_stop_readers(self, alma: ALMA, path: Path) -> None:
        with writing(path):
            waiting = threading.Thread(target=lambda: alma.learn(**LEARN))
            waiting.start()
            time.sleep(0.2)
            began = time.monotonic()
            assert alma.retrieve(TASK, "dev").heuristics
            assert len(alma.list("outcome")) == 3
            assert time.monotonic() - began < WAIT
        waiting.join(30)
        assert len(alma.list("outcome")) == 4
        assert alma.engine.store.check() == []  # type: ignore[attr-defined]

    def test_readers_and_writers_in_threads_agree(self, alma: ALMA) -> None:
        failures: list[Exception] = []

        def read() -> None:
            try:
                for _ in range(20):
                    assert alma.retrieve(TASK, "dev").heuristics
            except (AssertionError, ALMAError) as error:
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(20):
            alma.learn(**LEARN)
        for reader in readers:
            reader.join()
        assert failures == []
        assert alma.get_stats()["retrieval_count"] == 60
        assert alma.retrieve(TASK, "dev").heuristics[0].occurrence_count == 23

    def test_an_import_of_retrievals_waits_for_a_writer(self, tmp_path: Path) -> None:
        with ALMA(SQLiteStore(tmp_path / "from.db"), HashEmbedder()) as source:
            source.retrieve(TASK, "dev")
            export_to(source, tmp_path / "export.jsonl")
        with ALMA(SQLiteStore(tmp_path / "to.db"), HashEmbedder()) as target, ThreadPoolExecutor() as pool:
            with writing(tmp_path / "to.db"), (tmp_path / "export.jsonl").open(encoding="utf-8") as file:
                taken = pool.submit(import_from, target, file, "the export")
                time.sleep(0.5)
            taken.result(60)
            assert target.get_stats()["retrieval_count"] == 1

    def test_the_command_line_does_not_wait_either(self, tmp_path: Path) -> None:
        (tmp_path / ".alma").mkdir(mode=0o700)
        (tmp_path / ".alma" / "config.yaml").write_text("alma:\n  project_id: p\n  embedding_provider: hash\n")
        command = [*find_command(), "retrieve", TASK, "--agent", "dev"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        [store] = (tmp_path / ".alma").glob("*.db")
        with writing(store):
            began = time.monotonic()
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
            assert time.monotonic() - began < 2 * WAIT
        assert ran.returncode == 0, ran.stderr


# -- forks: in a process of its own, because a test run has threads and locks of its own


FORK = """
import faulthandler, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
faulthandler.register(signal.SIGALRM, chain=True)
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.stores.file import FileStore
from alma.stores.sqlite import SQLiteStore
path = sys.argv[1]
TASK = "Deploy the auth service"

def learn(alma, name):
    return alma.learn("dev", TASK, "success", "Blue-green deployment", idempotency_key=name)

def fork(work, seconds=30):
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return child

def wait(child):
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child ended with {status}"
"""

WHILE_WRITING = """
store = {"sqlite": SQLiteStore, "file": FileStore}[sys.argv[2]](path)
alma = ALMA(store, HashEmbedder())
learn(alma, "first")
over = threading.Event()
counts = [0, 0]

def write(number):
    while not over.wait(0.005):
        learn(alma, f"thread {number} {counts[number]}")
        counts[number] += 1

threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for turn in range(12):
    time.sleep(0.01 * (turn % 4))
    def work():
        learn(alma, f"child {turn}")
        assert alma.retrieve(TASK, "dev").retrieval_id
        alma.close()
    wait(fork(work))
over.set()
for thread in threads:
    thread.join()
expected = 1 + 12 + sum(counts)
found = len(alma.list("outcome", limit=100_000))
assert found == expected, (found, expected)
if sys.argv[2] == "sqlite":
    assert store.check() == []
alma.close()
"""

WHILE_LOADING = """
alma = ALMA(SQLiteStore(path), LocalEmbedder())
loading = threading.Thread(target=lambda: learn(alma, "parent"))
loading.start()
time.sleep(float(sys.argv[2]))
child = fork(lambda: learn(alma, "child"))
wait(child)
loading.join()
learn(alma, "after")
assert len(alma.list("outcome")) == 3
alma.close()
"""

WHILE_RUNNING = """
embedder = LocalEmbedder()
embedder.embed(["tea"])
over = threading.Event()
expected = embedder.embed(["jazz"])

def run():
    while not over.is_set():
        embedder.embed(["one text", "another text"])

threads = [threading.Thread(target=run) for _ in range(2)]
for thread in threads:
    thread.start()
def work():
    assert embedder.embed(["jazz"]) == expected
for _ in range(6):
    time.sleep(0.01)
    wait(fork(work))
over.set()
for thread in threads:
    thread.join()
assert embedder.embed(["jazz"]) == expected
"""

PARENT_CLOSES = """
alma = ALMA(SQLiteStore(path), HashEmbedder())
learn(alma, "parent")
reading, writing = os.pipe()
def work():
    learn(alma, "before")
    os.read(reading, 1)
    learn(alma, "after")
    os.kill(os.getpid(), signal.SIGKILL)
child = fork(work)
time.sleep(0.5)
alma.close()
os.write(writing, b"x")
os.waitpid(child, 0)
alma = ALMA(SQLiteStore(path), HashEmbedder())
assert len(alma.list("outcome")) == 3, "what the child wrote is lost"
assert alma.engine.store.check() == []
alma.close()
"""

WAITING_NOTE = """
import sqlite3
alma = ALMA(SQLiteStore(path), HashEmbedder())
learn(alma, "first")
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
assert alma.retrieve(TASK, "dev").retrieval_id
other.execute("ROLLBACK")
other.close()
def work():
    learn(alma, "child")
    alma.close()
wait(fork(work))
learn(alma, "parent")
assert alma.get_stats()["retrieval_count"] == 1
assert len(alma.list("outcome")) == 3
alma.close()
"""


def run_forking(script: str, path: Path, *args: str) -> None:
    ended = share_forks().run(FORK + script, path.parent, arguments=[str(path), *args], seconds=150)
    assert ended.code == 0, ended.err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestForks:
    @pytest.mark.parametrize("kind", ["sqlite", "file"])
    def test_while_threads_write(self, path: Path, kind: str) -> None:
        run_forking(WHILE_WRITING, path, kind)

    @pytest.mark.parametrize("seconds", ["0", "0.02", "0.1", "0.25"])
    def test_while_a_thread_loads_the_model(self, path: Path, seconds: str) -> None:
        pytest.importorskip("numpy")
        run_forking(WHILE_LOADING, path, seconds)

    def test_while_threads_run_the_model(self, path: Path) -> None:
        pytest.importorskip("numpy")
        run_forking(WHILE_RUNNING, path)

    def test_what_a_child_writes_survives_the_end_of_its_parent(self, path: Path) -> None:
        run_forking(PARENT_CLOSES, path)

    def test_a_note_that_waits_is_left_to_the_parent(self, path: Path) -> None:
        run_forking(WAITING_NOTE, path)
