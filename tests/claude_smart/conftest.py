from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from alma.hooks import journal
from alma.hooks.paths import DataDir
from alma.hooks.project import find_copy, locate_project
from claude_smart.cli import main


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Person:
    """Works in a repository of their own, types commands and talks to the agent."""

    home: Path
    folder: Path
    capture: pytest.CaptureFixture[str]
    told: int = field(default=0)
    entry: str = "cli"
    """How the host was started."""

    @property
    def place(self) -> DataDir:
        return DataDir(str(self.home))

    def types(self, *arguments: str) -> Said:
        self.capture.readouterr()
        code = main(arguments)
        printed = self.capture.readouterr()
        return Said(code, printed.out, printed.err)

    def fails(self, *arguments: str) -> str:
        """The one line that says why."""
        said = self.types(*arguments)
        assert said.code == 1
        assert said.out == ""
        assert said.err.startswith("claude-smart: ")
        return said.err.removeprefix("claude-smart: ").strip()

    def tells(self, session: str, name: str, **data: Any) -> None:
        """A line of a session's journal."""
        self.told += 1
        line = {
            "v": 1,
            "id": f"{session}-{self.told}",
            "at": time.time(),
            "event": name,
            "session": session,
            "project": locate_project(str(self.folder)).key,
            "cwd": str(self.folder),
            "agent_id": "",
            "entry": self.entry,
            "origin": "host",
            "data": data,
        }
        journal.append_line(self.place, session, line)

    def talks(self, session: str, *prompts: str) -> None:
        for prompt in prompts:
            self.tells(session, "UserPromptSubmit", prompt=prompt, prompt_id=f"p{self.told}")
            self.tells(session, "Stop", last_assistant_message="I ran npm install.", prompt_id=f"p{self.told - 1}")

    def opens(self, name: str) -> None:
        """A session in another repository, which names itself."""
        own = self.folder.parent / name / ".claude-smart"
        own.mkdir(parents=True)
        (own / "project").write_text(name)
        find_copy(self.place, locate_project(str(own.parent)))

    def rules(self, *arguments: str) -> list[dict[str, Any]]:
        return list(self.types("show", "--json", *arguments).json["rules"])


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    home, folder = tmp_path / "my höme", tmp_path / "a répo"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("alma.processes.find_system_home", lambda: str(tmp_path))
    (tmp_path / ".claude-smart").mkdir()
    (tmp_path / ".claude-smart" / "config.json").write_text(json.dumps({"home": str(home)}))
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    return Person(home, folder, capsys)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The person sits at a terminal and will say this."""

    def given(*said: str) -> None:
        left = list(said)
        monkeypatch.setattr("os.isatty", lambda number: True)
        monkeypatch.setattr("builtins.input", lambda question="": left.pop(0))

    return given
