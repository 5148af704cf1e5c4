from __future__ import annotations

import json
from pathlib import Path

import pytest

from alma.hooks import cleared
from alma.hooks.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "home"))


def test_a_cleared_session_is_adopted_in_its_folder(place: Place) -> None:
    cleared.remember(place, "/w/a", "s1")
    cleared.remember(place, "/w/b", "s2")
    assert cleared.adopted(place, "/w/a", "s3") == "s1"
    assert cleared.adopted(place, "/w/b", "s3") == "s2"
    assert cleared.adopted(place, "/w/c", "s3") == ""
    assert cleared.adopted(place, "/w/a", "s1") == ""


def test_a_minute_later_it_is_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared.remember(place, "/w/a", "s1")
    now = cleared.time.time()
    monkeypatch.setattr(cleared.time, "time", lambda: now + 61)
    assert cleared.adopted(place, "/w/a", "s2") == ""
    cleared.remember(place, "/w/b", "s3")
    assert list(json.loads(Path(place.cleared).read_text())) == ["/w/b"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"/w": 3}', '{"/w": {"session": 1, "at": 2}}', '{"/w": {"session": "s"}}']
)
def test_a_damaged_file_says_nothing(place: Place, text: str) -> None:
    place.make()
    Path(place.cleared).write_text(text)
    assert cleared.adopted(place, "/w", "s1") == ""
    cleared.remember(place, "/w", "s1")
    assert cleared.adopted(place, "/w", "s2") == "s1"
    assert Path(place.cleared).stat().st_mode & 0o777 == 0o600
