"""Several processes on one database; the full size is `python -m benchmarks.durability`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.durability import killed, seen_at_once, together

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore
from alma.types.record import Record

pytestmark = pytest.mark.system


def test_processes_that_learn_at_once_count_exactly(tmp_path: Path) -> None:
    found = together(tmp_path, processes=4, each=30, embedder="hash")
    assert found.holds, found


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    found = killed(tmp_path, kills=5, embedder="hash")
    assert found.acknowledged >= 5
    assert found.holds, found


def test_a_running_process_finds_what_another_just_wrote(tmp_path: Path) -> None:
    assert seen_at_once(tmp_path, 5, "hash") == 5


@pytest.mark.parametrize(
    ("kind", "fields", "others"),
    [
        ("domain_knowledge", {"domain": "ops", "fact": "Backups run at night"}, {}),
        ("user_preference", {"user_id": "ana", "category": "tone", "preference": "Short answers"}, {}),
        ("rule", {"rule": "Use pnpm in this house"}, {}),
        # Two values of one key: the later one replaces the other.
        (
            "user_preference",
            {"user_id": "ana", "category": "editor", "preference": "vim", "attribute": "editor"},
            {"preference": "emacs"},
        ),
    ],
)
def test_what_two_processes_add_at_the_same_moment_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fields: dict[str, str], others: dict[str, str]
) -> None:
    one, other = (ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") for _ in range(2))
    agent = {} if kind == "user_preference" else {"agent": "dev"}
    # The first vectors of a store are a conflict by themselves.
    one.add_domain_knowledge("dev", "ops", "Something else")
    before, put = {memory.id for memory in one.list(kind)}, one.engine.store.put

    def put_later(records: Sequence[Record]) -> None:
        """Let the other process be faster: it adds the same when this one has found that nothing is there."""
        monkeypatch.undo()
        getattr(other, f"add_{kind}")(**agent, **fields | others)
        put(records)

    monkeypatch.setattr(one.engine.store, "put", put_later)
    added = getattr(one, f"add_{kind}")(**agent, **fields)
    assert {memory.id for memory in other.list(kind)} - before == {added.id}


def test_a_value_that_is_stated_again_is_the_only_one_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") for _ in range(2))
    about: Any = {"user_id": "ana", "category": "editor", "attribute": "editor"}
    one.update(one.add_user_preference(**about, preference="vim").id, status="archived")
    put = one.engine.store.put

    def put_later(records: Sequence[Record]) -> None:
        monkeypatch.undo()
        other.add_user_preference(**about, preference="emacs")
        put(records)

    monkeypatch.setattr(one.engine.store, "put", put_later)
    one.add_user_preference(**about, preference="vim")
    assert [memory.preference for memory in other.list("user_preference")] == ["vim"]


@pytest.mark.parametrize(("project", "number"), [("app", 300), ("other", 1)])
def test_what_others_add_meanwhile_does_not_hold_up_an_import_or_another_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: str, number: int
) -> None:
    one = ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app")
    other = ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id=project)
    one.add_domain_knowledge("dev", "ops", "Something else")
    put, puts = one.engine.store.put, []

    def put_later(records: Sequence[Record]) -> None:
        for at in range(70):
            other.add_domain_knowledge("dev", "ops", f"Meanwhile, thing {at} happened")
        puts.append(len(records))
        put(records)

    monkeypatch.setattr(one.engine.store, "put", put_later)
    rows = [{"type": "domain_knowledge", "agent": "dev", "domain": "x", "fact": f"Fact {at}"} for at in range(number)]
    assert len(one.add_many(rows)) == number
    assert len(puts) == 1
