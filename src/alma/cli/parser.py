"""The commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from alma import __version__

from .output import Output

Run = Callable[[argparse.Namespace, Output], int]
Subparsers = Any  # argparse keeps this class private

_EXAMPLES = """\
    start:
      alma init                        write .alma/config.yaml for this folder
      alma demo                        see it learn, in under a minute, on a scratch database
      alma doctor                      check that everything works

    the loop:
      alma retrieve "Deploy the auth service" --agent ops --prompt
      alma learn --agent ops --task "Deploy the auth service" --outcome success --strategy "Blue-green deployment"

    `alma COMMAND --help` explains a command and shows examples.
    The configuration is --config, else $ALMA_CONFIG, else the nearest .alma/config.yaml here or above.
    Exit codes: 0 well, 1 an error, 2 wrong usage, 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    from . import loop, memories, setup, upkeep

    parser = argparse.ArgumentParser(
        prog="alma",
        description="Memory that learns: record what worked, get it back when it matters.",
        epilog=dedent(_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"alma {__version__}")
    _shared(parser, config=None, json=False, no_color=False)
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in (setup, loop, memories, upkeep):
        module.register(commands)
    return parser


def command(commands: Subparsers, name: str, run: Run | None, help: str, examples: str = "") -> argparse.ArgumentParser:
    """One command, with the options that all share."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
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


def add_tags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="a tag; may be repeated")
