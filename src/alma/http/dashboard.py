"""Open the dashboard: find the running server or start one, and get a one-time link to it.

A server notes its address and process beside its tokens. A token is sent only to a server on this machine that proved
on the same connection that it knows the token, or to a server that the user names.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import IO, Any

import alma

from ..errors import ALMAError, ConfigError, StorageError
from ..files import PRIVATE
from ..trust_register import record_created_files
from . import proof, tokens
from .noted import STATE_FILE, NotedServer, find_server, is_own_process, read_server
from .tokens import TokenScope

__all__ = ["LOG_FILE", "STATE_FILE", "ask_link", "choose_scope", "get_link", "read_token", "show_link", "stop_server"]

LOG_FILE = "dashboard.log"
IDLE_SECONDS = 1800
# Servers that go on after this process; without a reference, Python would warn of them.
_STARTED: list[subprocess.Popen[bytes]] = []
_START_SECONDS, _CALL_SECONDS = 60.0, 10.0
_MOST_BYTES = 100_000
"""Of an answer, from a server that has perhaps not proved itself."""


# -- start and stop


def _find_last_port(token_file: Path) -> int:
    """Return the port of the last server, at which open tabs go on; 0 if there was none, or it is in use."""
    last = read_server(token_file)
    with suppress(OSError):
        if last is not None:
            with socket.create_server(("127.0.0.1", last.port)):
                return last.port
    return 0


def start_server(config: Path, token_file: Path, port: int, environ: Mapping[str, str]) -> NotedServer:
    """Start a server in the background that ends when idle, and return it."""
    log, port = token_file.with_name(LOG_FILE), port or _find_last_port(token_file)
    # Without the current folder on the path: it may be anybody's.
    command = [sys.executable, "-P", "-m", "alma.http", "--config", str(config), "--port", str(port)]
    command += ["--idle", str(IDLE_SECONDS), "--tokens", str(token_file)]
    # Here as well, because the server may have another register: `environ` need not be that of this process.
    record_created_files(token_file.with_name(STATE_FILE))
    with _open_log(log) as output:
        paths = [str(Path(__file__).parents[2]), *filter(None, [environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
            env={**environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    _STARTED.append(process)
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        server = read_server(token_file, must_be_recorded=False)
        if server is not None and server.pid == process.pid:
            return server
        time.sleep(0.05)
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    if process.poll() is None:
        process.terminate()
        lines.append(f"it did not start within {_START_SECONDS:g} s")
    raise ConfigError(f"the dashboard's server could not start: {lines[-1] if lines else 'no message'}")


def _open_log(log: Path) -> IO[bytes]:
    """Open the log of a server to be written from its start. A link that came with the folder is removed."""
    if log.is_symlink():
        log.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(log, flags, PRIVATE)
    if sys.platform != "win32":
        os.fchmod(descriptor, PRIVATE)
    return open(descriptor, "wb")


def stop_server(token_file: Path) -> None:
    """Stop the server that uses these tokens, and wait until it has ended; do nothing if none is running.

    The process is signalled only after the server has proved that it is its own.
    """
    with suppress(ALMAError, OSError):
        server = find_server(token_file)
        if server is None:
            return
        secret = read_token(token_file, str(token_file.with_name(tokens.FIRST_FILE)))
        with _connect_proven(server, secret):
            os.kill(server.pid, signal.SIGTERM)
        deadline = time.monotonic() + _CALL_SECONDS
        while time.monotonic() < deadline and _is_running(server.pid):
            time.sleep(0.05)


def _is_running(pid: int) -> bool:
    # A process that this one started is still there when it has ended, until it is asked for its status.
    has_ended = any(process.poll() is not None for process in _STARTED if process.pid == pid)
    return not has_ended and is_own_process(pid)


# -- the link


def read_token(token_file: Path | None, named: str | None = None) -> str:
    """Return the secret to ask with: from the named file, the environment, or the file of the first token."""
    if named is not None:
        try:
            return Path(named).expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the token file {named}: {error}") from None
    if secret := os.environ.get(tokens.SECRET_VARIABLE):
        return secret
    with suppress(OSError, UnicodeDecodeError):
        if token_file is not None:
            return token_file.with_name(tokens.FIRST_FILE).read_text(encoding="ascii").strip()
    raise ConfigError(f"there is no token; pass --token-file FILE, or set {tokens.SECRET_VARIABLE}")


def ask_link(url: str, secret: str, scope: TokenScope, project: str | None) -> str:
    """Return a one-time link from a server. Raise ALMAError if it refuses, StorageError if it does not answer."""
    with alma.ALMA.connect(url, secret, timeout=_CALL_SECONDS) as remote:
        code = remote.post("session/code", {"scope": str(scope), "project": project})["code"]
    return f"{url.rstrip('/')}/ui/enter#{code}"


def ask_noted_server(server: NotedServer, secret: str, scope: TokenScope, project: str | None) -> str:
    """Return a one-time link from a server on this machine, which gets the token only after it proved that it knows it.

    Raise StorageError if it does not answer or proves nothing, another ALMAError if it refuses.
    """
    with _connect_proven(server, secret) as connection:
        arguments = {"scope": str(scope), "project": project}
        status, answer = _post(connection, "/v1/session/code", arguments, {"authorization": f"Bearer {secret}"})
    code = answer.get("code")
    if status != 200 or not isinstance(code, str):
        kind = str(answer.get("type", "")).removeprefix("urn:alma:error:")
        from ..remote import find_error  # It loads the whole library, which printing a help text need not wait for.

        raise find_error(kind, status)(str(answer.get("detail") or f"{server.url} answered {status}"))
    return f"{server.url}/ui/enter#{code}"


@contextmanager
def _connect_proven(server: NotedServer, secret: str) -> Iterator[HTTPConnection]:
    """Yield a connection to a server that proved on it that it knows the token. It is never opened a second time."""
    if not secret.isascii() or not secret.isprintable():
        raise ConfigError("the token must be the secret printed by `alma token add`, or in the http-token file")
    try:
        with closing(_open_connection(server)) as connection:
            digest, nonce = tokens.digest_secret(secret), proof.make_nonce()
            addresses = (connection.sock.getpeername(), connection.sock.getsockname())
            ends = proof.ConnectionEnds(*map(proof.format_end, addresses))
            body = {"nonce": nonce, "signature": proof.sign_request(digest, nonce, ends)}
            status, answer = _post(connection, proof.PATH, body, {})
            is_proven = proof.is_proven(digest, nonce, ends, server.pid, answer.get("signature"))
            if status != 200 or not is_proven:
                raise StorageError(f"the server at {server.url} did not prove that it knows the token")
            yield connection
    except (OSError, HTTPException, ValueError) as error:
        raise StorageError(f"the server at {server.url} did not answer as expected: {error!r}") from error


def _open_connection(server: NotedServer) -> HTTPConnection:
    connection = HTTPConnection(server.host, server.port, timeout=_CALL_SECONDS)
    if server.scheme == "https":
        context = ssl.create_default_context()
        connection = HTTPSConnection(server.host, server.port, timeout=_CALL_SECONDS, context=context)
    connection.connect()
    # Whoever answers a second connection has proved nothing.
    connection.auto_open = 0
    return connection


def _post(
    connection: HTTPConnection, path: str, arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    """Return the status and the answer to a request."""
    body = json.dumps(arguments).encode("ascii")
    connection.request("POST", path, body, {"content-type": "application/json", **headers})
    response = connection.getresponse()
    content = response.read(_MOST_BYTES + 1)
    try:
        answer = json.loads(content) if len(content) <= _MOST_BYTES else None
    except RecursionError:
        answer = None
    if not isinstance(answer, dict):
        raise HTTPException("no answer of an alma server")
    return response.status, answer


def get_link(
    config: Path,
    token_file: Path,
    scope: TokenScope,
    *,
    port: int = 0,
    project: str | None = None,
    named_token: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[str, bool]:
    """Return a link to the dashboard of a configuration, and whether its server was started for it.

    A server that does not prove that it knows the token counts as not running. `environ` is the environment of a server
    that is started, by default that of this process.
    """
    server = find_server(token_file)
    if server is not None:
        with suppress(StorageError):
            return ask_noted_server(server, read_token(token_file, named_token), scope, project), False
    _check_token(token_file, named_token)
    server = start_server(config, token_file, port, os.environ if environ is None else environ)
    return ask_noted_server(server, read_token(token_file, named_token), scope, project), True


def _check_token(token_file: Path, named: str | None) -> None:
    """Raise ConfigError if a server that is started now would not know the token."""
    if named is None or Path(named) == token_file.with_name(tokens.FIRST_FILE):
        # The server that is started creates that file.
        return
    digest = tokens.digest_secret(read_token(token_file, named))
    if tokens.Tokens(token_file).find_digest(digest) is None:
        message = f"the token in {named} is unknown or revoked; create a token with `alma token add`"
        raise ConfigError(message)


def choose_scope(*, read_only: bool, admin: bool) -> TokenScope:
    """Return the scope that the options --read-only and --admin ask for."""
    return TokenScope.READ if read_only else TokenScope.ADMIN if admin else TokenScope.APPROVE


def show_link(link: str, *, was_started: bool, may_open: bool) -> tuple[dict[str, Any], str]:
    """Open a link in a browser, if it may be; return what was done as JSON values and as a line."""
    is_opened = may_open and webbrowser.open(link)
    place = link.partition("/ui/")[0]
    text = f"opened the dashboard at {place}/ui/" if is_opened else f"open this link within a minute: {link}"
    return {"link": link, "expires_in": 60, "was_started": was_started, "opened": is_opened}, text
