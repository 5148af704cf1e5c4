from __future__ import annotations

import json
from pathlib import Path

import pytest

from alma.hooks import journal
from alma.hooks.paths import DataDir


@pytest.fixture
def place(tmp_path: Path) -> DataDir:
    return DataDir(str(tmp_path / "home"))


def test_a_cleared_session_is_adopted_in_its_folder(place: DataDir) -> None:
    journal.remember_cleared(place, "/w/a", "s1")
    journal.remember_cleared(place, "/w/b", "s2")
    assert journal.find_cleared(place, "/w/a", "s3") == "s1"
    assert journal.find_cleared(place, "/w/b", "s3") == "s2"
    assert journal.find_cleared(place, "/w/c", "s3") == ""
    assert journal.find_cleared(place, "/w/a", "s1") == ""


def test_a_minute_later_it_is_forgotten(place: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.remember_cleared(place, "/w/a", "s1")
    now = journal.time.time()
    monkeypatch.setattr(journal.time, "time", lambda: now + 61)
    assert journal.find_cleared(place, "/w/a", "s2") == ""
    journal.remember_cleared(place, "/w/b", "s3")
    assert list(json.loads(Path(place.cleared).read_text())) == ["/w/b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"cwd": "/w"}',
        '{"cwd": "/w", "session": "s", "at": "now"}',
        '{"/w": 3}',
        '{"/w": {"session": 1, "at": NOW}}',
        '{"/w": {"session": "s"}}',
        '{"/w": {"session": "s", "at": "now"}}',
        f'{{"/w": {{"session": "s", "at": 1{"0" * 400}}}}}',
    ],
)
def test_a_damaged_file_says_nothing(place: DataDir, text: str) -> None:
    place.create_folders()
    Path(place.cleared).write_text(text.replace("NOW", str(journal.time.time())))
    assert journal.find_cleared(place, "/w", "s1") == ""
    journal.remember_cleared(place, "/w", "s1")
    assert journal.find_cleared(place, "/w", "s2") == "s1"
    assert Path(place.cleared).stat().st_mode & 0o777 == 0o600
