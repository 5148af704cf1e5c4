"""A correction of each kind, typed in each real agent, reaches the next session, with and without a reader."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hosts.agents import AGENTS, PORT, URL, Agent, InstalledAgent
from tests.hosts.conftest import CHOSEN, Desk
from tests.hosts.readers import QUESTION
from tests.hosts.screens import is_seen, read_screen
from tests.hosts.sealed import find_unshare, run_sealed

from alma.hooks import worker
from alma.hooks.hosts import NOTICED

pytestmark = pytest.mark.system

TERMINAL = Path(__file__).parent / "terminal.py"
_SECONDS = 500


class Kind(NamedTuple):
    """A kind of correction: what the person types, what the agent does, and what shows that it was taught."""

    task: str
    done: tuple[dict[str, object], ...]
    answer: str
    """What the person says to what was done: it teaches."""
    then: tuple[dict[str, object], ...]
    excerpt: tuple[str, ...]
    """Parts of what the next session is shown without a reader."""
    note: dict[str, object]
    """What a reader notes."""


REPORT, CLIENT, BUILD = "./report --columns", "./gen-client --from schema.json", "make -f build.mk"
MOVE = "mv src/controllers/discount.py src/domain/discount.py"
KINDS = {
    "blunt": Kind(
        "install the packages",
        ({"when": "install the packages", "text": "I ran npm install."},),
        "No, never use npm here. Always use pnpm.",
        ({"when": "Always use pnpm", "text": "I will use pnpm."},),
        ("Never use npm here. Always use pnpm",),
        {"note": "Use pnpm, never npm", "quote": "never use npm here. Always use pnpm"},
    ),
    "question": Kind(
        "add the discount for students",
        (
            {
                "when": "discount for students",
                "shell": "mkdir -p src/controllers src/domain; echo 'STUDENTS = 0.1' > src/controllers/discount.py"
                "; echo made",
            },
            {"when": "made", "text": "I added it."},
        ),
        "why is this in the controller?",
        (
            {"when": "why is this in the controller", "shell": f"{MOVE}; echo moved"},
            {"when": "moved", "text": "I moved it to the domain."},
        ),
        ("why is this in the controller?", MOVE),
        {
            "note": "Put price rules into src/domain, not into a controller",
            "quote": "why is this in the controller?",
            "deeds": [{"n": 3, "text": MOVE}],
        },
    ),
    "approval": Kind(
        "show me the slow queries",
        (
            {"when": "show me the slow queries", "shell": "./report"},
            {"when": "raw;1;2;3", "shell": REPORT},
            {"when": "1 2 3 in columns", "text": "Here they are."},
        ),
        "there, now I can read it, keep it like that",
        ({"when": "now I can read it", "text": "I will."},),
        ("now I can read it, keep it like that", REPORT),
        {
            "note": f"Show slow queries with `{REPORT}`",
            "quote": "there, now I can read it, keep it like that",
            "deeds": [{"n": 4, "text": REPORT}],
            "accepted": {"n": 5, "quote": "keep it like that"},
        },
    ),
    "yes": Kind(
        "add a phone number to the customer",
        (
            {"when": "add a phone number", "shell": CLIENT},
            {"when": "client written", "text": f"I added it. Should I always regenerate the client with `{CLIENT}`?"},
        ),
        "yes",
        ({"when": r"\byes\b", "text": "I will."},),
        ("user: “yes”", CLIENT),
        {
            "note": f"Regenerate the client with `{CLIENT}` after a change of the schema",
            "quote": "yes",
            "deeds": [{"n": 6, "text": CLIENT}],
            "accepted": {"n": 7, "quote": "yes"},
        },
    ),
    "repair": Kind(
        "build it",
        (
            {"when": "build it", "shell": "make"},
            {"when": "no makefile found", "shell": BUILD},
            {"when": "all is built", "text": "It is built."},
        ),
        "ok works",
        ({"when": "ok works", "text": "Good."},),
        (BUILD,),
        {
            "note": f"Build with `{BUILD}`",
            "quote": "ok works",
            "deeds": [{"n": 8, "text": BUILD}],
            "accepted": {"n": 9, "quote": "ok works"},
        },
    ),
}
TASKS = "install the packages, add a discount, show the slow queries, add an address to the customer, and build it"
PROGRAMS = {
    "report": 'if [ "$1" = --columns ]; then echo "1 2 3 in columns"; else echo "raw;1;2;3"; fi',
    "gen-client": "echo client written",
}

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
        if name == "claude":
            if not find_unshare():
                pytest.skip("NOT TESTED IN THE REAL Claude Code: this system permits no network namespaces")
            installed = InstalledAgent(CLAUDE, Path(request.getfixturevalue("claude_binary")), "")
            home = tmp_path / "home"
            (home / "bin").mkdir(parents=True)
            desk = Desk(name, installed, home)
        elif {"all", name} & {*CHOSEN}:
            desk = open_desk(name)
        else:
            # It takes a minute, most of it waiting for a terminal.
            pytest.skip(f"NOT TESTED IN THE REAL {AGENTS[name].title}: `make test-hosts` installs it and runs this")
        shop = desk.make_repository("shop")
        for program, line in PROGRAMS.items():
            (shop / program).write_text(f"#!/bin/sh\n{line}\n")
            (shop / program).chmod(0o755)
        (shop / "build.mk").write_text("all:\n\t@echo all is built\n")
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
    seat.read(
        [
            {"n": 2 * place + 1, "scope": "project", "elsewhere": "another task of this kind", **kind.note}
            for place, kind in enumerate(KINDS.values())
        ]
    )
    asked, third = seat.type_session([TASKS])
    assert [note for note in noted if note not in asked] == [], seat.desk.smart("show", "--all", folder=seat.folder)[1]
    assert ("claude-smart:learned'" in third) == (name in NOTICED)
