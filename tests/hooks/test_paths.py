from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.hooks.paths import DataDir, NoHomeError, digest, file_name, find_data_dir, write_private


def test_home_is_a_folder_of_the_person(tmp_path: Path) -> None:
    place = find_data_dir({"HOME": str(tmp_path)})
    assert place.home == str(tmp_path / ".claude-smart")
    assert place.sessions == str(tmp_path / ".claude-smart" / "sessions")


def test_both_folders_can_be_set(tmp_path: Path) -> None:
    usual, other = tmp_path / ".claude-smart", tmp_path / "other"
    for folder, settings in ((usual, {"home": str(other)}), (other, {"state_dir": str(tmp_path / "journals")})):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(settings))
    place = find_data_dir({"HOME": str(tmp_path)})
    assert place.home == str(other)
    assert place.sessions == str(tmp_path / "journals")


def test_without_home_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alma.processes.find_system_home", lambda: "/")
    assert find_data_dir({}).home == "/.claude-smart"
    monkeypatch.setattr("alma.processes.find_system_home", lambda: "")
    monkeypatch.delenv("HOME")
    with pytest.raises(NoHomeError):
        find_data_dir({})


@pytest.mark.parametrize("session", ["3f2a-77", "A.b_c-d", "x" * 100])
def test_a_plain_session_id_is_its_file_name(session: str) -> None:
    assert DataDir("/h").journal_file(session) == f"/h/sessions/{session}.jsonl"


@pytest.mark.parametrize(
    "session",
    ["../../etc/passwd", "/abs", "a/b", "a\\b", "", ".hidden", "-rf", "con", "NUL.x", "com1", "x" * 101, "a\0b", "ä"],
)
def test_any_other_is_replaced_by_its_digest(session: str) -> None:
    assert file_name(session) == f"x-{hashlib.sha256(session.encode()).hexdigest()[:32]}"


@given(st.text())
def test_a_journal_is_always_in_the_sessions_folder(session: str) -> None:
    place = DataDir("/h")
    assert os.path.dirname(os.path.abspath(place.journal_file(session))) == place.sessions
    assert os.path.dirname(os.path.abspath(place.shown_file(session))) == place.sessions


def test_a_digest_tells_its_parts_apart() -> None:
    assert len(digest("a")) == 32
    assert digest("ab", "c") != digest("a", "bc")


def test_folders_are_made_for_their_owner(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path / "a" / "home"))
    place.create_folders()
    assert Path(place.home).stat().st_mode & 0o777 == 0o700
    assert Path(place.sessions).stat().st_mode & 0o777 == 0o700


def test_a_file_is_replaced_as_a_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "a.json", tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / f"a.json.{os.getpid()}").symlink_to(elsewhere)
    write_private(str(path), b"new")
    assert (path.read_bytes(), elsewhere.read_text()) == (b"new", "mine")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "elsewhere"]
