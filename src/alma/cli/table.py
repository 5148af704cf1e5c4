"""Every command that runs one operation, and the groups of the help. The examples are in `examples.txt`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from textwrap import dedent, fill
from typing import Any

from alma import __version__

from . import commands, manage
from .derive import COMMANDS, Argument, Command, Parser, add_arguments, add_shared, extra, find_operation

GROUPS = {
    "start": {
        "init": "write a configuration file for this folder",
        "doctor": "check that everything works, and say how to fix what does not",
        "demo": "watch it learn, on a scratch database",
        "trust": "trust the configuration and the memory in a folder",
    },
    "the loop": {
        "retrieve": "find the memories that matter for a task",
        "learn": "record how a task went, and say what was learned from it",
        "feedback": "say what memories were worth; it moves their rank",
        "session": "begin where the last session left off, note what happens, hand over",
        "work": "track what is to be done: add, next, claim, status",
    },
    "memories": {
        "list": "list memories, newest first",
        "search": "look memories up by words or meaning, best first",
        "show": "show all that is known of one memory",
        "add": "add a fact, preference, strategy, warning, rule or conversation",
        "update": "change a memory's fields, status or tags",
        "delete": "erase a memory, or everything of a user, for good",
        "explain": "say why a memory is retrieved for a task, or why not",
        "playbook": "print all that was learned as one page",
    },
    "knowledge": {
        "ingest": "read files into memory: chat exports, histories of coding agents, documents",
        "learn-from": "find what a conversation or a note teaches, and keep it",
        "rules": "keep rules in the files that coding agents read, and take edits back",
        "graph": "see who and what is known, and how they are related",
        "domains": "say what kind of work this memory is for, and what may be learned",
        "workflow": "go on after an interruption: runs, checkpoints, branches, artifacts",
        "confidence": "say how likely a strategy is to work, and how far to trust that",
    },
    "upkeep": {
        "stats": "count what is stored, by type, status and agent",
        "usage": "show what language models were asked, and what it cost",
        "archive": "put away memories that nobody used for long and that have faded",
        "reconcile": "ask a model which of the memories that look alike is out of date",
        "reindex": "embed everything anew with the configured embedder",
        "vacuum": "leave no trace of deleted memories, and give unused space back",
        "export": "write the whole memory as JSON Lines",
        "import": "take in what `alma export` wrote",
        "backup": "copy the store to a new file while it is in use",
    },
    "other programs": {
        "mcp": "serve the memory over MCP, or add it to the settings of a client",
        "serve": "serve the memory over HTTP, on this machine unless told otherwise",
        "token": "say who may call `alma serve`, and what they may do",
        "completion": "print a script that lets your shell complete these commands",
    },
}
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

_BY = {"agent": "by"}
_EDITED = "title description item_type priority owner parent_id tests estimate_minutes tags metadata"
_ON = extra(
    "--on", "ID", "the item that must be done first; may be repeated", dest="blocked_by", action="append", required=True
)
_FROM = extra(
    "--from",
    "ID",
    "the item it need not wait for; may be repeated",
    dest="unblocked_by",
    action="append",
    required=True,
)
_ADDS = [
    ("knowledge", "user_stated"),
    ("heuristic", "user_stated"),
    ("rule", "user_stated"),
    ("anti-pattern", "user_stated"),
    ("preference", "explicit_instruction"),
]
_RAW = argparse.RawDescriptionHelpFormatter


def _change_item(word: str, only: str, help: str, *extras: Argument, **more: Any) -> Command:
    """Return a command that does a part of what `update_progress` can."""
    taken = f"item_id agent {only}"
    return Command(f"work {word}", "update_progress", extras, help=help, only=taken, names=_BY, key="item", **more)


COMMANDS += [
    Command(
        f"add {name}",
        f"add_{name.replace('-', '_')}",
        positional="",
        fixed={"source": source},
        key="memory",
        verb="added",
    )
    for name, source in _ADDS
]
COMMANDS += [
    Command("session start", "start_session", positional=""),
    Command("session reload", "quick_reload", positional=""),
    Command("work add", "create_work_item", key="item", verb="added"),
    Command("work list", "list_work_items", key="items"),
    Command(
        "work search",
        "list_work_items",
        help="Find work items by the words of their titles and descriptions.",
        only="query limit project_id",
        positional="query",
        names={"query": "words"},
        fixed={"limit": 10},
        key="items",
    ),
    _change_item("edit", _EDITED, "Change what a work item says. Only what is given changes.", verb="changed"),
    _change_item("block", "", "Let one work item wait for another. A circle is refused.", _ON, verb="blocked"),
    _change_item("unblock", "", "Let one work item wait for another no longer.", _FROM, verb="unblocked"),
    _change_item("restore", "", "Take an archived work item back.", fixed={"archived": False}, verb="restored"),
    Command("work claim", "claim_work_item", key="item", verb="claimed"),
    Command("work release", "release_work_item", key="item", verb="released"),
    Command("list", "list", key="memories"),
    Command("search", "search", names={"query": "words"}, key="matches"),
    Command("explain", "explain"),
    Command("playbook", "playbook"),
    Command("rules list", "list", names={"memory_type": ""}, fixed={"memory_type": "rule"}, key="rules"),
    Command("graph build", "build_graph"),
    Command("graph about", "about_entity"),
    Command("graph find", "find_entities", positional="name?", key="entities"),
    Command("graph around", "traverse_graph"),
    Command(
        "graph path",
        "traverse_graph",
        positional="name to",
        names={"direction": ""},
        fixed={"limit": 10},
        key="paths",
        part="paths",
    ),
    Command("graph merge", "merge_entities", positional="keep others", key="entity"),
    Command(
        "graph suggest",
        "graph_stats",
        names={"suggestions": "limit"},
        fixed={"suggestions": 20},
        key="suggestions",
        part="suggestions",
    ),
    Command("graph stats", "graph_stats"),
    Command("domains list", "list_domains", names={"name": ""}, key="domains"),
    Command(
        "domains delete",
        "delete_domain",
        ask="Take this schema off the list?",
        about="list_domains",
        key="deleted",
        part="name",
        verb="deleted",
    ),
    Command(
        "workflow runs",
        "list_runs",
        help="List the runs of workflows, newest first.",
        only="workflow_id status limit",
        key="runs",
        part="runs",
    ),
    Command(
        "workflow start",
        "update_run",
        help="Begin a run of a workflow, or go on with the one of that name.",
        only="workflow_id run_id agent metadata",
        positional="workflow_id",
        key="run",
    ),
    Command(
        "workflow end",
        "update_run",
        help="Say how a run ended.",
        only="run_id status",
        positional="run_id",
        fixed={"status": "completed"},
        key="run",
    ),
    Command(
        "workflow history",
        "list_runs",
        help="The checkpoints of a run, newest first.",
        only="run_id node_id branch_id limit",
        positional="run_id",
        fixed={"limit": 100},
        key="checkpoints",
        part="checkpoints",
    ),
    Command("workflow link", "link_artifact", positional="run_id location", key="artifact"),
    Command("workflow artifacts", "get_artifacts", key="artifacts"),
    Command("workflow cleanup", "cleanup_checkpoints", ask="Erase all checkpoints but the newest ones of each branch?"),
    Command("confidence assess", "assess_confidence"),
    Command("confidence rank", "rank_strategies"),
    Command("confidence calibration", "calibration"),
    Command("stats", "stats"),
    Command("usage", "usage", matching=False),
    Command("reconcile", "reconcile"),
]


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands; with words, only of the commands among them."""
    examples = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8").splitlines()
    listing = ""
    for title, names in GROUPS.items():
        listing += "\n".join([f"{title}:", *(f"  {name:<12} {about}" for name, about in names.items()), "", ""])
    top = Parser(
        prog="alma",
        usage="alma [--version] [--config FILE] [--json] [--no-color] COMMAND ...",
        description="Memory that learns: record what worked, get it back when it matters.",
        epilog=listing + EPILOG,
        formatter_class=_RAW,
    )
    top.add_argument("--version", action="version", version=f"alma {__version__}")
    add_shared(top, None, False)
    top.set_defaults(command=None, parser=top)
    below = top.add_subparsers(prog="alma", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, about in chain.from_iterable(names.items() for names in GROUPS.values()):
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
    text = "\n\n".join(fill(part, 79) for part in dedent(f"{text[0].upper()}{text[1:]}").split("\n\n"))
    help = f"{about[0].lower()}{about[1:]}"
    parser: Parser = below.add_parser(name, help=help, description=text, formatter_class=_RAW)
    add_shared(parser, argparse.SUPPRESS, argparse.SUPPRESS)
    if command is not None:
        parser.set_defaults(command=command, parser=parser)
        add_arguments(parser, command, operations)
    words = command.words if command else name
    owners = [(find_command(line), line) for line in examples]
    own = [line for one, line in owners if one == words or (not command and one.startswith(f"{words} "))]
    parser.epilog = "\n  ".join(["examples:", *own[:6]])
    return parser


def find_command(line: str) -> str:
    """Return the words of the command in an example."""
    typed = line.partition("alma ")[2]
    return max((one.words for one in COMMANDS if f"{typed} ".startswith(f"{one.words} ")), key=len, default="")


__all__ = ["COMMANDS", "GROUPS", "build_parser", "commands", "manage"]
