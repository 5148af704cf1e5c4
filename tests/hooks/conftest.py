from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.forked import Running, share_forks
from tests.persons import write_hook

import claude_smart
from alma.engine.rule_lines import dress_rule
from alma.engine.rules import AGENT
from alma.hooks import journal, worker
from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.hosts import HOSTS
from alma.hooks.journal import request_drain
from alma.hooks.paths import DataDir
from alma.hooks.run import answer_event
from alma.hooks.team import describe_team, sync_team
from alma.processes import Process, read_process
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import KINDS
from alma.types.record import Evidence, Record, Status, new_id

_FOLDER = tempfile.TemporaryDirectory(prefix="alma-hook-")
HOOK = write_hook(_FOLDER.name, str(Path(claude_smart.__file__).with_name("hook.py")))
"""The hook, as it runs below a host that nobody else runs."""
PROJECT = "git:github.com/acme/app"
Teach = Callable[..., str]
CORRECTION = "no, use pnpm instead of npm, because npm breaks the lock file"
Answer = Callable[[BaseHTTPRequestHandler], None]


def use_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Make this data folder that of the commands that are run in this process."""
    usual = home.parent / ".claude-smart"
    usual.mkdir(mode=0o700, exist_ok=True)
    (usual / "config.json").write_text(json.dumps({"home": str(home)}))
    patch.setenv("HOME", str(home.parent))
    patch.setenv("USERPROFILE", str(home.parent))


def find_tests() -> tuple[Process | None, float, list[Process]]:
    """Name the tests' process as the one that just started a hook: it would be the caller of a hook's process."""
    return read_process(os.getpid()), 0.0, []


class Host:
    """Hands events to hooks as a host does, in the tests' own process or in a process for each event."""

    starts_processes = False
    """Whether `send` and `deliver` start a process, as a real host does."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.base = home.parent
        self.cwd = cwd
        self.place = DataDir(str(home))
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home.parent)}
        self.environ["CLAUDE_CODE_ENTRYPOINT"] = "cli"
        self.transcripts: dict[str, Path] = {}
        """The files in which this host writes down what was said, by session; it names them at the start."""

    def raw(self, given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-I", "-S", HOOK, *arguments, "--home", str(self.home)]
        return subprocess.run(command, input=given, capture_output=True, env=self.environ, cwd=self.base, timeout=60)

    def deliver(self, given: bytes, *arguments: str) -> bytes:
        """Return what a hook prints for an event; it must have ended well."""
        if self.starts_processes:
            done = self.raw(given, *arguments)
            assert (done.returncode, done.stderr) == (0, b"")
            return done.stdout
        name = arguments[0] if arguments else ""
        host = name if name in HOSTS else ""
        with pytest.MonkeyPatch.context() as patch:
            # In place of each variable: an event starts no process that inherits them.
            patch.setattr(os, "environ", dict(self.environ))
            patch.chdir(self.base)
            patch.setattr(journal, "find_caller", find_tests)
            text, wake_reason = answer_event(given, self.place, "" if host else name, host)
        if wake_reason:
            request_drain(self.place)
        return text.encode()

    def send(self, event: str, session: str = "s1", **given: Any) -> str:
        """What the model is told; the hook must have ended well and said nothing else."""
        told = {"session_id": session, "cwd": str(self.cwd), "hook_event_name": event, **given}
        if event == "SessionStart" and "transcript_path" in given:
            self.transcripts[session] = Path(given["transcript_path"])
        printed = self.deliver(json.dumps(told).encode())
        self.write_down(session, event, given)
        if not printed:
            return ""
        output = json.loads(printed).get("hookSpecificOutput")
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


def start_drain(home: Path, environ: dict[str, str]) -> Running:
    """Start a process that drains once."""
    code = "import sys; from alma.hooks import worker; sys.exit(worker.main(sys.argv[1:]))"
    return share_forks().start(code, home.parent, arguments=["--home", str(home), "--once"], environ=environ)


# -- a machine of a team, and a server that says what it likes


class Machine(Host):
    """A person's machine: its hooks, and a drain that ends by itself."""

    def __init__(self, folder: Path, repository: Path, url: str, token: str) -> None:
        super().__init__(folder / "home", repository)
        self.home.mkdir(parents=True, mode=0o700)
        (self.home / "runtime.json").write_text(json.dumps({"python": "/bin/true", "path": ""}))
        (self.home / "config.json").write_text(json.dumps({"server": url, "embedding": "off"}))
        self.set_token(token)

    def set_token(self, token: str) -> None:
        file = self.home / "server-token"
        file.write_text(token)
        file.chmod(0o600)

    def correct(self, prompt: str = CORRECTION, session: str = "s1") -> None:
        self.send("UserPromptSubmit", session, prompt="install the packages", prompt_id=f"{session}p1")
        self.send("Stop", session, last_assistant_message="I ran npm install.", prompt_id=f"{session}p1")
        self.send("UserPromptSubmit", session, prompt=prompt, prompt_id=f"{session}p2")
        self.send("Stop", session, last_assistant_message="Done.", prompt_id=f"{session}p2")

    def start_drain(self) -> Running:
        return start_drain(self.home, self.environ)

    def drains(self) -> None:
        """Drain now, whenever the last attempt was."""
        team = self.home / "team.json"
        if team.exists():
            team.write_text(json.dumps({**json.loads(team.read_text()), "next_try": 0, "synced_at": 0}))
        with mock.patch.dict("os.environ", self.environ, clear=True):
            worker.drain_once(self.place)

    def describe(self) -> dict[str, Any]:
        with ProjectMemories(self.place) as memory:
            return describe_team(self.place, memory)


@pytest.fixture
def new_machine(tmp_path: Path, repository: Path) -> Callable[[str, str, str], Machine]:
    def build(name: str, url: str, token: str = "alma_token") -> Machine:
        return Machine(tmp_path / name, repository, url, token)

    return build


@pytest.fixture
def in_process() -> Callable[[Machine], str]:
    """Drain and exchange in this process; returns why the exchange failed."""

    def run(machine: Machine) -> str:
        with ProjectMemories(machine.place) as memory:
            drain(machine.place, memory=memory)
            return sync_team(machine.place, memory, PROJECT)

    return run


@pytest.fixture
def fake_server() -> Iterator[Callable[[Answer], str]]:
    """A server on loopback that answers as a function says; returns its address."""
    servers: list[ThreadingHTTPServer] = []

    def build(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                answer(self)

            do_GET = do_POST

            def log_message(self, *arguments: Any) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield build
    for server in servers:
        server.shutdown()
        server.server_close()


def reply(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"content-length": str(len(content)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


class FakeTeam:
    """A team's server that answers with the rules and facts it is given, and takes none."""

    def __init__(self) -> None:
        self.rules: list[dict[str, Any]] = []
        self.facts: list[dict[str, Any]] = []
        self.url = ""
        self._lists = 0

    def share(self, rule: str, id: str = "", **fields: Any) -> None:
        """Send this rule from now on, in place of the one with this id."""
        row = {"type": "rule", "id": id or f"r{len(self.rules)}", "rule": rule, "agent": "claude-code"}
        row |= {"project_id": PROJECT, "reach": "project", "source": "note", "created_at": "2026-01-01"}
        self.rules = [one for one in self.rules if one["id"] != row["id"]]
        self.rules.append({**row, "updated_at": "2026-01-01", **fields})

    def share_repair(self, failed: str, worked: str, trigger: str = "") -> None:
        """Send an observation from now on."""
        about = {"failed": failed, "worked": worked, "trigger": trigger}
        row = {"type": "domain_knowledge", "id": f"f{len(self.facts)}", "agent": "claude-code", "fact": worked}
        row |= {"project_id": PROJECT, "source": "agent", "domain": "commands that failed and what worked"}
        dates = dict.fromkeys(("created_at", "updated_at", "last_verified"), "2026-01-01")
        self.facts.append({**row, **dates, "metadata": about})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a list of rules, then one of facts, and so on."""
        if handler.path != "/v1/list":
            reply(handler, json.dumps({"type": "urn:alma:error:ScopeError", "detail": "read only"}).encode(), 403)
            return
        self._lists += 1
        reply(handler, json.dumps({"result": self.rules if self._lists % 2 else self.facts}).encode())


@pytest.fixture
def team(fake_server: Callable[[Answer], str]) -> FakeTeam:
    fake = FakeTeam()
    fake.url = fake_server(fake.answer)
    return fake
