"""`alma mcp`: the memory as an MCP server, and its place in the settings of clients."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from ..errors import ValidationError
from ..mcp import command as serving
from ..mcp import installing
from .output import Output
from .parser import Subparsers, command, listed

_EXAMPLES = """
alma mcp                                       # over standard input and output; a client starts it
alma mcp --config .alma/config.yaml --tools core --agent developer
alma mcp --transport http --port 8765
alma mcp install --client claude-code
"""
_HELP = {
    installing.INSTALL: "put the server into the settings of a client; shows what would change, and asks",
    installing.UNINSTALL: "take it out of the settings of a client again",
}


def register(commands: Subparsers) -> None:
    parser = listed(commands, "mcp", serve, _EXAMPLES)
    serving.add_arguments(parser)
    parser.set_defaults(own_log=True)
    actions = parser.add_subparsers(title="commands", metavar="[COMMAND]")
    _register(actions, installing.INSTALL, "alma mcp install --client cursor --tools core --dry-run")
    _register(actions, installing.UNINSTALL, "alma mcp uninstall --client cursor")


def _register(actions: Subparsers, action: str, examples: str) -> None:
    run: Callable[[argparse.Namespace, Output], int] = partial(settle, action)
    parser = command(actions, action, run, _HELP[action], examples)
    installing.add_arguments(parser, action)


def serve(args: argparse.Namespace, out: Output) -> int:
    """Standard output belongs to the protocol: nothing is said there."""
    serving.run(serving.read_options(args, args.config))
    return 0


def settle(action: str, args: argparse.Namespace, out: Output) -> int:
    if out.as_json and not (args.yes or args.dry_run):
        raise ValidationError("there is nobody to ask here; pass --yes to do it, or --dry-run to see what would change")
    return installing.run(action, args, args.config, as_json=out.as_json, say=out.line)
