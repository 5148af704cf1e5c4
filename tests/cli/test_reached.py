"""Every operation is reached by a command, and what it can be told can be told on the command line."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.cli.derive import COMMANDS, find_operation, list_choices, takes_all
from alma.operations import Operation, operations

from .test_main import ALL

Run = Callable[..., Any]

LEFT_OUT = {
    "add episode": {"turns"},
    "domains create": {"entity_types", "relationship_types"},
    "domains list": {"name"},
    "graph around": {"to"},
    "graph path": {"direction"},
    "learn-from": {"messages", "text"},
    "rules list": {"memory_type"},
    **{f"work {one}": {"archived", "test_results"} for one in "archive block edit restore status test unblock".split()},
    "work list": {"item_id", "query"},
    "session end": {"test_status"},
    "session note": {"test_status"},
    "update": {"fields"},
    "workflow checkpoint": {"state"},
    "workflow fork": {"state"},
    "workflow merge": {"base", "reducers", "state", "states"},
}
"""What is said in another way: in a file, or by an argument of another name."""
DERIVED = [command for command in COMMANDS if command.operation]


@pytest.mark.parametrize("command", DERIVED, ids=lambda command: command.words)
def test_all_that_an_operation_takes_can_be_said(command: Any) -> None:
    typed = {action.dest for action in ALL[command.words]._actions}
    for name in command.operation.split():
        parameters = {one.name for one in find_operation(name).parameters}
        # A command that does a part of an operation says so; another one must take the rest.
        if "*" not in command.takes:
            others = [ALL[one.words] for one in DERIVED if name in one.operation.split()]
            typed |= {action.dest for parser in others for action in parser._actions}
        assert parameters - typed <= LEFT_OUT.get(command.words, set())


@pytest.mark.parametrize("command", DERIVED, ids=lambda command: command.words)
def test_the_names_that_help_gives_are_those_that_are_valid(command: Any) -> None:
    offered = {action.dest: list_choices(action) for action in ALL[command.words]._actions}
    for name in command.operation.split():
        for one in find_operation(name).parameters:
            # A run that ends is no longer running.
            if one.about.choices and one.name in offered and command.words != "workflow end":
                assert offered[one.name] == [*one.about.choices, *(["all"] if takes_all(one) else [])]


class Calls:
    """Which operations were run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        self._run = run
        self.names: set[str] = set()
        original = Operation.run

        def run_operation(operation: Operation, alma: Any, /, **arguments: Any) -> Any:
            self.names.add(operation.name)
            return original(operation, alma, **arguments)

        monkeypatch.setattr(Operation, "run", run_operation)
        for operation in operations().values():
            function = operation.function
            if function.__qualname__ == function.__name__:
                monkeypatch.setattr(sys.modules[function.__module__], function.__name__, self._record(operation))

    def _record(self, operation: Operation) -> Callable[..., Any]:
        @functools.wraps(operation.function)
        def recorded(*args: Any, **more: Any) -> Any:
            self.names.add(operation.name)
            return operation.function(*args, **more)

        return recorded

    def __call__(self, *argv: str) -> Any:
        ran = self._run(*argv, "--json")
        assert ran.code == 0, (argv, ran.out, ran.err)
        return ran.json


@pytest.mark.system
def test_every_operation_is_reached_by_a_command(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Calls(monkeypatch, run)
    for group in (_memories, _work, _sessions, _workflows, _knowledge, _graph, _rules, _domains, _webhooks):
        group(call)
    assert call.names == set(operations())


def _memories(call: Calls) -> None:
    ops = ("--agent", "ops")
    call("learn", *ops, "--task", "Deploy", "--outcome", "success", "--strategy", "Slowly")
    call("retrieve", "Deploy", *ops)
    call("retrieve", "Deploy", *ops, "--scope", "agent")
    fact = call("add", "knowledge", *ops, "--domain", "d", "--fact", "The window is open")["memory"]["id"]
    call("add", "preference", "--user", "ana", "--category", "c", "--preference", "Short answers")
    call("add", "heuristic", *ops, "--condition", "Testing", "--strategy", "Twice")
    call("add", "anti-pattern", *ops, "--pattern", "Deploy on Friday", "--why-bad", "Nobody is there")
    call("add", "rule", *ops, "--rule", "Test before a commit")
    Path("chat.jsonl").write_text(json.dumps({"speaker": "ana", "text": "Hello there"}))
    call("add", "episode", "chat.jsonl", *ops, "--session", "s1")
    call("list")
    call("show", fact)
    call("feedback", fact, "up")
    call("shown", fact, "--used", fact)
    call("search", "window")
    call("explain", fact, "--task", "Open the window", *ops)
    call("playbook")
    call("health")
    call("update", fact, "fact=The window is shut")
    call("history", fact)
    call("blame", "window is shut")
    call("diff", "--since", "yesterday")
    call("bisect", "Deploy", *ops)
    call("revert", call("undo", fact)["undo"])
    call("promote", fact, "--to", "project")
    call("browse", "--type", "rule")
    call("browse", "memory", fact)
    call("browse", "sessions")
    call("browse", "observations")
    call("browse", "session", "s1")
    call("browse", "changes", "--since", "yesterday")
    call("browse", "configuration")
    call("browse", "inbox")
    call("browse", "overview")
    call("browse", "why", "Deploy", *ops)
    rules = [call("add", "rule", *ops, "--rule", text)["memory"]["id"] for text in ("Sort imports", "Order imports")]
    call("browse", "review", "apply_here", "--id", rules[0])
    call("consolidate", "merge", "--id", rules[0], "--id", rules[1], "--into", rules[0])
    call("browse", "review", "archive", "--id", rules[0])
    call("delete", fact, "--yes")
    call("erase-user", "ana", "--yes")
    call("forget", "--dry-run")
    call("upkeep", "--dry-run")
    call("reconcile")
    for source in ("user", "agent"):
        fact = f"The {source} says so"
        call("add", "knowledge", *ops, "--domain", "d", "--fact", fact, "--attribute", "a", "--source", source)
    conflict = call("conflicts")["conflicts"][0]["id"]
    call("conflicts", "list")
    call("conflicts", "resolve", conflict, "--keep", "older")
    call("stats")
    call("confidence", "assess", "Slowly", "--task", "Deploy", *ops)
    call("confidence", "rank", "Slowly", "Fast", "--task", "Deploy", *ops)
    call("calibration")


def _webhooks(call: Calls) -> None:
    call("webhooks")
    call("webhooks", "deliver")
    call("webhooks", "retry")
    call("webhooks", "test")


def _work(call: Calls) -> None:
    first = call("work", "add", "First")["item"]["id"]
    second = call("work", "add", "Second")["item"]["id"]
    call("work", "block", second, "--on", first)
    call("work", "unblock", second, "--from", first)
    call("work", "edit", second, "--priority", "70")
    call("work", "test", second, "test_it", "--pass")
    call("work", "claim", second, "--agent", "ops")
    call("work", "release", second, "--agent", "ops")
    call("work", "next")
    call("work", "status", second, "done")
    call("work", "show", second)
    call("work", "history", second)
    call("work", "list")
    call("work", "search", "second")
    call("work", "archive", second)
    call("work", "restore", second)
    call("work", "archive", "--finished")
    call("work", "delete", second, "--yes")
    call("progress")


def _sessions(call: Calls) -> None:
    ops = ("--agent", "ops")
    session = call("session", "start", *ops)["session_id"]
    call("session", "note", *ops, "--action", "looked", "--log")
    call("progress", "--log")
    call("session", "show", session, *ops)
    call("session", "list", *ops)
    call("session", "reload", *ops)
    call("session", "end", *ops)
    call("initialize", "Test the login form", *ops)
    call("wake-up", *ops)
    call("wake-up", *ops, "--topic", "deploy")


def _workflows(call: Calls) -> None:
    call("workflow", "start", "w", "--run", "r")
    call("workflow", "checkpoint", "r", "n", "--state", '{"a": 1}')
    call("workflow", "fork", "r", "b")
    call("workflow", "merge", "r", "--branch", "main", "--branch", "b", "--node", "m")
    Path("s.json").write_text('{"a": 1}')
    call("workflow", "merge", "--state", "s.json", "--state", "s.json")
    call("workflow", "resume", "r")
    call("workflow", "history", "r")
    call("workflow", "link", "r", "s.json")
    call("workflow", "artifacts")
    call("workflow", "learn", "r", "--agent", "ops", "--outcome", "success", "--strategy", "s")
    call("workflow", "end", "r")
    call("workflow", "runs")
    call("workflow", "cleanup", "--yes")


def _domains(call: Calls) -> None:
    call("domains", "create", "own", "--learn", "a")
    call("domains", "list")
    call("domains", "show", "own")
    call("domains", "use", "own")
    call("domains", "delete", "own", "--yes")


def _knowledge(call: Calls) -> None:
    ops = ("--agent", "ops")
    outcome = {"task": "Deploy", "outcome": "success", "strategy_used": "Slowly"}
    Path("outcomes.jsonl").write_text(json.dumps(outcome))
    call("learn", *ops, "--from", "outcomes.jsonl")
    people = "Alice from Acme Corp reviewed the PR that Bob submitted."
    Path("facts.jsonl").write_text(json.dumps({"type": "domain_knowledge", "domain": "people", "fact": people}))
    call("add", "many", "facts.jsonl", *ops)
    Path("chats.jsonl").write_text(json.dumps({"session_id": "s2", "turns": [{"speaker": "Ana", "text": "Hello."}]}))
    call("add", "episodes", "chats.jsonl", *ops)
    Path("said.jsonl").write_text(json.dumps({"role": "user", "content": "I prefer tabs over spaces"}))
    call("learn-from", "said.jsonl", *ops, "--user", "ana")
    Path("notes.md").write_text("We decided to use PostgreSQL for the billing service.")
    call("learn-from", "notes.md", "--text", *ops)
    call("ingest", "notes.md", *ops)
    call("usage")


def _graph(call: Calls) -> None:
    call("graph", "build")
    call("graph", "about", "Alice")
    call("graph", "find")
    call("graph", "around", "Alice")
    call("graph", "path", "Alice", "Bob")
    call("graph", "suggest")
    call("graph", "stats")
    call("graph", "merge", "Alice", "Bob")


def _rules(call: Calls) -> None:
    call("rules", "list")
    call("rules", "export", "--to", "agents-md")
    call("rules", "import", "--yes")
