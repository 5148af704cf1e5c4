from __future__ import annotations

import json
import os
import stat
from contextlib import closing

import pytest

from alma.errors import ConflictError, CorruptStoreError, StorageError, StorageFullError
from alma.stores import file as module
from alma.stores.file import FileStore
from alma.testing import make_record
from alma.types.query import Where


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "memory.jsonl"


@pytest.fixture
def store(path):
    with closing(FileStore(path)) as store:
        yield store


def ids(store):
    return sorted(record.id for record in store.scan(Where()))


def test_the_files_are_private(path, store):
    store.put([make_record()])
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_line_is_a_record_a_deletion_or_what_was_written_together(path, store):
    store.put([make_record("a")])
    store.put([make_record("b"), make_record("c")])
    store.delete(["b"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["id"] == "a"
    assert [record["id"] for record in lines[1]] == ["b", "c"]
    assert lines[2] == {"deleted": "b"}


def test_a_conflict_writes_nothing(path, store):
    store.put([make_record()])
    size = path.stat().st_size
    with pytest.raises(ConflictError):
        store.put([make_record("b"), make_record(text="x")])
    assert path.stat().st_size == size


def test_a_torn_last_line_is_ignored_and_cut_off_by_the_next_write(path, store):
    store.put([make_record("a")])
    with path.open("a") as file:
        file.write('[{"id": "b", "kind"')
    with closing(FileStore(path)) as other:
        assert ids(other) == ids(store) == ["a"]
        other.put([make_record("c")])
        assert ids(other) == ids(store) == ["a", "c"]
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("line", ["nonsense", "{}", "[1]", '{"id": "x"}', "3"])
def test_a_bad_line_is_named(path, store, line):
    store.put([make_record("a")])
    with path.open("a") as file:
        file.write(f"{line}\n")
    for action in (lambda: FileStore(path), lambda: store.get(["a"]), lambda: store.put([make_record("b")])):
        with pytest.raises(CorruptStoreError, match="line 2"):
            action()


def test_garbage_is_compacted_and_other_readers_notice(path, store):
    with closing(FileStore(path)) as reader:
        for version in range(1, 200):
            store.put([make_record("a", version=version)])
            assert reader.get(["a"])[0].version == version
        assert len(path.read_text().splitlines()) < 100
        for id in "bcd":
            reader.put([make_record(id)])
        assert ids(store) == ids(reader) == list("abcd")


def test_a_file_written_anew_in_place_is_noticed(path, store):
    store.put([make_record("a", text="x" * 1000)])
    with closing(FileStore(path.with_name("other"))) as other:
        other.put([make_record("b")])
        path.write_bytes(path.with_name("other").read_bytes())
    assert ids(store) == ["b"]


def test_a_failed_write_leaves_what_was_there(path, store, monkeypatch):
    store.put([make_record("a")])

    def fail(descriptor):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", fail)
        with pytest.raises(StorageFullError):
            store.put([make_record("b")])
    store.put([make_record("c")])
    assert "a" in ids(store)
    assert "c" in ids(store)


def test_a_path_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        FileStore(tmp_path / "file" / "memory.jsonl")
