"""`alma dashboard` in a folder of somebody else: no file that came with it gets the token, a signal, or a browser."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from alma.errors import ConfigError
from alma.http import dashboard, noted, proof, tokens
from alma.trust_register import find_foreign_files, record_created_files

from .conftest import Run

pytestmark = pytest.mark.system

STATE = Path(".alma") / dashboard.STATE_FILE
NEEDS_POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
STARTED = "a new server is started"


class Listener:
    """A server of somebody else on this machine, which records all that it is sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler, bytes], dict[str, Any]] = lambda handler, body: {}
        self.closes = False
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                listener.requests.append((self.path, str(self.headers), body))
                content = json.dumps({"code": "evil", **listener.answer(self, body)}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(content)))
                if listener.closes:
                    self.send_header("connection", "close")
                    self.close_connection = True
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def knows(self, secret: str) -> bool:
        return any(secret in headers or secret.encode() in body for _, headers, body in self.requests)

    def count_codes(self) -> int:
        return sum(path == "/v1/session/code" for path, *_ in self.requests)


@pytest.fixture
def evil() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.server.shutdown()
    listener.server.server_close()


@pytest.fixture
def secret(project: Path) -> str:
    """The admin token of the project."""
    file = tokens.ensure_token(project / ".alma" / tokens.FILE)
    assert file is not None
    return file.read_text().strip()


@pytest.fixture
def not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise ConfigError(STARTED)

    monkeypatch.setattr(dashboard, "start_server", refuse)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The links that a browser was told to open."""
    links: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: not links.append(link))
    return links


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user that is no server."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def stopping(project: Path, forked_servers: None) -> Iterator[None]:
    yield
    while dashboard._STARTED:
        process = dashboard._STARTED.pop()
        process.terminate()
        process.wait(30)


def plant(url: str, pid: object, *, mode: int = 0o600, is_recorded: bool = True) -> Path:
    """Write a note as somebody else would; `is_recorded` if the user's own server had written one there before."""
    if is_recorded:
        record_created_files(STATE)
    STATE.write_text(json.dumps({"url": url, "pid": pid}))
    STATE.chmod(mode)
    return STATE


# -- the file


@pytest.mark.parametrize("pid", [0, -1, 1, -2, True, None, "7", 2**31, 2**70, 1.0])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_id_that_is_no_process_is_no_server(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None, pid: object, is_recorded: bool
) -> None:
    plant(f"http://127.0.0.1:{evil.port}", pid, is_recorded=is_recorded)
    assert STARTED in run("dashboard", "--no-open").err
    assert evil.requests == []


def test_a_file_that_alma_did_not_write_here_is_not_believed(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None
) -> None:
    plant(f"http://127.0.0.1:{evil.port}", os.getpid(), is_recorded=False)
    assert STARTED in run("dashboard", "--no-open").err
    assert evil.requests == []


@pytest.mark.system
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example",
        "http://evil.example:8766",
        "http://127.0.0.1.evil.example:8766",
        "http://localhost.evil.example:8766",
        "http://127.0.0.1@evil.example:8766",
        "http://127.0.0.1:8766@evil.example:8766",
        "http://evil.example:8766\\@127.0.0.1:8766",
        "http://user:word@127.0.0.1:8766",
        "http://127.0.0.1:8766/elsewhere",
        "http://127.0.0.1:8766/?next=https://evil.example",
        "http://127.0.0.1:8766#x",
        "http://127.0.0.1",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://0.0.0.0:8766",
        "http://[::]:8766",
        "http://[::ffff:192.0.2.1]:8766",
        "http://[::1%25eth0]:8766",
        "http://192.0.2.1:8766",
        "http://2130706433:8766",
        "http://128.0.0.1:8766",
        "ftp://127.0.0.1:8766",
        "file:///tmp/page.html",
        "javascript:alert(1)",
        "//127.0.0.1:8766",
        "http://127.0.0.1:8766\n.evil.example",
        "http://①27.0.0.1:8766",
    ],
)
def test_an_address_elsewhere_gets_no_connection_and_no_browser(
    project: Path,
    run: Run,
    secret: str,
    not_started: None,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    sleeper: subprocess.Popen[bytes],
    url: str,
) -> None:
    places: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda place, *args, **options: places.append(place))
    plant(url, sleeper.pid)
    assert STARTED in run("dashboard").err
    assert (places, opened) == ([], [])


@pytest.mark.parametrize("content", ["", "[]", "null", "7", '{"url": 7}', "[" * 4000, '{"url": "http://127.0.0.1:1"'])
def test_a_damaged_file_is_no_server(project: Path, run: Run, secret: str, not_started: None, content: str) -> None:
    plant("", 0).write_text(content)
    assert STARTED in run("dashboard", "--no-open").err


@pytest.mark.system
def test_a_file_that_git_tracks_is_an_error_that_names_it(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None, sleeper: subprocess.Popen[bytes]
) -> None:
    plant(f"http://127.0.0.1:{evil.port}", sleeper.pid)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "-f", str(STATE)], check=True)
    refused = run("dashboard", "--no-open")
    assert refused.code == 1
    assert "git tracks" in refused.err
    assert f"git rm {project / STATE}" in refused.err
    assert STARTED not in refused.err
    assert evil.requests == []
    # The pulled content stays a stranger's when git stops tracking the file.
    subprocess.run(["git", "rm", "-q", "--cached", str(STATE)], check=True)
    assert STARTED in run("dashboard", "--no-open").err
    assert evil.requests == []


@NEEDS_POSIX
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o700, 0o400])
def test_a_file_with_other_permissions_is_an_error_that_names_it(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None, mode: int
) -> None:
    plant(f"http://127.0.0.1:{evil.port}", os.getpid(), mode=mode)
    refused = run("dashboard", "--no-open")
    assert refused.code == 1
    assert str(project / STATE) in refused.err
    assert f"rm {project / STATE}" in refused.err
    assert evil.requests == []


@NEEDS_POSIX
def test_a_link_to_a_file_of_ours_is_an_error_that_names_it(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None
) -> None:
    plant(f"http://127.0.0.1:{evil.port}", os.getpid())
    record_created_files("real.json")
    STATE.rename("real.json")
    STATE.symlink_to(project / "real.json")
    refused = run("dashboard", "--no-open")
    assert refused.code == 1
    assert "is a link" in refused.err
    assert evil.requests == []


@NEEDS_POSIX
def test_a_pipe_is_an_error_and_is_not_waited_for(project: Path, run: Run, secret: str, not_started: None) -> None:
    os.mkfifo(STATE, 0o600)
    assert "is no regular file" in run("dashboard", "--no-open").err


@NEEDS_POSIX
def test_a_server_does_not_follow_a_link_that_came_with_the_folder(project: Path) -> None:
    victim = project / ".alma" / "alma.db"
    victim.write_text("planted")
    STATE.symlink_to(victim)
    with noted.note_server(project / ".alma" / tokens.FILE, "http://127.0.0.1:8766", keeps_port=False):
        assert find_foreign_files([victim]) == [victim], "the register must not list what the link points to"
        assert not STATE.is_symlink()
    assert victim.read_text() == "planted"


@NEEDS_POSIX
@pytest.mark.system
def test_the_log_does_not_follow_a_link_that_came_with_the_folder(project: Path, run: Run, stopping: None) -> None:
    victim = project / "precious.txt"
    victim.write_text("precious")
    (project / ".alma" / dashboard.LOG_FILE).symlink_to(victim)
    assert run("dashboard", "--no-open", "--json").json["was_started"]
    assert victim.read_text() == "precious"


# -- the server


def test_a_server_that_proves_nothing_gets_no_token(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None, opened: list[str]
) -> None:
    evil.answer = lambda handler, body: {"signature": json.loads(body)["signature"], "pid": os.getpid()}
    plant(f"http://127.0.0.1:{evil.port}", os.getpid())
    assert STARTED in run("dashboard").err
    assert [path for path, *_ in evil.requests] == [proof.PATH]
    assert not evil.knows(secret)
    assert opened == []


def test_the_token_of_the_environment_is_kept_as_well(
    project: Path, run: Run, evil: Listener, not_started: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tokens.SECRET_VARIABLE, "a-secret-of-the-environment-0123456789")
    plant(f"http://127.0.0.1:{evil.port}", os.getpid())
    assert STARTED in run("dashboard", "--no-open").err
    assert len(evil.requests) == 1
    assert not evil.knows("a-secret-of-the-environment-0123456789")


@pytest.mark.parametrize("closes", [False, True])
def test_the_token_is_sent_only_on_the_connection_of_the_proof(
    project: Path, run: Run, evil: Listener, secret: str, not_started: None, closes: bool
) -> None:
    """Here the listener knows the hash of the token: it answers as a real server does, or closes after the proof."""
    digest = tokens.digest_secret(secret)

    def prove(handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        addresses = (handler.connection.getsockname(), handler.client_address)
        ends = proof.ConnectionEnds(*map(proof.format_end, addresses))
        nonce = json.loads(body).get("nonce", "")
        return {"signature": proof.sign_answer(digest, nonce, ends, os.getpid()), "pid": os.getpid()}

    evil.answer, evil.closes = prove, closes
    plant(f"http://127.0.0.1:{evil.port}", os.getpid())
    ran = run("dashboard", "--no-open", "--json")
    assert evil.knows(secret) is not closes
    assert evil.count_codes() == (0 if closes else 1)
    assert (STARTED in ran.out) is closes


# -- with the real server


class Relay:
    """A process in the middle: it passes every byte on to the real server, and back."""

    def __init__(self, port: int) -> None:
        self.sent, self.received = b"", b""
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._pass_on, args=(self._listener.accept()[0],), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server, suppress(OSError):
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(65536)
                    if not data:
                        return
                    if side is client:
                        self.sent += data
                        # As if the client had dialled the real server.
                        server.sendall(data.replace(str(self.port).encode(), str(self._target).encode()))
                    else:
                        self.received += data
                        client.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.system
def test_a_process_that_passes_the_proof_on_to_the_real_server_gets_no_token(
    project: Path, run: Run, stopping: None
) -> None:
    run("dashboard", "--no-open", "--json")
    state = json.loads(STATE.read_text())
    secret = (project / ".alma" / tokens.FIRST_FILE).read_text().strip()
    relay = Relay(int(state["url"].rpartition(":")[2]))
    STATE.write_text(json.dumps({**state, "url": f"http://127.0.0.1:{relay.port}"}))
    again = run("dashboard", "--no-open", "--json").json
    relay.close()
    assert again["was_started"]
    assert str(relay.port) not in again["link"]
    assert proof.PATH.encode() in relay.sent
    assert b"401" in relay.received, "the real server was reached, and proved nothing to another connection"
    assert secret.encode() not in relay.sent
    assert b"authorization" not in relay.sent.lower()


@pytest.mark.system
def test_only_the_process_that_proved_itself_is_stopped(
    project: Path, run: Run, stopping: None, sleeper: subprocess.Popen[bytes]
) -> None:
    run("dashboard", "--no-open", "--json")
    [server] = dashboard._STARTED
    own = STATE.read_text()
    token_file = project / ".alma" / tokens.FILE
    STATE.write_text(json.dumps({**json.loads(own), "pid": sleeper.pid}))
    dashboard.stop_server(token_file)
    assert (sleeper.poll(), server.poll()) == (None, None)
    STATE.write_text(own)
    dashboard.stop_server(token_file)
    assert server.poll() is not None


@pytest.mark.system
def test_a_planted_process_is_never_signalled(
    project: Path, evil: Listener, secret: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)) if number else kill(pid, 0))
    token_file = project / ".alma" / tokens.FILE
    for pid in (sleeper.pid, 0, -1, 1, os.getppid()):
        plant(f"http://127.0.0.1:{evil.port}", pid)
        dashboard.stop_server(token_file)
    STATE.chmod(0o644)
    dashboard.stop_server(token_file)
    assert signals == []
    assert not evil.knows(secret)


@pytest.mark.system
def test_a_token_that_no_server_would_know_starts_none(project: Path, run: Run, secret: str, stopping: None) -> None:
    Path("secret.txt").write_text("alma_" + "wrong" * 8)
    refused = run("dashboard", "--token-file", "secret.txt", "--no-open")
    assert refused.code == 1
    assert "unknown or revoked" in refused.err
    assert dashboard._STARTED == []
