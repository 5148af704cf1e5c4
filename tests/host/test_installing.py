"""`claude-smart install`, `update` and `uninstall`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.paths import SENT
from claude_smart import install
from claude_smart.cli import main

pytestmark = pytest.mark.system

SETTINGS = '{\n  "model": "opus"\n}\n'
Snapshot = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR",):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A person at the terminal who will say this."""

    def given(*said: str) -> None:
        left = list(said)
        monkeypatch.setattr(install.sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: left.pop(0))

    return given


def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    home: Path, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home)
    assert main(["install", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"change {home / '.claude' / 'settings.json'}" in out
    assert '+  "enabledPlugins": {' in out
    assert f"files in {home / '.claude-smart'}" in out
    assert snapshot(home) == before


def test_installing_and_uninstalling_is_as_if_nothing_had_been(home: Path, snapshot: Snapshot) -> None:
    before = snapshot(home)
    assert main(["install", "--yes"]) == 0
    assert main(["update", "--yes"]) == 0
    assert main(["uninstall", "--yes"]) == 0
    assert snapshot(home) == before


def test_nothing_is_changed_where_nobody_can_be_asked(
    home: Path, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(home)
    assert main(["install"]) == 1
    assert "Pass --yes to confirm" in capsys.readouterr().out
    assert main(["install", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["done"] is False
    assert snapshot(home) == before


def test_all_texts_name_the_same_things_that_are_sent(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(install.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or "n")
    main(["install"])
    assert questions[0].endswith("\nLet Claude read your corrections? Enter means yes. [Y/n] ")
    assert questions[1].startswith("\nGo ahead?")
    capsys.readouterr()
    main(["config", "model", "on"])
    on = capsys.readouterr().out
    main(["status"])
    root = Path(__file__).parents[2]
    pages = (root / "docs" / "explanation" / "claude-smart.md", root / "plugin" / "README.md")
    texts = (questions[0], on, capsys.readouterr().out, *(" ".join(page.read_text("utf-8").split()) for page in pages))
    assert [one for text in texts for one in SENT if one not in text] == []


def test_the_changes_are_listed_before_the_questions(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []
    monkeypatch.setattr(install.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: printed.append(capsys.readouterr().out) or "n")
    assert main(["install"]) == 1
    assert "These changes will be made:" in printed[0]
    assert printed[1] == ""
    assert not (home / ".claude-smart" / "config.json").exists()


@pytest.mark.parametrize(("said", "model"), [(("", "y"), "on"), (("n", "y"), "off"), (("y", "y"), "on")])
def test_installing_asks_once_whether_claude_may_read(
    home: Path, answers: Any, said: tuple[str, ...], model: str | None
) -> None:
    answers(*said)
    assert main(["install"]) == 0
    config = home / ".claude-smart" / "config.json"
    assert (json.loads(config.read_text()).get("model") if config.exists() else None) == model


def test_who_answered_is_not_asked_again(home: Path, answers: Any) -> None:
    answers("n", "y")
    assert main(["install"]) == 0
    answers()
    assert main(["install"]) == 0, "nothing to do, and nothing to ask"


@pytest.mark.parametrize(("flags", "model"), [((), None), (("--model",), "on"), (("--no-model",), "off")])
def test_where_nobody_is_asked_claude_reads_only_by_a_flag(
    home: Path, flags: tuple[str, ...], model: str | None
) -> None:
    assert main(["install", "--yes", *flags]) == 0
    config = home / ".claude-smart" / "config.json"
    assert json.loads(config.read_text()).get("model") == model


def test_leave_to_reword_notes_is_no_leave_to_read_sessions(home: Path, answers: Any) -> None:
    config = home / ".claude-smart" / "config.json"
    config.parent.mkdir()
    config.write_text('{"model": "claude"}')
    answers("y", "y")
    assert main(["install"]) == 0
    assert json.loads(config.read_text())["model"] == "on"


def test_a_no_changes_nothing(home: Path, answers: Any, snapshot: Snapshot) -> None:
    before = snapshot(home)
    answers("y", "n")
    assert main(["install"]) == 1
    assert snapshot(home) == before


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_purge_names_what_stays_and_leaves_nothing_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_edited: bool
) -> None:
    shop = home / "shop"
    (shop / ".git").mkdir(parents=True)
    monkeypatch.chdir(shop)
    main(["install", "--yes"])
    main(["tag", "use tabs"])
    main(["tag", "write tests first"])
    main(["export", "AGENTS.md"])
    id, file = shop / ".git" / "claude-smart-id", shop / "AGENTS.md"
    assert id.exists()
    capsys.readouterr()
    assert main(["uninstall", "--purge", "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"remove {id}" in out
    assert f"  {file}: claude-smart export AGENTS.md --remove" in out
    assert out.endswith("Removed. Nothing learned or recorded is left.\n")
    assert not id.exists()
    assert not (home / ".claude-smart").exists()
    if is_edited:
        file.write_text(file.read_text().replace("use tabs", "use spaces"))
        assert main(["export", "AGENTS.md", "--remove"]) == 1
        problem = capsys.readouterr().err
        assert "use spaces (new)" in problem
        assert "write tests first" not in problem
    else:
        assert main(["export", "AGENTS.md", "--remove"]) == 0
        assert capsys.readouterr().out == "Removed the block of rules from AGENTS.md.\n"
        assert not file.exists()
    assert not id.exists()
    assert not (home / ".claude-smart").exists()


def test_the_choice_about_the_model_outlives_an_update_and_ends_with_the_installation(home: Path) -> None:
    config = home / ".claude-smart" / "config.json"
    main(["install", "--yes", "--model"])
    main(["update", "--yes"])
    main(["install", "--yes"])
    assert json.loads(config.read_text())["model"] == "on"
    main(["uninstall", "--yes"])
    assert not config.exists()


def test_programs_are_told_every_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["done"] is True
    changes = {change["path"]: change["change"] for change in told["changes"]}
    assert changes[str(home / ".claude" / "settings.json")] == "change"
    assert changes[str(home / ".claude-smart" / "runtime.json")] == "create"
    assert all(Path(path).exists() for path in changes)


def test_what_cannot_be_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["update", "--yes"]) == 1
    assert "run: claude-smart install" in capsys.readouterr().err
    assert main(["uninstall", "--yes"]) == 0
    assert "claude-smart is not installed." in capsys.readouterr().out
    (home / ".claude" / "settings.json").write_text("{,}")
    assert main(["install", "--yes"]) == 1
    assert "is not valid JSON" in capsys.readouterr().err
    assert (home / ".claude" / "settings.json").read_text() == "{,}"
