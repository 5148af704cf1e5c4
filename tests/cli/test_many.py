"""`alma add many` and `alma add episodes`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

FACT = {"type": "domain_knowledge", "domain": "ops", "fact": "Backups run at night"}
WISH = {"type": "user_preference", "user_id": "ana", "category": "style", "preference": "Short answers"}
TALK = {"session_id": "monday", "turns": [{"speaker": "Ana", "text": "The release moves to Friday."}]}


def lines(*objects: Mapping[str, Any] | str) -> str:
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in objects)
    Path("many.jsonl").write_text(text, encoding="utf-8")
    return "many.jsonl"


def test_memories_of_any_types(project: Path, run: Run) -> None:
    file = lines(FACT, "", WISH, {**FACT, "agent": "dev", "fact": "Staging is db2", "tags": ["mine"]})
    ran = run("add", "many", file, "--agent", "ops", "--tag", "imported")
    assert "stored 3 memories" in ran.out
    assert "ops: Backups run" in ran.out
    held = {one.get("fact") or one["preference"]: one for one in run("list", "--json").json["memories"]}
    assert held["Backups run at night"]["agent"] == "ops"
    assert held["Staging is db2"]["agent"] == "dev"
    assert held["Staging is db2"]["tags"] == ["mine"]  # a line stands before the options
    assert held["Short answers"]["tags"] == ["imported"]


def test_added_again_they_change_nothing(project: Path, run: Run) -> None:
    file = lines(FACT, WISH)
    first = run("add", "many", file, "--agent", "ops", "--json").json
    assert run("add", "many", file, "--agent", "ops", "--json").json == first
    assert (first["count"], run("list", "--json").json["count"]) == (2, 2)


def test_conversations(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file = lines(TALK, {**TALK, "session_id": "tuesday", "title": "The release"})
    assert run("add", "episodes", file, "--agent", "ops").out.startswith("\nstored 2 conversations\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({**TALK, "session_id": "wednesday", "agent": "ops"})))
    assert run("add", "episodes", "-", "--json").json["count"] == 1
    held = run("list", "--type", "episode", "--json").json["memories"]
    assert {one["session_id"] for one in held} == {"monday", "tuesday", "wednesday"}


def test_more_than_one_batch(project: Path, run: Run) -> None:
    file = lines(*({**FACT, "fact": f"Host {number} is in rack {number}"} for number in range(130)))
    assert run("add", "many", file, "--agent", "ops", "--json").json["count"] == 130
    ran = run("add", "many", file, "--agent", "ops")
    assert "… and 110 more" in ran.out


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), "many.jsonl is empty"),
        (("{torn",), "many.jsonl, line 1 is not valid JSON"),
        (("3",), "many.jsonl, line 1 must be an object with a type"),
        (({"type": "rumour"},), "many.jsonl, line 1: unknown type 'rumour'"),
        (({**FACT, "fact": ""},), "many.jsonl, line 1: fact is empty"),
        (({**WISH, "agent": "x"},), "many.jsonl, line 1: unknown argument"),
        ((FACT, "", {**FACT, "fact": ""}), "many.jsonl, line 3: fact is empty"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(
    project: Path, run: Run, objects: tuple[Mapping[str, Any] | str, ...], message: str
) -> None:
    ran = run("add", "many", lines(*objects), "--agent", "ops")
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_what_stood_before_a_wrong_line_is_there(project: Path, run: Run) -> None:
    ran = run("add", "many", lines(FACT, {**FACT, "fact": ""}), "--agent", "ops")
    assert "1 line before it was stored" in ran.err
    assert run("list", "--json").json["count"] == 1


@pytest.mark.parametrize(
    ("talk", "message"),
    [
        ({"turns": []}, "line 1: missing argument 'session_id'"),
        ({**TALK, "turns": 3}, "line 1: "),
        ({**TALK, "x": 1}, "unknown argument"),
    ],
)
def test_a_wrong_conversation(project: Path, run: Run, talk: dict[str, Any], message: str) -> None:
    ran = run("add", "episodes", lines(talk), "--agent", "ops")
    assert ran.code == 1
    assert message in ran.err
