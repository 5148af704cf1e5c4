"""Single memories: list, show, add, update, delete, feedback."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import NotFoundError, ValidationError
from ..types.kinds import Episode, Memory, MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from .draw import listing
from .draw_one import card
from .episodes import register_episode
from .many import register_many
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, add_source, add_tags, command, given, listed
from .reading import json_of

if TYPE_CHECKING:
    from ..api import memories as api
    from ..core import ALMA
else:
    api = Later("alma.api.memories")

_RELATED = 5
_STATUSES = tuple(Status)
_OPTIONS = {"status": "--status", "tag": "--tag", "tags": "--tag"}
_SIGNALS = {"up": "thumbs_up", "down": "thumbs_down", "used": "used", "ignored": "ignored"}


def register(commands: Subparsers) -> None:
    _register_list(commands)
    show_parser = listed(commands, "show", show, "alma show heu_01k…")
    show_parser.add_argument("id", metavar="ID")
    _register_add(commands)
    _register_update(commands)
    _register_delete(commands)
    _register_feedback(commands)
    _register_shown(commands)


def _register_list(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "list",
        list_memories,
        """
        alma list --type heuristic --agent ops
        alma list --status archived --limit 10
        alma list --status all --json
        """,
    )
    add_choice(parser, "--type", tuple(MemoryType), metavar="TYPE", dest="memory_type")
    parser.add_argument("--agent", metavar="A")
    parser.add_argument("--user", metavar="U", dest="user_id")
    add_choice(parser, "--status", (*_STATUSES, "all"), metavar="S", default="active")
    parser.add_argument("--tag", metavar="TAG")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default 50)")


def list_memories(args: argparse.Namespace, out: Output) -> int:
    status = None if args.status == "all" else args.status
    with opened(args) as alma:
        memories = api.list_memories(alma, args.memory_type, args.agent, args.user_id, status, args.tag, args.limit)
    if not out.answered({"count": len(memories), "memories": memories}):
        out.show(listing(memories))
    return 0


# -- show


def show(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        memory = api.get_memory(alma, args.id)
        [record] = alma.engine.store.get([memory.id])
        history = api.memory_history(alma, memory.id)
        related = _related(alma, record)
    document = {
        "memory": memory,
        "evidence": record.evidence,
        "provenance": record.provenance,
        "related": [{"id": one.id, "memory": one} for one in related],
        "history": history,
    }
    if not out.answered(document):
        out.show(*card(memory, record, related, history))
    return 0


def _related(alma: ALMA, record: Record) -> list[Memory]:
    """The outcomes a lesson was learned from, or the lessons an outcome counts for: they share a strategy group.

    Of a turn, its conversation.
    """
    if not record.links:
        return []
    if record.kind == "turn":
        return [_whole(alma.get(record.links[0]))]
    lesson = record.kind != MemoryType.OUTCOME
    kinds = {MemoryType.OUTCOME} if lesson else {MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN}
    where = Where(kinds=kinds, projects={alma.project_id}, linked=record.links[:1])
    return [alma.get(one.id) for one in alma.engine.store.scan(where, _RELATED)]


def _whole(memory: Memory) -> Memory:
    """A conversation without its turns: `show` of its own id tells them."""
    return replace(memory, turns=()) if isinstance(memory, Episode) else memory


# -- add


def _register_add(commands: Subparsers) -> None:
    adding = listed(commands, "add", None, "\n".join((*_ADDING.values(), _CONVERSATION, _FILE)))
    kinds = adding.add_subparsers(title="what to add", metavar="KIND", required=True)
    for name, (help, operation, needed, optional) in _ADDABLE.items():
        parser = command(kinds, name, add, help, _ADDING[name])
        parser.set_defaults(operation=operation, names=(*needed, *optional))
        for argument in needed:
            parser.add_argument(_option(argument), dest=argument, metavar="TEXT", required=True)
        for argument in optional:
            parser.add_argument(_option(argument), dest=argument, metavar="TEXT")
        add_source(parser, "explicit_instruction" if name == "preference" else "user_stated")
        add_tags(parser)
        parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")
    register_episode(kinds)
    register_many(kinds)


_CONVERSATION = "alma add episode chat.jsonl --agent ops --session 2026-05-07"
_FILE = "alma add many facts.jsonl --agent ops"
_ADDING = {
    "knowledge": 'alma add knowledge --agent ops --domain deployment --fact "The deploy window is 9 to 17 h"',
    "preference": 'alma add preference --user ana --category style --preference "Short answers"',
    "heuristic": (
        'alma add heuristic --agent ops --condition "Deploying a service" --strategy "Blue-green deployment"'
    ),
    "rule": 'alma add rule --agent ops --rule "Run the tests before a commit" --why "the build is slow"',
    "anti-pattern": (
        'alma add anti-pattern --agent ops --pattern "Deploy on Friday" --why-bad "Nobody is there on Saturday"'
    ),
}
_ADDABLE: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "knowledge": ("add a fact", "add_knowledge", ("agent", "domain", "fact"), ("subject", "attribute", "user_id")),
    "preference": (
        "add what a user wants; it stands in every retrieval for them",
        "add_preference",
        ("user_id", "category", "preference"),
        ("attribute",),
    ),
    "heuristic": (
        "state a strategy; outcomes will count for or against it",
        "add_heuristic",
        ("agent", "condition", "strategy"),
        ("category", "user_id"),
    ),
    "rule": (
        "state what is to be done or not done",
        "add_rule",
        ("agent", "rule"),
        ("trigger", "why", "reach", "user_id"),
    ),
    "anti-pattern": (
        "state what not to do, and why",
        "add_anti_pattern",
        ("agent", "pattern", "why_bad"),
        ("better_alternative", "condition", "category", "user_id"),
    ),
}


def _option(argument: str) -> str:
    return "--user" if argument == "user_id" else f"--{argument.replace('_', '-')}"


def add(args: argparse.Namespace, out: Output) -> int:
    told = given(args, *args.names, "source", "tags")
    if args.metadata is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    with opened(args) as alma:
        memory: Memory = getattr(api, args.operation)(alma, **told)
    return _changed(out, "added", memory)


# -- change


def _register_update(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "update",
        update,
        """
        alma update kno_01k… fact="The deploy window is 8 to 18 h"
        alma update heu_01k… --status archived
        alma update heu_01k… --tag reviewed --tag 2026
        """,
    )
    parser.add_argument("id", metavar="ID")
    parser.add_argument("fields", metavar="FIELD=VALUE", nargs="*")
    add_choice(parser, "--status", _STATUSES, metavar="S")
    add_tags(parser)
    parser.add_argument("--source", metavar="S", default="user", help="who makes the change (default: user)")


def update(args: argparse.Namespace, out: Output) -> int:
    fields = _pairs(args.fields)
    with opened(args) as alma:
        memory = api.update_memory(alma, args.id, fields, args.status, args.tags, args.source)
    return _changed(out, "updated", memory)


def _pairs(given: Sequence[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ValidationError(f"{one!r} is no FIELD=VALUE, such as fact='The new text'")
        if name in _OPTIONS:
            raise ValidationError(f"{name} is not a field here but an option: {_OPTIONS[name]} {value}")
        fields[name] = json_of(name, value) if name == "metadata" else value
    return fields


def _register_delete(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "delete",
        delete,
        "alma delete kno_01k… --yes",
    )
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def delete(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        memory = api.get_memory(alma, args.id)
        parts = _parts(memory)
        if not args.yes:
            _show_briefly(out, memory)
        if not (args.yes or out.confirm(f"Erase it for good{parts}?")):
            out.line("nothing was erased")
            return 0
        api.delete_memory(alma, memory.id)
    gone = {"turns": [turn.id for turn in memory.turns]} if isinstance(memory, Episode) else {}
    if not out.answered({"deleted": memory.id, **gone}):
        out.line(f"erased {memory.id}{parts}")
    return 0


def _parts(memory: Memory) -> str:
    if not isinstance(memory, Episode) or not memory.turns:
        return ""
    return f", with its {counted(len(memory.turns), 'turn')}"


def _show_briefly(out: Output, memory: Memory) -> None:
    if not out.as_json:
        out.show(listing([memory]))


def _register_feedback(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "feedback",
        feedback,
        """
        alma feedback heu_01k… up
        alma feedback kno_01k… ignored
        """,
    )
    parser.add_argument("id", metavar="ID")
    parser.add_argument("signal", metavar="SIGNAL", choices=tuple(_SIGNALS), help="up, down, used or ignored")


def feedback(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        before = api.get_memory(alma, args.id)
        api.record_feedback(alma, before.id, signal=_SIGNALS[args.signal])
        memory = api.get_memory(alma, before.id)
    document = {"memory": memory, "signal": _SIGNALS[args.signal], "confidence_before": before.confidence}
    if not out.answered(document):
        out.line(f"{_SIGNALS[args.signal]} counted; confidence {before.confidence:.2f} → {memory.confidence:.2f}")
    return 0


def _register_shown(commands: Subparsers) -> None:
    parser = listed(commands, "shown", shown, "alma shown heu_01k… kno_01k… out_01k… --used heu_01k…")
    parser.add_argument("shown", metavar="ID", nargs="+", help="all memories that were shown")
    parser.add_argument(
        "--used", metavar="ID", action="append", default=[], help="one of them that was used; may be repeated"
    )


def shown(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        report = api.record_usage(alma, args.shown, args.used)
    if not report.recorded:
        raise NotFoundError(f"none of these memories is held: {', '.join(report.unknown)}")
    if not out.answered(report):
        used = len({*args.used} & {*report.recorded})
        out.line(f"{counted(used, 'memory', 'memories')} used, {len(report.recorded) - used} passed over")
    return 0


def _changed(out: Output, verb: str, memory: Memory) -> int:
    if not out.answered({"memory": memory}):
        out.line(f"{verb} {memory.id}")
        out.show(listing([memory]))
    return 0
