"""The process that drains: `python -I worker.py --home FOLDER [--sessions FOLDER] [--once [--if-wanted]]`.

Without `--once` it becomes the warm worker of that home, unless there is one: it drains when it is woken and now and
then, finds rules by meaning for the hooks, and ends when nobody needs it. One thread drains, a short-lived one serves
each connection, and the main one listens and looks around. Everything works without this process, so whatever is odd
makes it end: the next wake-up starts another.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Leave everything that was inherited: what the host waits for, its session, its haste.
    os.umask(0o077)
    os.closerange(3, 256)
    if os.name == "posix":
        if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
            os.setsid()
        os.nice(5)
    # It is started as a file, by an interpreter that knows nothing of alma.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # Absolute, because a file that is started has no package.
    from alma.hooks.worker import main as run

    sys.exit(run(sys.argv[1:]))

import argparse
import hmac
import json
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import ALMAError, unknown
from ..files import try_lock, write_atomic
from . import wake
from .drain import ProjectMemories, drain, read_sessions, recall_rules, tidy
from .paths import DataDir, describe_error, is_model_allowed, load_settings, log_problem, read_object

FILE = os.path.abspath(__file__)
EVENT = "Worker"
TICK_SECONDS = 1.0
ROUND_SECONDS = 180.0
GRACE_SECONDS = 10.0
PATIENCE_SECONDS = 300.0
MOST_RSS = 200 * 1024 * 1024
LONGEST_SOCKET_PATH = 100
"""Systems take 104 to 108 bytes, the last of them zero."""
_ENDING_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_TIDY_SECONDS = 86_400.0
_READ_SECONDS = 2.0
_BACKLOG = 64
_MOST_CONNECTIONS = 16
_MOST_BYTES = 256 * 1024
_MOST_RULES = 50
_REQUESTS = ("drain", "recall", "status", "stop")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="worker.py", description="Drain the journals of a home.")
    parser.add_argument("--home", required=True)
    parser.add_argument("--sessions", default="")
    parser.add_argument("--once", action="store_true", help="drain once, then end")
    parser.add_argument("--if-wanted", action="store_true", help="only if nobody else has done it meanwhile")
    given = parser.parse_args(arguments)
    data_dir = DataDir(os.path.abspath(given.home), os.path.abspath(given.sessions) if given.sessions else "")
    try:
        data_dir.make()
        # The folder that the hook was started in belongs to the person, who may want to remove it.
        os.chdir(data_dir.home)
        if given.once:
            drain_once(data_dir, if_wanted=given.if_wanted)
        else:
            serve(data_dir)
    except Exception as error:  # noqa: BLE001 - nobody sees what this process prints
        log_problem(data_dir, EVENT, f"ended: {describe_error(error)}")
        return 1
    return 0


def drain_once(data_dir: DataDir, *, if_wanted: bool = False) -> None:
    if not if_wanted:
        wake.request_drain(data_dir)
    drainer = Drainer(data_dir)
    try:
        drain_while_requested(data_dir, drainer.drain)
        drainer.tidy()
        drainer.read_sessions()
    finally:
        drainer.close()


def serve(data_dir: DataDir) -> None:
    """Be the worker until there is nothing to do; if there is one, make sure that it knows of what is wanted."""
    lock = try_lock(data_dir.worker_lock)
    deadline = time.monotonic() + _ENDING_SECONDS
    # The other one may be ending and listen no more, or may have been told already.
    while lock is None and wake.is_drain_requested(data_dir) and time.monotonic() < deadline:
        if wake.drains_elsewhere(data_dir):
            break
        wake.notify_worker(data_dir, FILE)
        lock = try_lock(data_dir.worker_lock, 0.2)
    if lock is None:
        drain_once(data_dir, if_wanted=True)
        return
    with lock:
        idle_seconds = load_settings(data_dir, EVENT).number("worker_idle_seconds")
        Worker(data_dir, Drainer(data_dir), FILE, idle_seconds=idle_seconds).run()


def drain_while_requested(data_dir: DataDir, drain: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
    """Drain until nobody wants it any more. `drain` says False when it must wait for another drainer."""
    deadline = time.monotonic() + patience
    while wake.claim_drain(data_dir):
        if drain():
            continue
        # While it lies there and is fresh, nobody else starts a process for it.
        wake.request_drain(data_dir)
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSE_SECONDS)


class Drainer:
    """The memory of a person, opened when it is first needed, and what is done with it."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._memory: ProjectMemories | None = None
        self._opening = threading.Lock()

    def drain(self) -> bool:
        """Take in the journals; False when another process is doing that."""
        report = drain(self._data_dir, memory=self._open())
        for problem in report.problems:
            log_problem(self._data_dir, EVENT, problem)
        return not report.busy

    def read_sessions(self) -> None:
        """Let the model read the sessions that wait, where it may. Why one could not be read is stored with it."""
        if is_model_allowed(self._data_dir):
            read_sessions(self._data_dir, self._open())

    def recall(self, project: str, session: str, text: str, limit: int) -> list[tuple[str, str]]:
        """Return the ids and lines of rules by meaning, best first."""
        return recall_rules(self._open(), project, session, text, limit)

    def tidy(self) -> None:
        """Remove what is no longer needed, once a day, whoever does it."""
        stamp = os.path.join(self._data_dir.home, "tidied")
        with suppress(FileNotFoundError):
            if abs(time.time() - os.stat(stamp).st_mtime) <= _TIDY_SECONDS:
                return
        lock = try_lock(self._data_dir.drain_lock)
        if lock is None:
            return
        with lock:
            # First the stamp: what cannot be tidied is not tried again at every wake-up.
            os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY, 0o600))
            os.utime(stamp)
            tidy(self._data_dir, self._open())

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _open(self) -> ProjectMemories:
        with self._opening:
            if self._memory is None:
                self._memory = ProjectMemories(self._data_dir)
            return self._memory


class Endpoint:
    """Where the worker can be reached: a socket in its home or, where there are none, a loopback port; and a token.

    Only the holder of the worker's lock makes one, and publishes it in `worker.json`.
    """

    def __init__(self, data_dir: DataDir, code: str) -> None:
        self._data_dir = data_dir
        self.token = secrets.token_hex(32)
        self.since = time.time()
        self._path = os.path.join(data_dir.home, "worker.sock")
        unix = self._listen_unix()
        self.socket = unix or _listen_loopback()
        self._inode = _stat(self._path)[0]
        info = {
            "v": 1,
            "kind": "unix" if unix else "tcp",
            "address": self._path if unix else self.socket.getsockname()[1],
            "token": self.token,
            "pid": os.getpid(),
            "since": self.since,
            "code": code,
            "sessions": data_dir.sessions,
        }
        try:
            write_atomic(data_dir.worker, json.dumps(info))
        except BaseException:
            self.close()
            raise

    def is_published(self) -> bool:
        """Return whether those who look for a worker still find this one."""
        return read_object(self._data_dir.worker).get("token") == self.token

    def close(self) -> None:
        """Listen no more; what is on disk is removed if it is still ours."""
        paths = [self._data_dir.worker] if self.is_published() else []
        if _stat(self._path)[0] == self._inode:
            paths.append(self._path)
        for path in paths:
            # What cannot be removed is out of date, which everybody who reads it finds out.
            with suppress(OSError):
                os.unlink(path)
        self.socket.close()

    def _listen_unix(self) -> socket.socket | None:
        with suppress(OSError):
            os.unlink(self._path)
        family = getattr(socket, "AF_UNIX", None)
        if family is None or len(os.fsencode(self._path)) > LONGEST_SOCKET_PATH:
            return None
        listener = socket.socket(family, socket.SOCK_STREAM)
        umask = os.umask(0o177)
        try:
            listener.bind(self._path)
            listener.listen(_BACKLOG)
        except OSError:
            # Some file systems have no sockets.
            listener.close()
            return None
        finally:
            os.umask(umask)
        return listener


def _listen_loopback() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if exclusive := getattr(socket, "SO_EXCLUSIVEADDRUSE", 0):
            # Windows lets others listen on the same port otherwise.
            listener.setsockopt(socket.SOL_SOCKET, exclusive, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _stat(path: str) -> tuple[int, int, int]:
    """Return what tells whether a file was replaced."""
    try:
        stat = os.stat(path)
    except OSError:
        return (-1, -1, -1)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def measure_memory() -> int:
    """Return the bytes of memory this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 0


class Worker:
    """Serves one home. Made by whoever holds the worker's lock."""

    def __init__(self, data_dir: DataDir, drainer: Drainer, code: str, *, idle_seconds: float) -> None:
        self._data_dir = data_dir
        self._drainer = drainer
        self._idle_seconds = idle_seconds
        self._tick = min(TICK_SECONDS, max(idle_seconds / 4, 0.05))
        self._code = code
        # The files that an update replaces.
        self._code_files = (code, os.path.join(os.path.dirname(os.path.dirname(code)), "__init__.py"))
        self._code_stats = [_stat(path) for path in self._code_files]
        self._endpoint = Endpoint(data_dir, code)
        self._is_over = threading.Event()
        self._is_due = threading.Event()
        self._draining = threading.Lock()
        self._recalling = threading.Lock()
        self._connections = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._drain_thread = threading.Thread(target=self._drain_when_due, name="drain", daemon=True)
        self._read_thread = threading.Thread(target=self._read_sessions, name="read", daemon=True)
        self._used_at = time.monotonic()
        """When a hook last asked for something. The worker's own drains do not count, or it would never end."""
        self._handled = 0

    def run(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda number, frame: self.stop())
        self._request_drain()
        self._drain_thread.start()
        try:
            self._listen()
        finally:
            self._end()

    def stop(self) -> None:
        self._is_over.set()
        # Where the system allows it, nobody waits for the next tick.
        with suppress(OSError):
            self._endpoint.socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        next_tick = time.monotonic() + self._tick
        next_round = time.monotonic() + ROUND_SECONDS
        self._endpoint.socket.settimeout(self._tick)
        while not self._is_over.is_set():
            with suppress(OSError):
                connection, _ = self._endpoint.socket.accept()
                if self._connections.acquire(blocking=False):
                    threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
                else:
                    connection.close()
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + self._tick
                self._look_around()
            if now >= next_round and not self._is_over.is_set():
                next_round = now + ROUND_SECONDS
                self._request_drain()

    def _look_around(self) -> None:
        """Drain what a hook asked for by the file alone, or end when nobody needs this worker."""
        if wake.is_drain_requested(self._data_dir):
            if not self._is_due.is_set() and not self._draining.locked():
                # The worker's own requests are due or being drained.
                self._used_at = time.monotonic()
            self._is_due.set()
            return
        is_replaced = [_stat(path) for path in self._code_files] != self._code_stats
        is_busy = self._draining.locked() or self._is_due.is_set() or self._read_thread.is_alive()
        is_idle = time.monotonic() - self._used_at >= self._idle_seconds
        is_unneeded = not is_busy and (is_idle or measure_memory() > MOST_RSS)
        if is_replaced or is_unneeded or not self._endpoint.is_published():
            self._is_over.set()

    def _end(self) -> None:
        """From here on nobody finds this worker: what is wanted later starts another, which waits for our lock."""
        self._is_over.set()
        self._endpoint.close()
        self._is_due.set()
        self._drain_thread.join(GRACE_SECONDS)
        if not self._drain_thread.is_alive():
            # Somebody may have told us at the very end. A home that was removed is not made again.
            if wake.is_drain_requested(self._data_dir):
                self._drain()
            if not self._read_thread.is_alive():
                self._drainer.close()

    # -- draining

    def _request_drain(self) -> None:
        wake.request_drain(self._data_dir)
        self._is_due.set()

    def _drain_when_due(self) -> None:
        while self._is_due.wait() and not self._is_over.is_set():
            with self._draining:
                self._is_due.clear()
                self._drain()

    def _drain(self) -> None:
        """The worker outlives a drain that fails: the journals are still there."""
        try:
            drain_while_requested(self._data_dir, self._drainer.drain)
            self._drainer.tidy()
        except Exception as error:  # noqa: BLE001
            self._log_failure("drain", error)
            return
        if not self._read_thread.is_alive() and not self._is_over.is_set():
            # In a thread of its own: a model may take minutes, and what is said meanwhile is drained.
            self._read_thread = threading.Thread(target=self._read_sessions, name="read", daemon=True)
            self._read_thread.start()

    def _read_sessions(self) -> None:
        try:
            self._drainer.read_sessions()
        except Exception as error:  # noqa: BLE001 - the worker outlives a model that fails
            self._log_failure("model", error)

    def _log_failure(self, what: str, error: Exception) -> None:
        message = str(error) if isinstance(error, ALMAError) else describe_error(error)
        log_problem(self._data_dir, EVENT, f"{what}: {message}")

    # -- answering

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                deadline = time.monotonic() + _READ_SECONDS
                request = wake.receive_message(connection, deadline, _MOST_BYTES)
                if request.get("op") == "hello":
                    proof = wake.prove_token(self._endpoint.token, str(request.get("nonce"))[:64])
                    wake.send_message(connection, {"proof": proof}, deadline)
                    request = wake.receive_message(connection, deadline, _MOST_BYTES)
                answer: Mapping[str, Any] = {"ok": False, "error": "wrong token"}
                if hmac.compare_digest(str(request.get("token")).encode(), self._endpoint.token.encode()):
                    self._handled += 1
                    answer = self._answer(request)
                wake.send_message(connection, answer, time.monotonic() + _READ_SECONDS)
        except (OSError, ValueError, RecursionError):
            # Somebody who went away, or who does not speak our language.
            pass
        except Exception as error:  # noqa: BLE001 - one bad request must not end the worker
            log_problem(self._data_dir, EVENT, f"request: {describe_error(error)}")
        finally:
            self._connections.release()

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name = request.get("op")
        if name not in _REQUESTS:
            return {"ok": False, "error": unknown("request", name, _REQUESTS)}
        if name == "recall":
            return self._recall(request)
        if name == "status":
            return {
                "ok": True,
                "pid": os.getpid(),
                "since": self._endpoint.since,
                "rss": measure_memory(),
                "handled": self._handled,
                "draining": self._draining.locked(),
                "code": self._code,
            }
        code = request.get("code")
        if name == "drain":
            self._used_at = time.monotonic()
            self._is_due.set()
        is_other = isinstance(code, str) and os.path.normcase(code) != os.path.normcase(self._code)
        if name == "stop" or (is_other and os.path.isfile(str(code))):
            # Where another version is installed now, it is started by the next wake-up.
            self.stop()
        return {"ok": True}

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._used_at = time.monotonic()
        project, session, text = (request.get(name) for name in ("project", "session", "text"))
        limit = request.get("limit", 5)
        is_valid = isinstance(project, str) and isinstance(session, str) and isinstance(text, str)
        if not is_valid or not isinstance(limit, int):
            return {"ok": False, "error": "recall takes the texts project, session and text, and the number limit"}
        try:
            with self._recalling:
                rules = self._drainer.recall(str(project), str(session), str(text), max(1, min(limit, _MOST_RULES)))
        except ALMAError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "rules": [list(rule) for rule in rules]}
