"""The line for the person, in the terminal program of the real Claude Code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.screens import is_seen, read_screen

pytestmark = pytest.mark.system

TERMINAL = Path(__file__).parents[1] / "hosts" / "terminal.py"
CORRECTION = "no, use pnpm here instead of npm, because npm breaks the lock file"
TYPED = "No, never use make here. Always use just."
_SECONDS = 120


def accept_all(person: Any, folder: Path) -> None:
    """Answer what the terminal program asks a person at its first start."""
    answers = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [person.environ["ANTHROPIC_API_KEY"]], "rejected": []},
        "projects": {str(folder): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (person.home / ".claude.json").write_text(json.dumps(answers))


def type_prompts(person: Any, folder: Path, *prompts: str) -> str:
    """Return what a person sees who types prompts at a terminal, without spaces, which the program draws as moves."""
    typed = [str(person.smart_home / "sessions"), "\n".join(prompts)]
    command = [sys.executable, str(TERMINAL), *typed, str(person.binary), "--plugin-dir", person.plugin]
    environ = {**person.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=_SECONDS, check=False)
    return read_screen(done.stdout.decode(errors="replace"))


def test_a_person_at_a_terminal_sees_once_what_was_learned_and_the_model_does_not(person: Any) -> None:
    shop = person.project("shop")
    person.set(programs="on", embedding="off", model="off")
    with person.session(shop) as session:
        session.says("install the packages", {"text": "I ran npm install."})
        session.says(CORRECTION, {"text": "I will use pnpm."})
    person.learn()
    [rule] = person.rules(shop)
    accept_all(person, shop)
    before = len(person.model.requests)
    seen = type_prompts(person, shop, "list the files")
    line = f"SessionStart:startup says: claude-smart: learned '{rule['rule']}' · undo: /forget {rule['id'][-8:]}"
    assert is_seen(line, seen), seen
    asked = json.dumps(person.model.requests[before:])
    assert rule["rule"] in asked
    assert "claude-smart: learned" not in asked

    # Without the setting: a person types, and teaches.
    person.set(programs="off", embedding="off", model="off")
    person.model.will_say({"when": "list the files again", "text": "I ran make list."}, {"text": "I will use just."})
    assert not is_seen(line, type_prompts(person, shop, "list the files again", TYPED))
    person.learn()
    assert TYPED.removeprefix("No, n").rstrip(".") in " ".join(rule["rule"] for rule in person.rules(shop))
