"""Derive the command line from the operations: a parser from their parameters, arguments from what was typed."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, get_args, get_origin

from ..errors import ALMAError, ValidationError
from .files import parse_json
from .render import Output, describe_empty

if TYPE_CHECKING:
    from ..config import Config
    from ..memory import ALMA
    from ..operations import Operation, Parameter

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
    "calibration": "confidence calibration",
    "erase-user": "delete --user",
    "forget": "archive",
    "health": "doctor --quick",
    "initialize": "session prepare",
    "progress": "work progress",
    "shown": "feedback --shown",
    "wake-up": "session wake-up",
}
"""Commands of earlier versions."""
_MEANT = {
    f"alma work {status}": f"alma work status ID {status}"
    for status in ("pending", "in_progress", "blocked", "review", "done", "failed")
}
"""Commands that people try, and those that do it."""
_SHORT_ID = re.compile(r"[a-z]{3}_[0-9a-z]{1,25}")
_AGE = re.compile(r"(\d{1,5})\s*(h|d|w|hours?|days?|weeks?|months?|years?)(\s+ago)?")
_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_NOT_TYPED = argparse.SUPPRESS


class Reply:
    """What a command answers: a document for programs; for people the parts, by default the document itself."""

    def __init__(self, document: object, *parts: Any, code: int = 0) -> None:
        self.document = document
        self.parts = parts or (document,)
        self.code = code


def reply_value(value: Any, key: str, text: str = "") -> Reply:
    """Reply with a value, which programs get under its key; a list also with its count."""
    counted = {"count": len(value)} if isinstance(value, list) else {}
    return Reply({**counted, key: value} if key else value, text, describe_empty(key) if value == [] else value)


Run = Callable[["Call"], "Reply | int"]
"""Runs a command; a number is the exit code of one that printed its answer itself."""


R = TypeVar("R", bound=Run)


class Argument(NamedTuple):
    """An argument that is no parameter of an operation."""

    flag: str
    options: Mapping[str, Any]
    values: Sequence[str] = ()
    group: str = ""
    """Arguments that exclude each other: of `either` one may be given, of `needed` one must."""


def extra(flag: str, metavar: str, help: str, values: Sequence[str] = (), group: str = "", **options: Any) -> Argument:
    """Declare an argument; one without a metavar is a switch."""
    kind = {"metavar": metavar} if metavar else {"action": "store_true"}
    return Argument(flag, {**kind, "help": help, **options}, values, group)


YES = extra("--yes", "", "do not ask")


@dataclass(frozen=True, slots=True)
class Command:
    words: str
    operation: str = ""
    """The operations whose parameters are its arguments, with spaces between; the first is run."""
    extras: tuple[Argument, ...] = ()
    _: KW_ONLY
    key: str = ""
    """What the answer is called in JSON; a list also gets its count."""
    part: str = ""
    """The field of the answer that is shown instead of all of it."""
    verb: str = ""
    """What was done: `added`."""
    ask: str = ""
    """What is asked before it is done, unless --yes answers."""
    about: str = ""
    """The operation that reads what the question is about; it is shown before."""
    positional: str | None = None
    """The parameters told by their place, `?` after one that may be left out; without it the first that is needed."""
    help: str = ""
    """What it does, where it does a part of what the operation can."""
    only: str = ""
    """The parameters that it takes then."""
    requires: bool = True
    """Whether the parser asks for what the operation needs; otherwise the command does."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names than those in NAMES; an empty one leaves the parameter out."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments where the command line has a default of its own."""
    matching: bool = True
    """Whether the store must have been filled by the configured embedder."""
    run: Run | None = None
    """Without it, the operation is run and its answer shown."""
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    own_log: bool = False
    """It reports what happens in its own way, like the servers."""


COMMANDS: list[Command] = []


def command(words: str, *parts: str | Argument, **more: Any) -> Callable[[R], R]:
    """Declare a command that is more than an operation: its operations and its other arguments.

    Its help comes from the docstring of the function, or from the operation.
    """

    def declare(run: R) -> R:
        operation = " ".join(part for part in parts if isinstance(part, str))
        extras = tuple(part for part in parts if isinstance(part, Argument))
        COMMANDS.append(Command(words, operation, extras, run=run, **more))
        return run

    return declare


# -- the parser


class Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            close = difflib.get_close_matches(str(value), [*names, *RENAMED], n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Valid: {', '.join(names)}."
            if meant := _MEANT.get(f"{self.prog} {value}"):
                hint = f"Did you mean `{meant}`?"
            raise argparse.ArgumentError(None, f"unknown {str(action.metavar or 'value').lower()} {value!r}. {hint}")


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


def spell_parameter(command: Command, parameter: Parameter) -> str:
    """Return what a parameter is called on the command line; empty: the command does not take it."""
    if command.only and parameter.name not in command.only.split():
        return ""
    return command.names.get(parameter.name, NAMES.get(parameter.name, parameter.name)).replace("_", "-")


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
    done: set[str] = set()
    for operation in operations:
        needed = (one.name for one in operation.parameters if one.needed and one.name not in ("agent", "user_id"))
        positional = next(needed, "") if command.positional is None else command.positional
        places = positional.replace("?", "").split()
        # Arguments told by their place must be added in their order.
        for one in sorted(operation.parameters, key=lambda one: places.index(one.name) if one.name in places else -1):
            if one.name not in done and spell_parameter(command, one):
                done.add(one.name)
                is_required = command.requires and operation is operations[0]
                nargs = "?" if f"{one.name}?" in positional.split() else None
                _add_parameter(parser, command, one, is_required, (nargs,) if one.name in places else ())
    groups: dict[str, Any] = {"": parser}
    for argument in (*command.extras, *([YES] if command.ask else [])):
        if argument.group not in groups:
            groups[argument.group] = parser.add_mutually_exclusive_group(required=argument.group == "needed")
        action = groups[argument.group].add_argument(argument.flag, **argument.options)
        action.values = argument.values


def _add_parameter(
    parser: argparse.ArgumentParser, command: Command, one: Parameter, required: bool, place: tuple[str | None, ...]
) -> None:
    """Add a parameter as an option, or in its `place`, which says whether it is needed there."""
    base, is_list, is_optional = read_type(one)
    spelled, default = spell_parameter(command, one), command.fixed.get(one.name, one.default)
    values = (*one.about.choices, "all") if takes_all(one) else one.about.choices
    about = one.about.text + (f": {', '.join(values[:-1])} or {values[-1]}" if values else "")
    about += "; may be repeated" if is_list and not place else ""
    is_given = place == (None,)
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
            none = f"--no-{spelled}"
            parser.add_argument(none, dest=one.name, action="store_const", const=None, default=_NOT_TYPED)
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


def resolve_id(alma: ALMA, text: str) -> str:
    """Return the id that begins like this; a text that begins none is left as it is."""
    if not _SHORT_ID.fullmatch(text):
        return text
    from ..inspection import find_ids

    ids = find_ids(alma, text, 6)
    if len(ids) > 1:
        more = ", …" if len(ids) > 5 else ""
        raise ValidationError(f"{text!r} is ambiguous; it may be {', '.join(ids[:5])}{more}")
    return ids[0] if ids else text


class Declined(Exception):
    """The person said no."""


class Call:
    """One command that was typed, and what it works with."""

    def __init__(self, args: argparse.Namespace, out: Output, stack: ExitStack) -> None:
        self.args = args
        self.out = out
        self.command: Command = args.command
        self._stack = stack

    @cached_property
    def config(self) -> tuple[Path, Config]:
        from .. import app

        return app.read_config(self.args.config)

    @cached_property
    def alma(self) -> ALMA:
        """The memory that --config, $ALMA_CONFIG or the nearest `.alma/config.yaml` describes."""
        from .. import app

        _, config = self.config
        return self._stack.enter_context(app.open_memory(config, matching=self.command.matching))

    def read_arguments(self, name: str = "") -> dict[str, Any]:
        """Return the arguments of an operation that were typed, or that the command line has a default for."""
        given: dict[str, Any] = {}
        for one in find_operation(name or self.command.operation.split()[0]).parameters:
            value = getattr(self.args, one.name, self.command.fixed.get(one.name, _NOT_TYPED))
            if one.name == "agent" and one.needed and value is _NOT_TYPED and spell_parameter(self.command, one):
                value = self.find_agent() or _NOT_TYPED
                if value is _NOT_TYPED and self.command.requires:
                    self.fail_usage("needs --agent (or $ALMA_AGENT, or default_agent in the configuration)")
            if value is _NOT_TYPED:
                continue
            if isinstance(value, str) and read_type(one)[0] is dict:
                value = parse_json(one.name, value)
            elif isinstance(value, str) and one.name in MOMENTS:
                value = parse_moment(value)
            given[one.name] = None if value == "all" and takes_all(one) else value
        return given

    def find_agent(self) -> str | None:
        """Return who it is by --agent, the environment or the configuration."""
        if agent := getattr(self.args, "agent", None) or os.environ.get("ALMA_AGENT"):
            return str(agent)
        try:
            return self.config[1].default_agent
        except ALMAError:
            return None

    def fail_usage(self, message: str) -> NoReturn:
        parser: Parser = self.args.parser
        parser.error(f"{self.command.words} {message}")

    def run(self, operation_name: str, /, **given: Any) -> Any:
        """Run an operation on the memory; ids may be shortened."""
        operation = find_operation(operation_name)
        # The name of a conversation is no id.
        for key in (IDS if operation.group in ("sessions", "work") else IDS - {"session_id"}) & given.keys():
            value = given[key]
            if isinstance(value, str):
                given[key] = resolve_id(self.alma, value)
            elif isinstance(value, list):
                given[key] = [resolve_id(self.alma, one) for one in value]
        progress = {"progress": self.out.progress} if operation.is_long else {}
        return operation.run(self.alma, **operation.check(given), **progress)

    def run_typed(self, name: str = "", /, **more: Any) -> Any:
        """Run an operation, the command's own by default, with what was typed, after asking where it asks."""
        command, name = self.command, name or self.command.operation.split()[0]
        given = self.read_arguments(name) | more
        if command.ask:
            known = [one.name for one in find_operation(command.about).parameters] if command.about else []
            self.confirm(command.ask, self.run(command.about, **{one: given[one] for one in known}) if known else None)
        return self.run(name, **given)

    def answer(self, name: str = "", /, **more: Any) -> Reply:
        """Run an operation as `run_typed` does, and answer as the command says."""
        command, value = self.command, self.run_typed(name, **more)
        if command.part:
            value = getattr(value, command.part)
            value = list(value) if isinstance(value, tuple) else value
        if command.part and command.verb:
            return Reply({command.key: value}, f"{command.verb} {value}")
        return reply_value(value, command.key, f"{command.verb} {value.id}" if command.verb else "")

    def confirm(self, question: str, *things: Any) -> None:
        """Ask whether to do it, after showing what it is about; --yes answers."""
        if not self.args.yes:
            self.out.show_parts(*([] if self.out.as_json else things))
            if not self.out.confirm(question):
                raise Declined
