"""The server in the settings of clients: written where each looks, shown first, and undone."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from alma.errors import ConfigError
from alma.files import FileChange
from alma.mcp import clients
from alma.mcp.clients import CLIENTS, PROJECT, USER

COMMAND = ["/opt/python", "-m", "alma.mcp", "--config", "/srv/app/.alma/config.yaml"]
ALL = [(name, scope) for name, client in CLIENTS.items() for scope in ((PROJECT, USER) if client.project else (USER,))]

each = pytest.mark.parametrize(("name", "scope"), ALL, ids=[f"{name}-{scope}" for name, scope in ALL])


class Machine(NamedTuple):
    home: Path
    folder: Path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "platform", "linux")
    return Machine(tmp_path / "home", folder)


def file(name: str, scope: str) -> Path:
    return CLIENTS[name].file(scope)


def installed(name: str, scope: str, command: list[str] = COMMAND) -> FileChange:
    change = clients.install(CLIENTS[name], scope, command)
    clients.apply_changes([change])
    return change


def undone(name: str, scope: str) -> FileChange:
    change = clients.uninstall(CLIENTS[name], scope)
    clients.apply_changes([change])
    return change


def held(path: Path) -> dict[str, object]:
    text = path.read_text(encoding="utf-8")
    loaded: dict[str, object] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return loaded


def files(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def written(name: str) -> str:
    """Settings as a person has them."""
    if CLIENTS[name].form is clients.TOML:
        return '# mine\nmodel = "x"\n\n[mcp_servers.git]\ncommand = "uvx"\n'
    return (
        f'{{\n    // mine\n    "{CLIENTS[name].holder}": {{ "git": {{"command": "uvx"}} }},\n    "theme": "dark",\n}}\n'
    )


# -- where and what


@pytest.mark.parametrize(
    ("system", "name", "scope", "path"),
    [
        ("linux", "claude-code", PROJECT, "project/.mcp.json"),
        ("linux", "claude-code", USER, "home/.claude.json"),
        ("linux", "claude-desktop", USER, "home/.config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-desktop", USER, "home/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", USER, "home/AppData/Roaming/Claude/claude_desktop_config.json"),
        ("linux", "cursor", PROJECT, "project/.cursor/mcp.json"),
        ("linux", "cursor", USER, "home/.cursor/mcp.json"),
        ("linux", "codex", PROJECT, "project/.codex/config.toml"),
        ("win32", "codex", USER, "home/.codex/config.toml"),
        ("linux", "gemini", PROJECT, "project/.gemini/settings.json"),
        ("linux", "gemini", USER, "home/.gemini/settings.json"),
        ("linux", "vscode", PROJECT, "project/.vscode/mcp.json"),
        ("linux", "vscode", USER, "home/.config/Code/User/mcp.json"),
        ("darwin", "vscode", USER, "home/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", USER, "home/AppData/Roaming/Code/User/mcp.json"),
    ],
)
def test_each_client_looks_somewhere_else(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, name: str, scope: str, path: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert file(name, scope) == tmp_path / path


@pytest.mark.parametrize(
    ("system", "variable", "name", "path"),
    [
        ("linux", "CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("linux", "CODEX_HOME", "codex", "config.toml"),
        ("linux", "XDG_CONFIG_HOME", "vscode", "Code/User/mcp.json"),
        ("win32", "APPDATA", "claude-desktop", "Claude/claude_desktop_config.json"),
    ],
)
def test_variables_move_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, variable: str, name: str, path: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv(variable, str(tmp_path / "else"))
    assert file(name, USER) == tmp_path / "else" / path


def test_what_does_not_exist_is_refused_with_what_does(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="pass --scope user"):
        file("claude-desktop", PROJECT)
    for words in (["--client", "curser"], ["--client", "cursor", "--scope", "global"]):
        with pytest.raises(SystemExit):
            run("install", *words)
        assert "choose from" in capsys.readouterr().err


@each
def test_the_entry_is_what_the_client_reads(machine: Machine, name: str, scope: str) -> None:
    change = installed(name, scope)
    assert change.verb == "create"
    entry = {"command": COMMAND[0], "args": COMMAND[1:]}
    typed = {"type": "stdio"} if name in ("claude-code", "cursor", "vscode") else {}
    holder = {"codex": "mcp_servers", "vscode": "servers"}.get(name, "mcpServers")
    assert held(change.path) == {holder: {"alma": {**typed, **entry}}}


# -- done and undone


@each
def test_a_file_that_came_with_us_goes_with_us(machine: Machine, name: str, scope: str, tmp_path: Path) -> None:
    installed(name, scope)
    assert undone(name, scope).verb == "remove"
    assert files(tmp_path) == {}
    assert not clients.uninstall(CLIENTS[name], scope)


@each
def test_what_a_person_wrote_is_as_before(machine: Machine, name: str, scope: str, tmp_path: Path) -> None:
    path = file(name, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written(name).encode())
    before = files(tmp_path)
    change = installed(name, scope)
    assert "git" in path.read_text()
    added = [line for line in change.diff().splitlines() if line.startswith("-") and not line.startswith("---")]
    assert len(added) <= 1, "no line of others goes, but one may get a comma"
    undone(name, scope)
    assert files(tmp_path) == before


@each
def test_what_is_changed_in_the_meantime_stays(machine: Machine, name: str, scope: str, tmp_path: Path) -> None:
    path = file(name, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(name))
    installed(name, scope)
    comment = "# later\n" if path.suffix == ".toml" else "// later\n"
    path.write_text(comment + path.read_text())
    undone(name, scope)
    assert path.read_text() == comment + written(name)
    assert list(files(tmp_path)) == [str(path.relative_to(tmp_path))]


@each
def test_twice_is_once_and_another_command_takes_its_place(machine: Machine, name: str, scope: str) -> None:
    path = installed(name, scope).path
    assert not clients.install(CLIENTS[name], scope, COMMAND)
    installed(name, scope, ["alma", "mcp"])
    [entry] = next(iter(held(path).values())).values()  # type: ignore[attr-defined]
    assert (entry["command"], entry["args"]) == ("alma", ["mcp"])
    undone(name, scope)
    assert not path.exists()


@each
def test_what_a_person_added_to_our_entry_stays(machine: Machine, name: str, scope: str) -> None:
    path = installed(name, scope).path
    client = CLIENTS[name]
    entry = {"command": "x", "args": [], "env": {"ALMA_CONFIG": "y"}}
    path.write_text(client.form.put(path.read_text(), (client.holder, "alma"), entry))
    installed(name, scope)
    changed = held(path)[client.holder]["alma"]  # type: ignore[index]
    assert (changed["env"], changed["command"]) == ({"ALMA_CONFIG": "y"}, COMMAND[0])


@each
def test_a_broken_file_is_refused_and_left_alone(machine: Machine, name: str, scope: str, tmp_path: Path) -> None:
    path = file(name, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    for broken in (b"{ = ", b"\xff\xfe", b'{"a":' + b"[" * 50_000, b"a = " + b"[" * 50_000):
        path.write_bytes(broken)
        for attempt in (
            lambda: clients.install(CLIENTS[name], scope, COMMAND),
            lambda: clients.uninstall(CLIENTS[name], scope),
        ):
            with pytest.raises(ConfigError, match="(?i)nothing was changed") as caught:
                attempt()
            assert str(path) in str(caught.value)
        assert path.read_bytes() == broken


def test_servers_that_are_no_object_are_refused(machine: Machine) -> None:
    path = file("cursor", PROJECT)
    path.parent.mkdir()
    for text in ('{"mcpServers": []}', '{"mcpServers": {"alma": "x"}}'):
        path.write_text(text)
        with pytest.raises(ConfigError, match="(?i)nothing was changed"):
            clients.install(CLIENTS["cursor"], PROJECT, COMMAND)


def test_an_empty_file_is_no_broken_one(machine: Machine) -> None:
    path = file("claude-code", PROJECT)
    path.write_text("")
    installed("claude-code", PROJECT)
    undone("claude-code", PROJECT)
    assert not path.exists(), "nothing is left in it"


def test_somebody_else_was_faster(machine: Machine) -> None:
    change = clients.install(CLIENTS["cursor"], PROJECT, COMMAND)
    change.path.parent.mkdir()
    change.path.write_text("{}")
    with pytest.raises(ConfigError, match="changed by another program"):
        clients.apply_changes([change])
    assert change.path.read_text() == "{}"


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_permissions_and_links_stay(machine: Machine, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o600)
    path = file("claude-code", USER)
    path.parent.mkdir()
    path.symlink_to(real)
    installed("claude-code", USER)
    assert path.is_symlink()
    assert "alma" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_what_was(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file("cursor", PROJECT)
    path.parent.mkdir()
    path.write_text("{}\n")
    change = clients.install(CLIENTS["cursor"], PROJECT, COMMAND)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Exception, match="No space left"):
        clients.apply_changes([change])
    assert files(path.parent) == {"mcp.json": b"{}\n"}


# -- the command


@pytest.fixture
def here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    config = machine.folder / ".alma" / "config.yaml"
    config.parent.mkdir()
    config.write_text("alma:\n  project_id: app\n")
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    return machine


def run(action: str, *words: str, config: str | None = None, as_json: bool = False) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    clients.add_arguments(parser, action)
    told: list[str] = []
    code = clients.run(action, parser.parse_args(words), config, as_json=as_json, say=told.append)
    return code, "\n".join(told)


def test_the_command_shows_what_changes_and_does_it(here: Machine) -> None:
    path = here.folder / ".mcp.json"
    code, told = run("install", "--client", "claude-code", "--dry-run")
    assert (code, path.exists()) == (0, False)
    assert '+    "alma": {' in told
    code, told = run("install", "--client", "claude-code", "--yes", "--tools", "core", "--agent", "dev")
    assert code == 0
    entry = json.loads(path.read_text())["mcpServers"]["alma"]
    config = str(here.folder / ".alma" / "config.yaml")
    assert [entry["command"], *entry["args"]] == [
        *(sys.executable, "-P", "-m", "alma.mcp", "--config", config),
        *("--tools", "core", "--agent", "dev"),
    ]
    assert "already installed" in run("install", "--client", "claude-code", "--tools", "core", "--agent", "dev")[1]
    assert run("uninstall", "--client", "claude-code", "--yes")[0] == 0
    assert not path.exists()
    assert "not installed in" in run("uninstall", "--client", "claude-code")[1]


def test_a_portable_entry_holds_in_every_clone(here: Machine, tmp_path: Path) -> None:
    run("install", "--client", "cursor", "--yes", "--portable")
    entry = json.loads((here.folder / ".cursor" / "mcp.json").read_text())["mcpServers"]["alma"]
    assert [entry["command"], *entry["args"]] == ["alma", "mcp", "--config", ".alma/config.yaml", "--tools", "core"]
    other = tmp_path / "other.yaml"
    other.write_text("alma:\n  project_id: app\n")
    with pytest.raises(ConfigError, match="leave out --portable"):
        run("install", "--client", "cursor", "--portable", config=str(other))


def test_for_all_projects_each_finds_its_own(here: Machine) -> None:
    run("install", "--client", "gemini", "--scope", "user", "--yes")
    entry = json.loads((here.home / ".gemini" / "settings.json").read_text())["mcpServers"]["alma"]
    assert entry["args"] == ["-P", "-m", "alma.mcp", "--tools", "core"]
    run("install", "--client", "claude-desktop", "--yes")
    entry = json.loads((clients.find_settings("Claude") / "claude_desktop_config.json").read_text())["mcpServers"][
        "alma"
    ]
    assert entry["args"][3:] == ["--config", str(here.folder / ".alma" / "config.yaml"), "--tools", "core"]


@pytest.mark.system
def test_the_server_loads_nothing_from_the_folder_it_is_started_in(here: Machine) -> None:
    run("install", "--client", "gemini", "--scope", "user", "--yes")
    entry = json.loads((here.home / ".gemini" / "settings.json").read_text())["mcpServers"]["alma"]
    (here.folder / "alma").mkdir()
    for name in ("alma/__init__.py", "yaml.py", "anyio.py"):
        (here.folder / name).write_text("open('loaded', 'w').close()\n")
    command = [entry["command"], *entry["args"]]
    done = subprocess.run(command, cwd=here.folder, input=b"", capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not (here.folder / "loaded").exists()


def test_programs_are_told_in_json_and_are_not_asked(here: Machine) -> None:
    code, told = run("install", "--client", "codex", as_json=True)
    said = json.loads(told)
    assert (code, said["change"], said["done"]) == (0, "create", True)
    assert "[mcp_servers.alma]" in said["difference"]
    assert json.loads(run("install", "--client", "codex", as_json=True)[1])["change"] is None


def test_nothing_is_done_unasked(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--yes"):
        run("install", "--client", "vscode")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert run("install", "--client", "vscode")[0] == 1
    assert not (here.folder / ".vscode").exists()


def test_what_would_not_start_is_not_installed(here: Machine) -> None:
    with pytest.raises(ConfigError, match="unknown tool"):
        run("install", "--client", "vscode", "--tools", "banana")
    with pytest.raises(ConfigError, match="alma init"):
        run("install", "--client", "vscode", config="missing.yaml")
