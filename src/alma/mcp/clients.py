"""Puts the server into the settings of an MCP client, and takes it out again.

Each client has a file of its own, for one project or for its user, in a form of its own. Only our entry in it is
changed: what is around it stays as it is, byte for byte. The file as it was is kept beside it until the entry is taken
out. What would be changed can be looked at first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from .. import jsonc
from ..errors import ConfigError, unknown
from ..files import FileChange, apply_changes, read_content, resolve_link
from . import tomltext

NAME = "alma"
PROJECT, USER = "project", "user"
KEPT = ".before-alma"
"""How the name of the file as it was ends."""


class Form(Protocol):
    """How a file is written."""

    def load(self, text: str, name: str) -> dict[str, Any]: ...
    def put(self, text: str, path: Sequence[str], value: Any) -> str: ...
    def drop(self, text: str, path: Sequence[str]) -> str: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """Where things are here. Given by tests; `Machine.here()` otherwise."""

    home: Path
    folder: Path
    """The project's."""
    system: str
    """As `sys.platform` says it."""
    environ: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        return cls(Path.home(), Path.cwd(), sys.platform, os.environ)

    def settings(self, *names: str) -> Path:
        """Where programs of this system keep a user's settings."""
        if self.system == "darwin":
            return self.home.joinpath("Library", "Application Support", *names)
        if self.system == "win32":
            return self._named("APPDATA", self.home / "AppData" / "Roaming").joinpath(*names)
        return self._named("XDG_CONFIG_HOME", self.home / ".config").joinpath(*names)

    def _named(self, variable: str, otherwise: Path) -> Path:
        given = self.environ.get(variable)
        return Path(given) if given else otherwise

    def own(self, variable: str, *names: str) -> Path:
        """A folder in the home that a variable may move."""
        return self._named(variable, self.home.joinpath(*names)) if variable else self.home.joinpath(*names)


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    title: str
    holder: str
    """The key below which it keeps its servers."""
    project: str | None
    """Its file in a project, from there; None: it has none."""
    more: Mapping[str, Any]
    """What it wants an entry to say besides the command."""
    form: Form = jsonc

    def file(self, machine: Machine, scope: str) -> Path:
        if scope == PROJECT and self.project is None:
            raise ConfigError(f"{self.title} has no settings for a project; use the scope {USER!r}")
        if scope == PROJECT:
            return machine.folder / str(self.project)
        if scope == USER:
            return self._of_user(machine)
        raise ConfigError(unknown("scope", scope, (PROJECT, USER)))

    def _of_user(self, machine: Machine) -> Path:
        match self.name:
            case "claude-code":
                return machine.own("CLAUDE_CONFIG_DIR") / ".claude.json"
            case "claude-desktop":
                return machine.settings("Claude", "claude_desktop_config.json")
            case "codex":
                return machine.own("CODEX_HOME", ".codex") / "config.toml"
            case "vscode":
                return machine.settings("Code", "User", "mcp.json")
            case _:
                # The same name in the home as in a project.
                return machine.home / str(self.project)

    @property
    def scopes(self) -> tuple[str, ...]:
        return (PROJECT, USER) if self.project else (USER,)


_STDIO = {"type": "stdio"}
CLIENTS: Mapping[str, Client] = {
    one.name: one
    for one in (
        Client("claude-code", "Claude Code", "mcpServers", ".mcp.json", _STDIO),
        Client("claude-desktop", "Claude Desktop", "mcpServers", None, {}),
        Client("cursor", "Cursor", "mcpServers", ".cursor/mcp.json", _STDIO),
        Client("codex", "Codex", "mcp_servers", ".codex/config.toml", {}, tomltext),
        Client("gemini", "Gemini CLI", "mcpServers", ".gemini/settings.json", {}),
        Client("vscode", "VS Code", "servers", ".vscode/mcp.json", _STDIO),
    )
}


def client(name: str) -> Client:
    if name not in CLIENTS:
        raise ConfigError(unknown("client", name, CLIENTS))
    return CLIENTS[name]


# -- what is to be run


def command(config: Path | None, *, portable: bool = False, options: Sequence[str] = ()) -> list[str]:
    """What a client starts. Portable: what is on the PATH, and names that hold in every clone of a project."""
    begun = ["alma", "mcp"] if portable else [sys.executable, "-m", "alma.mcp"]
    return [*begun, *(["--config", config.as_posix() if portable else str(config)] if config else []), *options]


# -- changes


class Copy(Enum):
    """What becomes of the copy of the file as it was before us."""

    MADE = "made"
    LEFT = "left"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Change(FileChange):
    copy: Copy = Copy.LEFT


def install(client: Client, scope: str, command: Sequence[str], machine: Machine) -> Change:
    """The change that puts the server in, or brings its entry up to date. Nothing is written yet."""
    path = resolve_link(client.file(machine, scope))
    before = read_content(path)
    text, data = _read(client, path, before)
    entry = {**_entry(client, data), **client.more, "command": command[0], "args": list(command[1:])}
    if _entry(client, data) == entry:
        return Change(path, before, before)
    after = client.form.put(text, (client.holder, NAME), entry)
    _expect(client, path, after, {**data, client.holder: {**data.get(client.holder, {}), NAME: entry}})
    return Change(path, before, after.encode(), copy=Copy.LEFT if _entry(client, data) else Copy.MADE)


def uninstall(client: Client, scope: str, machine: Machine) -> Change:
    """The change that takes the server out. A file or a key that came with it goes with it."""
    path = resolve_link(client.file(machine, scope))
    before = read_content(path)
    if before is None:
        return Change(path, None, None)
    text, data = _read(client, path, before)
    entry = _entry(client, data)
    if not entry:
        return Change(path, before, before)
    earlier = read_content(_kept(path))
    was, known = _read(client, _kept(path), earlier)
    if client.form.put(was, (client.holder, NAME), entry) == text:
        return Change(path, before, earlier, copy=Copy.GONE)
    after = client.form.drop(text, (client.holder, NAME))
    left = {name: value for name, value in data[client.holder].items() if name != NAME}
    rest = {**data, client.holder: left}
    if not left and client.holder not in known:
        after = client.form.drop(after, (client.holder,))
        del rest[client.holder]
    _expect(client, path, after, rest)
    return Change(path, before, after.encode() if rest or earlier is not None else None, copy=Copy.GONE)


def carry_out(change: Change) -> None:
    """Write it, whole or not at all."""
    kept, had_file = _kept(change.path), change.before is not None
    is_kept = change.copy is Copy.MADE and had_file
    mode = change.path.stat().st_mode & 0o777 if had_file else _find_folder(change.path).stat().st_mode & 0o666
    changes: list[FileChange] = [replace(change, mode=mode)]
    if change.copy is not Copy.LEFT:
        changes.append(FileChange(kept, read_content(kept), change.before if is_kept else None, mode))
    apply_changes(changes[::-1] if is_kept else changes)


def _entry(client: Client, data: Mapping[str, Any]) -> dict[str, Any]:
    held = data.get(client.holder, {})
    entry = held.get(NAME, {}) if isinstance(held, dict) else None
    if not isinstance(entry, dict):
        raise ConfigError(f"`{client.holder}` must hold a table with a table for each server; nothing was changed")
    return entry


def _expect(client: Client, path: Path, text: str, data: Mapping[str, Any]) -> None:
    """What people wrote is worth more than our entry: a result that says anything else is not written."""
    if client.form.load(text, str(path)) != data:
        raise ConfigError(
            f"{path} is written in a way that cannot be changed from here; edit `{client.holder}` by hand"
        )


# -- files


def _kept(path: Path) -> Path:
    return path.with_name(path.name + KEPT)


def _read(client: Client, path: Path, content: bytes | None) -> tuple[str, dict[str, Any]]:
    empty = "{}\n" if client.form is jsonc else ""
    try:
        text = empty if content is None or not content.strip() else content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}); mend it first, nothing was changed") from error
    return text, client.form.load(text, str(path))


def _find_folder(path: Path) -> Path:
    """Return the folder that a new file goes to, or the one above it that exists: the file is as private as that."""
    return next(folder for folder in path.parents if folder.exists())
