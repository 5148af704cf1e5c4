"""Claude reads what a person said to Claude Code: the real host, which also answers `claude -p`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from alma.hooks import worker

UNKNOWN = "hm, the house style here is tabs, you know"
QUESTION = "find what each person taught the assistant"


@pytest.fixture
def shop(person: Any) -> Path:
    assert person.smart("config", "program", str(person.binary)).returncode == 0
    assert person.smart("config", "model", "on").returncode == 0
    # The hooks wake nobody: each test reads when it is ready.
    runtime = {"python": shutil.which("true"), "path": ""}
    (person.smart_home / "runtime.json").write_text(json.dumps(runtime))
    folder: Path = person.project("shop", "https://github.com/acme/shop")
    return folder


def read_sessions(person: Any, **rule: str) -> list[Any]:
    """Drain in a process of its own. The model finds this rule in every exchange. Returns what it was asked."""
    item = {"kind": "correction", "scope": "project", **rule}
    found = [{**item, "n": number} for number in (1, 3, 5)] if rule else []
    person.model.will_say({"when": QUESTION, "text": json.dumps({"rules": found})})
    before = len(person.model.requests)
    command = [sys.executable, "-I", worker.FILE, "--home", str(person.smart_home), "--once"]
    subprocess.run(command, env=person.environ, timeout=60, check=True)
    asked: list[Any] = person.model.requests[before:]
    return asked


def list_active(person: Any, shop: Path) -> list[str]:
    return [rule["rule"] for rule in person.rules(shop) if rule["status"] == "active"]


def test_a_correction_that_only_claude_understands_is_told_to_the_next_session(person: Any, shop: Path) -> None:
    first = person.says("add a function to parse dates", shop, {"text": "I added it, indented by four spaces."})
    person.says(UNKNOWN, shop, {"text": "I will use tabs."}, resume=first.id)
    assert list_active(person, shop) == []
    asked = read_sessions(person, rule="Indent with tabs", quote="the house style here is tabs")
    assert len(asked) == 1
    assert list_active(person, shop) == ["Indent with tabs"]
    assert read_sessions(person) == [], "one call for a session"
    said = person.says("what is in this folder?", shop)
    assert "Indent with tabs" in said.shown
    assert person.complaints() == []


def test_the_end_of_a_session_is_enough(person: Any, shop: Path) -> None:
    (person.smart_home / "runtime.json").unlink()
    found = [
        {"n": 1, "kind": "correction", "scope": "project", "rule": "Indent with tabs", "quote": "style here is tabs"}
    ]
    person.says(UNKNOWN, shop, {"text": "I will use tabs."}, {"when": QUESTION, "text": json.dumps({"rules": found})})
    deadline = time.monotonic() + 30
    while list_active(person, shop) != ["Indent with tabs"]:
        assert time.monotonic() < deadline, person.complaints()
        time.sleep(0.2)


def test_an_agents_workaround_is_no_rule(person: Any, shop: Path) -> None:
    tool = person.home / "bin" / "suite"
    tool.write_text(
        '#!/bin/sh\nif [ "$1" = "--run" ]; then echo "12 passed"; exit 0; fi\necho "pass --run" >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    person.says(
        "run the suite, would you",
        shop,
        {"when": "run the suite", "bash": "suite"},
        {"when": "pass --run", "bash": "suite --run"},
        {"when": "12 passed", "text": "Always run suite with --run: all 12 pass."},
        options=["--allowedTools", "Bash"],
    )
    read_sessions(person, rule="Always run suite with --run", quote="Always run suite with --run")
    assert person.rules(shop) == []
