"""Encryption at rest: whole SQLite files, and the content of records in other stores."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ConfigError, CorruptStoreError
from alma.ports import Searchable, Store
from alma.stores.encryption import EncryptedStore, read_keys
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import StoreContract, make_record
from alma.testing.contract import EAST, full_record, refused
from alma.types.query import Where
from alma.types.record import Provenance, Record, Status
from alma.types.storage import EncryptionSettings

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SECRET = make_record(text="magnolia", body={"note": "magnolia"}, provenance=Provenance(source="magnolia"), tags=("t",))


class TestEncryptedFileOfSQLite(StoreContract):
    histories = 10

    def make_store(self) -> Store:
        return SQLiteStore(self.folder / "memory.db", encryption_keys=[KEY])

    def open_again(self, store: Store) -> Store:
        return SQLiteStore(self.folder / "memory.db", encryption_keys=[KEY])


def read_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


# --- SQLite


def test_an_encrypted_database_shows_nothing_of_its_records(tmp_path: Path) -> None:
    for name, keys in (("plain", ()), ("encrypted", (KEY,))):
        folder = tmp_path / name
        store = SQLiteStore(folder / "a.db", encryption_keys=keys)
        store.put([SECRET])
        store.backup(folder / "b.db")
        # Once with the write-ahead log, once without.
        assert (b"magnolia" in read_bytes(folder)) is (name == "plain")
        store.vacuum()
        store.close()
        assert (b"magnolia" in read_bytes(folder)) is (name == "plain")
        copy = SQLiteStore(folder / "b.db", encryption_keys=keys)
        assert [hit.id for hit in copy.match("magnolia", Where(), 3)] == ["a"]
        assert copy.check() == []
        copy.close()


def test_a_wrong_key_is_a_clear_error_and_an_old_key_still_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    SQLiteStore(path, encryption_keys=[KEY]).close()
    assert "encryption key" in str(refused(CorruptStoreError, SQLiteStore, path, encryption_keys=[OTHER]))
    assert "set `encryption`" in str(refused(CorruptStoreError, SQLiteStore, path))
    SQLiteStore(path, encryption_keys=[OTHER, KEY]).close()


def test_a_plain_file_is_refused_with_the_command_that_moves_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    SQLiteStore(path).close()
    problem = str(refused(ConfigError, SQLiteStore, path, encryption_keys=[KEY]))
    assert f"alma migrate --from sqlite:{path} --to" in problem


# --- records


def test_only_names_times_and_vectors_of_a_record_are_readable(tmp_path: Path) -> None:
    inner = FileStore(tmp_path / "a.jsonl")
    store = EncryptedStore(inner, [KEY])
    record = replace(SECRET, vectors=(EAST,))
    store.put([record, full_record()])
    assert store.get(["a", "full"]) == [record, full_record()]
    data = (tmp_path / "a.jsonl").read_bytes()
    assert b"magnolia" not in data
    assert b"some words" not in data
    assert (stored := inner.get(["a"])[0]).text == stored.provenance.source == ""
    assert (stored.tags, stored.vectors) == (record.tags, record.vectors)
    assert not isinstance(store, Searchable)
    store.close()


def test_words_are_still_found_through_the_engine(tmp_path: Path) -> None:
    with ALMA(EncryptedStore(SQLiteStore(tmp_path / "a.db"), [KEY]), HashEmbedder()) as alma:
        alma.add_domain_knowledge("dev", "plants", "The magnolia flowers in spring")
        assert alma.retrieve("When does the magnolia flower?", "dev").total_items == 1
        assert len(alma.search("magnolia")) == 1


def test_conditions_on_the_body_are_met(tmp_path: Path) -> None:
    store = EncryptedStore(SQLiteStore(tmp_path / "a.db"), [KEY])
    plain = MemoryStore()
    for one in (store, plain):
        one.put([make_record(str(i), body={"n": i % 3}, vectors=(EAST,)) for i in range(9)])
    where = Where(fields={"n": 1})
    for limit in (None, 0, 2):
        assert list(store.scan(where, limit)) == list(plain.scan(where, limit))
    assert store.nearest(EAST, where, 2) == plain.nearest(EAST, where, 2)
    assert store.count(where) == {("heuristic", "", "active"): 3}
    store.close()


def test_keys_are_rotated() -> None:
    inner = MemoryStore()
    EncryptedStore(inner, [KEY]).put([SECRET])
    rotated = EncryptedStore(inner, [OTHER, KEY])
    assert rotated.get(["a"]) == [SECRET]
    rotated.put([replace(SECRET, version=2)])
    assert EncryptedStore(inner, [OTHER]).get(["a"]) == [replace(SECRET, version=2)]
    assert "not configured" in str(refused(ConfigError, EncryptedStore(inner, [KEY]).get, ["a"]))


@pytest.mark.parametrize("change", [{"id": "b"}, {"version": 2}, {"user": "eve"}, {"project": "q"}])
def test_content_that_was_moved_to_another_record_is_refused(change: dict[str, object]) -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, [KEY])
    store.put([SECRET])
    forged: Record = replace(inner.get(["a"])[0], **{"version": 2, **change})  # type: ignore[arg-type]
    inner.put([forged])
    assert forged.id in str(refused(CorruptStoreError, store.get, [forged.id]))


def test_content_that_is_not_encrypted_or_damaged_is_refused() -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, [KEY])
    inner.put([SECRET])
    assert "not encrypted" in str(refused(CorruptStoreError, store.get, ["a"]))
    store.put([replace(SECRET, version=2)])
    sealed = json.loads(json.dumps(inner.get(["a"])[0].body))
    sealed["encrypted"]["data"] = base64.b64encode(b"x" * 40).decode()
    inner.put([replace(SECRET, version=3, body=sealed)])
    assert "cannot be decrypted" in str(refused(CorruptStoreError, store.get, ["a"]))


def test_a_candidate_cannot_be_made_active_in_the_database(tmp_path: Path) -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, [KEY])
    store.put([replace(SECRET, status=Status.CANDIDATE)])
    [stored] = inner.get(["a"])
    inner.delete(["a"])
    inner.put([replace(stored, status=Status.ACTIVE)])
    assert "cannot be decrypted" in str(refused(CorruptStoreError, store.get, ["a"]))


def test_without_a_key_an_encrypted_store_is_named_as_such(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(base64.b64encode(KEY))
    key.chmod(0o600)
    settings = {"project_id": "p", "storage": "file", "storage_dir": str(tmp_path), "embedding_provider": "hash"}
    plain, encrypted = tmp_path / "plain.yaml", tmp_path / "encrypted.yaml"
    plain.write_text(json.dumps({"alma": settings}))
    encrypted.write_text(json.dumps({"alma": {**settings, "encryption": {"key_file": str(key)}}}))
    with ALMA.from_config(encrypted) as alma:
        alma.add_domain_knowledge("dev", "garden", "The magnolia flowers in spring")
    problem = refused(ConfigError, ALMA.from_config, plain)
    assert str(problem) == "this store is encrypted; set `encryption` with its key in the configuration"


# --- keys


def test_keys_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    text = f"{base64.b64encode(KEY).decode()}\n{base64.b64encode(OTHER).decode()}\n"
    assert read_keys(EncryptionSettings(key_env="K"), {"K": text}) == [KEY, OTHER]
    file = tmp_path / "key"
    file.write_text(text)
    file.chmod(0o644)
    if os.name == "posix":
        assert "other users can read" in str(refused(ConfigError, read_keys, EncryptionSettings(key_file=file)))
    file.chmod(0o600)
    assert read_keys(EncryptionSettings(key_file=file)) == [KEY, OTHER]


@pytest.mark.parametrize("text", ["", "hunter2hunter2", base64.b64encode(bytes(range(16))).decode(), "ö"])
def test_a_missing_or_weak_key_is_refused_without_showing_it(text: str) -> None:
    problem = str(refused(ConfigError, read_keys, EncryptionSettings(key_env="ALMA_KEY"), {"ALMA_KEY": text}))
    assert "$ALMA_KEY" in problem
    assert "openssl rand -base64 32" in problem
    assert not text or text not in problem


def test_one_place_for_the_keys_is_named(tmp_path: Path) -> None:
    for settings in ({}, {"key_env": "K", "key_file": tmp_path / "k"}):
        assert "key_env" in str(refused(ConfigError, EncryptionSettings, **settings))
    assert "cannot be read" in str(refused(ConfigError, read_keys, EncryptionSettings(key_file=tmp_path / "k")))
