"""The commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from textwrap import dedent, fill
from typing import Any
from weakref import WeakKeyDictionary

from alma import __version__

from ..types.record import SOURCES
from .listed import COMMANDS
from .output import Output

Run = Callable[[argparse.Namespace, Output], int]
Subparsers = Any  # argparse keeps this class private
_WIDTH = 79

_EXAMPLES = """\
    start:
      alma init                        write .alma/config.yaml for this folder
      alma demo                        see it learn, in under a minute, on a scratch database
      alma doctor                      check that everything works

    the loop:
      alma retrieve "Deploy the auth service" --agent ops --prompt
      alma learn --agent ops --task "Deploy the auth service" --outcome success --strategy "Blue-green deployment"

    the working day:
      alma session start --agent ops --goal "Move to two regions"
      alma work next --agent ops --claim
      alma progress

    what is written already, and other doors:
      alma ingest ~/chats --agent ops --user ana --dry-run
      alma rules export --to agents-md
      alma mcp install --client claude-code

    `alma COMMAND --help` explains a command and shows examples.
    The configuration is --config, else $ALMA_CONFIG, else the nearest .alma/config.yaml here or above.
    Exit codes: 0 well, 1 an error, 2 wrong usage, 130 interrupted.
"""


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The parser of all commands; with words, only of those among them, and the others are but listed."""
    parser = argparse.ArgumentParser(
        prog="alma",
        description="Memory that learns: record what worked, get it back when it matters.",
        epilog=dedent(_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"alma {__version__}")
    _shared(parser, config=None, json=False, no_color=False)
    # Servers tell what happens in their own way.
    parser.set_defaults(run=None, own_log=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module, names in COMMANDS.items():
        if words is None or not names.keys().isdisjoint(words):
            import_module(f".{module}", __package__).register(commands)
        else:
            for name, help in names.items():
                commands.add_parser(name, help=help, add_help=False)
    return parser


def listed(commands: Subparsers, name: str, run: Run | None, examples: str) -> argparse.ArgumentParser:
    """A command of the list, with the help that it has there."""
    [help] = [names[name] for names in COMMANDS.values() if name in names]
    return command(commands, name, run, help, examples)


def grouped(commands: Subparsers, name: str, examples: str) -> Subparsers:
    """A command of the list that is a group of commands."""
    group = listed(commands, name, None, examples)
    return group.add_subparsers(title="commands", metavar="COMMAND", required=True)


def command(commands: Subparsers, name: str, run: Run | None, help: str, examples: str = "") -> argparse.ArgumentParser:
    """One command, with the options that all share."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        # The epilog is to stay as it is written, and with that the description is not wrapped either.
        description=fill(f"{help[0].upper()}{help[1:]}.", _WIDTH),
        epilog=f"examples:\n{_indented(examples)}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    quiet: Any = argparse.SUPPRESS  # given before the command, it must not be reset after it
    _shared(parser, config=quiet, json=quiet, no_color=quiet)
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def _indented(examples: str) -> str:
    return "\n".join(f"  {line}" for line in dedent(examples).strip().splitlines())


def _shared(parser: argparse.ArgumentParser, *, config: Any, json: Any, no_color: Any) -> None:
    group = parser.add_argument_group("shared options")
    group.add_argument("--config", metavar="FILE", default=config, help="the configuration file")
    group.add_argument("--json", action="store_true", default=json, help="print one JSON document")
    group.add_argument("--no-color", action="store_true", default=no_color, help="no colours (as with $NO_COLOR)")


def add_source(parser: argparse.ArgumentParser, default: str = "user") -> None:
    """A person types in a terminal, so the default is theirs."""
    about = f"where it comes from: {', '.join(SOURCES)} (default: user); tool and content wait for your review"
    parser.add_argument("--source", metavar="S", default=default, help=about)


def add_tags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="a tag; may be repeated")


def add_choice(
    parser: argparse._ActionsContainer, name: str, values: Sequence[str], help: str = "", **more: Any
) -> argparse.Action:
    """An argument that is one of some names. What is not is refused by the operation, which knows what was meant."""
    told = ", ".join(values[:-1]) + f" or {values[-1]}"
    action = parser.add_argument(name, help=f"{help}: {told}" if help else told, **more)
    VALUES[action] = values
    return action


VALUES: WeakKeyDictionary[argparse.Action, Sequence[str]] = WeakKeyDictionary()
"""What can be said for an argument; shells complete it."""


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The arguments of these names that were said."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}
