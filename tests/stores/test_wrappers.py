"""Cache, retries and read-only access around any store."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alma import ports, retry, stores
from alma.errors import BusyError, ConfigError, ConflictError, ReadOnlyError, StorageError, UnavailableError
from alma.ports import Store
from alma.stores.encryption import EncryptedStore
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.postgres import PostgresStore
from alma.stores.sqlite import SQLiteStore
from alma.stores.wrappers import CachedStore, ReadOnlyStore, RetryingStore
from alma.testing import StoreContract, make_record
from alma.testing.contract import EAST, MOMENT, refused
from alma.types.query import Where
from alma.types.record import Record
from alma.types.storage import CacheSettings, RetrySettings

PROTOCOLS = (
    *(ports.Searchable, ports.Snapshots, ports.Checkable, ports.Countable),
    *(ports.Copyable, ports.Vacuumable, ports.Watchable, ports.Limited, ports.Repairable),
)
KEY = bytes(range(32))
WRAPPERS: dict[str, Callable[[Store], Store]] = {
    "cached": CachedStore,
    "retrying": RetryingStore,
    "read_only": ReadOnlyStore,
    "encrypted": lambda store: EncryptedStore(store, [KEY]),
}


class _OverMemory(StoreContract):
    histories = 10
    many = 300
    wrap: Callable[[Store], Store]

    def make_store(self) -> Store:
        return type(self).wrap(MemoryStore())


class _OverSQLite(StoreContract):
    histories = 10
    many = 300
    wrap: Callable[[Store], Store]

    def make_store(self) -> Store:
        return type(self).wrap(SQLiteStore(self.folder / "memory.db"))

    def open_again(self, store: Store) -> Store:
        return self.make_store()


class TestCachedMemory(_OverMemory):
    wrap = CachedStore


class TestCachedSQLite(_OverSQLite):
    wrap = CachedStore


class TestSmallCacheOverSQLite(_OverSQLite):
    wrap = staticmethod(lambda store: CachedStore(store, CacheSettings(size=6)))


class TestRetryingMemory(_OverMemory):
    wrap = RetryingStore


class TestRetryingSQLite(_OverSQLite):
    wrap = RetryingStore


class TestEncryptedMemory(_OverMemory):
    wrap = staticmethod(lambda store: EncryptedStore(store, [KEY]))


class TestEncryptedSQLite(_OverSQLite):
    wrap = staticmethod(lambda store: EncryptedStore(store, [KEY]))


class TestAllWrappersOverSQLite(_OverSQLite):
    wrap = staticmethod(lambda store: CachedStore(EncryptedStore(RetryingStore(store), [KEY])))


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "qdrant"])
def test_a_wrapper_can_do_what_its_store_can_do(tmp_path: Path, name: str, kind: str) -> None:
    options = {"path": ":memory:"} if kind == "qdrant" else {}
    inner = stores.create(kind, path=tmp_path / "store", options=options)
    if name == "cached" and kind == "qdrant":
        refused(ConfigError, CachedStore, inner)
        inner.close()
        return
    outer = WRAPPERS[name](inner)
    able = [protocol for protocol in PROTOCOLS if isinstance(inner, protocol)]
    if name == "encrypted":
        able = [protocol for protocol in able if protocol is not ports.Searchable]
    assert [protocol for protocol in PROTOCOLS if isinstance(outer, protocol)] == able
    assert getattr(outer, "path", None) == getattr(inner, "path", None)
    outer.close()
    refused(StorageError, inner.get, ["a"])


def test_a_read_only_store_reads_and_refuses_every_write(tmp_path: Path) -> None:
    inner = SQLiteStore(tmp_path / "a.db")
    inner.put([make_record(text="word", vectors=(EAST,))])
    store: Any = ReadOnlyStore(inner)
    assert store.get(["a"]) == list(store.scan(Where())) == inner.get(["a"])
    assert [hit.id for hit in store.nearest(EAST, Where(), 3)] == [hit.id for hit in store.match("word", Where(), 3)]
    for write in (lambda: store.put([make_record("b")]), lambda: store.delete(["a"]), store.vacuum):
        assert "read_only" in str(refused(ReadOnlyError, write))
    assert inner.get(["a", "b"]) == inner.get(["a"])
    store.close()


# --- cache


class Counting(MemoryStore):
    """Counts the reads that reach it."""

    reads = 0

    def get(self, ids: Any) -> list[Record]:
        self.reads += 1
        return super().get(ids)


def test_a_cached_store_reads_once_and_again_after_a_write() -> None:
    inner = Counting()
    store = CachedStore(inner)
    store.put([make_record()])
    for _ in range(3):
        assert store.get(["a"]) == [make_record()]
    assert inner.reads == 1
    # By somebody else.
    inner.put([make_record(version=2)])
    assert store.get(["a"]) == [make_record(version=2)]
    store.delete(["a"])
    assert store.get(["a"]) == []


def test_a_cache_keeps_no_more_than_its_size() -> None:
    inner = Counting()
    store = CachedStore(inner, CacheSettings(size=10))
    store.put([make_record(str(i)) for i in range(100)])
    for i in range(100):
        store.get([str(i)])
    assert len(list(store.scan(Where()))) == 100
    assert store._weight <= 10
    inner.reads = 0
    store.get(["99"])
    store.get(["0"])
    assert inner.reads == 1


def write_elsewhere(path: Path, kind: type[Any]) -> None:
    store = kind(path)
    store.put([make_record(version=2)])
    store.close()


@pytest.mark.parametrize("kind", [SQLiteStore, FileStore])
def test_a_write_of_another_process_is_seen_at_once(tmp_path: Path, kind: type[Any]) -> None:
    store = CachedStore(kind(tmp_path / "store"))
    store.put([make_record()])
    assert store.get(["a"])[0].version == store.get(["a"])[0].version == 1
    process = multiprocessing.get_context("spawn").Process(target=write_elsewhere, args=(tmp_path / "store", kind))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert store.get(["a"])[0].version == 2
    store.close()


def test_a_cached_snapshot_belongs_to_one_moment(tmp_path: Path) -> None:
    store: Any = CachedStore(SQLiteStore(tmp_path / "a.db"))
    store.put([make_record()])
    assert store.get(["a"])[0].version == 1
    with store.snapshot(), store.snapshot():
        writer = threading.Thread(target=write_elsewhere, args=(tmp_path / "a.db", SQLiteStore))
        writer.start()
        writer.join()
        assert store.get(["a"])[0].version == 1
        assert [one.version for one in store.scan(Where())] == [1]
    assert store.get(["a"])[0].version == 2
    assert [one.version for one in store.scan(Where())] == [2]
    store.close()


def test_a_cached_snapshot_uses_what_was_read_before(tmp_path: Path) -> None:
    store: Any = CachedStore(SQLiteStore(tmp_path / "a.db"))
    store.put([make_record()])
    store.get(["a"])
    with store.snapshot():
        before = len(store._answers)
        store.get(["a"])
        assert len(store._answers) == before
    store.close()


def test_readers_of_a_cache_never_miss_a_write_that_was_acknowledged(tmp_path: Path) -> None:
    """While one thread writes, every reader sees at least the version that was written before it asked."""
    store = CachedStore(SQLiteStore(tmp_path / "a.db"))
    store.put([make_record()])
    written, problems, is_done = [1], [], threading.Event()

    def read() -> None:
        while not is_done.is_set():
            least = written[0]
            version = store.get(["a"])[0].version
            if version < least:
                problems.append((least, version))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for version in range(2, 60):
        store.put([make_record(version=version)])
        written[0] = version
    is_done.set()
    for reader in readers:
        reader.join()
    assert problems == []
    store.close()


def test_a_write_to_postgres_by_another_handle_is_seen_at_once(postgres_dsn: str) -> None:
    inner, other = PostgresStore(postgres_dsn), PostgresStore(postgres_dsn)
    store: Any = CachedStore(inner)
    other.put([make_record()])
    for version in range(2, 12):
        assert store.get(["a"])[0].version == store.get(["a"])[0].version == version - 1
        other.put([make_record(version=version)])
    with store.snapshot():
        assert store.get(["a"])[0].version == 11
        other.delete(["a"])
        assert [one.version for one in store.scan(Where())] == [11]
    assert store.get(["a"]) == []
    store.close()
    other.close()


class Plain:
    """A store that does not notice writes."""

    def __init__(self) -> None:
        inner = MemoryStore()
        for name in ("put", "get", "delete", "scan", "nearest", "close"):
            setattr(self, name, getattr(inner, name))


def test_a_store_that_does_not_notice_writes_cannot_be_cached() -> None:
    store: Any = Plain()
    assert "cannot be cached" in str(refused(ConfigError, CachedStore, store))


# --- retries


class Flaky(MemoryStore):
    """Fails as often as it is told, before or after it did its work."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.calls = 0

    def _fail(self, errors: list[Exception]) -> None:
        if errors:
            raise errors.pop(0)

    def put(self, records: Any) -> None:
        self.calls += 1
        self._fail(self.before)
        super().put(records)
        self._fail(self.after)

    def delete(self, ids: Any) -> int:
        self._fail(self.before)
        count = super().delete(ids)
        self._fail(self.after)
        return count

    def nearest(self, *args: Any) -> Any:
        self.calls += 1
        self._fail(self.before)
        return super().nearest(*args)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        self.calls += 1
        for number, record in enumerate(super().scan(where, limit)):
            if number == 2:
                self._fail(self.before)
            yield record


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(retry, "sleep", seconds.append)
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def test_reads_are_repeated_with_growing_pauses(pauses: list[float]) -> None:
    inner = Flaky()
    store = RetryingStore(inner, RetrySettings(pause=1.0, longest_pause=3.0))
    inner.before = [UnavailableError("gone"), BusyError("locked"), UnavailableError("gone"), BusyError("locked")]
    assert store.nearest(EAST, Where(), 3) == []
    assert inner.calls == 5
    for seconds, most in zip(pauses, (1.0, 2.0, 3.0, 3.0), strict=True):
        assert most / 2 <= seconds <= most


def test_after_the_last_attempt_the_error_is_raised(pauses: list[float]) -> None:
    inner = Flaky()
    inner.before = [UnavailableError("gone")] * 9
    refused(UnavailableError, RetryingStore(inner, RetrySettings(attempts=3)).nearest, EAST, Where(), 3)
    assert inner.calls == 3
    inner.before = [StorageError("broken")]
    refused(StorageError, RetryingStore(inner).nearest, EAST, Where(), 3)
    assert inner.calls == 4


def test_a_put_whose_answer_was_lost_is_not_repeated(pauses: list[float]) -> None:
    inner = Flaky()
    store = RetryingStore(inner)
    inner.after = [UnavailableError("connection lost")]
    store.put([make_record("a"), make_record("b")])
    assert inner.calls == 1
    inner.before = [UnavailableError("connection lost")]
    store.put([make_record("c")])
    assert inner.calls == 3
    assert len(inner.get(["a", "b", "c"])) == 3


def test_a_put_that_arrives_late_is_recognised(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try is stored only after the comparison: the second one conflicts with it."""
    inner = Flaky()
    inner.before = [UnavailableError("connection lost")]
    record, get = make_record(), inner.get

    def get_then_arrive(ids: Any) -> list[Record]:
        answer = get(ids)
        if not answer:
            MemoryStore.put(inner, [record])
        return answer

    monkeypatch.setattr(inner, "get", get_then_arrive)
    RetryingStore(inner).put([record])
    assert get(["a"]) == [record]


def test_conflicts_are_raised_at_once(pauses: list[float]) -> None:
    inner = Flaky()
    store = RetryingStore(inner)
    store.put([make_record()])
    refused(ConflictError, store.put, [make_record()])
    assert pauses == []


def test_an_outcome_that_cannot_be_known_is_an_error(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Flaky()
    store = RetryingStore(inner)
    inner.after = [UnavailableError("connection lost")]

    def write_newer(seconds: float) -> None:
        MemoryStore.put(inner, [make_record(version=2, text="of another process")])

    monkeypatch.setattr(retry, "sleep", write_newer)
    assert "another process" in str(refused(StorageError, store.put, [make_record()]))
    assert inner.get(["a"])[0].version == 2


def test_a_delete_counts_what_its_last_try_deleted(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Flaky()
    store = RetryingStore(inner)
    store.put([make_record("a"), make_record("b"), make_record("c")])
    monkeypatch.setattr(inner, "get", None)  # It needs no read.
    inner.before = [UnavailableError("connection lost")]
    assert store.delete(["a", "b", "b", "?"]) == 2
    inner.after = [UnavailableError("connection lost")]
    assert store.delete(["c"]) == 0
    assert list(inner.scan(Where())) == []


def test_a_put_whose_answer_was_lost_is_recognised_after_json(
    tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = SQLiteStore(tmp_path / "a.db")
    put = inner.put

    def put_and_fail(records: Any) -> None:
        put(records)
        raise UnavailableError("connection lost")

    monkeypatch.setattr(inner, "put", put_and_fail)
    RetryingStore(inner).put([make_record(body={"b": (1, 2), "a": {"c": ()}})])
    assert inner.get(["a"])[0].body == {"b": [1, 2], "a": {"c": []}}
    inner.close()


def test_of_a_put_that_was_stored_in_part_the_rest_is_written(pauses: list[float]) -> None:
    class Partial(Flaky):
        limits = {"atomic": "some records may be written; use sqlite"}

        def put(self, records: Any) -> None:
            self.calls += 1
            MemoryStore.put(self, records[:1] if self.calls == 1 else records)
            self._fail(self.after)

    inner = Partial()
    inner.after = [UnavailableError("connection lost")]
    RetryingStore(inner).put([make_record("a"), make_record("b")])
    assert inner.get(["a", "b"]) == [make_record("a"), make_record("b")]


@pytest.mark.parametrize("limit", [None, 4, 2])
def test_a_scan_goes_on_where_it_was_interrupted(pauses: list[float], limit: int | None) -> None:
    inner = Flaky()
    store = RetryingStore(inner)
    store.put([make_record(str(i), created_at=MOMENT + timedelta(seconds=i // 3)) for i in range(9)])
    expected = list(MemoryStore.scan(inner, Where(), limit))
    inner.before = [UnavailableError("connection lost"), BusyError("locked")]
    assert list(store.scan(Where(), limit)) == expected


def test_nothing_is_repeated_inside_a_snapshot(pauses: list[float]) -> None:
    class Snapping(Flaky):
        def snapshot(self) -> Any:
            return nullcontext()

    inner = Snapping()
    store: Any = RetryingStore(inner)
    inner.before = [UnavailableError("connection lost")] * 2
    with store.snapshot():
        refused(UnavailableError, store.nearest, EAST, Where(), 1)
    assert len(inner.before) == 1
    assert store.nearest(EAST, Where(), 1) == []


def test_after_many_failures_calls_fail_at_once_until_the_database_is_back(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    inner = Flaky()
    store = RetryingStore(inner, RetrySettings(attempts=2, failures=4, rest=30.0))
    inner.before = [UnavailableError("gone")] * 5
    for _ in range(2):
        refused(UnavailableError, store.nearest, EAST, Where(), 1)
    assert inner.calls == 4
    assert "tried again in 30.0 s" in str(refused(UnavailableError, store.nearest, EAST, Where(), 1))
    assert inner.calls == 4
    now[0] += 31
    # The trial fails, so that the pause begins anew.
    assert "gone" in str(refused(UnavailableError, store.nearest, EAST, Where(), 1))
    assert "tried again" in str(refused(UnavailableError, store.nearest, EAST, Where(), 1))
    now[0] += 31
    assert store.nearest(EAST, Where(), 1) == store.nearest(EAST, Where(), 1) == []


def test_a_busy_database_does_not_count_as_down(pauses: list[float]) -> None:
    inner = Flaky()
    store = RetryingStore(inner, RetrySettings(attempts=2, failures=2))
    inner.before = [BusyError("locked")] * 20
    for _ in range(5):
        assert str(refused(BusyError, store.nearest, EAST, Where(), 1)) == "locked"


def test_settings_are_checked() -> None:
    assert "cache.size" in str(refused(ConfigError, CacheSettings, size=0))
    assert "retry.pause" in str(refused(ConfigError, RetrySettings, pause="soon"))
    assert replace(RetrySettings(), pause=1).pause == 1
