"""The plug-in in the real Claude Code: it validates, it is installed and taken out, its hooks are fired."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from claude_smart import install as installer

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "smart@claude-smart"


def of(event: str, journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line["data"] for line in journal if line["event"] == event]


def test_it_validates(person: Any) -> None:
    for folder in (ROOT / "plugin", ROOT):
        done = person.claude("plugin", "validate", str(folder), "--strict")
        assert done.returncode == 0, done.stdout


def test_the_plug_in_has_the_version_of_the_distribution() -> None:
    manifest = json.loads((ROOT / "plugin" / ".claude-plugin" / "plugin.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert manifest["version"] == project["version"]


def test_every_event_is_recorded_with_what_the_host_says_of_it(person: Any) -> None:
    shop = person.project("shop", "git@github.com:acme/shop.git")
    tool = person.home / "bin" / "suite"
    tool.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = "--run" ]; then echo "12 passed"; exit 0; fi\n'
        'echo "error: watch mode needs a terminal; pass --run" >&2\nexit 2\n'
    )
    tool.chmod(0o755)
    said = person.says(
        "run the tests",
        shop,
        {"when": "run the tests", "bash": "suite"},
        {"when": "watch mode", "bash": "suite --run"},
        {"when": "12 passed", "text": "All is well."},
        options=["--allowedTools", "Bash"],
    )
    assert said.result == "All is well."
    journal = person.journal(said.id)
    assert [line["event"] for line in journal if line["event"] != "Shown"] == [
        "Journal",
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUseFailure",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    assert {line["project"] for line in journal[1:]} == {"git:github.com/acme/shop"}
    assert {line["session"] for line in journal} == {said.id}
    assert of("SessionStart", journal)[0]["source"] == "startup"
    assert of("UserPromptSubmit", journal)[0]["prompt"] == "run the tests"
    (failure,) = of("PostToolUseFailure", journal)
    assert failure["tool_input"]["command"] == "suite"
    assert failure["error"].startswith("Exit code 2")
    assert of("PostToolUse", journal)[0]["output"] == "12 passed"
    assert of("Stop", journal)[0]["last_assistant_message"] == "All is well."
    assert person.complaints() == []

    # The next session sees what failed and what worked, and the host refuses a call of its own accord.
    person.learn()
    assert person.rules(shop) == []
    said = person.says("clean up", shop, {"bash": "make deploy"}, options=["--permission-mode", "auto"])
    told = said.shown.rpartition("SessionStart hook additional context: ")[2]
    assert "`suite` failed once, `suite --run` worked once" in told
    assert "The user stated these rules" not in told
    (denied,) = of("PermissionDenied", person.journal(said.id))
    assert denied["tool_input"]["command"] == "make deploy"
    assert denied["reason"]


def test_a_disabled_plug_in_does_nothing(person: Any) -> None:
    person.more["CLAUDE_SMART_DISABLE"] = "1"
    assert person.says("hello", person.project("shop")).result == "ok"
    assert not (person.smart_home / "sessions").exists()


def test_without_its_code_it_keeps_quiet_and_says_so_in_the_log(person: Any, tmp_path: Path) -> None:
    person.plugin = tmp_path / "half"
    shutil.copytree(ROOT / "plugin", person.plugin)
    name_home(person, person.plugin)
    said = person.says("hello", person.project("shop"))
    assert (said.result, said.code) == ("ok", 0)
    assert "hook additional context" not in said.shown
    assert all("the code of claude-smart was not found" in line for line in person.complaints())
    assert person.complaints()


# -- the marketplace way


def name_home(person: Any, plugin: Path) -> None:
    """Let the plugin use the data folder of the test: without an installation it is the system's home folder."""
    (plugin / "runtime.json").write_text(json.dumps({"home": str(person.smart_home)}))


@pytest.fixture
def clone(person: Any, tmp_path: Path) -> Path:
    """What somebody has who cloned the repository, and did nothing else. The model is left out: it is large."""
    folder = tmp_path / "a clone's folder"
    ignored = shutil.ignore_patterns("__pycache__", "*.onnx", "tokenizer.json")
    for name in ("plugin", "src", ".claude-plugin"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    name_home(person, folder / "plugin")
    return folder


def installed(person: Any, source: str) -> None:
    person.plugin = None
    for arguments in (("marketplace", "add", source), ("install", PLUGIN)):
        done = person.claude("plugin", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


def taken_out(person: Any) -> None:
    for arguments in (("uninstall", PLUGIN), ("marketplace", "remove", "claude-smart")):
        done = person.claude("plugin", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_clone_is_a_marketplace_and_a_headless_run_teaches_nothing(person: Any, clone: Path) -> None:
    shop = person.project("shop")
    person.set(programs="off", embedding="off")
    installed(person, str(clone))
    with person.session(shop) as session:
        said = session.says("no, use pnpm here instead of npm, because npm breaks the lock file")
        session.says("/smart:tag always use npm")
    journal = person.journal(said.id)
    assert len(of("Stop", journal)) == 2
    assert {line["entry"] for line in journal[1:]} == {"sdk-cli"}
    person.learn()
    assert person.rules(shop) == []
    assert person.complaints() == []
    taken_out(person)
    settings = json.loads((person.home / ".claude" / "settings.json").read_text())
    assert not settings["enabledPlugins"]
    assert not settings["extraKnownMarketplaces"]


def test_a_repository_is_a_marketplace(person: Any, clone: Path) -> None:
    """The host copies the plug-in away from its clone: the code must be found there."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=clone, check=True, capture_output=True)
    address = "https://example.invalid/alma.git"
    (person.home / ".gitconfig").write_text(
        f'[url "{clone.as_uri()}"]\n\tinsteadOf = {address}\n[protocol "file"]\n\tallow = always\n'
    )
    installed(person, address)
    shutil.rmtree(clone)
    shop = person.project("shop")
    said = person.says("/tag use tabs", shop)
    assert person.complaints() == []
    assert len(of("Stop", person.journal(said.id))) == 1
    assert re.search(r"claude-smart answers /tag:.*use tabs", said.shown, re.DOTALL)


# -- our own installer


def test_what_claude_smart_installs_works_in_the_host_and_goes_without_a_trace(person: Any, snapshot: Any) -> None:
    """With nothing but absolute paths: no `python3` is on the path, and the home has a difficult name."""
    person.plugin = None
    person.home = person.home.parent / 'Zoë\'s "home" $HOME'
    person.home.mkdir()
    person.set(programs="on", embedding="off")
    person.more["PATH"] = str(person.home)
    settings = person.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(b'{\n\t"cleanupPeriodDays": 30\n}')
    setup = installer.find_setup(person.environ)
    installer.plan_install(setup).apply()
    written = settings.read_bytes()

    shop = person.project("shop")
    assert person.smart("tag", "use tabs", cwd=shop).returncode == 0
    said = person.says("/tag write tests first", shop)
    assert settings.read_bytes() == written, "the host leaves it as we wrote it"
    assert "Stored as a rule" in said.shown
    assert "use tabs" in said.shown, "told at the start"
    assert person.complaints() == []

    person.learn()
    installer.plan_uninstall(setup).apply()
    assert settings.read_bytes() == b'{\n\t"cleanupPeriodDays": 30\n}'
    books = snapshot(person.home / ".claude" / "plugins")
    assert not [name for name, text in books.items() if b"claude-smart" in text or "claude-smart" in name]
    assert "use tabs" not in person.says("hello", shop).shown
    learned = [rule["rule"] for rule in person.rules(shop)]
    assert learned == ["use tabs", "write tests first"], "what was learned stays"
