"""The process that drains: `python -I worker.py --home FOLDER [--sessions FOLDER] [--once [--if-wanted]]`.

Without `--once` it becomes the warm worker of that home, unless there is one: it drains when it is woken and now and
then, finds rules by meaning for the hooks, and ends when nobody needs it. One thread drains, a short-lived one serves
each connection, and the main one listens and looks around. Everything works without this process, so whatever is odd
makes it end: the next wake-up starts another. Where there are no unix sockets, it drains once and ends.
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
import json
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import ALMAError, unknown
from ..files import try_lock, write_atomic
from . import journal
from .drain import ProjectMemories, drain, read_sessions, recall_rules, tidy_daily
from .paths import DataDir, describe_error, log_problem, read_object, read_settings

FILE = os.path.abspath(__file__)
EVENT = "Worker"
TICK_SECONDS = 1.0
ROUND_SECONDS = 180.0
GRACE_SECONDS = 10.0
PATIENCE_SECONDS = 300.0
_PAUSE_SECONDS = 0.2
_READ_SECONDS = 2.0
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
        journal.request_drain(data_dir)
    with ProjectMemories(data_dir) as memory:
        drain_while_requested(data_dir, memory)
        read_sessions(data_dir, memory)


def serve(data_dir: DataDir) -> None:
    """Be the worker until there is nothing to do; if there is one already, drain what is wanted and end."""
    lock = try_lock(data_dir.worker_lock)
    if lock is None:
        drain_once(data_dir, if_wanted=True)
        return
    with lock:
        idle_seconds = read_settings(data_dir, EVENT)["worker_idle_seconds"]
        try:
            worker = Worker(data_dir, ProjectMemories(data_dir), FILE, idle_seconds=idle_seconds)
        except (OSError, AttributeError):
            # Some systems have no such sockets, and a long path cannot be the name of one.
            drain_once(data_dir, if_wanted=True)
        else:
            worker.run()


def drain_while_requested(data_dir: DataDir, memory: ProjectMemories, patience: float = PATIENCE_SECONDS) -> None:
    """Drain until nobody wants it any more, also if another drainer must be waited for; then tidy up."""
    deadline = time.monotonic() + patience
    while journal.claim_drain(data_dir):
        report = drain(data_dir, memory=memory)
        for problem in report.problems:
            log_problem(data_dir, EVENT, problem)
        if report.busy:
            # While it lies there and is fresh, nobody else starts a process for it.
            journal.request_drain(data_dir)
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_SECONDS)
    tidy_daily(data_dir, memory)


class Connection(socketserver.StreamRequestHandler):
    """One request and its answer, a JSON line each."""

    timeout = _READ_SECONDS
    server: Worker

    def handle(self) -> None:
        request = json.loads(self.rfile.readline(_MOST_BYTES))
        answer = self.server.answer(request if isinstance(request, dict) else {})
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Worker(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves one home, over a socket that only its person can reach. Only the holder of the worker's lock makes one."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, data_dir: DataDir, memory: ProjectMemories, code: str, *, idle_seconds: float) -> None:
        self.address_family = socket.AF_UNIX
        self._path = os.path.join(data_dir.home, "worker.sock")
        with suppress(OSError):
            os.unlink(self._path)
        umask = os.umask(0o177)
        try:
            super().__init__(self._path, Connection)  # type: ignore[arg-type]
        finally:
            os.umask(umask)
        self.timeout = min(TICK_SECONDS, max(idle_seconds / 4, 0.05))
        self._data_dir = data_dir
        self._memory = memory
        self._idle_seconds = idle_seconds
        self._code = code
        self._code_stamps = _stamp_code(code)
        self._is_over = threading.Event()
        self._is_due = threading.Event()
        self._draining = threading.Lock()
        self._recalling = threading.Lock()
        self._drain_thread = threading.Thread(target=self._drain_when_due, daemon=True)
        self._read_thread = threading.Thread()
        self._next_round = time.monotonic() + ROUND_SECONDS
        self._used_at = time.monotonic()
        """When a hook last asked for something. The worker's own drains do not count, or it would never end."""
        self._info = {"v": 1, "kind": "unix", "address": self._path, "pid": os.getpid(), "since": time.time()}
        self._info |= {"code": code, "sessions": data_dir.sessions}
        write_atomic(data_dir.worker, json.dumps(self._info))

    def run(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda number, frame: self.stop())
        self._request_drain()
        self._drain_thread.start()
        try:
            while not self._is_over.is_set():
                self.handle_request()
                self._look_around()
        finally:
            self._end()

    def stop(self) -> None:
        self._is_over.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        # Somebody who went away, or who does not speak our language, is no problem.
        if error is not None and not isinstance(error, OSError | ValueError | RecursionError):
            log_problem(self._data_dir, EVENT, f"request: {describe_error(error)}")

    def _is_published(self) -> bool:
        """Return whether those who look for a worker still find this one."""
        return read_object(self._data_dir.worker) == self._info

    def _look_around(self) -> None:
        """Drain what a hook asked for by the file alone, or end when nobody needs this worker."""
        now = time.monotonic()
        if journal.is_drain_requested(self._data_dir):
            if not self._is_due.is_set() and not self._draining.locked():
                # The worker's own requests are due or being drained.
                self._used_at = now
            self._is_due.set()
        else:
            is_busy = self._draining.locked() or self._is_due.is_set() or self._read_thread.is_alive()
            is_unneeded = not is_busy and now - self._used_at >= self._idle_seconds
            if is_unneeded or _stamp_code(self._code) != self._code_stamps or not self._is_published():
                self._is_over.set()
        if now >= self._next_round and not self._is_over.is_set():
            self._next_round = now + ROUND_SECONDS
            self._request_drain()

    def _end(self) -> None:
        """From here on nobody finds this worker: what is wanted later starts another, which waits for our lock."""
        self._is_over.set()
        if self._is_published():
            # What cannot be removed is out of date, which everybody who reads it finds out.
            with suppress(OSError):
                os.unlink(self._data_dir.worker)
                os.unlink(self._path)
        self.socket.close()
        self._is_due.set()
        self._drain_thread.join(GRACE_SECONDS)
        # Somebody may have told us at the very end. A home that was removed is not made again.
        if not self._drain_thread.is_alive() and journal.is_drain_requested(self._data_dir):
            self._drain()
        if not self._drain_thread.is_alive() and not self._read_thread.is_alive():
            self._memory.close()

    # -- draining

    def _request_drain(self) -> None:
        journal.request_drain(self._data_dir)
        self._is_due.set()

    def _drain_when_due(self) -> None:
        while self._is_due.wait() and not self._is_over.is_set():
            with self._draining:
                self._is_due.clear()
                self._drain()

    def _drain(self) -> None:
        is_drained = self._attempt("drain", drain_while_requested)
        if is_drained and not self._read_thread.is_alive() and not self._is_over.is_set():
            # In a thread of its own: a model may take minutes, and what is said meanwhile is drained.
            self._read_thread = threading.Thread(target=self._attempt, args=("model", read_sessions), daemon=True)
            self._read_thread.start()

    def _attempt(self, what: str, action: Callable[[DataDir, ProjectMemories], object]) -> bool:
        """The worker outlives a drain or a model that fails: the journals are still there."""
        try:
            action(self._data_dir, self._memory)
        except Exception as error:  # noqa: BLE001
            message = str(error) if isinstance(error, ALMAError) else describe_error(error)
            log_problem(self._data_dir, EVENT, f"{what}: {message}")
            return False
        return True

    # -- answering

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name, code = request.get("op"), request.get("code")
        if name not in _REQUESTS:
            return {"ok": False, "error": unknown("request", name, _REQUESTS)}
        if name == "status":
            return {"ok": True, **{name: self._info[name] for name in ("pid", "since", "code")}}
        self._used_at = time.monotonic()
        if name == "recall":
            return self._recall(request)
        if name == "drain":
            self._is_due.set()
        is_other = isinstance(code, str) and os.path.normcase(code) != os.path.normcase(self._code)
        if name == "stop" or (is_other and os.path.isfile(str(code))):
            # Where another version is installed now, it is started by the next wake-up.
            self.stop()
        return {"ok": True}

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        project, session, text = texts = [request.get(name) for name in ("project", "session", "text")]
        limit = request.get("limit", 5)
        if not all(isinstance(one, str) for one in texts) or not isinstance(limit, int):
            return {"ok": False, "error": "recall takes the texts project, session and text, and the number limit"}
        try:
            with self._recalling:
                most = max(1, min(limit, _MOST_RULES))
                return {"ok": True, "rules": recall_rules(self._memory, str(project), str(session), str(text), most)}
        except ALMAError as error:
            return {"ok": False, "error": str(error)}


def _stamp_code(code: str) -> list[tuple[float, int] | None]:
    """Return what tells whether the files that an update replaces are still the same."""
    files = (code, os.path.join(os.path.dirname(os.path.dirname(code)), "__init__.py"))
    return [(os.path.getmtime(one), os.path.getsize(one)) if os.path.exists(one) else None for one in files]
