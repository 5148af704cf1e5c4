"""`alma mcp install` and `uninstall`: show what will change in a client's settings, ask, and do it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import ConfigError
from . import clients
from .clients import PROJECT, USER, Change, Client, Machine
from .command import naming_the_extra

INSTALL, UNINSTALL = "install", "uninstall"
Say = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser, action: str) -> None:
    """The options of `alma mcp install` or `uninstall`, but for `--config` and `--json`."""
    parser.add_argument("--client", required=True, choices=list(clients.CLIENTS), help="whose settings to change")
    parser.add_argument("--scope", choices=(PROJECT, USER), help="this project, or all of yours; default: project")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    if action == INSTALL:
        parser.add_argument(
            "--tools",
            default="core",
            help="core (a small set, the default), default, all, or names with commas between them",
        )
        parser.add_argument("--agent", help="who is meant when a call names no agent")
        parser.add_argument(
            "--portable", action="store_true", help="an entry that works in every clone: `alma` from the PATH"
        )


def run(action: str, args: argparse.Namespace, config: str | None, *, as_json: bool = False, say: Say = print) -> int:
    """0 when it is as wished, 1 when the person said no. ALMAError when it cannot be done."""
    machine = Machine.here()
    client = clients.client(args.client)
    scope = args.scope or client.scopes[0]
    if action == INSTALL:
        change = clients.install(client, scope, _command(client, scope, args, config, machine), machine)
    else:
        change = clients.uninstall(client, scope, machine)
    tell = _Telling(as_json, say)
    if not change:
        tell.nothing(change, action, client)
        return 0
    tell.shown(change)
    if args.dry_run:
        tell.ended(change, done=False)
        return 0
    if not (args.yes or as_json or _agreed()):
        return 1
    clients.carry_out(change)
    tell.ended(change, done=True)
    return 0


def _command(client: Client, scope: str, args: argparse.Namespace, config: str | None, machine: Machine) -> list[str]:
    with naming_the_extra():
        from .tools import DEFAULT, offered

    offered(args.tools)
    options = [
        *(["--tools", args.tools] if args.tools != DEFAULT else []),
        *(["--agent", args.agent] if args.agent else []),
    ]
    return clients.command(_config(client, scope, args, config, machine), portable=args.portable, options=options)


def _config(client: Client, scope: str, args: argparse.Namespace, config: str | None, machine: Machine) -> Path | None:
    """For all projects of a user it is left open: each has its own, found from the folder the client works in."""
    from ..app import find_config, read_config

    works_somewhere = client.project is not None
    if scope == USER and config is None and works_somewhere:
        return None
    if config is None:
        # The entry names the file, and a file that is named is trusted: not without asking.
        read_config()
    found = Path(os.path.abspath(find_config(config)))
    if not found.is_file():
        raise ConfigError(f"there is no file {found}; `alma init` writes a configuration")
    if not args.portable:
        return found
    if not found.is_relative_to(machine.folder):
        raise ConfigError(f"{found} is not in this project, and so no other clone has it: leave out --portable")
    return found.relative_to(machine.folder)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nobody is here to answer; say --yes to do it, or --dry-run to see what would change")
    return input("Do it? [y/N] ").strip().lower() in ("y", "yes")


class _Telling:
    """What is said of it: a diff for people, one JSON object for programs."""

    def __init__(self, as_json: bool, say: Say) -> None:
        self._as_json = as_json
        self._say = say

    def shown(self, change: Change) -> None:
        if not self._as_json:
            self._say(f"{change.verb} {change.path}")
            self._say(change.diff().rstrip("\n"))

    def nothing(self, change: Change, action: str, client: Client) -> None:
        if self._as_json:
            self._object(change, done=False)
        else:
            self._say(f"{client.title} has it already: {change.path}" if action == INSTALL else f"Not in {change.path}")

    def ended(self, change: Change, *, done: bool) -> None:
        if self._as_json:
            self._object(change, done=done)
        elif done:
            self._say("Done. The client reads it when it starts the next time.")

    def _object(self, change: Change, *, done: bool) -> None:
        made = {"path": str(change.path), "change": change.verb if change else None, "done": done}
        self._say(json.dumps({**made, "difference": change.diff()}, ensure_ascii=False))
