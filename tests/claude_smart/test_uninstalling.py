"""What an installation says when nothing is done, and what a purge leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alma import trust_register

from .conftest import Person


def test_an_installation_that_is_not_confirmed_says_so(
    person: Person, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers("", "", "")
    said = person.types("install")
    assert said.code == 1
    assert "Nothing was changed. To go ahead, run it again and answer y: claude-smart install" in said.out


def test_a_purge_leaves_no_register_of_trusted_files(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    person.types("tag", "Use pnpm")
    assert trust_register.register_path().exists()
    other = tmp_path / "other" / "alma"
    other.mkdir(parents=True)
    trust_register.record_created_files(other / "alma.db")
    assert person.types("uninstall", "--purge", "--yes").code == 0
    register = trust_register.read_register()
    assert register.created == {str(other / "alma.db")}
    trust_register.forget_files(other)
    assert not trust_register.register_path().exists()
