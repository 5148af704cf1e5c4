"""Open the dashboard: find the running server or start one, and get a one-time link to it.

A server notes its address and process beside its tokens. A token is sent only to that process, or to a server that the
user names.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import alma

from ..errors import ALMAError, ConfigError, StorageError
from ..files import write_atomic
from . import tokens
from .tokens import TokenScope

STATE_FILE = "http-server.json"
LOG_FILE = "dashboard.log"
IDLE_SECONDS = 1800
# Servers that go on after this process; without a reference, Python would warn of them.
_STARTED: list[subprocess.Popen[bytes]] = []
_START_SECONDS, _CALL_SECONDS = 60.0, 10.0


@contextmanager
def note_server(token_file: Path, url: str, *, keeps_port: bool) -> Iterator[None]:
    """Note the address of this process beside the tokens while it serves; with `keeps_port`, for the next one, too."""
    file, own = token_file.with_name(STATE_FILE), {"url": url, "pid": os.getpid()}
    # A server in a folder that cannot be written is not found, but works.
    with suppress(OSError):
        write_atomic(file, json.dumps(own))
    try:
        yield
    finally:
        if _read_state(token_file) == own:
            with suppress(OSError):
                write_atomic(file, json.dumps({"url": url})) if keeps_port else file.unlink()


def _read_state(token_file: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        state = json.loads(token_file.with_name(STATE_FILE).read_text(encoding="utf-8"))
        if isinstance(state, dict):
            return state
    return {}


def find_server(token_file: Path) -> str | None:
    """Return the address of the server that uses these tokens; None if none is running."""
    state = _read_state(token_file)
    url, pid = state.get("url"), state.get("pid")
    with suppress(OSError):
        if isinstance(url, str) and isinstance(pid, int):
            if os.name == "posix":
                # Fails for a process of somebody else, which may have got its port.
                os.kill(pid, 0)
            return url
    return None


def _find_last_port(token_file: Path) -> int:
    """Return the port of the last server, at which open tabs go on; 0 if there was none, or it is in use."""
    with suppress(OSError, ValueError):
        port = urlsplit(str(_read_state(token_file).get("url"))).port or 0
        with socket.create_server(("127.0.0.1", port)):
            return port
    return 0


def start_server(config: Path, token_file: Path, port: int, environ: Mapping[str, str]) -> str:
    """Start a server in the background that ends when idle, and return its address."""
    log, port = token_file.with_name(LOG_FILE), port or _find_last_port(token_file)
    # Without the current folder on the path: it may be anybody's.
    command = [sys.executable, "-P", "-m", "alma.http", "--config", str(config), "--port", str(port)]
    command += ["--idle", str(IDLE_SECONDS), "--tokens", str(token_file)]
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
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
        state = _read_state(token_file)
        if state.get("pid") == process.pid:
            return str(state["url"])
        time.sleep(0.05)
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    if process.poll() is None:
        process.terminate()
        lines.append(f"it did not start within {_START_SECONDS:g} s")
    raise ConfigError(f"the dashboard's server could not start: {lines[-1] if lines else 'no message'}")


def stop_server(token_file: Path) -> None:
    """Stop the server that uses these tokens, and wait until it has ended; do nothing if none is running."""
    url, pid = find_server(token_file), _read_state(token_file).get("pid")
    if url is None or not isinstance(pid, int):
        return
    with suppress(ALMAError, OSError, KeyError, TypeError):
        # Only our own server accepts the token; another process may have got its id.
        ask_link(url, read_token(token_file, str(token_file.with_name(tokens.FIRST_FILE))), TokenScope.READ, None)
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _CALL_SECONDS
        while time.monotonic() < deadline and all(process.poll() is None for process in _STARTED if process.pid == pid):
            # Fails when it has ended.
            os.kill(pid, 0)
            time.sleep(0.05)


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

    `environ` is the environment of a server that is started, by default that of this process.
    """
    url = find_server(token_file)
    if url is not None:
        with suppress(StorageError):
            return ask_link(url, read_token(token_file, named_token), scope, project), False
    url = start_server(config, token_file, port, os.environ if environ is None else environ)
    return ask_link(url, read_token(token_file, named_token), scope, project), True


def choose_scope(*, read_only: bool, admin: bool) -> TokenScope:
    """Return the scope that the options --read-only and --admin ask for."""
    return TokenScope.READ if read_only else TokenScope.ADMIN if admin else TokenScope.APPROVE


def show_link(link: str, *, was_started: bool, may_open: bool) -> tuple[dict[str, Any], str]:
    """Open a link in a browser, if it may be; return what was done as JSON values and as a line."""
    is_opened = may_open and webbrowser.open(link)
    place = link.partition("/ui/")[0]
    text = f"opened the dashboard at {place}/ui/" if is_opened else f"open this link within a minute: {link}"
    return {"link": link, "expires_in": 60, "was_started": was_started, "opened": is_opened}, text
