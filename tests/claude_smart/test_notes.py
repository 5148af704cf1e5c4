"""The agent in front of a person as the reader: /learn, and the notes that the agent hands in."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.persons import act_as_agent

from alma.engine.coding_sessions import list_progress
from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.learn_requests import MOST_BYTES
from alma.processes import read_process
from alma.types.kinds import EVERYWHERE
from claude_smart import slash

from .conftest import Person, Said

TAUGHT = "hm, the house style here is tabs, you know"
NOTE = {"n": 0, "note": "Indent with tabs", "scope": "project", "quote": "the house style here is tabs"}


@pytest.fixture(autouse=True)
def in_a_terminal_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    # The hook sets both; so that they are as before when the test ends.
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "")


class Agent:
    """The agent in front of a person: its session, and what it does when the person types /learn."""

    def __init__(self, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
        self.person = person
        self._patch = monkeypatch
        self._typed = 0
        self.record("s1")

    def record(self, session: str, process: str = "") -> None:
        """Record a session's host, as the hook does at its start; by default the process that runs the tests."""
        own = read_process(os.getpid())
        assert own is not None
        place = self.person.place
        os.makedirs(place.agents, exist_ok=True)
        fields = {"process": process or own.identity, "host": "claude", "session": session}
        fields["journal"] = place.journal_file(session)
        Path(place.agent_file(session)).write_text(json.dumps(fields))

    def is_asked(self, words: str = "", session: str = "s1") -> str:
        """Return what the agent is told when the person types /learn."""
        self._typed += 1
        event: dict[str, Any] = {
            "session_id": session,
            "cwd": str(self.person.folder),
            "hook_event_name": "UserPromptExpansion",
            "command_name": "smart:learn",
            "command_args": words,
            "prompt": f"/smart:learn {words}",
            "prompt_id": f"learn-{self._typed}",
        }
        answer = slash.answer_command(event, json.dumps(event).encode(), self.person.place)
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def hands_in(self, *notes: Any, text: str | bytes | None = None, options: tuple[str, ...] = ()) -> Said:
        """Run the command in the agent's shell."""
        content = json.dumps({"notes": notes}) if text is None else text
        data = content.encode() if isinstance(content, str) else content
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            patch.setattr("os.isatty", lambda number: False)
            act_as_agent(patch)
            return self.person.types("notes", *options)

    def material(self) -> dict[str, Any]:
        """Return the exchanges that the agent is shown by the command."""
        shown = self.hands_in(options=("--show",))
        assert shown.code == 0, shown.err
        return dict(json.loads(shown.out[shown.out.index('{\n "known"') :]))


@pytest.fixture
def agent(person: Person, monkeypatch: pytest.MonkeyPatch) -> Agent:
    return Agent(person, monkeypatch)


def list_unread(person: Person) -> dict[str, int]:
    with ProjectMemories(person.place) as memory:
        return {one.session: one.unread for one in list_progress(memory.engine(EVERYWHERE))}


def list_rules(person: Person) -> list[tuple[str, str]]:
    return [(rule["rule"], rule["status"]) for rule in person.rules("--all")]


def test_what_the_agent_notes_after_learn_becomes_a_rule(person: Person, agent: Agent) -> None:
    person.talks("s1", "add a function to parse dates", TAUGHT)
    told = agent.is_asked()
    assert len(told) <= 9_500
    assert "read 2 exchanges of this project that no reader has read" in told
    assert "This agent now reads 2 exchanges" in told
    assert "claude-smart notes <<'NOTES'" in told
    shown = agent.material()
    assert [one["person"] for one in shown["exchanges"]] == ["add a function to parse dates", TAUGHT]
    said = agent.hands_in({**NOTE, "n": 1})
    assert said.code == 0, said.err
    assert said.out.startswith("2 exchanges read, 1 note kept.\n- Learned: Indent with tabs")
    assert list_rules(person) == [("Indent with tabs", "active")]
    assert list_unread(person) == {"s1": 0}
    assert "no reader has read" not in agent.is_asked(), "nothing is read twice"


def test_debug(person: Person, agent: Agent) -> None:
    person.talks("s1", "add a function to parse dates", TAUGHT)
    print(agent.is_asked())
    print(agent.hands_in(options=("--show",)).out[-900:])
    print(agent.hands_in({**NOTE, "n": 1}).out)
    assert 0
