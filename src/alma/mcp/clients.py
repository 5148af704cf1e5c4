"""Add the server to the settings of MCP clients: `alma mcp install` and `uninstall`.

Each client has its own file, for one project or for the user, in its own format. Only our entry is changed; the rest
stays the same, byte for byte. The command shows the change and asks before it writes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import jsonc, toml
from ..errors import ConfigError
from ..files import FileChange, apply_changes, decode_settings, read_content, resolve_link
from ..trust_register import allow_approval
from . import name_missing_extra

NAME = "alma"
PROJECT, USER = "project", "user"
INSTALL, UNINSTALL = "install", "uninstall"


def locate(variable: str, *default: str) -> Path:
    """Return a folder in the home folder, or the one that an environment variable names."""
    return Path(os.environ.get(variable) or Path.home().joinpath(*default))


def find_settings(*names: str) -> Path:
    """Return a path in the folder where programs of this system store user settings."""
    if sys.platform == "darwin":
        return Path.home().joinpath("Library", "Application Support", *names)
    default = ("APPDATA", "AppData", "Roaming") if sys.platform == "win32" else ("XDG_CONFIG_HOME", ".config")
    return locate(*default).joinpath(*names)


class Form(NamedTuple):
    """How the settings files of a client are read and changed."""

    load: Callable[[str, str], dict[str, Any]]
    put: Callable[[str, Sequence[str], Any], str]
    drop: Callable[[str, Sequence[str]], str]
    empty: str


JSON = Form(jsonc.load, jsonc.put, jsonc.drop, "{}\n")
TOML = Form(toml.load, toml.put, toml.drop, "")


# -- clients


class McpClient(NamedTuple):
    """An MCP client and where it stores its settings."""

    title: str
    holder: str  # The key of its servers.
    project: str | None  # Its file in a project; None if it has no project settings.
    find_user_file: Callable[[], Path] | None = None
    """None if the file in the home folder has the same name as in a project."""
    fields: Mapping[str, Any] = {}  # Further fields of an entry.
    form: Form = JSON

    def file(self, scope: str) -> Path:
        """Return the settings file for a scope."""
        if scope == USER and self.find_user_file is not None:
            return self.find_user_file()
        if self.project is None:
            raise ConfigError(f"{self.title} has no project settings; pass --scope {USER}")
        return (Path.home() if scope == USER else Path.cwd()) / self.project


_STDIO = {"type": "stdio"}
CLIENTS: Mapping[str, McpClient] = {
    "claude-code": McpClient(
        "Claude Code",
        "mcpServers",
        ".mcp.json",
        lambda: locate("CLAUDE_CONFIG_DIR") / ".claude.json",
        _STDIO,
    ),
    "claude-desktop": McpClient(
        "Claude Desktop",
        "mcpServers",
        None,
        lambda: find_settings("Claude", "claude_desktop_config.json"),
    ),
    "cursor": McpClient("Cursor", "mcpServers", ".cursor/mcp.json", fields=_STDIO),
    "codex": McpClient(
        "Codex",
        "mcp_servers",
        ".codex/config.toml",
        lambda: locate("CODEX_HOME", ".codex") / "config.toml",
        form=TOML,
    ),
    "gemini": McpClient("Gemini CLI", "mcpServers", ".gemini/settings.json"),
    "vscode": McpClient(
        "VS Code", "servers", ".vscode/mcp.json", lambda: find_settings("Code", "User", "mcp.json"), _STDIO
    ),
}


# -- changes


def install(client: McpClient, scope: str, command: Sequence[str]) -> FileChange:
    """Return the change that adds the server or updates its entry. Nothing is written yet."""
    path, before, text, data, old = _read_settings(client, scope)
    entry = {**old, **client.fields, "command": command[0], "args": list(command[1:])}
    if entry == old:
        return FileChange(path, before, before)
    after = client.form.put(text, (client.holder, NAME), entry)
    _verify_change(client, path, after, {**data, client.holder: {**data.get(client.holder, {}), NAME: entry}})
    # A new file gets the permissions of its folder, or of the nearest existing parent.
    mode = next(folder for folder in path.parents if folder.exists()).stat().st_mode & 0o666
    return FileChange(path, before, after.encode(), mode)


def uninstall(client: McpClient, scope: str) -> FileChange:
    """Return the change that removes the server. An empty table or file is removed with it."""
    path, before, text, data, entry = _read_settings(client, scope)
    if not entry:
        return FileChange(path, before, before)
    after = client.form.drop(text, (client.holder, NAME))
    rest = {**data, client.holder: {name: one for name, one in data[client.holder].items() if name != NAME}}
    if not rest[client.holder]:
        after = client.form.drop(after, (client.holder,))
        del rest[client.holder]
    _verify_change(client, path, after, rest)
    return FileChange(path, before, after.encode() if after.strip() not in ("", "{}") else None)


def _read_settings(client: McpClient, scope: str) -> tuple[Path, bytes | None, str, dict[str, Any], dict[str, Any]]:
    """Return the settings file for a scope, its bytes, its text, its values, and our entry among them."""
    path = resolve_link(client.file(scope))
    content = read_content(path)
    text = decode_settings(path, content)
    text = text if text.strip() else client.form.empty
    data = client.form.load(text, str(path))
    servers = data.get(client.holder, {})
    entry = servers.get(NAME, {}) if isinstance(servers, dict) else None
    if not isinstance(entry, dict):
        raise ConfigError(
            f"`{client.holder}` in {path} must be a table with one table for each server. Nothing was changed"
        )
    return path, content, text, data, entry


def _verify_change(client: McpClient, path: Path, text: str, expected: Mapping[str, Any]) -> None:
    """Raise ConfigError unless the new text has exactly the expected content."""
    try:
        data = client.form.load(text, str(path))
    except ConfigError:
        data = None
    if data != expected:
        raise ConfigError(f"cannot change {path} safely; edit `{client.holder}` manually")


# -- the command


def add_arguments(parser: argparse.ArgumentParser, action: str) -> None:
    """Add the options of `alma mcp install` or `uninstall`, except `--config` and `--json`."""
    parser.add_argument("--client", required=True, choices=list(CLIENTS), help="the client whose settings to change")
    parser.add_argument("--scope", choices=(PROJECT, USER), help="this project, or all your projects (default project)")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show the change")
    if action == INSTALL:
        parser.add_argument(
            "--tools",
            default="core",
            help="tools to offer: core (8 tools), default, all, or names separated by commas (default core)",
        )
        parser.add_argument("--agent", help="default agent for calls that name none")
        parser.add_argument(
            "--approve",
            action="store_true",
            help="let calls activate candidates; use it only if a person approves every call",
        )
        parser.add_argument(
            "--portable",
            action="store_true",
            help="write an entry that works in every clone (runs `alma` from the PATH)",
        )


def run(
    action: str,
    args: argparse.Namespace,
    config: str | None,
    *,
    as_json: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Return 0 if the settings are as requested, 1 if the user declined. Raise ALMAError if it fails."""
    from ..app import find_config

    client = CLIENTS[args.client]
    scope = args.scope or (PROJECT if client.project else USER)
    if action == INSTALL:
        change = install(client, scope, _build_command(client, scope, args, config))
    else:
        change = uninstall(client, scope)
    if change and not as_json:
        say(f"{change.verb} {change.path}")
        say(change.diff().rstrip("\n"))
    is_wanted = bool(change) and not args.dry_run
    if is_wanted:
        if not args.yes and not as_json:
            if not sys.stdin.isatty():
                raise ConfigError(
                    "cannot ask without a terminal; pass --yes to apply the change, or --dry-run to see it"
                )
            if input("Apply this change? [y/N] ").strip().lower() not in ("y", "yes"):
                return 1
        apply_changes([change])
    if action == INSTALL and args.approve and not args.dry_run:
        # Not before the user agreed; `alma mcp --approve` looks for it.
        allow_approval(find_config(config))
    if as_json:
        result = {"path": str(change.path), "change": change.verb if change else None, "done": is_wanted}
        say(json.dumps({**result, "difference": change.diff()}, ensure_ascii=False))
    elif is_wanted:
        say(f"Done. Restart {client.title} to load the server.")
    elif not change:
        say(f"already installed in {change.path}" if action == INSTALL else f"not installed in {change.path}")
    return 0


def _build_command(client: McpClient, scope: str, args: argparse.Namespace, config: str | None) -> list[str]:
    """Return the command that the client starts. If portable, it works in every clone."""
    from ..app import find_config, read_config

    if args.approve and scope == USER and config is None and client.project is not None:
        raise ConfigError("--approve is for one configuration; pass --config or --scope project")
    with name_missing_extra():
        from .tools import DEFAULT, select_tools

    select_tools(args.tools)
    # Without the client's working folder on the path: it may be anybody's.
    command = ["alma", "mcp"] if args.portable else [sys.executable, "-P", "-m", "alma.mcp"]
    # With the scope user, each project uses its own configuration, found from the client's working folder.
    if scope == PROJECT or config is not None or client.project is None:
        if config is None:
            # The entry will name the file, and named files are trusted: check that this one is.
            read_config()
        file = Path(os.path.abspath(find_config(config)))
        if not file.is_file():
            raise ConfigError(f"no configuration file {file}; create one with `alma init`")
        if args.portable and not file.is_relative_to(Path.cwd()):
            raise ConfigError(f"{file} is outside this project, so other clones do not have it; leave out --portable")
        command += ["--config", file.relative_to(Path.cwd()).as_posix() if args.portable else str(file)]
    if args.tools != DEFAULT:
        command += ["--tools", args.tools]
    if args.approve:
        command.append("--approve")
    return [*command, "--agent", args.agent] if args.agent else command
