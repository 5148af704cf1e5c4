"""Derive the command line from the operations: build the parser from their parameters, and read the arguments."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, get_origin

from alma import __version__

from .. import people
from ..errors import (
    ALMAError,
    PersonRequiredError,
    ScopeError,
    ValidationError,
    describe_parse_error,
    unknown,
)
from ..types.record import Status, find_source
from .render import EMPTY, Output

if TYPE_CHECKING:
    from ..config import Config
    from ..memory import ALMA
    from ..operations import Operation, Parameter

LISTING = """\
start:
  init         create a configuration file for this folder
  doctor       check that everything works and suggest fixes
  demo         watch alma learn, using a temporary database
  trust        trust the configuration and memory of a folder

everyday:
  retrieve     find memories relevant to a task
  learn        record the outcome of a task
  feedback     rate memories; ratings change their rank
  session      start where the last session left off, take notes and hand over
  work         manage work items: add, next, claim, status

memories:
  list         list memories, newest first
  search       search memories by words or meaning, best match first
  show         show one memory in full
  add          add a fact, preference, heuristic, anti-pattern, rule or conversation
  update       change a memory's fields, status or tags
  delete       delete a memory, or everything that belongs to a user
  promote      let a team, or all agents, read a memory of one agent
  browse       look through memories, sessions and changes, and decide what waits
  explain      explain why a memory is retrieved for a task, or why not
  playbook     print everything learned as one page

history:
  history      list the changes of a memory
  blame        find where a text comes from
  diff         list how memories differ from an earlier time
  undo         undo the last change
  revert       undo one change and keep later ones
  bisect       find the change after which a task is advised differently

knowledge:
  ingest       import chat exports, coding-agent histories and documents
  learn-from   extract memories from a conversation or a text
  rules        sync rules with the files that coding agents read
  graph        explore people and things, and how they are related
  domains      choose what this memory is for and what it may learn
  workflow     checkpoint, resume and merge workflow runs
  confidence   estimate how likely a strategy is to work

maintenance:
  stats        count memories by type, status and agent
  usage        show language model calls and their cost
  webhooks     list events that wait for a webhook, send them, and retry
  upkeep       archive what faded, compress old conversations and delete old notes
  archive      archive memories that are faded and unused
  erase        delete everything of a user and prove that nothing is left
  consolidate  merge memories that say the same, and supersede outdated ones
  conflicts    decide between memories that contradict each other
  reindex      embed all records again with the configured embedder
  vacuum       remove all traces of deleted memories and free disk space
  migrate      move a memory to another store while it is in use
  export       export the whole memory as JSON Lines
  import       import a file written by `alma export`
  backup       copy the store to a new file while it is in use

integrations:
  mcp          run the MCP server, or add it to an MCP client
  dashboard    open the dashboard in a browser
  serve        run the HTTP server
  token        manage access tokens for `alma serve`
  postgres     start and stop a PostgreSQL server on this machine
  completion   print a shell completion script

"""
SUMMARIES: dict[str, str] = dict(re.findall(r"^  (\S+) +(.+)$", LISTING, re.MULTILINE))
"""One line for each command, in the order of the help."""
EPILOG = """\
examples:
  alma init
  alma retrieve "Deploy the auth service" --agent ops --prompt
  alma learn --agent ops --task "Deploy the auth service" --outcome success --strategy "Blue-green deployment"
  alma work next --agent ops --claim
  alma mcp install --client claude-code

Run `alma COMMAND --help` for details and examples. Ids can be shortened as long as they are unique.
Configuration: --config, then $ALMA_CONFIG, then the nearest .alma/config.yaml from here up, within the repository.
--agent defaults to $ALMA_AGENT, then to default_agent in the configuration.
Exit codes: 0 success, 1 error or nothing to do, 2 usage error, 130 interrupted.
"""

NAMES = {
    "active_files": "file", "auto_expand": "no-expand", "blockers": "blocker", "branch_id": "branch",
    "branches": "branch", "confidence_decay_days": "decay-days", "confidence_level": "confidence", "context": "task",
    "decisions": "decision", "delivery_id": "id", "error_message": "error", "estimate_minutes": "estimate",
    "excluded_categories": "exclude", "from_branch": "from", "ids": "id", "item_id": "id", "item_type": "type",
    "keep_latest": "keep", "key_decisions": "decision", "learning_categories": "learn", "lease_seconds": "lease",
    "memory_id": "id", "memory_type": "type", "min_occurrences_for_heuristic": "min-occurrences",
    "next_steps": "next", "node_id": "node", "notes": "note", "others": "other", "parent_id": "parent",
    "risk_flags": "risk", "run_id": "run", "session_id": "session", "statuses": "status", "strategies": "strategy",
    "strategies_used": "strategy", "strategy_used": "strategy", "tags": "tag", "tenant_id": "tenant", "tests": "test",
    "trusted": "untrusted", "types": "type", "user_id": "user", "workflow_id": "workflow",
}  # fmt: skip
"""Command-line names of parameters, where they differ."""
IDS = {
    "memory_id", "change", "item_id", "parent_id", "blocked_by", "unblocked_by", "blocks", "session_id", "retrieval_id",
    "retrieved_memory_ids", "used_memory_ids", "delivery_id", "ids", "into",
}  # fmt: skip
"""Parameters that take ids, which may be shortened."""
MOMENTS = {"since", "until", "as_of", "older_than"}
"""Parameters that take times, also as `30 minutes`, `3d` or `yesterday`."""
RENAMED = {
    "calibration": "confidence calibration", "erase-user": "erase --user", "forget": "archive",
    "health": "doctor --quick", "initialize": "session prepare", "progress": "work progress",
    "reconcile": "consolidate", "shown": "feedback --shown", "wake-up": "session wake-up",
}  # fmt: skip
"""Old command names and their current ones."""
TEXTS = {
    "auto_expand": "do not create work items",
    "trusted": "the content is not your own: its memories wait for your review",
    "source": "where it comes from: user (a person stated it), agent, tool (program output), content (a file, page, "
    "mail or pasted text) or import",
    "tags": "add this tag",
    "your own JSON object": "extra data to store with it, a JSON object",
    "only this type": "only memories of this type",
    "only this status; null for any": "only memories with this status",
}
"""Help of options by parameter or description, where the description is for models."""
_STATUSES = ("pending", "in_progress", "blocked", "review", "done", "failed")
_PARTS = {"entity_types": "entity", "relationship_types": "relationship"}
"""Parameters that a command builds from an option of its own."""
_ALIASES = {
    "fact": ("knowledge", "domain_knowledge"), "strategy": ("heuristic", "heuristic"),
    "warning": ("anti-pattern", "anti_pattern"), "anti-pattern": ("anti-pattern", "anti_pattern"),
    "conversation": ("episode", "episode"), "conversations": ("episodes", "episode"),
    "preference": ("preference", "user_preference"), "knowledge": ("knowledge", "domain_knowledge"),
}  # fmt: skip
"""Other names of memory types: the command below `alma add`, and the type."""
_SHORT_ID = re.compile(r"[a-z]{3}_[0-9a-z]{1,25}")
_AGE = re.compile(r"(\d{1,5})\s*(?:(min)(?:ute)?s?|(h|d|w)|(hour|day|week|month|year)s?)(?:\s+ago)?")
_DAYS = {"min": 1 / 1440, "h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_TAKEN = re.compile(r"(--|!|)([a-z_*]+)(\??)(?::([a-z-]+))?(?:=(\S+))?")
_NOT_TYPED = argparse.SUPPRESS
_MODULES = {
    **dict.fromkeys(("init", "mcp", "serve", "dashboard", "token", "completion"), "manage"),
    **dict.fromkeys(("doctor", "trust", "reindex", "vacuum", "migrate", "export", "backup", "import"), "store"),
    **dict.fromkeys(("work", "session", "workflow", "graph", "domains"), "work"),
    "demo": "demo",
    "postgres": "postgres",
}
"""The modules that declare commands, other than `commands`."""
PERSONS_ACTS = {"erase_user": "deleting all of a user's data"}
"""Operations that only a person may run on the command line, whatever they would change."""
PERSONS_WORDS = {
    "add_rule", "add_preference", "add_many", "learn_from", "learn_from_text", "import_rules", "ingest",
}  # fmt: skip
"""Operations that may store a person's instructions. In a script, which is no person, they wait for review."""
SCRIPTS = (
    "run it in a terminal that no agent started, or open the dashboard with `alma dashboard`. A program of your own "
    "may use the Python library, or a token with the scope 'approve'"
)
REVIEW = "run `alma list --status candidate`, and `alma update ID --status active` to approve one"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Prints help without a line for the placeholder of the commands."""

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, self._iter_indented_subactions(action)))
        return super()._format_action(action)


class UsageError(ALMAError):
    """The command line is wrong: an unknown command or option, or a missing or invalid value."""


class Reply:
    """The answer of a command: a document for `--json`, and parts for people (by default the document itself)."""

    def __init__(self, document: object, *parts: Any, code: int = 0) -> None:
        self.document = document
        self.parts = parts or (document,)
        self.code = code


def reply_value(value: Any, key: str, text: str = "", *, empty: str = "") -> Reply:
    """Reply with a value. In JSON it is under `key`; a list also gets its count. `empty` is shown for an empty list."""
    counted = {"count": len(value)} if isinstance(value, list) else {}
    shown = (empty or EMPTY.get(key, f"No {key}.")) if value == [] else value
    return Reply({**counted, key: value} if key else value, text, shown)


Run = Callable[["Call"], "Reply | int"]
"""Runs a command. A number is the exit code of a command that printed its own output."""


R = TypeVar("R", bound=Run)


class Argument:
    """A decorator that adds an argument to a command which is not a parameter of an operation.

    `--tag TAG` is an option, `--tag TAG…` a repeatable option, `--yes` a flag, and `FILE` a positional argument.
    Arguments of a group exclude each other: at most one of `either`, exactly one of `needed`.
    """

    def __init__(self, spec: str, help: str, values: Sequence[str] = (), group: str = "", **options: Any) -> None:
        flag, _, metavar = spec.partition(" ")
        kind: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        if metavar.endswith("…"):
            kind, help = {"metavar": metavar[:-1], "action": "append"}, f"{help}; repeatable"
        elif not flag.startswith("--"):
            flag, kind = flag.lower(), {"metavar": metavar or flag}
        self.flag, self.options, self.values, self.group = flag, {**kind, "help": help, **options}, values, group

    def __call__(self, run: R) -> R:
        vars(run)["extras"] = (self, *vars(run).get("extras", ()))
        return run


YES = Argument("--yes", "do not ask for confirmation")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line, and how it is derived from an operation."""

    words: str
    operation: str = ""
    """The operations whose parameters it accepts, separated by spaces; the first one is run."""
    takes: str = "*"
    """The parameters it accepts. `name` is positional, `name?` is optional, `--name` is an option, `--name:other=5` is
    an option with another name than in NAMES and another default, and `!name` is not accepted. `--*` accepts all other
    parameters as options; `*` does too, but makes the first required parameter positional."""
    key: str = ""
    """The key of the answer in JSON; a list also gets its count. If the answer has a field of that name, only the
    field is shown."""
    verb: str = ""
    """The verb of the confirmation, such as `added`."""
    _: KW_ONLY
    extras: tuple[Argument, ...] = ()
    help: str = ""
    """The help text, if the operation's does not fit."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Help texts of parameters, where the operation's do not fit."""
    requires: bool = True
    """Whether the parser enforces required parameters; otherwise the command does."""
    matching: bool = True
    """Whether the configured embedder must match the store."""
    run: Run | None = None
    """The function to run; by default the operation is run and its answer shown."""
    has_failed: Callable[[Any], bool] = lambda _: False
    """Whether an answer means a failure: the exit code is then 1."""
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    own_log: bool = False
    """Whether it writes its own log, as the servers do."""


COMMANDS: list[Command] = []


def command(*texts: str, **more: Any) -> Callable[[R], R]:
    """Declare a function as a command that does more than call an operation. Takes the fields of `Command`.

    The help text is the function's docstring. If that starts with "Run `alma", the help text is the operation's. Add
    further arguments as decorators below this one.
    """

    def declare(run: R) -> R:
        COMMANDS.append(Command(*texts, extras=vars(run).get("extras", ()), run=run, **more))
        return run

    return declare


# -- the parser


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors name the valid values and the closest match."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError that points to the help."""
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} Run `{self.prog} --help` for help.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        noun = str(action.metavar or (action.option_strings or ["value"])[0].lstrip("-")).lower()
        names = [str(name) for name in action.choices]
        if not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, unknown(noun, value, names))
        close = difflib.get_close_matches(str(value), [*names, *RENAMED], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Valid: {', '.join(names)}."
        if self.prog == "alma work" and value in _STATUSES:
            hint = f"Did you mean `alma work status ID {value}`?"
        raise argparse.ArgumentError(None, f"unknown command {value!r}. {hint}")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return action.type(text) if action.type in (int, float) else super()._get_value(action, text)
        except ValueError:
            name = action.option_strings[0] if action.option_strings else action.metavar
            kind = "whole number" if action.type is int else "number"
            raise argparse.ArgumentError(None, f"{name} must be a {kind}, not {text!r}") from None


def rename_command(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words with the current name of the command, and a hint if they used an old name."""
    is_value = [word == "--config" for word in ["", *words]]
    at = next((at for at, word in enumerate(words) if not word.startswith("-") and not is_value[at]), 0)
    old, *rest = [*words[at:], ""]
    if old == "add" and rest[0] in _ALIASES:
        return [*words[: at + 1], _ALIASES[rest[0]][0], *words[at + 2 :]], ""
    if old not in RENAMED:
        return list(words), ""
    return [*words[:at], *RENAMED[old].split(), *words[at + 1 :]], f"hint: `alma {old}` is now `alma {RENAMED[old]}`"


def add_shared(parser: argparse.ArgumentParser, config: Any, switch: Any) -> None:
    """Add the options that every command accepts, before or after its name."""
    group = parser.add_argument_group("shared options")
    group.add_argument("--config", metavar="FILE", default=config, help="path of the configuration file")
    group.add_argument("--json", action="store_true", default=switch, help="print JSON")
    group.add_argument("--no-color", action="store_true", default=switch, help="disable colors (as does $NO_COLOR)")


@cache
def read_takes(takes: str) -> dict[str, tuple[str, ...]]:
    """Parse `Command.takes` into mark, `?`, name and default of each parameter."""
    return {name: rest for mark, name, *rest in _TAKEN.findall(takes) for rest in [(mark, *rest)]}


def spell_parameter(command: Command, parameter: Parameter) -> str:
    """Return the command-line name of a parameter, or '' if the command does not accept it."""
    taken = read_takes(command.takes)
    mark, _, spelled, _ = taken.get(parameter.name) or ("--" if "*" in taken else "!", "", "", "")
    return "" if mark == "!" else spelled or NAMES.get(parameter.name, parameter.name).replace("_", "-")


def find_default(command: Command, parameter: Parameter, otherwise: Any) -> Any:
    """Return the default value of a parameter on the command line."""
    *_, default = read_takes(command.takes).get(parameter.name, ("",))
    return otherwise if not default else default if read_type(parameter)[0] is str else json.loads(default)


def read_type(parameter: Parameter) -> tuple[type, bool, bool]:
    """Return the type of a parameter or of its items, whether it is a list, and whether it is optional."""
    parts = get_args(parameter.type) or (parameter.type,)
    is_optional = type(None) in parts
    hint = next(part for part in parts if part is not type(None)) if is_optional else parameter.type
    is_list = get_origin(hint) is list
    base = get_args(hint)[0] if is_list else hint
    return get_origin(base) or base, is_list, is_optional


def add_arguments(parser: argparse.ArgumentParser, command: Command, operations: Sequence[Operation]) -> None:
    """Add the arguments of a command: its own, and those of its operations' parameters."""
    if command.add_arguments is not None:
        command.add_arguments(parser)
    done, taken = set(), read_takes(command.takes)
    for operation in operations:
        needed = [one.name for one in operation.parameters if one.needed and one.name not in ("agent", "user_id")]
        places = {name: optional or None for name, (mark, optional, *_) in taken.items() if not mark}
        if places.pop("*", "") is None and not places:
            places = dict.fromkeys(needed[:1])
        order = list(places)
        # Positional arguments must be added in order.
        for one in sorted(operation.parameters, key=lambda one: order.index(one.name) if one.name in order else -1):
            if one.name not in done and spell_parameter(command, one):
                done.add(one.name)
                is_required = command.requires and operation is operations[0]
                _add_parameter(parser, command, one, is_required, (places[one.name],) if one.name in places else ())
    groups: dict[str, Any] = {"": parser}
    for argument in command.extras:
        if argument.group not in groups:
            groups[argument.group] = parser.add_mutually_exclusive_group(required=argument.group == "needed")
        action = groups[argument.group].add_argument(argument.flag, **argument.options)
        action.values = argument.values


def _add_parameter(
    parser: argparse.ArgumentParser, command: Command, one: Parameter, required: bool, place: tuple[str | None, ...]
) -> None:
    """Add a parameter as an option, or as a positional argument if `place` is not empty."""
    base, is_list, is_optional = read_type(one)
    spelled, default = spell_parameter(command, one), find_default(command, one, one.default)
    values = (*one.about.choices, "all") if takes_all(one) else one.about.choices
    text = TEXTS.get(one.about.text, one.about.text)
    text = TEXTS.get(one.name, text) if one.default is not False and one.name != "tags" else text
    text = write_for_people(command.about.get(one.name, text)).replace("; null for any", "")
    is_listed = all(value in text for value in values)
    about = text + (f": {', '.join(values[:-1])} or {values[-1]}" if not is_listed else "")
    about += "; repeatable" if is_list and not place else ""
    is_given = place == (None,)
    # A source may have another name than the listed one it counts as.
    default = find_source(default) if one.name == "source" and default else default
    if default not in (None, "", False, True, "default") and not is_given:
        about += f" (default: {f'{default:g}' if isinstance(default, float) else default})"
    if one.name == "agent" and one.takes_preset:
        about = about.partition(" (default:")[0] + " (default: $ALMA_AGENT, then default_agent)"
    metavar = "ID" if one.name in IDS else "TIME" if one.name in MOMENTS else spelled.upper()
    metavar = "JSON" if base is dict else "N" if base in (int, float) else "PATH" if one.about.local else metavar
    options: dict[str, Any] = {"help": about.strip(), "default": _NOT_TYPED}
    if base is bool:
        options["action"] = "store_false" if one.default is True else "store_true"
    else:
        options |= {"metavar": metavar, "type": base if base in (int, float) else str}
    if place:
        action = parser.add_argument(one.name, **options, nargs="+" if is_list else place[0])
    else:
        options |= {"action": "append"} if is_list else {}
        # The agent may come from the environment or the configuration.
        is_needed = required and one.needed and one.name != "agent"
        action = parser.add_argument(f"--{spelled}", dest=one.name, required=is_needed, **options)
        if is_optional and isinstance(one.default, str) and not values:
            none: dict[str, Any] = {"action": "store_const", "const": None, "default": _NOT_TYPED}
            parser.add_argument(
                f"--no-{spelled}", dest=one.name, help=f"use no {spelled}, not even the default", **none
            )
    action.values = values  # type: ignore[attr-defined]


def write_for_people(text: str) -> str:
    """Return a description of an operation or parameter without the words for models, and with options and commands."""

    def name_option(match: re.Match[str]) -> str:
        name = match[1]
        for command in COMMANDS:
            if command.operation.split()[:1] == [name]:
                return f"`alma {command.words}`"
        return f"--{NAMES.get(name, name).replace('_', '-')}"

    text = re.sub(r"\bCall this[^.;]*[.;] ?|Returns the (?:stored|changed) [a-z]+\. ?", "", text)
    text = re.sub(r"^Return\b", "Print", text, flags=re.MULTILINE)
    text = re.sub(r"\bReturns\b", "Prints", text).replace("returns ", "prints ").replace("return ", "print ")
    return re.sub(r"(?:call )?`([a-z_]+)`", name_option, text).rstrip()


def takes_all(one: Parameter) -> bool:
    """Return whether `all` removes the filter that the operation has by default."""
    return bool(one.about.choices) and read_type(one)[2] and one.default is not None


def find_operation(name: str) -> Operation:
    """Return an operation by name, loading modules until it is registered."""
    from ..operations import MODULES, OPERATIONS

    for module in chain.from_iterable(MODULES.values()):
        if name in OPERATIONS:
            break
        import_module(module)
    return OPERATIONS[name]


def list_choices(action: argparse.Action) -> list[str]:
    """Return the values that an argument accepts, as far as they are fixed."""
    return [str(value) for value in getattr(action, "values", None) or action.choices or ()]


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands, or only of the commands in `words`."""
    for name in SUMMARIES.keys() & (SUMMARIES if words is None else words):
        import_module(f".{_MODULES.get(name, 'commands')}", __package__)
    examples = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8").splitlines()
    top = Parser(
        prog="alma",
        usage="alma [--version] [--config FILE] [--json] [--no-color] COMMAND ...",
        description="Memory that learns: record what worked, and retrieve it when it matters.",
        epilog=LISTING + EPILOG,
        formatter_class=Formatter,
    )
    top.add_argument("--version", action="version", version=f"alma {__version__}")
    add_shared(top, None, False)
    top.set_defaults(command=None, parser=top)
    below = top.add_subparsers(prog="alma", metavar="COMMAND", help=argparse.SUPPRESS)
    # A parser takes a quarter of a millisecond to make, so the commands that were not typed share one.
    untyped = Parser(prog="alma", add_help=False)
    for name, about in SUMMARIES.items():
        if words is not None and name not in words:
            below.choices[name] = untyped
            continue
        family = sorted((one for one in COMMANDS if one.words.split()[0] == name), key=lambda one: one.words)
        own = family.pop(0) if family[0].words == name else None
        parser = _add_command(below, name, own, about, examples)
        if family:
            inner = parser.add_subparsers(title="commands", metavar="COMMAND")
            children = {child.words.split()[1]: child for child in family}
            typed = children.keys() & set(words or ())
            is_listed = not typed or not {"-h", "--help"}.isdisjoint(words or ())
            for child_name, child in children.items():
                if is_listed or child_name in typed:
                    _add_command(inner, child_name, child, "", examples)
                else:
                    inner.choices[child_name] = untyped
    return top


def _add_command(below: Any, name: str, command: Command | None, about: str, examples: list[str]) -> Parser:
    operations = [find_operation(one) for one in command.operation.split()] if command else []
    own_text = command and (command.help or re.sub(r"^Run `alma .*", "", (command.run and command.run.__doc__) or ""))
    text = own_text or (write_for_people(operations[0].description) if operations else f"{about}.")
    about = about or re.split(r"[.:;] |\.$", text.partition("\n")[0])[0]
    text = "\n\n".join(fill(part, 79) for part in cleandoc(f"{text[0].upper()}{text[1:]}").split("\n\n"))
    help = f"{about[0].lower()}{about[1:]}"
    parser: Parser = below.add_parser(name, help=help, description=text, formatter_class=Formatter)
    add_shared(parser, argparse.SUPPRESS, argparse.SUPPRESS)
    parser.set_defaults(command=command, parser=parser)
    if command is not None:
        add_arguments(parser, command, operations)
    own = [line for line in examples if f"alma {command.words if command else name} " in f"{line} "]
    parser.epilog = "\n  ".join(["examples:", *own[:6]])
    return parser


def list_completions(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return completions for the last word: commands, options, or the values of an option."""
    *before, typed = words or [""]
    option: argparse.Action | None = None
    for word in before:
        action_named = None if option else parser._option_string_actions.get(word)
        if option is None:
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parser = action.choices.get(word, parser)
        option = action_named if action_named is not None and action_named.nargs != 0 else None
    if option is not None:
        values = list_choices(option)
    elif typed.startswith("-"):
        values = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    else:
        values = [value for action in parser._actions if not action.option_strings for value in list_choices(action)]
    return [value for value in values if value.startswith(typed)]


# -- parsing values


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return the time for `30 minutes`, `3d`, `yesterday` or `today`; return any other text unchanged."""
    now, word = now or datetime.now(UTC), text.strip().lower()
    if word in ("today", "yesterday"):
        midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=word == "yesterday")).isoformat()
    age = _AGE.fullmatch(word)
    try:
        days = _DAYS[age[2] or (age[3] or age[4])[0]] if age else 0
        return (now - timedelta(days=int(age[1]) * days)).isoformat() if age else text
    except OverflowError:
        return text


def rename_type(word: str) -> str:
    """Return the memory type that a word of the help means, such as `fact`; return any other word unchanged."""
    return next((_ALIASES[one][1] for one in (word, word.removesuffix("s")) if one in _ALIASES), word)


def parse_json(place: str, text: str) -> Any:
    """Parse JSON. Raise ValidationError that names `place` if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not valid JSON ({describe_parse_error(error)})") from error


# -- a call


def describe_reason(reason: str) -> str:
    """Return why no person makes a call, as a sentence of its own."""
    return f"{reason[0].upper()}{reason[1:]}"


def refuse_act(act: str, reason: str, door: str) -> PersonRequiredError:
    """Return the error for what only a person may do. `door` says what to do instead."""
    return PersonRequiredError(f"{act} is for a person to decide: {reason}. {door[0].upper()}{door[1:]}.")


def list_waiting(answer: Any) -> list[str]:
    """Return the ids of the memories in an answer that wait for a person."""
    memories = answer if isinstance(answer, list) else [answer]
    return [one.id for one in memories if getattr(one, "status", None) == Status.CANDIDATE and hasattr(one, "id")]


class Call:
    """One invocation of a command: its arguments, output and memory."""

    def __init__(self, args: argparse.Namespace, out: Output, stack: ExitStack) -> None:
        self.args = args
        self.out = out
        self.command: Command = args.command
        self.waiting: list[str] = []
        """Ids of the memories from this call that wait for a person, because no person made the call."""
        self._stack = stack

    # -- who makes it

    @cached_property
    def agent_above(self) -> str:
        """Which agent runs this command, and how that shows; empty if none does."""
        return people.find_agent()

    @cached_property
    def why_limited(self) -> str:
        """Why this call may not approve anything; empty if a person makes it."""
        return self.agent_above or people.find_missing_terminal()

    def require_person(self, act: str, door: str = people.DOORS, *, can_script: bool = False) -> None:
        """Raise PersonRequiredError unless a person decides; with `can_script`, a script that no agent runs may too.

        `door` says what to do instead.
        """
        reason = self.agent_above if can_script else self.why_limited
        if reason:
            if "yes" in self.args and not self.agent_above:
                door = "run it in a terminal, or pass --yes in a script that no agent runs"
            raise refuse_act(act, reason, door)

    def describe_waiting(self) -> str:
        """Return the note about memories that wait for a person."""
        what = ", ".join(self.waiting[:3]) + (", …" if len(self.waiting) > 3 else "")
        return f"note: {what} waits for a person's review, because {self.why_limited}. In a terminal, {REVIEW}"

    # -- the memory

    @cached_property
    def config(self) -> tuple[Path, Config]:
        """The configuration file and its content."""
        from ..app import read_config

        return read_config(self.args.config)

    @cached_property
    def alma(self) -> ALMA:
        """The memory that --config, $ALMA_CONFIG or the nearest `.alma/config.yaml` describes."""
        from ..app import open_memory
        from ..projects import limit_memory

        alma = self._stack.enter_context(open_memory(self.config[1], matching=self.command.matching))
        # Under a name of its own, so that it cannot undo what a person did on the command line.
        actor = f"cli ({'agent' if self.agent_above else 'script'})"
        return limit_memory(alma, actor) if self.why_limited else alma

    def read_arguments(self, name: str = "") -> dict[str, Any]:
        """Return the operation's arguments that were typed or that have a command-line default."""
        arguments: dict[str, Any] = {}
        for one in find_operation(name or self.command.operation.split()[0]).parameters:
            value = getattr(self.args, one.name, find_default(self.command, one, _NOT_TYPED))
            if one.name == "agent" and one.takes_preset and value is _NOT_TYPED and spell_parameter(self.command, one):
                is_required = one.needed and self.command.requires
                value = self.need_agent() if is_required else self.find_agent() or _NOT_TYPED
            if value is _NOT_TYPED:
                continue
            if one.name in ("memory_type", "types"):
                value = rename_type(value) if isinstance(value, str) else [rename_type(word) for word in value]
            if isinstance(value, str) and read_type(one)[0] is dict:
                value = parse_json(f"--{spell_parameter(self.command, one)}", value)
            elif isinstance(value, str) and one.name in MOMENTS:
                value = self._parse_time(one, value)
            elif takes_all(one) and value not in (valid := (*one.about.choices, "all")):
                raise ValidationError(unknown(one.name, value, valid))
            arguments[one.name] = None if value == "all" and takes_all(one) else value
        return arguments

    def _parse_time(self, parameter: Parameter, text: str) -> str:
        """Return the typed time, or the time that a typed age means."""
        time = parse_moment(text)
        try:
            datetime.fromisoformat(time.strip())
        except ValueError:
            form = "a time (2026-05-07, 2026-05-07T14:30Z, today, yesterday) or an age in minutes, hours, days, weeks, "
            form += "months or years ('30 minutes', 12h, 3d, '2 weeks')"
            raise ValidationError(
                f"--{spell_parameter(self.command, parameter)} must be {form}, not {text!r}"
            ) from None
        return time

    def find_agent(self) -> str | None:
        """Return the agent from --agent, the environment or the configuration; None if there is none."""
        if agent := getattr(self.args, "agent", None) or os.environ.get("ALMA_AGENT"):
            return str(agent)
        try:
            return self.config[1].default_agent
        except ALMAError:
            return None

    def need_agent(self) -> str:
        """Return the agent, or exit with a usage error."""
        agent = self.find_agent()
        return agent or self.fail_usage("requires --agent (or $ALMA_AGENT, or default_agent in the configuration)")

    def fail_usage(self, message: str) -> NoReturn:
        """Exit with a usage error."""
        parser: Parser = self.args.parser
        parser.error(f"{self.command.words} {message}")

    def _resolve_id(self, text: str) -> str:
        """Return the only id that starts with this text, or the text itself if there is none."""
        from ..upkeep import find_ids

        ids = find_ids(self.alma, text, 6) if _SHORT_ID.fullmatch(text) else []
        if len(ids) > 1:
            more = ", …" if len(ids) > 5 else ""
            raise ValidationError(f"id {text!r} is ambiguous: it matches {', '.join(ids[:5])}{more}")
        return ids[0] if ids else text

    def run(self, operation_name: str, /, **arguments: Any) -> Any:
        """Run an operation on the memory. Ids may be shortened."""
        operation = find_operation(operation_name)
        # A conversation's session_id is a name, not an id.
        for key in (IDS if operation.group in ("sessions", "work") else IDS - {"session_id"}) & arguments.keys():
            value = arguments[key]
            if isinstance(value, str):
                arguments[key] = self._resolve_id(value)
            elif isinstance(value, list):
                arguments[key] = [self._resolve_id(one) for one in value]
        if arguments.get("agent") is None and any(one.name == "agent" and one.needed for one in operation.parameters):
            arguments["agent"] = self.need_agent()
        if self.why_limited and operation_name in PERSONS_ACTS:
            raise refuse_act(PERSONS_ACTS[operation_name], self.why_limited, self._name_doors())
        progress = {"progress": self.out.progress} if operation.is_long else {}
        try:
            answer = operation.run(self.alma, **self._limit(operation, operation.check(arguments)), **progress)
        except ValidationError as error:
            raise ValidationError(self._name_options(str(error), operation)) from error
        except ScopeError as error:
            if not self.why_limited or "person" not in str(error):
                raise
            # The engine's message names commands, which are of no use here.
            act = re.split(r": |; ", str(error))[0]
            raise PersonRequiredError(f"{act}. {describe_reason(self.why_limited)}. {self._name_doors()}.") from error
        if self.why_limited and operation.effect != "reads":
            self.waiting += list_waiting(answer)
        return answer

    def _limit(self, operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, limited to what the caller may pass."""
        if not self.why_limited or not (self.agent_above or operation.name in PERSONS_WORDS):
            return arguments
        from ..projects import limit_statements

        return limit_statements(operation, arguments, may_approve=False)

    def _name_doors(self) -> str:
        door = people.DOORS if self.agent_above else SCRIPTS
        return f"{door[0].upper()}{door[1:]}"

    def _name_options(self, message: str, operation: Operation) -> str:
        """Return a message that names options instead of parameters."""
        names = {one.name for one in operation.parameters}
        # Reversed, so that `--workspace` wins over `--no-workspace`.
        actions = [one for one in reversed(self.args.parser._actions) if one.dest in names]
        options = {one.dest: one.option_strings[0] if one.option_strings else str(one.metavar) for one in actions}
        for name, option in _PARTS.items():
            if getattr(self.args, option, None):
                message = re.sub(rf"\b{name}\[\d+\](?:\.\w+)?", f"--{option}", message)
        every, long = ("|".join(one for one in options if mark in one) or "(?!)" for mark in ("", "_"))
        pattern = rf"\b({every})\[\d+\]|argument '({every})'|`({every})`|"
        pattern += rf"^({every})(?= (?:must|may|cannot|is|has)\b)|\b({long})\b"
        return re.sub(pattern, lambda name: options[name[name.lastindex or 0]], message, flags=re.MULTILINE)

    def run_typed(self, name: str = "", /, **more: Any) -> Any:
        """Run an operation, by default the command's own, with the typed arguments."""
        return self.run(name or self.command.operation.split()[0], **self.read_arguments(name) | more)

    def answer(self, name: str = "", /, **more: Any) -> Reply:
        """Run an operation as `run_typed` does, and reply as the command declares."""
        command, value = self.command, self.run_typed(name, **more)
        if command.key and (part := getattr(value, command.key, None)) is not None:
            value = list(part) if isinstance(part, tuple) else part
        reply = reply_value(value, command.key, f"{command.verb} {value.id}" if command.verb else "")
        reply.code = int(command.has_failed(value))
        return reply

    def refuse_options(self, names: str, why: str) -> None:
        """Raise ValidationError if one of these options was typed."""
        typed = [name for name in names.split() if getattr(self.args, name, None) not in (None, False)]
        options = [one.option_strings[0] for one in self.args.parser._actions if one.dest in typed]
        if options:
            raise ValidationError(f"{', '.join(options)} {why}")

    def confirm(self, question: str, *things: Any) -> None:
        """Show what will change and ask for confirmation, unless --yes was passed. Exit if the answer is no."""
        if not self.args.yes:
            self.out.show(*([] if self.out.as_json else things))
            if not self.out.confirm(question):
                self.out.line("Nothing was changed.")
                raise SystemExit(0)
