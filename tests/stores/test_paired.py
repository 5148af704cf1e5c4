"""Rows in one store, vectors in a vector database."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.stores.test_documents import (
    EAST,
    LONG,
    NORTH,
    WEST,
    Crash,
    DictDocuments,
    assert_answers_rightly,
    change_rows,
    delete_rows,
)

from alma.errors import BusyError, ConfigError, ConflictError, StorageError
from alma.ports import Checkable, Copyable, Countable, Searchable, Snapshots, Store, Vacuumable
from alma.stores import create, pair
from alma.stores.encryption import EncryptedStore
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.paired import PairedStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import StoreContract, capabilities, make_record
from alma.types.query import Where


class TestSQLiteWithQdrant(StoreContract):
    histories = 15

    def make_store(self) -> Store:
        return self.open_again(None)

    def open_again(self, store: Store | None) -> Store:
        rows = SQLiteStore(self.folder / "memory.db")
        try:
            return pair(rows, "qdrant", {"path": str(self.folder / "qdrant")})
        except StorageError:
            rows.close()
            raise


class TestFileWithDocuments(StoreContract):
    histories = 20

    def make_store(self) -> Store:
        self.spaces: dict = {}
        return self.open_again(None)

    def open_again(self, store: Store | None) -> Store:
        return PairedStore(FileStore(self.folder / "memory.jsonl"), DictDocuments(self.spaces))


PROTOCOLS = (Searchable, Countable, Snapshots, Copyable, Vacuumable)


def test_it_can_do_what_its_rows_can_and_no_more(tmp_path):
    for rows in (MemoryStore(), FileStore(tmp_path / "f"), SQLiteStore(tmp_path / "s")):
        with closing(PairedStore(rows, DictDocuments())) as store:
            for protocol in PROTOCOLS:
                assert isinstance(store, protocol) == isinstance(rows, protocol), (rows, protocol)
            assert isinstance(store, Checkable)
            expected = {**capabilities(rows), "check": True}
            assert capabilities(store) == expected
            locked = PairedStore(rows, DictDocuments(is_locked=True))
            assert capabilities(locked) == {**expected, "many writers": False}


def test_the_rows_are_never_searched_by_vectors(monkeypatch):
    monkeypatch.setattr(MemoryStore, "nearest", None)
    store = PairedStore(MemoryStore(), DictDocuments())
    store.put([make_record("a", vectors=(EAST,))])
    assert [hit.id for hit in store.nearest(EAST, Where(), 1)] == ["a"]


class CrashingRows(MemoryStore):
    """Rows that end the process before or after they are written."""

    crash = ""

    def put(self, records):
        if self.crash == "before":
            raise Crash
        super().put(records)
        if self.crash == "after":
            raise Crash

    def delete(self, ids):
        if self.crash == "before":
            raise Crash
        count = super().delete(ids)
        if self.crash == "after":
            raise Crash
        return count


@pytest.mark.parametrize("act", [change_rows, delete_rows])
@pytest.mark.parametrize("crash", ["before", "after", *range(9)])
def test_a_crash_between_any_two_steps_is_repaired(act, crash):
    rows, documents = CrashingRows(), DictDocuments()
    store = PairedStore(rows, documents)
    store.put([make_record("a", vectors=(EAST, WEST)), make_record("b", agent="x", vectors=(EAST,))])
    if isinstance(crash, int):
        documents.crash_after = crash
    else:
        rows.crash = crash
    try:
        act(store)
    except Crash:
        rows.crash, documents.crash_after = "", None
    store = PairedStore(rows, documents)
    if act is change_rows:
        assert_answers_rightly(store)
    assert bool(store.check()) == bool(store.repair())
    assert store.check() == []
    assert_answers_rightly(store)


def test_who_loses_a_race_leaves_no_vectors_and_takes_none(monkeypatch):
    rows, documents = MemoryStore(), DictDocuments()
    store, other = PairedStore(rows, documents), PairedStore(rows, documents)
    store.put([make_record("a", vectors=(EAST,))])
    put = rows.put

    def let_other_win(records):
        monkeypatch.setattr(rows, "put", put)
        other.put([make_record("a", version=2, vectors=(NORTH,))])
        put(records)

    for vector in (NORTH, LONG):
        monkeypatch.setattr(rows, "put", let_other_win)
        with pytest.raises(ConflictError):
            store.put([make_record("a", version=2, text="x", vectors=(vector,))])
        assert store.check() == []
        assert_answers_rightly(store)
        store.delete(["a"])


def test_the_vectors_of_rows_that_were_there_before_are_copied_once():
    rows, documents = MemoryStore(), DictDocuments()
    rows.put([make_record(f"{i:04d}", vectors=(EAST,)) for i in range(1100)])
    documents.crash_after = 700
    with pytest.raises(Crash):
        PairedStore(rows, documents)
    documents.crash_after = None
    store = PairedStore(rows, documents)
    assert store.check() == []
    assert len(store.nearest(EAST, Where(), 5000)) == 1100
    documents.crash_after = 0
    PairedStore(rows, documents)


def test_records_that_were_written_without_the_vectors_are_copied_at_the_next_opening():
    rows, documents = MemoryStore(), DictDocuments()
    PairedStore(rows, documents).put([make_record("a", vectors=(EAST,))])
    rows.put([make_record("b", vectors=(EAST, LONG)), make_record("c")])
    store = PairedStore(rows, documents)
    assert store.check() == []
    assert_answers_rightly(store)


def test_the_vectors_of_another_store_are_neither_used_nor_removed(tmp_path):
    documents = DictDocuments()
    with closing(PairedStore(SQLiteStore(tmp_path / "one"), documents)) as store:
        store.put([make_record("a", vectors=(EAST,))])
    with closing(SQLiteStore(tmp_path / "two")) as rows, pytest.raises(ConfigError, match="`collection`"):
        PairedStore(rows, documents)
    (tmp_path / "one").rename(tmp_path / "moved")
    with closing(PairedStore(SQLiteStore(tmp_path / "moved"), documents)) as store:
        assert [hit.id for hit in store.nearest(EAST, Where(), 2)] == ["a"]


def test_the_note_that_names_the_rows_is_not_shown(tmp_path):
    rows = SQLiteStore(tmp_path / "rows")
    with closing(PairedStore(rows, DictDocuments())) as store:
        assert len(list(rows.scan(Where()))) == 1
        assert list(store.scan(Where())) == []
        assert store.count(Where()) == {}
        store.put([make_record("a", kind="marker"), make_record("b")])
        for limit in range(3):
            assert [record.id for record in store.scan(Where(), limit)] == ["b", "a"][:limit]
        assert sum(store.count(Where(kinds=["marker"])).values()) == 1


def test_encrypted_rows_can_be_read_without_the_vectors_again():
    rows = MemoryStore()
    EncryptedStore(PairedStore(rows, DictDocuments()), [bytes(32)]).put([make_record("a", text="x")])
    assert {record.text for record in EncryptedStore(rows, [bytes(32)]).scan(Where())} == {"", "x"}


def test_a_folder_of_vectors_is_not_used_after_a_fork(monkeypatch):
    store = PairedStore(MemoryStore(), DictDocuments(is_locked=True))
    monkeypatch.setattr("alma.stores.documents.os.getpid", lambda: -1)
    for action in (lambda: store.nearest(EAST, Where(), 1), lambda: store.put([make_record()]), store.check):
        with pytest.raises(BusyError, match="fork"):
            action()


def test_a_name_without_vectors_is_refused(tmp_path):
    rows = create("memory", path=tmp_path, options={})
    with pytest.raises(ConfigError, match=r"unknown vectors 'sqlite'.*qdrant"):
        pair(rows, "sqlite", {})
    with pytest.raises(ConfigError, match="colour"):
        pair(rows, "qdrant", {"colour": "red"})
