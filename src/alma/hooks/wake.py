"""Wakes whoever drains the journals, and asks the worker. Part of the hook: it loads as little as it can.

Why no wake-up is lost. A wake-up is a file, `wanted`, made after the hook's line is in its journal. Whoever drains
first takes the file away and then reads all journals; taking it away succeeds for one process alone, and who took it
owes a whole drain: one that starts later, looks again afterwards, and puts the file back while it must wait for
another drainer. So as long as the file is there nothing was forgotten, and when it is gone a drain that reads the line
has begun. A file that somebody made a moment ago therefore needs nothing more: its maker has told the worker or
started one. One that lies for longer was left by somebody who was killed, and is acted upon again. A drainer that is
killed in the middle leaves its journals as they were; the next wake-up, or the worker's own round, takes them in.
"""

from __future__ import annotations

import json
import os
import sys
import time

from . import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping
    from typing import Any

    from .place import Place

FRESH_SECONDS = 5.0
"""Longer than a worker takes to start."""
STALE_SECONDS = 60.0
"""Longer than a worker that is well leaves a wake-up lying, unless it is in a drain."""
_TELL_SECONDS = 0.05
_MOST_BYTES = 1 << 20
_WORKER = os.path.join("alma", "hooks", "worker.py")

_TROUBLE = (OSError, LookupError, ValueError, TypeError, RecursionError)
"""A worker that is gone, or a file about it that is damaged."""

_started: list[Any] = []
"""What this process started: a child that ends before its parent asks stays in the table of processes."""


def wake(place: Place, reason: str) -> None:
    """See to it that the journals are drained soon, without waiting for it."""
    try:
        _wake(place, reason)
    except Exception as error:  # noqa: BLE001 - a hook goes on whatever happens here
        log.note(place, reason, f"no drain could be started: {log.where(error)}")


def _wake(place: Place, reason: str) -> None:
    _bury()
    leaving = reason == "SessionEnd" and os.environ.get("CLAUDE_SMART_BACKEND_STOP_ON_END") == "1"
    if leaving:
        # It drains what is wanted before it ends; who comes too late for that drains alone.
        ask(place, {"op": "stop"}, _TELL_SECONDS)
    age = want(place)
    if 0 <= age < FRESH_SECONDS:
        return
    python, script = runtime(place)
    if age < STALE_SECONDS and not leaving and tell(place, script):
        return
    _touch(place)
    alone = leaving or age >= STALE_SECONDS or os.environ.get("CLAUDE_SMART_BACKEND_AUTOSTART", "1") == "0"
    _start(place, python, script, alone)


# --- the wake-up itself ----------------------------------------------------------------------------


def wanted(place: Place) -> str:
    return os.path.join(place.sessions, "wanted")


def want(place: Place) -> float:
    """Ask for a drain. Returns how many seconds it has been asked for already; -1 when nobody had."""
    path = wanted(place)
    try:
        place.make()
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        try:
            age = time.time() - os.stat(path).st_mtime
        except FileNotFoundError:
            # Taken away this moment: perhaps by somebody who has read our journal before we wrote.
            return want(place)
        # A clock that was set back says nothing about who is alive.
        return age if age >= 0 else FRESH_SECONDS
    return -1.0


def claim(place: Place) -> bool:
    """Take the wake-up, and with it the duty to drain; False when there is none."""
    try:
        os.unlink(wanted(place))
    except (FileNotFoundError, PermissionError):
        # Windows refuses while somebody else looks at it; then it is still there the next time.
        return False
    return True


def is_wanted(place: Place) -> bool:
    return os.path.exists(wanted(place))


def _touch(place: Place) -> None:
    try:
        os.utime(wanted(place))
    except FileNotFoundError:
        return


# --- starting --------------------------------------------------------------------------------------


def runtime(place: Place) -> tuple[str, str]:
    """The interpreter and the file that make a worker: those that were installed, else our own."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = _read(place.runtime)
    python, folder = found.get("python"), found.get("path")
    if not isinstance(python, str) or not os.path.isfile(python):
        python = sys.executable
    script = os.path.join(folder, _WORKER) if isinstance(folder, str) and folder else ""
    return python, script if os.path.isfile(script) else os.path.join(own, _WORKER)


def _start(place: Place, python: str, script: str, alone: bool) -> None:
    """A process that holds nothing of ours: the host waits until every copy of a hook's output is closed."""
    command = [python, "-I", script, "--home", place.home, "--sessions", place.sessions]
    if alone:
        command += ["--once", "--if-wanted"]
    if os.name == "nt":
        _started.append(_start_on_windows(command))
    else:
        _started.append(_start_on_posix(command))


def _start_on_posix(command: list[str]) -> int:
    nothing = os.devnull
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, nothing, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, nothing, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, nothing, os.O_WRONLY, 0),
    ]
    try:
        return os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)
    except NotImplementedError:
        # The worker leaves our session by itself, a moment later.
        return os.posix_spawn(command[0], command, os.environ, file_actions=actions)


def _start_on_windows(command: list[str]) -> Any:
    import subprocess

    # A hidden console instead of none: an interpreter of a virtual environment starts another, which would open one.
    flags: int = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    own_job: int = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)
    nothing = subprocess.DEVNULL
    for tried in (flags | own_job, flags):
        try:
            return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=tried)
        except PermissionError:
            # Some hosts forbid a child to leave their job.
            if tried == flags:
                raise
    return None


def _bury() -> None:
    for child in list(_started):
        try:
            over = os.waitpid(child, os.WNOHANG)[0] != 0 if isinstance(child, int) else child.poll() is not None
        except ChildProcessError:
            over = True
        if over:
            _started.remove(child)


# --- talking to the worker -------------------------------------------------------------------------


def tell(place: Place, script: str) -> bool:
    """Send the worker a wake-up, whoever it is; False when there is nobody to take it."""
    info = _read(place.worker)
    if not info or _is_elsewhere(info, place):
        return False
    deadline = time.monotonic() + _TELL_SECONDS
    try:
        connection = _welcomed(info, deadline)
    except _TROUBLE:
        return False
    try:
        connection.sendall(_line({"op": "drain", "token": info.get("token"), "code": script}))
    except OSError:
        return False
    finally:
        connection.close()
    return True


def is_elsewhere(place: Place) -> bool:
    """Whether the worker of this home drains another folder of journals than ours, and so never sees our wake-up."""
    return _is_elsewhere(_read(place.worker), place)


def _is_elsewhere(info: Mapping[str, Any], place: Place) -> bool:
    return bool(info.get("sessions", place.sessions) != place.sessions)


def ask(place: Place, request: Mapping[str, Any], timeout: float) -> dict[str, Any] | None:
    """The worker's answer; None when there is no worker or no answer in time."""
    info = _read(place.worker)
    if not info:
        return None
    deadline = time.monotonic() + timeout
    try:
        connection = _welcomed(info, deadline)
        try:
            return _exchange(connection, {**request, "token": info.get("token")}, deadline)
        finally:
            connection.close()
    except _TROUBLE:
        return None


def _welcomed(info: Mapping[str, Any], deadline: float) -> _socket.socket:
    """A connection to the worker, and to nobody else.

    Once the worker is gone anybody may listen on its port, so that one who answers there must first show that it knows
    the token. Where the address is a file in our own folder, reaching it is proof enough.
    """
    # The module below `socket`, which takes longer to load than all that is done here.
    import _socket

    unix = info["kind"] == "unix"
    address: Any = str(info["address"]) if unix else ("127.0.0.1", int(info["address"]))
    connection = _socket.socket(_socket.AF_UNIX if unix else _socket.AF_INET, _socket.SOCK_STREAM)
    try:
        connection.settimeout(_left(deadline))
        connection.connect(address)
        if not unix:
            _recognise(connection, str(info["token"]), deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def _recognise(connection: _socket.socket, token: str, deadline: float) -> None:
    nonce = os.urandom(16).hex()
    answer = _exchange(connection, {"op": "hello", "nonce": nonce}, deadline)
    if answer is None or answer.get("proof") != proof(token, nonce):
        raise ConnectionRefusedError("somebody else listens where the worker did")


def proof(token: str, nonce: str) -> str:
    from _blake2 import blake2b

    return str(blake2b(nonce.encode(), key=token.encode()[:64], digest_size=32).hexdigest())


def _exchange(connection: _socket.socket, request: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
    connection.settimeout(_left(deadline))
    connection.sendall(_line(request))
    data = b""
    while not data.endswith(b"\n"):
        connection.settimeout(_left(deadline))
        piece = connection.recv(65536)
        data += piece
        if not piece or len(data) > _MOST_BYTES:
            return None
    answer = json.loads(data)
    return answer if isinstance(answer, dict) else None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _read(path: str) -> dict[str, Any]:
    """A small JSON file; empty when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(65536))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
