from __future__ import annotations

from pathlib import Path

from alma.hooks import shown
from alma.hooks.place import Place


def test_what_was_shown_is_remembered_until_the_next_start(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.make()
    assert shown.read(place, "s") == set()
    shown.start(place, "s", ["a", "b"])
    shown.add(place, "s", ["c"])
    assert shown.read(place, "s") == {"a", "b", "c"}
    shown.start(place, "s", ["d"])
    assert shown.read(place, "s") == {"d"}
    assert Path(place.shown("s")).stat().st_mode & 0o777 == 0o600


def test_a_subagent_has_a_context_of_its_own(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.make()
    shown.add(place, "s", ["a"])
    shown.add(place, "s", ["b"], "agent 1")
    assert shown.read(place, "s") == {"a"}
    assert shown.read(place, "s", "agent 1") == {"b"}
    assert shown.read(place, "s", "agent 2") == set()
