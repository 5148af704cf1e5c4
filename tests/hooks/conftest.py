from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import claude_smart
from alma.engine.rule_lines import dress_rule
from alma.engine.rules import AGENT
from alma.hooks.paths import DataDir
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import KINDS
from alma.types.record import Evidence, Record, Status, new_id

HOOK = str(Path(claude_smart.__file__).with_name("hook.py"))
PROJECT = "git:github.com/acme/app"
Teach = Callable[..., str]


class Host:
    """Starts hooks as the host does: a process for each event."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.cwd = cwd
        self.place = DataDir(str(home))
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "CLAUDE_SMART_HOME": str(home)}
        self.environ["CLAUDE_CODE_ENTRYPOINT"] = "cli"
        self.transcripts: dict[str, Path] = {}
        """The files in which this host writes down what was said, by session; it names them at the start."""

    def raw(self, given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-I", "-S", HOOK, *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, env=self.environ, cwd=self.home.parent, timeout=60
        )

    def send(self, event: str, session: str = "s1", **given: Any) -> str:
        """What the model is told; the process must have ended well and said nothing else."""
        told = {"session_id": session, "cwd": str(self.cwd), "hook_event_name": event, **given}
        if event == "SessionStart" and "transcript_path" in given:
            self.transcripts[session] = Path(given["transcript_path"])
        done = self.raw(json.dumps(told).encode())
        self.write_down(session, event, given)
        assert done.returncode == 0
        assert done.stderr == b""
        if not done.stdout:
            return ""
        output = json.loads(done.stdout).get("hookSpecificOutput")
        if output is None:
            return ""
        assert output["hookEventName"] == event
        return str(output["additionalContext"])

    def write_down(self, session: str, event: str, given: dict[str, Any]) -> None:
        """Add a prompt to the transcript, as a host does after it has told the hooks."""
        path = self.transcripts.get(session)
        if event == "UserPromptSubmit" and path is not None and path.parent.is_dir():
            message = {"role": "user", "content": given["prompt"]}
            line = {"type": "user", "uuid": os.urandom(8).hex(), "sessionId": session, "message": message}
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def lines(self, session: str = "s1") -> list[dict[str, Any]]:
        path = Path(self.place.journal_file(session))
        return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []

    def events(self, session: str = "s1") -> list[dict[str, Any]]:
        """Without the first line, which names the file."""
        return self.lines(session)[1:]

    def log(self) -> str:
        path = Path(self.place.log)
        return path.read_text() if path.exists() else ""

    def holds(self, text: str) -> bool:
        """Whether any file of the person's holds a text."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return any(text.encode() in path.read_bytes() for path in files)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    # Whoever is woken has nothing to do.
    (folder / "runtime.json").write_text(json.dumps({"python": shutil.which("true") or sys.executable, "path": ""}))
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/app.git\n')
    return folder


@pytest.fixture
def host(home: Path, repository: Path) -> Host:
    return Host(home, repository)


@pytest.fixture
def teach(home: Path) -> Teach:
    """Puts a rule into the store and returns its id."""
    count = 0

    def teaching(rule: str, project: str = PROJECT, **given: Any) -> str:
        nonlocal count
        count += 1
        body = {
            "rule": rule,
            "trigger": given.get("trigger", ""),
            "why": given.get("why", ""),
            "reach": "session" if given.get("session") else "project",
            "source": given.get("source", "correction"),
            "said": given.get("said", rule),
            "prefer": list(given.get("prefer", ())),
            "avoid": list(given.get("avoid", ())),
            "metadata": {"sources": [], "repeats": given.get("repeats", 0)},
        }
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=count)
        record = Record(
            id=new_id(KINDS["rule"].prefix),
            kind="rule",
            project=project,
            agent=AGENT,
            session=given.get("session", ""),
            status=given.get("status", Status.ACTIVE),
            text=KINDS["rule"].text(body),
            body=dress_rule(body),
            evidence=Evidence(
                successes=given.get("followed", 0), failures=given.get("violated", 0), recent=given.get("recent", ())
            ),
            created_at=at,
            updated_at=at,
        )
        store = SQLiteStore(home / "memory.db")
        store.put([record])
        store.close()
        return record.id

    return teaching
