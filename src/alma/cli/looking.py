"""`alma search`, `alma explain`, `alma playbook`: what is held, and why it comes up or does not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..types.kinds import MemoryType
from ..types.record import Status
from .draw import factors, matches
from .marks import fit, sentence
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, listed
from .shapes import line

if TYPE_CHECKING:
    from ..api import memories as api
else:
    api = Later("alma.api.memories")


def register(commands: Subparsers) -> None:
    _register_search(commands)
    explaining = listed(
        commands, "explain", explain, 'alma explain heu_01k… --task "Deploy the billing service" --agent ops'
    )
    explaining.add_argument("id", metavar="ID", help="the memory")
    explaining.add_argument("--task", metavar="T", required=True, help="the task it might be retrieved for")
    explaining.add_argument("--agent", metavar="A", required=True, help="who will do it")
    explaining.add_argument("--user", metavar="U", dest="user_id", help="for whom")
    page = listed(commands, "playbook", playbook, "alma playbook --agent ops > PLAYBOOK.md")
    page.add_argument("--agent", metavar="A", help="only this agent's")
    page.add_argument("--max-tokens", metavar="N", type=int, default=4000, help="the page's budget (default 4000)")
    page.add_argument("--user", metavar="U", dest="user_id", help="with what belongs to this user")


def _register_search(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "search",
        search,
        """
        alma search "deploy window"
        alma search login --type heuristic --agent qa --limit 5
        alma search "old rules" --status all
        """,
    )
    parser.add_argument("query", metavar="WORDS", help="words, or what it is about")
    add_choice(parser, "--type", tuple(MemoryType), metavar="TYPE", dest="memory_type")
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--user", metavar="U", dest="user_id", help="only what this user sees")
    add_choice(parser, "--status", (*Status, "all"), metavar="S", default="active")
    parser.add_argument("--limit", metavar="N", type=int, default=10, help="at most so many (default 10)")


def search(args: argparse.Namespace, out: Output) -> int:
    status = None if args.status == "all" else args.status
    with opened(args) as alma:
        found = api.search(alma, args.query, args.memory_type, args.agent, args.user_id, status, args.limit)
    if not out.answered({"count": len(found), "matches": found}):
        out.show(matches(found))
    return 0


def explain(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        why = api.explain(alma, args.id, args.task, args.agent, args.user_id)
        memory = api.get_memory(alma, args.id)
    if out.answered(why):
        return 0
    verdict = line(f"retrieved, in place {why.rank}", "green") if why.retrieved else line("not retrieved", "yellow")
    out.show(verdict + line(f": {why.reason}"))
    if why.explanation is not None:
        out.show(factors(why.explanation, fit(sentence(memory))))
    return 0


def playbook(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        page = api.playbook(alma, args.agent, args.max_tokens, args.user_id)
    if not out.answered(page):
        out.line(page.text)
    return 0
