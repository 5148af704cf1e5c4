from __future__ import annotations

from pathlib import Path

from alma.hooks import journal
from alma.hooks.paths import DataDir


def test_what_was_shown_is_remembered_until_the_next_start(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path))
    place.create_folders()
    assert journal.read_shown(place, "s") == set()
    journal.write_shown(place, "s", ["a", "b"], is_new=True)
    journal.write_shown(place, "s", ["c"])
    assert journal.read_shown(place, "s") == {"a", "b", "c"}
    journal.write_shown(place, "s", ["d"], is_new=True)
    assert journal.read_shown(place, "s") == {"d"}
    assert Path(place.shown_file("s")).stat().st_mode & 0o777 == 0o600


def test_a_subagent_has_a_context_of_its_own(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path))
    place.create_folders()
    journal.write_shown(place, "s", ["a"])
    journal.write_shown(place, "s", ["b"], "agent 1")
    assert journal.read_shown(place, "s") == {"a"}
    assert journal.read_shown(place, "s", "agent 1") == {"b"}
    assert journal.read_shown(place, "s", "agent 2") == set()
