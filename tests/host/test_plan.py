"""Changes are shown first, and then made all or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alma.errors import ALMAError, ConfigError
from alma.files import FileChange, apply_changes
from claude_smart.install import InstallPlan

pytestmark = pytest.mark.system


def test_a_plan_is_carried_out(tmp_path: Path) -> None:
    old, gone = tmp_path / "old", tmp_path / "folder" / "gone"
    old.write_bytes(b"1\n")
    gone.parent.mkdir()
    gone.write_bytes(b"x")
    new = tmp_path / "deep" / "er" / "new"
    changes = [FileChange(new, None, b"n"), FileChange(old, b"1\n", b"2\n"), FileChange(gone, b"x", None)]
    apply_changes(changes, [gone.parent])
    assert (new.read_bytes(), old.read_bytes(), gone.parent.exists()) == (b"n", b"2\n", False)
    if os.name != "nt":
        assert (new.stat().st_mode & 0o777, new.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b"{}")
    file.chmod(0o640)
    apply_changes([FileChange(file, b"{}", b'{"a": 1}')])
    assert file.stat().st_mode & 0o777 == 0o640


def test_nothing_is_done_when_a_file_is_not_what_was_planned_with(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"somebody else was here")
    with pytest.raises(ConfigError, match="changed by another program"):
        apply_changes([FileChange(other, None, b"x"), FileChange(file, b"before", b"after")])
    assert not other.exists()


def test_what_was_done_is_taken_back_when_something_fails(tmp_path: Path) -> None:
    file, made, blocked = tmp_path / "a", tmp_path / "sub" / "new", tmp_path / "blocked" / "b"
    file.write_bytes(b"before")
    blocked.parent.write_bytes(b"a file where a folder should be")
    changes = [FileChange(file, b"before", b"after"), FileChange(made, None, b"x"), FileChange(blocked, None, b"x")]
    with pytest.raises(ALMAError, match="blocked.b cannot be written .*Nothing was changed"):
        apply_changes(changes)
    assert file.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "blocked"]


def test_a_plan_counts_our_own_files_and_shows_what_changes_in_those_of_others(tmp_path: Path) -> None:
    own = tmp_path / "own"
    changes = (
        FileChange(own / "plugin" / "a", None, b"1"),
        FileChange(own / "plugin" / "b", None, b"2"),
        FileChange(tmp_path / "settings.json", b'{\n  "a": 1\n}\n', b'{\n  "a": 1,\n  "b": 2\n}\n'),
    )
    assert list(InstallPlan(changes).describe(own)) == [
        f"create 2 files in {own / 'plugin'}",
        f"change {tmp_path / 'settings.json'}",
        "    @@ -1,3 +1,4 @@",
        "     {",
        '    -  "a": 1',
        '    +  "a": 1,',
        '    +  "b": 2',
        "     }",
    ]
