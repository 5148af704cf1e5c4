"""The real Claude Code, a model that says what a test wrote down for it, and a home of its own for each test."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.paths import DataDir
from alma.hooks.project import locate_project
from claude_smart.cli import main
from claude_smart.rules import find_rules, rule_to_dict

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60


# -- the model

Reply = Mapping[str, Any]


class Model:
    """A Messages API on loopback. The first reply not used yet whose `when` matches what was said last is given:

    {"when": "run the tests", "bash": "npm test"} · {"tool": "Write", "input": {…}} · {"text": "Done."}

    Without one it says "ok". Every request is kept.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._replies: list[Reply] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def will_say(self, *replies: Reply) -> None:
        self._replies = list(replies)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        said = newest(body)
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            fits = (one for one in self._replies if re.search(one.get("when", ""), said, re.IGNORECASE | re.DOTALL))
            reply = next(fits, None)
            if reply is not None:
                self._replies.remove(reply)
        return block(reply or {"text": "ok"}, number)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from texts(part.get("text") or part.get("content") or "")


def newest(body: Mapping[str, Any]) -> str:
    """What was said since the model spoke last."""
    parts: list[str] = []
    for message in reversed(body.get("messages", [])):
        if message["role"] == "assistant":
            break
        parts += texts(message["content"])
    return "\n".join(parts)


def everything(body: Mapping[str, Any]) -> str:
    """All that the model was shown in a request, bar the tools."""
    parts = [*texts(body.get("system", "")), *(text for one in body["messages"] for text in texts(one["content"]))]
    return "\n".join(parts)


def block(reply: Reply, number: int) -> dict[str, Any]:
    if "bash" in reply:
        reply = {"tool": "Bash", "input": {"command": reply["bash"], "description": "scripted"}}
    if "tool" in reply:
        return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": reply["tool"], "input": reply["input"]}
    return {"type": "text", "text": reply["text"]}


def _stream(message: dict[str, Any]) -> bytes:
    (made,) = message["content"]
    if made["type"] == "text":
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": made["text"]}
    else:
        start = {**made, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(made["input"])}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def _send(self, payload: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            self._send(b"{}")

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
            path = self.path.partition("?")[0]
            if not path.endswith("/v1/messages"):
                self._send(b'{"input_tokens": 10}')
                return
            made = model.answer(body)
            message = {
                "id": f"msg_{uuid.uuid4().hex}",
                "type": "message",
                "role": "assistant",
                "model": body.get("model"),
                "content": [made],
                "stop_reason": "tool_use" if made["type"] == "tool_use" else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "output_tokens": 5},
            }
            if body.get("stream"):
                self._send(_stream(message), "text/event-stream")
            else:
                self._send(json.dumps(message).encode())

    return Handler


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.close()


# -- a person at their machine


@dataclass(frozen=True)
class Said:
    """What a session ended with."""

    id: str
    result: str
    requests: Sequence[Mapping[str, Any]]
    code: int
    raw: str

    @property
    def shown(self) -> str:
        """All that the model was shown."""
        return "\n".join(everything(one) for one in self.requests)

    @property
    def last_shown(self) -> str:
        """What the model was shown since it spoke last."""
        return newest(self.requests[-1])


@dataclass
class Session:
    """A session that is open: each prompt is answered before the next is typed."""

    person: Person
    process: subprocess.Popen[str]

    def says(self, prompt: str, *replies: Reply) -> Said:
        """Type a prompt, and wait until the host has finished with it."""
        model = self.person.model
        model.will_say(*replies)
        before = len(model.requests)
        message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
        self.process.stdin.flush()
        is_read = prompt.startswith("/")  # The host repeats prompts, but no commands.
        for line in self.process.stdout:
            event = json.loads(line)
            # A result that comes first answers what the host itself told the model, such as that a subagent ended.
            is_read |= event["type"] == "user" and bool(event.get("isReplay"))
            if event["type"] == "result" and is_read:
                result = str(event.get("result", ""))
                return Said(event["session_id"], result, model.requests[before:], 0, line)
        pytest.fail(f"the host ended at {prompt!r}")


@dataclass
class Person:
    binary: Path
    home: Path
    model: Model
    plugin: Path | None = None
    """Loaded for the session only; None when it is installed."""
    more: dict[str, str] = field(default_factory=dict)

    def set(self, **settings: str) -> None:
        """Write settings of claude-smart."""
        self.smart_home.mkdir(mode=0o700, exist_ok=True)
        (self.smart_home / "config.json").write_text(json.dumps(settings))

    @property
    def smart_home(self) -> Path:
        return self.home / ".claude-smart"

    @property
    def environ(self) -> dict[str, str]:
        """As good as nothing of ours: what a session must not need cannot be found by accident."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.defpath}",
            "CLAUDE_SMART_BACKEND_AUTOSTART": "0",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "none",
            **self.more,
        }

    def wake_nobody(self) -> None:
        """Let the hooks start a program that ends at once: most tests drain by themselves."""
        self.smart_home.mkdir(mode=0o700, exist_ok=True)
        file = self.smart_home / "runtime.json"
        runtime = json.loads(file.read_text()) if file.exists() else {"path": ""}
        file.write_text(json.dumps({**runtime, "python": shutil.which("true")}))

    def wake_workers(self) -> None:
        """Let the hooks start workers, as they do unless a test says otherwise."""
        (self.smart_home / "runtime.json").unlink()

    def project(self, name: str, remote: str = "") -> Path:
        """A folder of the person's own, with nothing of ours in it."""
        folder = self.home / "work" / name
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        origin = f'[remote "origin"]\n\turl = {remote}\n' if remote else ""
        (folder / ".git" / "config").write_text(f"[core]\n\tbare = false\n{origin}")
        return folder

    def claude(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.binary), *arguments],
            cwd=cwd or self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def says(self, prompt: str, cwd: Path, *replies: Reply, resume: str = "", options: Sequence[str] = ()) -> Said:
        """One prompt in a session, new or resumed."""
        self.model.will_say(*replies)
        before = len(self.model.requests)
        plugin = ["--plugin-dir", str(self.plugin)] if self.plugin else []
        resumed = ["--resume", resume] if resume else []
        done = self.claude("-p", prompt, *plugin, *resumed, "--output-format", "json", *options, cwd=cwd)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, f"the host said nothing: {done.stdout[-500:]} {done.stderr[-500:]}"
        ended = json.loads(lines[-1])
        return Said(
            ended["session_id"],
            str(ended.get("result", "")),
            self.model.requests[before:],
            done.returncode,
            done.stdout + done.stderr,
        )

    @contextmanager
    def session(self, cwd: Path, resume: str = "", options: Sequence[str] = ()) -> Iterator[Session]:
        """Start a session, new or resumed, in which several prompts are typed one after the other."""
        plugin = ["--plugin-dir", str(self.plugin)] if self.plugin else []
        resumed = ["--resume", resume] if resume else []
        streams = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        streams.append("--replay-user-messages")
        command = [str(self.binary), "-p", *streams, *plugin, *resumed, *options]
        pipe = subprocess.PIPE
        with (
            (self.home / "session-errors.txt").open("w") as errors,
            subprocess.Popen(
                command, cwd=cwd, env=self.environ, stdin=pipe, stdout=pipe, stderr=errors, text=True
            ) as process,
        ):
            deadline = threading.Timer(2 * _SECONDS, process.kill)
            deadline.start()
            try:
                yield Session(self, process)
                process.communicate()
                assert process.returncode == 0, Path(errors.name).read_text()[-500:]
            finally:
                process.kill()
                deadline.cancel()

    def smart(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A `claude-smart` command, in the environment of the person and in this process."""
        printed, problems = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(problems):
            patch.setattr(os, "environ", dict(self.environ))
            patch.setattr("alma.processes.find_system_home", lambda: str(self.home))
            patch.chdir(cwd or self.home)
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, printed.getvalue(), problems.getvalue())

    @property
    def place(self) -> DataDir:
        return DataDir(str(self.smart_home))

    def learn(self) -> None:
        """Wait until all that was recorded is taken in."""
        report = drain(self.place, wait=20.0)
        assert (report.busy, report.problems) == (False, [])

    def rules(self, cwd: Path) -> list[dict[str, Any]]:
        """What was learned for a project, whatever its standing."""
        with ProjectMemories(self.place) as memory:
            return [rule_to_dict(one) for one in find_rules(memory.engine(locate_project(str(cwd)).key))]

    def journal(self, session: str) -> list[dict[str, Any]]:
        text = (self.smart_home / "sessions" / f"{session}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def complaints(self) -> list[str]:
        """What the hooks could not do, bar that nothing was learned yet."""
        log = self.smart_home / "hooks.log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [line for line in lines if "nothing was learned yet" not in line]


@pytest.fixture
def person(claude_binary: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    # What `python3` means on this machine may be a script that looks for one.
    base = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    (home / "bin" / "python3").symlink_to(base)
    person = Person(Path(claude_binary), home, model, plugin=tmp_path / "plugin")
    # Every session here is a headless run; it stands for one in which a person types.
    person.set(programs="on", embedding="off")
    shutil.copytree(ROOT / "plugin", tmp_path / "plugin")
    runtime = {"home": str(person.smart_home), "python": "", "path": str(ROOT / "src")}
    (tmp_path / "plugin" / "runtime.json").write_text(json.dumps(runtime))
    person.wake_nobody()
    return person


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, with its content."""

    def taken(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return taken
