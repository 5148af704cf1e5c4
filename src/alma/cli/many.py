"""`alma add many` and `alma add episodes`: memories and conversations that stand in a file, one to a line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ValidationError
from ..types.kinds import MemoryType
from .batches import Told, lines, sent
from .draw import listing
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Run, Subparsers, add_tags, command, given

if TYPE_CHECKING:
    from ..api import many as api
    from ..types.kinds import Memory
else:
    api = Later("alma.api.many")

_SHOWN = 20


def register_many(kinds: Subparsers) -> None:
    _register(
        kinds,
        "many",
        add_many,
        "add memories of any types from a file; added again they change nothing",
        """
        alma add many facts.jsonl --agent ops
        alma add many - --tag imported < everything.jsonl
        """,
        "JSON Lines ('-': standard input), each an object with its type (domain_knowledge, user_preference, heuristic, "
        "anti_pattern or rule) and the options of `alma add` for it, such as domain and fact",
    )
    _register(
        kinds,
        "episodes",
        add_episodes,
        "keep conversations from a file, or what is new of them",
        "alma add episodes chats.jsonl --agent ops --tag standup",
        "JSON Lines ('-': standard input), each an object with a session_id and its turns, and perhaps a user_id, a "
        "title, tags and metadata",
    )


def _register(kinds: Subparsers, name: str, run: Run, help: str, examples: str, about: str) -> None:
    parser = command(kinds, name, run, help, examples)
    parser.add_argument("file", metavar="FILE", help=about)
    parser.add_argument("--agent", metavar="A", help="whose it is, where a line does not say it")
    add_tags(parser)


def add_many(args: argparse.Namespace, out: Output) -> int:
    told = [_with_agent(one, args.agent) for one in _lines(args, "a type and what is to be added", {})]
    with opened(args) as alma, out.progress("adding") as progress:
        made = sent(told, lambda batch: api.add_many(alma, batch), progress)
    return _tell(out, "added", "memory", "memories", made)


def _with_agent(one: Told, agent: str | None) -> Told:
    """What a user wants is nobody's in particular."""
    if agent is None or one.given.get("type") == MemoryType.USER_PREFERENCE:
        return one
    return Told(one.place, {"agent": agent, **one.given})


def add_episodes(args: argparse.Namespace, out: Output) -> int:
    told = _lines(args, "a session_id and turns", given(args, "agent"))
    with opened(args) as alma, out.progress("keeping") as progress:
        made = sent(told, lambda batch: api.add_episodes(alma, batch), progress)
    return _tell(out, "kept", "conversation", "conversations", made)


def _lines(args: argparse.Namespace, what: str, gaps: Mapping[str, Any]) -> list[Told]:
    told = list(lines(args.file, what, {**gaps, **given(args, "tags")}))
    if not told:
        raise ValidationError(f"{args.file} holds nothing; nothing was recorded")
    return told


def _tell(out: Output, verb: str, noun: str, several: str, made: list[Any]) -> int:
    memories: list[Memory] = made
    if not out.answered({"count": len(memories), "ids": [one.id for one in memories]}):
        out.line(f"{verb} {counted(len(memories), noun, several)}")
        out.show(listing(memories[:_SHOWN], more=max(0, len(memories) - _SHOWN)))
    return 0
