"""A store that cannot be written, opened or believed: an error that says what to do, and nothing half-written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.errors import BusyError, ConflictError, CorruptStoreError, NewerStoreError, ReadOnlyError, StorageFullError
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.record import Record, cosine

GOOD = {"agent": "dev", "task": "Deploy auth service", "outcome": "success", "strategy_used": "Canary"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ALMA(SQLiteStore(tmp_path / "a.db"), HashEmbedder()) as alma:
        alma.learn(**GOOD)
    return tmp_path / "a.db"


def test_what_cannot_be_written_can_still_be_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ALMA(SQLiteStore(path, read_only=True), HashEmbedder()) as alma:
        seen = alma.retrieve("Deploy auth service", "dev")
        assert seen.total_items == 1
        assert seen.retrieval_id is None
        assert "could not record" in caplog.text
        with pytest.raises(ReadOnlyError):
            alma.learn(**GOOD)


def test_what_stays_locked_can_still_be_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with ALMA(SQLiteStore(path, busy_timeout=0.05), HashEmbedder()) as alma:
            seen = alma.retrieve("Deploy auth service", "dev")
            assert seen.total_items == 1
            with pytest.raises(BusyError):
                alma.learn(**GOOD)
        # Nobody let it write until it was closed.
        assert f"could not record these retrievals: {seen.retrieval_id}" in caplog.text
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_writer_that_others_overtake_tries_again_after_short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overtaken(MemoryStore):
        tries = 0

        def put(self, records: Sequence[Record]) -> None:
            self.tries += 1
            if self.tries <= 10:
                raise ConflictError(records[0].id)
            super().put(records)

    pauses: list[float] = []
    monkeypatch.setattr("alma.engine.transaction.time.sleep", pauses.append)
    monkeypatch.setattr("alma.engine.transaction.random.uniform", lambda shortest, longest: longest)
    with ALMA(Overtaken(), HashEmbedder()) as alma:
        alma.learn(**GOOD)
        assert len(alma.list("outcome")) == 1
    assert len(pauses) == 10
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.001, 0.05)


def test_words_are_looked_for_among_texts_that_have_none() -> None:
    with ALMA(MemoryStore()) as alma:
        alma.add_domain_knowledge("dev", "signs", "§ ¶ ±")
        assert alma.retrieve("use", "dev").total_items == 0


def test_a_full_disk_changes_nothing_and_is_got_over(path: Path) -> None:
    with ALMA(SQLiteStore(path), HashEmbedder()) as alma:
        with alma.engine.store._db.use() as db:  # type: ignore[attr-defined]
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages}")
        facts = [{"type": "domain_knowledge", "agent": "dev", "domain": "d", "fact": f"{n} " * 2000} for n in range(50)]
        with pytest.raises(StorageFullError, match="free some space"):
            alma.add_many(facts)
        assert alma.get_stats()["total_count"] == 1
        with alma.engine.store._db.use() as db:  # type: ignore[attr-defined]
            db.execute("PRAGMA max_page_count = 1073741823")
        assert len(alma.add_many(facts)) == 50


def test_a_database_of_a_newer_version_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(NewerStoreError, match="99"):
        SQLiteStore(path)


@pytest.mark.parametrize("damage", [b"not a database at all, just text" * 100, os.urandom(8192)])
def test_a_file_that_is_no_database_is_named(path: Path, damage: bytes) -> None:
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    path.write_bytes(damage)
    with pytest.raises(CorruptStoreError, match="alma doctor"):
        SQLiteStore(path)
    assert path.read_bytes() == damage


def test_long_texts_are_found_by_their_end(tmp_path: Path) -> None:
    """Nothing is cut off unseen: a long text is embedded passage by passage."""
    filler = "The quarterly numbers were discussed at length by everybody in the room. " * 60
    with ALMA(SQLiteStore(tmp_path / "b.db"), LocalEmbedder()) as alma:
        alma.add_domain_knowledge("dev", "minutes", filler + "Zebra migration starts on Thursday.")
        seen = alma.retrieve("When does the zebra migration start?", "dev")
        assert seen.total_items == 1
        [kept] = alma.engine.store.get([seen.domain_knowledge[0].id])
        assert len(kept.vectors) > 1
        [asked] = LocalEmbedder().embed(["When does the zebra migration start?"])
        assert cosine(asked, kept.vectors[0]) < cosine(asked, kept.vectors[-1])
