"""A correction of each kind, typed at a terminal of each real agent, reaches the next session, also without a reader.

`make test` types the same in a session of Claude Code without a terminal: tests/host/test_corrections.py.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.hosts.agents import AGENTS, PORT, URL, Agent, InstalledAgent
from tests.hosts.conftest import CHOSEN, Desk
from tests.hosts.kinds import KINDS, TASKS, number_notes, write_programs
from tests.hosts.readers import QUESTION
from tests.hosts.screens import is_seen, read_screen
from tests.hosts.sealed import find_unshare, run_sealed

from alma.hooks import worker
from alma.hooks.hosts import NOTICED

pytestmark = pytest.mark.system

TERMINAL = Path(__file__).parent / "terminal.py"
_SECONDS = 500


CLAUDE = Agent(
    "Claude Code",
    "",
    "",
    "claude",
    lambda prompt: ["-p", prompt, "--output-format", "json"],
    {},
    {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ANTHROPIC_BASE_URL": URL,
        "ANTHROPIC_API_KEY": "none",
    },
)
ARGUMENTS = {
    "claude": ("--permission-mode", "default", "--allowedTools", "Bash"),
    "codex": ("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"),
    "goose": ("session",),
    "copilot": ("--allow-all",),
    "qwen": ("--yolo",),
    "gemini": ("--yolo", "-m", "gemini-2.5-flash"),
    "opencode": (),
}
"""How a person starts each agent at a terminal."""


def trust_folder(name: str, home: Path, folder: Path) -> None:
    """Answer what an agent asks a person who starts it in a folder for the first time."""
    if name == "codex":
        with (home / ".codex" / "config.toml").open("a") as config:
            config.write(f'[projects.{json.dumps(str(folder))}]\ntrust_level = "trusted"\n')
    if name == "copilot":
        (home / ".copilot").mkdir(exist_ok=True)
        (home / ".copilot" / "config.json").write_text(json.dumps({"trusted_folders": [str(folder)]}))
    if name == "claude":
        answers = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["none"], "rejected": []},
            "projects": {str(folder): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
        }
        (home / ".claude.json").write_text(json.dumps(answers))


@dataclass
class Seat:
    """A person at the terminal of a coding agent, in one repository."""

    desk: Desk
    folder: Path

    def configure(self, daily_calls: int) -> None:
        """Allow this agent's own program to read, so many times a day."""
        settings = {
            "model": "on",
            "reader": self.desk.name,
            "program": str(self.desk.installed.program),
            "daily_calls": daily_calls,
            "learn_offer": "off",
            "environment": self.desk.environ,
        }
        Path(self.desk.data_dir.config).write_text(json.dumps(settings))

    def type_session(self, prompts: Sequence[str], *replies: dict[str, object]) -> tuple[str, str]:
        """Type prompts in a new session. Return what the model was asked, and what the person saw."""
        desk = self.desk
        program = [str(desk.installed.program), *ARGUMENTS[desk.name]]
        result = run_sealed(
            {
                "command": [sys.executable, "-I", str(TERMINAL), desk.data_dir.sessions, "\n".join(prompts), *program],
                "cwd": str(self.folder),
                "env": {**desk.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"},
                "replies": replies,
                "port": PORT,
                "seconds": _SECONDS,
            }
        )
        screen = read_screen(result["output"])
        assert result["code"] == 0, screen[-3000:]
        return json.dumps(result["requests"], ensure_ascii=False), screen

    def list_prompts(self) -> list[str]:
        """Return what was recorded as typed by a person, oldest session first."""
        journals = sorted(Path(self.desk.data_dir.sessions).glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        lines = [json.loads(line) for journal in journals for line in journal.read_text().splitlines()]
        return [
            line["data"]["prompt"]
            for line in lines
            if (line["event"], line.get("entry")) == ("UserPromptSubmit", "cli")
        ]

    def read(self, notes: Sequence[dict[str, object]]) -> None:
        """Let the agent's own program read what was recorded; its model finds these notes."""
        found = json.dumps({"notes": notes})
        # The sessions were idle for an hour.
        for journal in Path(self.desk.data_dir.sessions).glob("*.jsonl"):
            os.utime(journal, (time.time() - 3600, time.time() - 3600))
        result = run_sealed(
            {
                "command": [sys.executable, "-I", worker.FILE, "--home", self.desk.data_dir.home, "--once"],
                "cwd": str(self.folder),
                "env": self.desk.environ,
                "replies": [
                    {"when": f"{QUESTION}.*Write the notes.*discount for students", "text": found},
                    {"when": f"{QUESTION}.*Write the notes", "text": '{"notes": []}'},
                ],
                "port": PORT,
                "seconds": _SECONDS,
            }
        )
        assert result["code"] == 0, result["output"] + result["errors"]


@pytest.fixture
def open_seat(
    open_desk: Callable[[str], Desk], request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], Seat]:
    """Return a function that installs an agent and claude-smart in it, for a person at a terminal."""

    def open_terminal(name: str) -> Seat:
        if not {"all", name} & {*CHOSEN}:
            # It takes a minute, most of it waiting for a terminal.
            title = "Claude Code" if name == "claude" else AGENTS[name].title
            pytest.skip(f"NOT TESTED AT A TERMINAL OF {title}: `make test-hosts` installs it and runs this")
        if name == "claude":
            if not find_unshare():
                pytest.skip("NOT TESTED IN THE REAL Claude Code: this system permits no network namespaces")
            installed = InstalledAgent(CLAUDE, Path(request.getfixturevalue("claude_binary")), "")
            home = tmp_path / "home"
            (home / "bin").mkdir(parents=True)
            desk = Desk(name, installed, home)
        else:
            desk = open_desk(name)
        shop = desk.make_repository("shop")
        write_programs(shop)
        code, output = desk.smart("install", "--host", name, "--yes", folder=shop)
        assert code == 0, output
        trust_folder(name, desk.home, shop)
        return Seat(desk, shop)

    return open_terminal


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_kind_of_correction_reaches_the_next_session(name: str, open_seat: Callable[[str], Seat]) -> None:
    seat = open_seat(name)
    seat.configure(daily_calls=0)
    prompts = [prompt for kind in KINDS.values() for prompt in (kind.task, kind.answer)]
    replies = [reply for kind in KINDS.values() for reply in (*kind.done, *kind.then)]
    _, first = seat.type_session(prompts, *replies)
    assert [prompt.strip() for prompt in seat.list_prompts()] == prompts
    seat.desk.learn(seat.folder)

    asked, second = seat.type_session([TASKS])
    taught = [part for kind in KINDS.values() for part in kind.excerpt]
    noted = [str(kind.note["note"]) for kind in KINDS.values()]
    assert [part for part in taught if part not in asked] == [], asked
    assert not any(note in asked for note in noted), "nothing was read yet"
    line = "claude-smart: learned 'Never use npm here. Always use pnpm'"
    assert is_seen(line, first + second) == (name in NOTICED), "in one of both sessions, as soon as it was learned"

    seat.configure(daily_calls=20)
    seat.read(number_notes())
    asked, third = seat.type_session([TASKS])
    assert [note for note in noted if note not in asked] == [], seat.desk.smart("show", "--all", folder=seat.folder)[1]
    assert ("claude-smart:learned'" in third) == (name in NOTICED)
