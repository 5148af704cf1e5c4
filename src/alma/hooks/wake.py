"""Wakes the drain of the journals, and asks the worker. Part of the hook: it loads as little as it can.

Why no wake-up is lost. A wake-up is a file, `wanted`, made after the hook's line is in its journal. A drain
first removes the file and then reads all journals. Only one process can remove it, and that process must drain
everything: it starts after that, looks again afterwards, and puts the file back while it must wait for another
drain. So as long as the file is there nothing was forgotten, and when it is gone a drain that reads the line
has begun. A file that somebody made a moment ago therefore needs nothing more: its maker has told the worker or
started one. One that lies for longer was left by somebody who was killed, and is acted upon again. A drainer that is
killed in the middle leaves its journals as they were; the next wake-up, or the worker's own round, takes them in.

The worker speaks JSON lines over a unix socket in the person's home. `multiprocessing.connection` would do the same,
but takes longer to load than a whole hook.
"""

from __future__ import annotations

import json
import os
import sys
import time

from .paths import describe_error, log_problem, read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .paths import DataDir

FRESH_SECONDS = 5.0
"""Longer than a worker takes to start."""
STALE_SECONDS = 60.0
"""Longer than a worker that is well leaves a wake-up lying, unless it is in a drain."""
_TELL_SECONDS = 0.05
_WORKER = os.path.join("alma", "hooks", "worker.py")


def wake(data_dir: DataDir, reason: str) -> None:
    """See to it that the journals are drained soon, without waiting for it."""
    try:
        is_leaving = reason == "SessionEnd" and os.environ.get("CLAUDE_SMART_BACKEND_STOP_ON_END") == "1"
        if is_leaving:
            # It drains what is wanted before it ends; who comes too late for that drains alone.
            ask_worker(data_dir, {"op": "stop"}, _TELL_SECONDS)
        age = request_drain(data_dir)
        if 0 <= age < FRESH_SECONDS:
            return
        python, script = find_runtime(data_dir)
        is_stale = age >= STALE_SECONDS
        if not is_stale and not is_leaving and notify_worker(data_dir, script):
            return
        if os.path.exists(wanted_file(data_dir)):
            os.utime(wanted_file(data_dir))
        is_alone = is_leaving or is_stale or os.environ.get("CLAUDE_SMART_BACKEND_AUTOSTART", "1") == "0"
        options = ["--once", "--if-wanted"] if is_alone else []
        folders = ["--home", data_dir.home, "--sessions", data_dir.sessions]
        _start_process([python, "-I", script, *folders, *options])
    except Exception as error:  # noqa: BLE001 - a hook goes on whatever happens here
        log_problem(data_dir, reason, f"no drain could be started: {describe_error(error)}")


# -- the wake-up itself


def wanted_file(data_dir: DataDir) -> str:
    return os.path.join(data_dir.sessions, "wanted")


def request_drain(data_dir: DataDir) -> float:
    """Ask for a drain. Returns for how many seconds one has been requested already; -1 when none was."""
    while True:
        try:
            data_dir.make()
            os.close(os.open(wanted_file(data_dir), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return -1.0
        except FileExistsError:
            try:
                age = time.time() - os.stat(wanted_file(data_dir)).st_mtime
            except FileNotFoundError:
                # Taken away this moment: perhaps by somebody who has read our journal before we wrote.
                continue
            # A clock that was set back says nothing about who is alive.
            return age if age >= 0 else FRESH_SECONDS


def claim_drain(data_dir: DataDir) -> bool:
    """Take the wake-up, and with it the duty to drain; False when there is none."""
    try:
        os.unlink(wanted_file(data_dir))
    except (FileNotFoundError, PermissionError):
        # Windows refuses while somebody else looks at it; then it is still there the next time.
        return False
    return True


def is_drain_requested(data_dir: DataDir) -> bool:
    return os.path.exists(wanted_file(data_dir))


# -- starting


def find_runtime(data_dir: DataDir) -> tuple[str, str]:
    """Return the interpreter and the file that make a worker: those that were installed, else our own."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = read_object(data_dir.runtime)
    python, folder = installed.get("python"), installed.get("path")
    if not isinstance(python, str) or not os.path.isfile(python):
        python = sys.executable
    script = os.path.join(folder, _WORKER) if isinstance(folder, str) and folder else ""
    return python, script if os.path.isfile(script) else os.path.join(own, _WORKER)


def _start_process(command: list[str]) -> None:
    """Start a process that holds nothing of ours: the host waits until every copy of a hook's output is closed."""
    if os.name == "nt":
        import subprocess

        # A hidden console instead of none: an interpreter of a virtual environment starts another, which would open
        # one.
        flags: int = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        own_job: int = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            subprocess.Popen(command, **pipes, creationflags=flags | own_job)
        except PermissionError:
            # Some hosts forbid a child to leave their job.
            subprocess.Popen(command, **pipes, creationflags=flags)
        return
    modes = ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY))
    actions: Any = [(os.POSIX_SPAWN_OPEN, file, os.devnull, mode, 0) for file, mode in modes]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)
    except NotImplementedError:
        # The worker leaves our session by itself, a moment later.
        os.posix_spawn(command[0], command, os.environ, file_actions=actions)


# -- talking to the worker


def notify_worker(data_dir: DataDir, script: str) -> bool:
    """Send the worker a wake-up; return False when no worker takes it."""
    request = {"op": "drain", "code": script}
    return not drains_elsewhere(data_dir) and ask_worker(data_dir, request, _TELL_SECONDS, waits=False) is not None


def drains_elsewhere(data_dir: DataDir) -> bool:
    """Return whether the worker of this home drains another folder of journals, and so never sees our wake-up."""
    return bool(read_object(data_dir.worker).get("sessions", data_dir.sessions) != data_dir.sessions)


def ask_worker(
    data_dir: DataDir, request: Mapping[str, Any], timeout: float, *, waits: bool = True
) -> dict[str, Any] | None:
    """Return the worker's answer; None when there is no worker or no answer in time. Empty if nobody `waits` for it."""
    address = read_object(data_dir.worker).get("address")
    if not isinstance(address, str):
        return None
    # The module below `socket`, which takes longer to load than all that is done here.
    import _socket

    deadline = time.monotonic() + timeout
    answer = b""
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            while waits and not answer.endswith(b"\n"):
                # None of it is left, or the worker is gone: then there is no answer.
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = connection.recv(65536)
                if not piece or time.monotonic() > deadline:
                    return None
                answer += piece
        finally:
            connection.close()
        value = json.loads(answer) if waits else {}
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
