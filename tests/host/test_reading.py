"""Claude reads what a person said to Claude Code: the real host, which also answers `claude -p`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from alma.hooks import worker

pytestmark = pytest.mark.system

UNKNOWN = "hm, the house style here is tabs, you know"
QUESTION = "Write the notes that a careful colleague"


@pytest.fixture
def shop(person: Any) -> Path:
    assert person.smart("config", "program", str(person.binary)).returncode == 0
    assert person.smart("config", "model", "on").returncode == 0
    folder: Path = person.project("shop", "https://github.com/acme/shop")
    return folder


def read_sessions(person: Any, *notes: dict[str, str]) -> list[Any]:
    """Drain in a process of its own. The model finds these notes in every exchange. Returns what it was asked."""
    found = [{"scope": "project", **note, "n": number} for note in notes for number in (0, 1, 2)]
    person.model.will_say(
        {"when": QUESTION, "text": json.dumps({"notes": found})},
        {"when": "look at commands of a coding agent", "text": '{"cases": [{"n": 0, "lesson": false}]}'},
    )
    before = len(person.model.requests)
    command = [sys.executable, "-I", worker.FILE, "--home", str(person.smart_home), "--once"]
    subprocess.run(command, env=person.environ, timeout=60, check=True)
    asked: list[Any] = person.model.requests[before:]
    return asked


def list_active(person: Any, shop: Path) -> list[str]:
    return [rule["rule"] for rule in person.rules(shop) if rule["status"] == "active"]


def test_a_correction_that_only_claude_understands_is_told_and_an_agents_workaround_is_not(
    person: Any, shop: Path
) -> None:
    tool = person.home / "bin" / "suite"
    tool.write_text(
        '#!/bin/sh\nif [ "$1" = "--run" ]; then echo "12 passed"; exit 0; fi\necho "pass --run" >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    with person.session(shop, options=["--allowedTools", "Bash"]) as session:
        session.says(
            "run the suite, would you",
            {"when": "run the suite", "bash": "suite"},
            {"when": "pass --run", "bash": "suite --run"},
            {"when": "12 passed", "text": "Always run suite with --run: all 12 pass."},
        )
        session.says("add a function to parse dates", {"text": "I added it, indented by four spaces."})
        session.says(UNKNOWN, {"text": "I will use tabs."})
    assert list_active(person, shop) == []
    workaround = {"note": "Always run suite with --run", "quote": "Always run suite with --run"}
    asked = read_sessions(person, {"note": "Indent with tabs", "quote": "the house style here is tabs"}, workaround)
    assert sum(QUESTION in str(request) for request in asked) == 1
    rules = [(rule["rule"], rule["status"]) for rule in person.rules(shop)]
    assert rules == [("Indent with tabs", "active")], "what only the agent said is no rule, not even a candidate"
    assert read_sessions(person) == [], "one call for a session"
    said = person.says("what is in this folder?", shop)
    assert "Indent with tabs" in said.shown
    assert person.complaints() == []


def test_the_end_of_a_session_is_enough(person: Any, shop: Path) -> None:
    person.wake_workers()
    found = [{"n": 0, "scope": "project", "note": "Indent with tabs", "quote": "style here is tabs"}]
    person.says(UNKNOWN, shop, {"text": "I will use tabs."}, {"when": QUESTION, "text": json.dumps({"notes": found})})
    deadline = time.monotonic() + 120
    while list_active(person, shop) != ["Indent with tabs"]:
        # What the worker did, what waits for a reader, and whether the model was asked.
        asked = [QUESTION in str(request) for request in person.model.requests]
        assert time.monotonic() < deadline, (asked, person.complaints(), person.smart("status", cwd=shop).stdout)
        time.sleep(0.2)
