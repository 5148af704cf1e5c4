"""Derive the command line from the operations: a parser from their parameters, arguments from what was typed."""

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

from ..errors import ALMAError, ValidationError, unknown
from ..types.record import find_source
from .render import EMPTY, Output

if TYPE_CHECKING:
    from ..config import Config
    from ..memory import ALMA
    from ..operations import Operation, Parameter

LISTING = """\
start:
  init         write a configuration file for this folder
  doctor       check that everything works, and say how to fix what does not
  demo         watch it learn, on a scratch database
  trust        trust the configuration and the memory in a folder

the loop:
  retrieve     find the memories that matter for a task
  learn        record how a task went, and say what was learned from it
  feedback     say what memories were worth; it moves their rank
  session      begin where the last session left off, note what happens, hand over
  work         track what is to be done: add, next, claim, status

memories:
  list         list memories, newest first
  search       look memories up by words or meaning, best first
  show         show all that is known of one memory
  add          add a fact, preference, strategy, warning, rule or conversation
  update       change a memory's fields, status or tags
  delete       erase a memory, or everything of a user, for good
  explain      say why a memory is retrieved for a task, or why not
  playbook     print all that was learned as one page

knowledge:
  ingest       read files into memory: chat exports, histories of coding agents, documents
  learn-from   find what a conversation or a note teaches, and keep it
  rules        keep rules in the files that coding agents read, and take edits back
  graph        see who and what is known, and how they are related
  domains      say what kind of work this memory is for, and what may be learned
  workflow     go on after an interruption: runs, checkpoints, branches, artifacts
  confidence   say how likely a strategy is to work, and how far to trust that

upkeep:
  stats        count what is stored, by type, status and agent
  usage        show what language models were asked, and what it cost
  archive      put away memories that nobody used for long and that have faded
  reconcile    ask a model which of the memories that look alike is out of date
  reindex      embed everything anew with the configured embedder
  vacuum       leave no trace of deleted memories, and give unused space back
  export       write the whole memory as JSON Lines
  import       take in what `alma export` wrote
  backup       copy the store to a new file while it is in use

other programs:
  mcp          serve the memory over MCP, or add it to the settings of a client
  serve        serve the memory over HTTP, on this machine unless told otherwise
  token        say who may call `alma serve`, and what they may do
  completion   print a script that lets your shell complete these commands

"""
SUMMARIES: dict[str, str] = dict(re.findall(r"^  (\S+) +(.+)$", LISTING, re.MULTILINE))
"""The commands, in the order in which people meet them."""
EPILOG = """\
examples:
  alma init
  alma retrieve "Deploy the auth service" --agent ops --prompt
  alma learn --agent ops --task "Deploy the auth service" --outcome success --strategy "Blue-green deployment"
  alma work next --agent ops --claim
  alma mcp install --client claude-code

`alma COMMAND --help` explains a command and shows examples. Ids may be shortened as long as they are unambiguous.
The configuration is --config, else $ALMA_CONFIG, else the nearest .alma/config.yaml here or above.
Where a command needs --agent, $ALMA_AGENT and then default_agent of the configuration stand in for it.
Exit codes: 0 done, 1 an error or nothing could be done, 2 wrong usage, 130 interrupted.
"""

NAMES = {
    "active_files": "file", "auto_expand": "no-expand", "blockers": "blocker", "branch_id": "branch",
    "branches": "branch", "confidence_decay_days": "decay-days", "confidence_level": "confidence", "context": "task",
    "decisions": "decision", "error_message": "error", "estimate_minutes": "estimate",
    "excluded_categories": "exclude", "from_branch": "from", "item_id": "id", "item_type": "type",
    "keep_latest": "keep", "key_decisions": "decision", "learning_categories": "learn", "lease_seconds": "lease",
    "memory_id": "id", "memory_type": "type", "min_occurrences_for_heuristic": "min-occurrences",
    "next_steps": "next", "node_id": "node", "notes": "note", "others": "other", "parent_id": "parent",
    "risk_flags": "risk", "run_id": "run", "session_id": "session", "strategies": "strategy",
    "strategies_used": "strategy", "strategy_used": "strategy", "tags": "tag", "tenant_id": "tenant", "tests": "test",
    "trusted": "untrusted", "types": "type", "user_id": "user", "workflow_id": "workflow",
}  # fmt: skip
"""What parameters are called on the command line, where that is not their own name."""
IDS = {
    "memory_id", "item_id", "parent_id", "blocked_by", "unblocked_by", "blocks", "session_id", "retrieval_id",
    "retrieved_memory_ids", "used_memory_ids",
}  # fmt: skip
"""Parameters that take ids: an unambiguous beginning is enough."""
MOMENTS = {"since", "until", "as_of", "older_than"}
"""Parameters that take times: also `3d`, `2 weeks`, `yesterday`."""
RENAMED = {
    "calibration": "confidence calibration", "erase-user": "delete --user", "forget": "archive",
    "health": "doctor --quick", "initialize": "session prepare", "progress": "work progress",
    "shown": "feedback --shown", "wake-up": "session wake-up",
}  # fmt: skip
"""Commands of earlier versions."""
NEGATED = {
    "auto_expand": "make no work items of the prompt",
    "trusted": "it is not your own: what it says waits for your review",
}
"""What options mean that switch off what is on by default."""
_STATUSES = ("pending", "in_progress", "blocked", "review", "done", "failed")
_SHORT_ID = re.compile(r"[a-z]{3}_[0-9a-z]{1,25}")
_AGE = re.compile(r"(\d{1,5})\s*(h|d|w|hours?|days?|weeks?|months?|years?)(\s+ago)?")
_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_TAKEN = re.compile(r"(--|!|)([a-z_*]+)(\??)(?::([a-z-]+))?(?:=(\S+))?")
_NOT_TYPED = argparse.SUPPRESS
_MODULES = {
    **dict.fromkeys(("init", "mcp", "serve", "token", "completion"), "manage"),
    **dict.fromkeys(("doctor", "trust", "reindex", "vacuum", "export", "backup", "import"), "store"),
    "demo": "demo",
}
"""Where commands are declared, if not in `commands`."""
REVIEW = "alma list --status candidate; alma update ID --status active approves one"
_RAW = argparse.RawDescriptionHelpFormatter


class Reply:
    """What a command answers: a document for programs; for people the parts, by default the document itself."""

    def __init__(self, document: object, *parts: Any, code: int = 0) -> None:
        self.document = document
        self.parts = parts or (document,)
        self.code = code


def reply_value(value: Any, key: str, text: str = "") -> Reply:
    """Reply with a value, which programs get under its key; a list also with its count."""
    counted = {"count": len(value)} if isinstance(value, list) else {}
    return Reply({**counted, key: value} if key else value, text, EMPTY.get(key, f"no {key}") if value == [] else value)


Run = Callable[["Call"], "Reply | int"]
"""Runs a command; a number is the exit code of one that printed its answer itself."""


R = TypeVar("R", bound=Run)


class Argument:
    """A decorator that gives a command an argument which is no parameter of an operation.

    `--tag TAG` is an option, `--tag TAG…` one that may be repeated, `--yes` a switch, and `FILE` is given by its place.
    Arguments of a group exclude each other: of `either` one may be given, of `needed` one must.
    """

    def __init__(self, spec: str, help: str, values: Sequence[str] = (), group: str = "", **options: Any) -> None:
        flag, _, metavar = spec.partition(" ")
        kind: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        if metavar.endswith("…"):
            kind, help = {"metavar": metavar[:-1], "action": "append"}, f"{help}; may be repeated"
        elif not flag.startswith("--"):
            flag, kind = flag.lower(), {"metavar": metavar or flag}
        self.flag, self.options, self.values, self.group = flag, {**kind, "help": help, **options}, values, group

    def __call__(self, run: R) -> R:
        vars(run)["extras"] = (self, *vars(run).get("extras", ()))
        return run


YES = Argument("--yes", "do not ask")


@dataclass(frozen=True, slots=True)
class Command:
    words: str
    operation: str = ""
    """The operations whose parameters are its arguments, with spaces between; the first is run."""
    takes: str = "*"
    """Which of the parameters it takes. `name` is given by its place, `name?` may be left out, `--name` is an option,
    `--name:other=5` one with another name than in NAMES and another default, and `!name` cannot be typed. `--*` are
    all others as options, and `*` too, but for the first that is needed, which is given by its place."""
    key: str = ""
    """What the answer is called in JSON; a list also gets its count. Of an answer with a field of that name, only the
    field is shown."""
    verb: str = ""
    """What was done: `added`."""
    _: KW_ONLY
    extras: tuple[Argument, ...] = ()
    help: str = ""
    """What it does, where it does a part of what the operation can."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What parameters mean, where the words of the operation do not fit this command."""
    requires: bool = True
    """Whether the parser asks for what the operation needs; otherwise the command does."""
    matching: bool = True
    """Whether the store must have been filled by the configured embedder."""
    run: Run | None = None
    """Without it, the operation is run and its answer shown."""
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    own_log: bool = False
    """It reports what happens in its own way, like the servers."""


COMMANDS: list[Command] = []


def command(*texts: str, **more: Any) -> Callable[[R], R]:
    """Declare a function as a command that is more than an operation, with the fields of `Command`.

    Its help comes from the docstring of the function, or from the operation. Other arguments are decorators below.
    """

    def declare(run: R) -> R:
        COMMANDS.append(Command(*texts, extras=vars(run).get("extras", ()), run=run, **more))
        return run

    return declare


# -- the parser


class Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            close = difflib.get_close_matches(str(value), [*names, *RENAMED], n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Valid: {', '.join(names)}."
            if self.prog == "alma work" and value in _STATUSES:
                hint = f"Did you mean `alma work status ID {value}`?"
            raise argparse.ArgumentError(None, f"unknown {str(action.metavar or 'value').lower()} {value!r}. {hint}")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return action.type(text) if action.type in (int, float) else super()._get_value(action, text)
        except ValueError:
            name = action.option_strings[0] if action.option_strings else action.metavar
            kind = "whole number" if action.type is int else "number"
            raise argparse.ArgumentError(None, f"{name} must be a {kind}, not {text!r}") from None


def rename_command(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words with the current name of the command, and a hint where they had an old one."""
    is_value = [word == "--config" for word in ["", *words]]
    at = next((at for at, word in enumerate(words) if not word.startswith("-") and not is_value[at]), 0)
    old = "".join(words[at : at + 1])
    if old not in RENAMED:
        return list(words), ""
    return [*words[:at], *RENAMED[old].split(), *words[at + 1 :]], f"hint: `alma {old}` is now `alma {RENAMED[old]}`"


def add_shared(parser: argparse.ArgumentParser, config: Any, switch: Any) -> None:
    """Add what every command takes, before it or after it: what is typed before must not be reset after it."""
    group = parser.add_argument_group("shared options")
    group.add_argument("--config", metavar="FILE", default=config, help="the configuration file")
    group.add_argument("--json", action="store_true", default=switch, help="print one JSON document")
    group.add_argument("--no-color", action="store_true", default=switch, help="no colours (as with $NO_COLOR)")


@cache
def read_takes(takes: str) -> dict[str, tuple[str, ...]]:
    """Return how `Command.takes` says that parameters are taken: mark, `?`, name and default of each."""
    return {name: rest for mark, name, *rest in _TAKEN.findall(takes) for rest in [(mark, *rest)]}


def spell_parameter(command: Command, parameter: Parameter) -> str:
    """Return what a parameter is called on the command line; empty: the command does not take it."""
    taken = read_takes(command.takes)
    mark, _, spelled, _ = taken.get(parameter.name) or ("--" if "*" in taken else "!", "", "", "")
    return "" if mark == "!" else spelled or NAMES.get(parameter.name, parameter.name).replace("_", "-")


def find_default(command: Command, parameter: Parameter, otherwise: Any) -> Any:
    """Return the default that the command line has for a parameter."""
    *_, default = read_takes(command.takes).get(parameter.name, ("",))
    return otherwise if not default else default if read_type(parameter)[0] is str else json.loads(default)


def read_type(parameter: Parameter) -> tuple[type, bool, bool]:
    """Return the type of a parameter or of its items, whether it takes several, and whether it takes nothing."""
    parts = get_args(parameter.type) or (parameter.type,)
    is_optional = type(None) in parts
    hint = next(part for part in parts if part is not type(None)) if is_optional else parameter.type
    is_list = get_origin(hint) is list
    base = get_args(hint)[0] if is_list else hint
    return get_origin(base) or base, is_list, is_optional


def add_arguments(parser: argparse.ArgumentParser, command: Command, operations: Sequence[Operation]) -> None:
    if command.add_arguments is not None:
        command.add_arguments(parser)
    done, taken = set(), read_takes(command.takes)
    for operation in operations:
        needed = [one.name for one in operation.parameters if one.needed and one.name not in ("agent", "user_id")]
        places = {name: optional or None for name, (mark, optional, *_) in taken.items() if not mark}
        if places.pop("*", "") is None and not places:
            places = dict.fromkeys(needed[:1])
        order = list(places)
        # Arguments given by their place must be added in their order.
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
    """Add a parameter as an option, or in its `place`, which says whether it is needed there."""
    base, is_list, is_optional = read_type(one)
    spelled, default = spell_parameter(command, one), find_default(command, one, one.default)
    values = (*one.about.choices, "all") if takes_all(one) else one.about.choices
    text = NEGATED.get(one.name, one.about.text) if one.default is True else one.about.text
    text = command.about.get(one.name, text).replace("null for any", "all for any")
    about = text + (f": {', '.join(values[:-1])} or {values[-1]}" if values else "")
    about += "; may be repeated" if is_list and not place else ""
    is_given = place == (None,)
    # A source may be written under another name than the listed one that it counts as.
    default = find_source(default) if one.name == "source" and default else default
    about += f" (default {default})" if default not in (None, "", False, True) and not is_given else ""
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
        # Who it is may come from the environment or the configuration.
        is_needed = required and one.needed and one.name != "agent"
        action = parser.add_argument(f"--{spelled}", dest=one.name, required=is_needed, **options)
        if is_optional and isinstance(one.default, str) and not values:
            none: dict[str, Any] = {"action": "store_const", "const": None, "default": _NOT_TYPED}
            parser.add_argument(f"--no-{spelled}", dest=one.name, help=f"no {spelled}, not even the default", **none)
    action.values = values  # type: ignore[attr-defined]


def takes_all(one: Parameter) -> bool:
    """Whether `all` stands for no condition, where the operation has one by default."""
    return bool(one.about.choices) and read_type(one)[2] and one.default is not None


def find_operation(name: str) -> Operation:
    """Return an operation; modules of operations are loaded until it is found."""
    from ..operations import MODULES, OPERATIONS

    for module in chain.from_iterable(MODULES.values()):
        if name in OPERATIONS:
            break
        import_module(module)
    return OPERATIONS[name]


def list_choices(action: argparse.Action) -> list[str]:
    """Return the values that an argument takes, as far as they are known."""
    return [str(value) for value in getattr(action, "values", None) or action.choices or ()]


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands; with words, only of the commands among them."""
    for name in SUMMARIES.keys() & (SUMMARIES if words is None else words):
        import_module(f".{_MODULES.get(name, 'commands')}", __package__)
    examples = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8").splitlines()
    top = Parser(
        prog="alma",
        usage="alma [--version] [--config FILE] [--json] [--no-color] COMMAND ...",
        description="Memory that learns: record what worked, get it back when it matters.",
        epilog=LISTING + EPILOG,
        formatter_class=_RAW,
    )
    top.add_argument("--version", action="version", version=f"alma {__version__}")
    add_shared(top, None, False)
    top.set_defaults(command=None, parser=top)
    below = top.add_subparsers(prog="alma", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, about in SUMMARIES.items():
        if words is not None and name not in words:
            below.add_parser(name, add_help=False)
            continue
        family = sorted((one for one in COMMANDS if one.words.split()[0] == name), key=lambda one: one.words)
        own = family.pop(0) if family[0].words == name else None
        parser = _add_command(below, name, own, about, examples)
        if family:
            inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=own is None)
            for child in family:
                _add_command(inner, child.words.split()[1], child, "", examples)
    return top


def _add_command(below: Any, name: str, command: Command | None, about: str, examples: list[str]) -> Parser:
    operations = [find_operation(one) for one in command.operation.split()] if command else []
    own_text = command and (command.help or (command.run and command.run.__doc__))
    text = own_text or (operations[0].description if operations else about)
    about = about or re.split(r"[.:;] |\.$", text.partition("\n")[0])[0]
    text = "\n\n".join(fill(part, 79) for part in cleandoc(f"{text[0].upper()}{text[1:]}").split("\n\n"))
    help = f"{about[0].lower()}{about[1:]}"
    parser: Parser = below.add_parser(name, help=help, description=text, formatter_class=_RAW)
    add_shared(parser, argparse.SUPPRESS, argparse.SUPPRESS)
    if command is not None:
        parser.set_defaults(command=command, parser=parser)
        add_arguments(parser, command, operations)
    own = [line for line in examples if f"alma {command.words if command else name} " in f"{line} "]
    parser.epilog = "\n  ".join(["examples:", *own[:6]])
    return parser


def list_completions(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return what the last word may become: commands, options, or the values of an option."""
    *before, typed = words or [""]
    option: argparse.Action | None = None
    for word in before:
        named = None if option else parser._option_string_actions.get(word)
        if option is None:
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parser = action.choices.get(word, parser)
        option = named if named is not None and named.nargs != 0 else None
    if option is not None:
        values = list_choices(option)
    elif typed.startswith("-"):
        values = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    else:
        values = [value for action in parser._actions if not action.option_strings for value in list_choices(action)]
    return [value for value in values if value.startswith(typed)]


# -- what was typed


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return the time that `3d`, `2 weeks`, `yesterday` or `today` mean; any other text as it is."""
    now, word = now or datetime.now(UTC), text.strip().lower()
    if word in ("today", "yesterday"):
        midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=word == "yesterday")).isoformat()
    age = _AGE.fullmatch(word)
    try:
        return text if age is None else (now - timedelta(days=int(age[1]) * _DAYS[age[2][0]])).isoformat()
    except OverflowError:
        return text


def parse_json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was recorded") from error


# -- a call


class Call:
    """One command that was typed, and what it works with."""

    def __init__(self, args: argparse.Namespace, out: Output, stack: ExitStack) -> None:
        self.args = args
        self.out = out
        self.command: Command = args.command
        self._stack = stack

    @cached_property
    def config(self) -> tuple[Path, Config]:
        from ..app import read_config

        return read_config(self.args.config)

    @cached_property
    def alma(self) -> ALMA:
        """The memory that --config, $ALMA_CONFIG or the nearest `.alma/config.yaml` describes."""
        from ..app import open_memory

        return self._stack.enter_context(open_memory(self.config[1], matching=self.command.matching))

    def read_arguments(self, name: str = "") -> dict[str, Any]:
        """Return the arguments of an operation that were typed, or that the command line has a default for."""
        given: dict[str, Any] = {}
        for one in find_operation(name or self.command.operation.split()[0]).parameters:
            value = getattr(self.args, one.name, find_default(self.command, one, _NOT_TYPED))
            if one.name == "agent" and one.needed and value is _NOT_TYPED and spell_parameter(self.command, one):
                value = self.need_agent() if self.command.requires else self.find_agent() or _NOT_TYPED
            if value is _NOT_TYPED:
                continue
            if isinstance(value, str) and read_type(one)[0] is dict:
                value = parse_json(f"--{spell_parameter(self.command, one)}", value)
            elif isinstance(value, str) and one.name in MOMENTS:
                value = self._parse_time(one, value)
            elif takes_all(one) and value not in (valid := (*one.about.choices, "all")):
                raise ValidationError(unknown(one.name, value, valid))
            given[one.name] = None if value == "all" and takes_all(one) else value
        return given

    def _parse_time(self, parameter: Parameter, text: str) -> str:
        """Return the time that was typed, or that an age means."""
        time = parse_moment(text)
        try:
            datetime.fromisoformat(time.strip())
        except ValueError:
            form = "a time such as 2026-05-07, or an age such as '2 weeks'"
            raise ValidationError(
                f"--{spell_parameter(self.command, parameter)} must be {form}, not {text!r}"
            ) from None
        return time

    def find_agent(self) -> str | None:
        """Return who it is by --agent, the environment or the configuration."""
        if agent := getattr(self.args, "agent", None) or os.environ.get("ALMA_AGENT"):
            return str(agent)
        try:
            return self.config[1].default_agent
        except ALMAError:
            return None

    def need_agent(self) -> str:
        agent = self.find_agent()
        return agent or self.fail_usage("needs --agent (or $ALMA_AGENT, or default_agent in the configuration)")

    def fail_usage(self, message: str) -> NoReturn:
        parser: Parser = self.args.parser
        parser.error(f"{self.command.words} {message}")

    def _resolve_id(self, text: str) -> str:
        """Return the id that begins like this; a text that begins none is left as it is."""
        from ..upkeep import find_ids

        ids = find_ids(self.alma, text, 6) if _SHORT_ID.fullmatch(text) else []
        if len(ids) > 1:
            more = ", …" if len(ids) > 5 else ""
            raise ValidationError(f"{text!r} is ambiguous; it may be {', '.join(ids[:5])}{more}")
        return ids[0] if ids else text

    def run(self, operation_name: str, /, **given: Any) -> Any:
        """Run an operation on the memory; ids may be shortened."""
        operation = find_operation(operation_name)
        # The name of a conversation is no id.
        for key in (IDS if operation.group in ("sessions", "work") else IDS - {"session_id"}) & given.keys():
            value = given[key]
            if isinstance(value, str):
                given[key] = self._resolve_id(value)
            elif isinstance(value, list):
                given[key] = [self._resolve_id(one) for one in value]
        if given.get("agent") is None and any(one.name == "agent" and one.needed for one in operation.parameters):
            given["agent"] = self.need_agent()
        progress = {"progress": self.out.progress} if operation.is_long else {}
        try:
            return operation.run(self.alma, **operation.check(given), **progress)
        except ValidationError as error:
            raise ValidationError(self._name_options(str(error), operation)) from error

    def _name_options(self, message: str, operation: Operation) -> str:
        """Return a message with the options of the command line for the names of parameters."""
        names = {one.name for one in operation.parameters}
        # Backwards: of `--workspace` and `--no-workspace` the first counts.
        actions = [one for one in reversed(self.args.parser._actions) if one.dest in names]
        options = {one.dest: one.option_strings[0] if one.option_strings else str(one.metavar) for one in actions}
        every, long = ("|".join(one for one in options if mark in one) or "(?!)" for mark in ("", "_"))
        pattern = rf"argument '({every})'|`({every})`|^({every})(?= (?:must|may|cannot|is|has)\b)|\b({long})\b"
        return re.sub(pattern, lambda name: options[name[name.lastindex or 0]], message, flags=re.MULTILINE)

    def run_typed(self, name: str = "", /, **more: Any) -> Any:
        """Run an operation, the command's own by default, with what was typed."""
        return self.run(name or self.command.operation.split()[0], **self.read_arguments(name) | more)

    def answer(self, name: str = "", /, **more: Any) -> Reply:
        """Run an operation as `run_typed` does, and answer as the command says."""
        command, value = self.command, self.run_typed(name, **more)
        if command.key and (part := getattr(value, command.key, None)) is not None:
            value = list(part) if isinstance(part, tuple) else part
        return reply_value(value, command.key, f"{command.verb} {value.id}" if command.verb else "")

    def refuse_options(self, names: str, why: str) -> None:
        """Refuse options that do not go with others, if one of them was typed."""
        typed = [name for name in names.split() if getattr(self.args, name, None) not in (None, False)]
        options = [one.option_strings[0] for one in self.args.parser._actions if one.dest in typed]
        if options:
            raise ValidationError(f"{', '.join(options)} {why}")

    def confirm(self, question: str, *things: Any) -> None:
        """Ask whether to do it, after showing what it is about; --yes answers. End where the person says no."""
        if not self.args.yes:
            self.out.show(*([] if self.out.as_json else things))
            if not self.out.confirm(question):
                self.out.line("nothing was changed")
                raise SystemExit(0)
