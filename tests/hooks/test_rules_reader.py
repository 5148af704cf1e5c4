from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from alma.hooks import inject
from alma.hooks.inject import ReadOnlyRules, UnreadableStoreError
from alma.hooks.paths import DataDir
from alma.stores.sqlite import SQLiteStore, database
from alma.types.record import Status

PROJECT = "git:github.com/acme/app"
Teach = Callable[..., str]


@pytest.fixture
def place(home: Path) -> DataDir:
    return DataDir(str(home))


def files(home: Path) -> dict[str, tuple[int, float]]:
    return {name: (info.st_size, info.st_mtime) for name in os.listdir(home) if (info := os.stat(home / name))}


def test_the_statements_are_for_the_format_that_is_written() -> None:
    assert len(database.MIGRATIONS) == inject.VERSION
    assert database.APPLICATION_ID == inject.APPLICATION_ID


def test_the_playbook_has_the_rules_of_the_project_and_of_all(place: DataDir, teach: Teach) -> None:
    mine, everywhere = teach("Use pnpm"), teach("Write tests first", "everywhere")
    teach("Use yarn", "git:github.com/other/app")
    teach("Waits", status=Status.CANDIDATE)
    teach("Old", status=Status.SUPERSEDED)
    teach("Only now", session="s1")
    with ReadOnlyRules(place, PROJECT) as found:
        assert [rule.id for rule in found.list_newest()] == [everywhere, mine]


def test_the_profile_has_the_rules_of_the_sessions(place: DataDir, teach: Teach) -> None:
    teach("Use pnpm")
    mine = teach("Answer in French", session="s1")
    earlier = teach("No tests today", session="s0")
    teach("Another session", session="s2")
    teach("Another project", "git:x", session="s1")
    with ReadOnlyRules(place, PROJECT) as found:
        assert [rule.id for rule in found.list_of_sessions(["s1", "s0"])] == [earlier, mine]
        assert found.list_of_sessions([]) == []


def test_only_the_newest_are_read(place: DataDir, teach: Teach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inject, "NEWEST", 3)
    ids = [teach(f"Rule number {number}") for number in range(5)]
    with ReadOnlyRules(place, PROJECT) as found:
        assert [rule.id for rule in found.list_newest()] == ids[:1:-1]


def test_a_word_finds_the_rules_that_hold_it(place: DataDir, teach: Teach) -> None:
    one = teach("Use pnpm for installing")
    teach("Use pnpm too", "git:x")
    with ReadOnlyRules(place, PROJECT) as found:
        assert [rule.id for rule in found.get_numbered(found.find_numbers("pnpm"))] == [one]
        assert found.find_numbers("absent") == []
        assert found.find_numbers('") OR "x') == []


def test_named_rules_come_in_the_order_asked(place: DataDir, teach: Teach) -> None:
    ids = [teach(f"Rule {number}") for number in range(3)]
    other = teach("Elsewhere", "git:x")
    with ReadOnlyRules(place, PROJECT) as found:
        assert [rule.id for rule in found.get([ids[2], other, "rul_none", ids[0]])] == [ids[2], ids[0]]


def test_a_look_leaves_no_trace(place: DataDir, home: Path, teach: Teach) -> None:
    teach("Use pnpm")
    before = files(home)
    with ReadOnlyRules(place, PROJECT) as found:
        assert found.list_newest()
        assert found.find_numbers("pnpm")
        assert files(home) == before
    assert files(home) == before


def test_what_a_running_process_wrote_is_seen(place: DataDir, home: Path, teach: Teach) -> None:
    teach("Use pnpm")
    store = SQLiteStore(home / "memory.db")
    try:
        later = teach("Use uv")
        assert (home / "memory.db-wal").stat().st_size > 0
        with ReadOnlyRules(place, PROJECT) as found:
            assert later in [rule.id for rule in found.list_newest()]
    finally:
        store.close()


def test_a_store_that_is_being_written_can_be_read(place: DataDir, home: Path, teach: Teach) -> None:
    teach("Use pnpm")
    writer = sqlite3.connect(home / "memory.db", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        with ReadOnlyRules(place, PROJECT) as found:
            assert found.list_newest()
    finally:
        writer.close()


@pytest.mark.parametrize(("version", "word"), [(0, "older"), (99, "newer")])
def test_another_format_is_not_read(place: DataDir, home: Path, teach: Teach, version: int, word: str) -> None:
    teach("Use pnpm")
    db = sqlite3.connect(home / "memory.db")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    with pytest.raises(UnreadableStoreError, match=word):
        ReadOnlyRules(place, PROJECT)


def test_other_files_are_not_read(place: DataDir, home: Path) -> None:
    with pytest.raises(UnreadableStoreError):
        ReadOnlyRules(place, PROJECT)
    assert not (home / "memory.db").exists()
    (home / "memory.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(UnreadableStoreError):
        ReadOnlyRules(place, PROJECT)
    (home / "memory.db").unlink()
    sqlite3.connect(home / "memory.db").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(UnreadableStoreError, match="not an alma"):
        ReadOnlyRules(place, PROJECT)


def test_a_damaged_page_is_one_error(place: DataDir, home: Path, teach: Teach) -> None:
    for number in range(50):
        teach(f"Rule number {number}")
    data = bytearray((home / "memory.db").read_bytes())
    data[8192:] = os.urandom(len(data) - 8192)
    (home / "memory.db").write_bytes(data)
    with pytest.raises(UnreadableStoreError):
        ReadOnlyRules(place, PROJECT).playbook()


def test_an_odd_path_is_found(tmp_path: Path, teach: Teach, home: Path) -> None:
    teach("Use pnpm")
    odd = tmp_path / "what? 100% #1 é"
    home.rename(odd)
    with ReadOnlyRules(DataDir(str(odd)), PROJECT) as found:
        assert found.list_newest()


def test_a_store_that_is_just_being_made_holds_nothing_yet(place: DataDir) -> None:
    """Whoever drains first makes it; a hook that looks in between has nothing to complain of."""
    db = sqlite3.connect(place.db)
    db.execute("PRAGMA journal_mode = WAL")
    db.commit()
    db.close()
    with ReadOnlyRules(place, PROJECT) as look:
        assert (look.list_newest(), look.list_of_sessions(["s1"]), look.count()) == ([], [], 0)
        assert (look.find_numbers("pnpm"), look.get_numbered([1]), look.get(["rul_1"])) == ([], [], [])
