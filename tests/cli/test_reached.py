"""Every operation is reached by a command, and what it can be told can be told on the command line."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.cli.listed import COMMANDS
from alma.cli.parser import VALUES, build_parser
from alma.operations import Operation, operations

from .test_main import ALL

Run = Callable[..., Any]

COMMAND_OF = {
    "retrieve": "retrieve",
    "learn": "learn",
    "record_usage": "shown",
    "record_feedback": "feedback",
    "add_preference": "add preference",
    "add_knowledge": "add knowledge",
    "add_heuristic": "add heuristic",
    "add_anti_pattern": "add anti-pattern",
    "add_rule": "add rule",
    "add_episode": "add episode",
    "list": "list",
    "search": "search",
    "explain": "explain",
    "get": "show",
    "update": "update",
    "delete": "delete",
    "erase_user": "erase-user",
    "history": "show",
    "forget": "forget",
    "reconcile": "reconcile",
    "stats": "stats",
    "playbook": "playbook",
    "health": "health",
    "create_work_item": "work add",
    "get_next_item": "work next",
    "update_progress": "work status",
    "update_work_item": "work edit",
    "get_work_item": "work show",
    "list_work_items": "work list",
    "search_work_items": "work search",
    "work_item_history": "work history",
    "add_blocker": "work block",
    "remove_blocker": "work unblock",
    "record_test": "work test",
    "claim_work_item": "work claim",
    "release_work_item": "work release",
    "archive_work_item": "work archive",
    "restore_work_item": "work restore",
    "archive_finished": "work archive",
    "delete_work_item": "work delete",
    "progress_summary": "progress",
    "progress_logs": "progress",
    "log_progress": "session note",
    "start_session": "session start",
    "update_session": "session note",
    "end_session": "session end",
    "quick_reload": "session reload",
    "previous_sessions": "session list",
    "open_sessions": "session list",
    "get_session": "session show",
    "initialize": "initialize",
    "wake_up": "wake-up",
    "recall_topic": "wake-up",
    "start_run": "workflow start",
    "end_run": "workflow end",
    "list_runs": "workflow runs",
    "checkpoint": "workflow checkpoint",
    "resume": "workflow resume",
    "checkpoint_history": "workflow history",
    "cleanup_checkpoints": "workflow cleanup",
    "fork_branch": "workflow fork",
    "merge_states": "workflow merge",
    "merge_branches": "workflow merge",
    "link_artifact": "workflow link",
    "get_artifacts": "workflow artifacts",
    "workflow_learn": "workflow learn",
    "retrieve_scoped": "retrieve",
    "list_domains": "domains list",
    "get_domain": "domains show",
    "create_domain": "domains create",
    "use_domain": "domains use",
    "delete_domain": "domains delete",
    "assess_confidence": "confidence assess",
    "rank_strategies": "confidence rank",
    "calibration": "calibration",
    "learn_many": "learn",
    "add_many": "add many",
    "add_episodes": "add episodes",
    "learn_from_conversation": "learn-from",
    "learn_from_text": "learn-from",
    "ingest": "ingest",
    "usage": "usage",
    "build_graph": "graph build",
    "about_entity": "graph about",
    "find_entities": "graph find",
    "traverse_graph": "graph around",
    "find_paths": "graph path",
    "merge_entities": "graph merge",
    "suggest_merges": "graph suggest",
    "graph_stats": "graph stats",
    "export_rules": "rules export",
    "import_rules": "rules import",
}
"""The command that runs each operation."""
NAMES = {
    "item_id": "id",
    "memory_id": "id",
    "session_id": "id",
    "agent": "by",
    "notes": "note",
    "context": "task",
    "test_status": "tests",
    "key_decisions": "decisions",
    "entity_types": "entities",
    "relationship_types": "relationships",
    "retrieved_memory_ids": "shown",
    "used_memory_ids": "used",
    "older_than_days": "older_than",
    "keep_latest": "keep",
    "auto_expand": "no_expand",
    "turns": "file",
    "current_action": "action",
    "outcomes": "source",
    "memories": "file",
    "conversations": "file",
    "messages": "file",
}
"""What an operation calls otherwise than its command."""
LEFT_OUT = {
    "record_usage": {"memory_type", "agent", "query"},
    "record_feedback": {"memory_type", "agent", "query"},
    "add_episode": {"source", "metadata"},
    "log_progress": {"current_item_id"},
}
"""What no person would say at a prompt: each is taken from the memory itself, or from what is noted beside it."""


def test_every_operation_has_a_command() -> None:
    assert set(COMMAND_OF) == set(operations()), "COMMAND_OF names the command of each operation"
    assert set(COMMAND_OF.values()) <= set(ALL)


def test_the_list_of_commands_is_the_parser_s() -> None:
    assert [name for names in COMMANDS.values() for name in names] == [path for path in ALL if " " not in path]


@pytest.mark.parametrize("name", operations())
def test_all_that_an_operation_takes_can_be_said(name: str) -> None:
    said = {action.dest for action in ALL[COMMAND_OF[name]]._actions}
    for parameter in operations()[name].parameters:
        if parameter.name not in LEFT_OUT.get(name, ()):
            names = {parameter.name, NAMES.get(parameter.name, "")}
            assert names & said, f"alma {COMMAND_OF[name]} cannot say {parameter.name}"


def _choices(
    parser: argparse.ArgumentParser, operation: Operation
) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    offered = {action.dest: tuple(VALUES[action]) for action in parser._actions if action in VALUES}
    return [
        (one.name, offered[one.name], one.about.choices)
        for one in operation.parameters
        if one.name in offered and one.about.choices
    ]


def test_the_names_that_help_gives_are_those_that_are_valid() -> None:
    found = [pair for name, one in operations().items() for pair in _choices(ALL[COMMAND_OF[name]], one)]
    assert len(found) >= 15
    for name, offered, valid in found:
        assert tuple(value for value in offered if value != "all") == tuple(valid), name


def test_choices_go_with_their_parser() -> None:
    """They are kept beside the parser, and must not keep it alive."""
    import gc

    gc.collect()
    before = len(VALUES)
    build_parser()
    gc.collect()
    assert len(VALUES) == before


class Calls:
    """Which operations each command called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        self._run = run
        self._now: set[str] = set()
        self.by: dict[str, set[str]] = defaultdict(set)
        original = Operation.run

        def run_operation(operation: Operation, alma: Any, /, **arguments: Any) -> Any:
            self._now.add(operation.name)
            return original(operation, alma, **arguments)

        monkeypatch.setattr(Operation, "run", run_operation)
        for operation in operations().values():
            function = operation.function
            if function.__qualname__ == function.__name__:
                monkeypatch.setattr(sys.modules[function.__module__], function.__name__, self._record(operation))

    def _record(self, operation: Operation) -> Callable[..., Any]:
        @functools.wraps(operation.function)
        def recorded(*args: Any, **more: Any) -> Any:
            self._now.add(operation.name)
            return operation.function(*args, **more)

        return recorded

    def __call__(self, *argv: str) -> Any:
        self._now.clear()
        ran = self._run(*argv, "--json")
        assert ran.code == 0, (argv, ran.out, ran.err)
        path = " ".join(argv[:2])
        self.by[path if path in ALL else argv[0]] |= self._now
        return ran.json


def test_every_command_calls_its_operations(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Calls(monkeypatch, run)
    _memories(call)
    _work(call)
    _sessions(call)
    _workflows(call)
    _knowledge(call)
    _graph(call)
    _rules(call)
    _domains(call)
    for name, path in COMMAND_OF.items():
        assert name in call.by[path], f"alma {path} does not call {name}"


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
    call("delete", fact, "--yes")
    call("erase-user", "ana", "--yes")
    call("forget", "--dry-run")
    call("reconcile")
    call("stats")
    call("confidence", "assess", "Slowly", "--task", "Deploy", *ops)
    call("confidence", "rank", "Slowly", "Fast", "--task", "Deploy", *ops)
    call("calibration")


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
