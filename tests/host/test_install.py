"""Installing changes what it says and nothing else, and uninstalling undoes all of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from alma.errors import ConfigError
from claude_smart import install as installer

pytestmark = pytest.mark.system

Snapshot = Callable[[Path], dict[str, bytes]]
SETTINGS = '{\n\t"model": "opus",\n\t"env": {"A": "1"}\n}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "the home of 'Zoë' \"Z\""
    folder.mkdir()
    return folder


def setup(home: Path, **more: str) -> installer.Setup:
    return installer.find_setup({"HOME": str(home), "USERPROFILE": str(home), **more})


def settings_of(home: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((home / ".claude" / "settings.json").read_text(encoding="utf-8"))
    return held


def given_settings(home: Path, text: str) -> Path:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{}",
        "{}\n",
        SETTINGS,
        SETTINGS.replace("\n", "\r\n"),
        '{"enabledPlugins":{"other@there":true}}',
        '{"extraKnownMarketplaces": {}, "enabledPlugins": {}}',
    ],
)
def test_uninstalling_leaves_everything_as_it_was(home: Path, snapshot: Snapshot, text: str | None) -> None:
    if text is not None:
        given_settings(home, text)
    before = snapshot(home)
    installer.plan_install(setup(home), {"model": "on"}).apply()
    held = settings_of(home)
    assert held["enabledPlugins"]["smart@claude-smart-local"] is True
    source = held["extraKnownMarketplaces"]["claude-smart-local"]["source"]
    assert source == {"source": "directory", "path": str(home / ".claude-smart" / "marketplace")}
    assert json.loads((home / ".claude-smart" / "config.json").read_text()) == {"model": "on"}
    installer.plan_uninstall(setup(home)).apply()
    assert snapshot(home) == before
    assert not (home / ".claude-smart").exists()


def test_what_somebody_else_changed_in_between_stays(home: Path) -> None:
    file = given_settings(home, SETTINGS)
    installer.plan_install(setup(home)).apply()
    # As the host writes it anew when a person changes a setting.
    file.write_text(json.dumps({**settings_of(home), "theme": "dark"}, indent=2))
    installer.plan_uninstall(setup(home)).apply()
    assert settings_of(home) == {**json.loads(SETTINGS), "theme": "dark"}


def test_the_hosts_own_books_are_cleaned(home: Path) -> None:
    installer.plan_install(setup(home)).apply()
    plugins = home / ".claude" / "plugins"
    (plugins / "cache" / "claude-smart-local" / "smart" / "1").mkdir(parents=True)
    (plugins / "cache" / "claude-smart-local" / "smart" / "1" / "x").write_text("x")
    (plugins / "known_marketplaces.json").write_text('{"claude-smart-local": {}, "other": {}}')
    (plugins / "installed_plugins.json").write_text('{"version": 2, "plugins": {"smart@claude-smart-local": []}}')
    installer.plan_uninstall(setup(home)).apply()
    assert not (plugins / "cache" / "claude-smart-local").exists()
    assert json.loads((plugins / "known_marketplaces.json").read_text()) == {"other": {}}
    assert json.loads((plugins / "installed_plugins.json").read_text()) == {"version": 2, "plugins": {}}


def test_installing_twice_changes_nothing_the_second_time(home: Path) -> None:
    installer.plan_install(setup(home)).apply()
    assert not installer.plan_install(setup(home))


def test_the_hooks_name_this_interpreter_and_the_code_of_this_installation(home: Path) -> None:
    installer.plan_install(setup(home)).apply()
    plugin = home / ".claude-smart" / "marketplace" / "plugin"
    groups = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"].values()
    hooks = [hook for group in groups for entry in group for hook in entry["hooks"]]
    assert all("args" not in hook for hook in hooks), "other agents start the bare command"
    commands = [shlex.split(hook["command"]) for hook in hooks]
    assert {command[0] for command in commands if "-S" not in command} == {os.path.abspath(sys.executable)}
    (plain,) = {command[0] for command in commands if "-S" in command}
    assert os.path.isfile(plain)
    assert os.path.isabs(plain)
    runtime = json.loads((home / ".claude-smart" / "runtime.json").read_text())
    assert runtime["python"] == os.path.abspath(sys.executable)
    assert os.path.isfile(os.path.join(runtime["path"], "alma", "hooks", "run.py"))


def test_an_update_brings_new_code_under_a_new_version_and_takes_old_files_away(home: Path, tmp_path: Path) -> None:
    old = setup(home)
    installer.plan_install(old).apply()
    manifest = old.marketplace / "plugin" / ".claude-plugin" / "plugin.json"
    first = json.loads(manifest.read_text())["version"]
    (old.marketplace / "plugin" / "left-over.py").write_text("")
    new = old._replace(base_python=str(tmp_path / "another" / "python"))
    installer.plan_install(new).apply()
    assert json.loads(manifest.read_text())["version"] != first
    assert not (old.marketplace / "plugin" / "left-over.py").exists()
    installer.plan_uninstall(setup(home)).apply()
    assert not (home / ".claude" / "settings.json").exists(), "the first installation made it, and that is remembered"


@pytest.mark.parametrize("text", ['{"a": 1,}', "[]", "{", ""])
def test_settings_that_are_no_json_are_refused_and_left_alone(home: Path, snapshot: Snapshot, text: str) -> None:
    given_settings(home, text)
    before = snapshot(home)
    with pytest.raises(ConfigError, match=r"settings.json .*nothing was changed"):
        installer.plan_install(setup(home))
    assert snapshot(home) == before


def test_settings_with_something_else_in_our_place_are_refused(home: Path) -> None:
    given_settings(home, '{"enabledPlugins": []}')
    with pytest.raises(ConfigError, match="`enabledPlugins` must be a JSON object"):
        installer.plan_install(setup(home))


@pytest.mark.parametrize("other", ["smart@claude-smart", "claude-smart@somewhere"])
def test_it_is_not_installed_beside_another_of_its_kind(home: Path, other: str) -> None:
    given_settings(home, json.dumps({"enabledPlugins": {other: True}}))
    with pytest.raises(ConfigError, match=f"claude plugin uninstall {other}"):
        installer.plan_install(setup(home))
    given_settings(home, json.dumps({"enabledPlugins": {other: False}}))
    assert installer.plan_install(setup(home))


def test_settings_that_are_a_link_stay_one(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(SETTINGS)
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").symlink_to(real)
    installer.plan_install(setup(home)).apply()
    assert (home / ".claude" / "settings.json").is_symlink()
    assert "smart@claude-smart-local" in real.read_text()
    installer.plan_uninstall(setup(home)).apply()
    assert real.read_text() == SETTINGS


def test_another_claude_folder_is_found_again_when_it_is_uninstalled(home: Path, tmp_path: Path) -> None:
    there = tmp_path / "claude config"
    installer.plan_install(setup(home, CLAUDE_CONFIG_DIR=str(there))).apply()
    assert "smart@claude-smart-local" in (there / "settings.json").read_text()
    assert not (home / ".claude").exists()
    installer.plan_uninstall(setup(home)).apply()
    assert not (there / "settings.json").exists()


def test_what_was_learned_stays_unless_it_is_purged_and_what_is_not_ours_always(home: Path) -> None:
    installer.plan_install(setup(home)).apply()
    kept = home / ".claude-smart"
    (kept / "sessions").mkdir()
    for name in ("memory.db", "sessions/s.jsonl", "sessions/s.shown", "hooks.log", "mine.txt", "sessions/mine.txt"):
        (kept / name).write_text("x")
    installer.plan_uninstall(setup(home)).apply()
    assert (kept / "memory.db").exists()
    installer.plan_uninstall(setup(home), purge=True).apply()
    left = sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file())
    assert left == ["mine.txt", "sessions/mine.txt"]


def test_a_home_without_anything_else_goes_when_it_is_purged(home: Path) -> None:
    installer.plan_install(setup(home)).apply()
    (home / ".claude-smart" / "sessions").mkdir()
    (home / ".claude-smart" / "memory.db").write_text("x")
    installer.plan_uninstall(setup(home), purge=True).apply()
    assert not (home / ".claude-smart").exists()


# -- the launchers


def fire(
    script: Path, home: Path, event: Mapping[str, Any], *flags: str, **more: str
) -> subprocess.CompletedProcess[str]:
    own = ["--home", str(home / ".claude-smart")] if ".claude-smart" not in script.parts else []
    environ = {"HOME": str(home), "USERPROFILE": str(home), "PATH": os.defpath, "CLAUDE_SMART_BACKEND_AUTOSTART": "0"}
    return subprocess.run(
        [sys.executable, "-I", *flags, str(script), *own],
        input=json.dumps(event),
        env={**environ, **more},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


PROMPT = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "hello", "prompt_id": "p"}


def test_the_installed_hook_goes_on_when_the_code_it_was_installed_from_is_gone(home: Path, tmp_path: Path) -> None:
    installer.plan_install(setup(home)).apply()
    smart = home / ".claude-smart"
    for runtime in (smart / "runtime.json", smart / "marketplace" / "plugin" / "runtime.json"):
        runtime.write_text(json.dumps({"home": str(smart), "python": "/gone/python", "path": "/gone"}))
    script = home / ".claude-smart" / "marketplace" / "plugin" / "hook.py"
    done = fire(script, home, {**PROMPT, "cwd": str(tmp_path)}, "-S")
    assert (done.returncode, done.stderr) == (0, "")
    assert "hello" in (home / ".claude-smart" / "sessions" / "s1.jsonl").read_text()


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"path": 7}', '{"path": ""}', '{"home": ["x"]}'])
def test_a_damaged_runtime_file_is_as_good_as_none(home: Path, tmp_path: Path, content: str) -> None:
    (home / ".claude-smart").mkdir()
    plugin = tmp_path / "plugin"
    shutil.copytree(setup(home).plugin, plugin)
    (plugin / "lib").symlink_to(setup(home).packages)
    (plugin / "runtime.json").write_text(content)
    script = plugin / "hook.py"
    done = fire(script, home, {**PROMPT, "cwd": str(tmp_path)}, "-S")
    assert (done.returncode, done.stderr) == (0, "")
    assert (home / ".claude-smart" / "sessions" / "s1.jsonl").exists()


def test_the_hook_never_takes_code_from_the_project(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for package in ("alma", "claude_smart"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("raise SystemExit(3)")
    (project / "runtime.json").write_text(json.dumps({"path": str(project)}))
    (project / "json.py").write_text("raise SystemExit(3)")
    script = setup(home).plugin / "hook.py"
    environ = {"PATH": os.defpath, "HOME": str(home), "CLAUDE_SMART_BACKEND_AUTOSTART": "0"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script), "--home", str(home / ".claude-smart")],
        input=json.dumps({**PROMPT, "cwd": str(project)}),
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (home / ".claude-smart" / "sessions" / "s1.jsonl").exists()


def test_the_launchers_are_understood_by_old_interpreters() -> None:
    import ast

    for name in ("hook.py", "smart.py", "spare.py"):
        source = (installer.find_setup({"HOME": "/"}).plugin / name).read_text()
        ast.parse(source, feature_version=(3, 7))
