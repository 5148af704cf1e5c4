from __future__ import annotations

from pathlib import Path

import pytest

from alma.hooks import journal
from alma.hooks.paths import DataDir


@pytest.fixture
def place(tmp_path: Path) -> DataDir:
    return DataDir(str(tmp_path / "home"))


def test_a_cleared_session_is_adopted_in_its_folder(place: DataDir) -> None:
    journal.remember_cleared(place, "/w/a", "s1")
    assert journal.find_cleared(place, "/w/a", "s3") == "s1"
    assert journal.find_cleared(place, "/w/c", "s3") == ""
    assert journal.find_cleared(place, "/w/a", "s1") == ""


def test_a_minute_later_it_is_forgotten(place: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.remember_cleared(place, "/w/a", "s1")
    now = journal.time.time()
    monkeypatch.setattr(journal.time, "time", lambda: now + 61)
    assert journal.find_cleared(place, "/w/a", "s2") == ""


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"/w": 3}', '{"/w": {"session": 1, "at": 2}}', '{"/w": {"session": "s"}}']
)
def test_a_damaged_file_says_nothing(place: DataDir, text: str) -> None:
    place.make()
    Path(place.cleared).write_text(text)
    assert journal.find_cleared(place, "/w", "s1") == ""
    journal.remember_cleared(place, "/w", "s1")
    assert journal.find_cleared(place, "/w", "s2") == "s1"
    assert Path(place.cleared).stat().st_mode & 0o777 == 0o600
