"""The background process that drains: `python -I worker.py --home FOLDER [--sessions FOLDER] [--once [--if-wanted]]`.

Without `--once` it becomes the worker of that data folder, unless there is one already. It drains on request and every
few minutes, finds rules by meaning for the hooks, and exits when it has been idle. One thread drains, a short-lived
thread serves each connection, and the main thread listens and checks for requests. Everything works without this
process, so it exits on any anomaly and the next wake-up starts another. Without unix sockets it drains once and exits.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Drop everything inherited from the host: open files, the process session, the priority.
    os.umask(0o077)
    os.closerange(3, 256)
    if os.name == "posix":
        if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
            os.setsid()
        os.nice(5)
    # Started as a script, by an interpreter that does not have alma on its path.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # An absolute import, because a script has no package.
    from alma.hooks.worker import main as run

    sys.exit(run(sys.argv[1:]))

import argparse
import json
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ..errors import ALMAError, unknown
from ..files import try_lock, write_atomic
from . import journal
from .drain import (
    ProjectMemories,
    drain,
    read_sessions,
    recall_exchanges,
    recall_rules,
    remove_expired_daily,
    run_due_upkeep,
    warm_up,
)
from .paths import DataDir, build_environment, describe_error, log_problem, read_object, read_settings
from .team import sync_team
from .verify import SOON_SECONDS

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
_MOST_EXCHANGES = 100
_DASHBOARD = """\
import sys
sys.path.insert(0, sys.argv[1])
from alma.hooks.paths import open_data_dir
from claude_smart.cli import main
main(sys.argv[3:], open_data_dir(sys.argv[2]))
"""
_REQUESTS = ("drain", "recall", "status", "stop")


def main(arguments: Sequence[str]) -> int:
    """Run the worker with these command-line arguments. Return the exit code."""
    parser = argparse.ArgumentParser(prog="worker.py", description="Import the journals of a data folder.")
    parser.add_argument("--home", required=True, help="the data folder")
    parser.add_argument("--sessions", default="", help="the folder of the journals (default: sessions in the home)")
    parser.add_argument("--once", action="store_true", help="drain once, then exit")
    parser.add_argument("--if-wanted", action="store_true", help="drain only if a request is still pending")
    args = parser.parse_args(arguments)
    data_dir = DataDir(os.path.abspath(args.home), os.path.abspath(args.sessions) if args.sessions else "")
    try:
        data_dir.create_folders()
        # Leave the folder that the hook was started in: its owner may want to remove it.
        os.chdir(data_dir.home)
        if args.once:
            drain_once(data_dir, if_wanted=args.if_wanted)
        else:
            serve(data_dir)
    except Exception as error:  # noqa: BLE001 - nobody sees what this process prints
        log_problem(data_dir, EVENT, f"exited: {describe_error(error)}")
        return 1
    return 0


def drain_once(data_dir: DataDir, *, if_wanted: bool = False) -> None:
    """Drain and let the model read. With `if_wanted`, drain only if a request is pending."""
    if not if_wanted:
        journal.request_drain(data_dir)
    with ProjectMemories(data_dir) as memory:
        drain_while_requested(data_dir, memory)
        sync_team(data_dir, memory)
        read_sessions(data_dir, memory)
        run_due_upkeep(data_dir, memory)


def serve(data_dir: DataDir) -> None:
    """Run as the worker until it is idle. If there is a worker already, handle a pending request and return."""
    lock = try_lock(data_dir.worker_lock)
    if lock is None:
        drain_once(data_dir, if_wanted=True)
        return
    with lock:
        settings = read_settings(data_dir, EVENT)
        idle_seconds = settings["worker_idle_seconds"]
        is_declined = os.environ.get("CLAUDE_SMART_DASHBOARD_AUTOSTART") == "0"
        if settings["dashboard_autostart"] == "on" and not is_declined:
            start_dashboard(data_dir)
        try:
            worker = Worker(data_dir, ProjectMemories(data_dir), FILE, idle_seconds=idle_seconds)
        except (OSError, AttributeError):
            # The system has no unix sockets, or the path is too long for one.
            drain_once(data_dir, if_wanted=True)
        else:
            worker.run()


def start_dashboard(data_dir: DataDir) -> None:
    """Start the server of the dashboard if none is running, as `claude-smart dashboard` does."""
    folder, options = os.path.dirname(os.path.dirname(os.path.dirname(FILE))), ("--no-open", "--read-only")
    command = [sys.executable, "-I", "-c", _DASHBOARD, folder, data_dir.home, "dashboard", *options]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(command, start_new_session=True, env=build_environment(data_dir), **pipes)


def drain_while_requested(data_dir: DataDir, memory: ProjectMemories, patience: float = PATIENCE_SECONDS) -> None:
    """Drain until no request is pending, waiting up to `patience` seconds for others; then remove expired data."""
    deadline = time.monotonic() + patience
    # A host writes a prompt into its transcript a moment after it tells the hook.
    settled = time.monotonic() + min(patience, SOON_SECONDS)
    while journal.claim_drain(data_dir):
        report = drain(data_dir, memory=memory)
        for problem in report.problems:
            log_problem(data_dir, EVENT, problem)
        if report.busy or (report.waiting and time.monotonic() < settled):
            # While the request is fresh, no other process is started for it.
            journal.request_drain(data_dir)
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_SECONDS)
    remove_expired_daily(data_dir, memory)


class Connection(socketserver.StreamRequestHandler):
    """One request and its answer, each a line of JSON."""

    timeout = _READ_SECONDS
    server: Worker

    def handle(self) -> None:
        """Read a request and write its answer."""
        request = json.loads(self.rfile.readline(_MOST_BYTES))
        answer = self.server.answer_request(request if isinstance(request, dict) else {})
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Worker(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves one data folder over a socket that only its owner can reach. Create it only with the worker lock held."""

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
        # In threads of their own: a model or a server may take minutes, and drains go on meanwhile.
        self._tasks = {name: threading.Thread() for name in ("team", "model", "upkeep", "warming")}
        self._next_round = time.monotonic() + ROUND_SECONDS
        self._used_at = time.monotonic()
        """The time of the last request by a hook. The worker's own drains do not count, or it would never be idle."""
        self._info = {"v": 1, "kind": "unix", "address": self._path, "pid": os.getpid(), "since": time.time()}
        self._info |= {"code": code, "sessions": data_dir.sessions}
        write_atomic(data_dir.worker, json.dumps(self._info))

    def run(self) -> None:
        """Serve requests until stopped or idle."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda number, frame: self.stop())
        self._request_drain()
        self._drain_thread.start()
        self._start_task("warming", warm_up)
        try:
            while not self._is_over.is_set():
                self.handle_request()
                self._check_requests()
        finally:
            self._shut_down()

    def stop(self) -> None:
        """Make `run` end soon."""
        self._is_over.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an unexpected error of a request."""
        error = sys.exception()
        # A client that disconnects or sends something else than JSON is not a problem.
        if error is not None and not isinstance(error, OSError | ValueError | RecursionError):
            log_problem(self._data_dir, EVENT, f"request: {describe_error(error)}")

    def _is_published(self) -> bool:
        """Return whether `worker.json` still names this worker."""
        return read_object(self._data_dir.worker) == self._info

    def _check_requests(self) -> None:
        """Handle requests made by file, and stop if the worker is idle, outdated or replaced."""
        now = time.monotonic()
        if journal.is_drain_requested(self._data_dir):
            if not self._is_due.is_set() and not self._draining.locked():
                # The worker's own requests are due or being drained.
                self._used_at = now
            self._is_due.set()
        else:
            is_busy = self._draining.locked() or self._is_due.is_set() or self._is_working()
            is_unneeded = not is_busy and now - self._used_at >= self._idle_seconds
            is_outdated = _stamp_code(self._code) != self._code_stamps or not self._is_published()
            if is_unneeded and not is_outdated and not self._tasks["upkeep"].ident:
                # Once, before it ends.
                self._start_task("upkeep", partial(run_due_upkeep, should_stop=partial(self._is_over.wait, 0.05)))
            elif is_unneeded or is_outdated:
                self._is_over.set()
        if now >= self._next_round and not self._is_over.is_set():
            self._next_round = now + ROUND_SECONDS
            self._request_drain()

    def _shut_down(self) -> None:
        """Stop being reachable, then finish. Later requests start another worker, which waits for our lock."""
        self._is_over.set()
        if self._is_published():
            # A file that cannot be removed is stale, and readers detect that.
            with suppress(OSError):
                os.unlink(self._data_dir.worker)
                os.unlink(self._path)
        self.socket.close()
        self._is_due.set()
        self._drain_thread.join(GRACE_SECONDS)
        # A request may have arrived at the very end. A data folder that was removed is not created again.
        if not self._drain_thread.is_alive() and journal.is_drain_requested(self._data_dir):
            self._drain_and_read()
        if not self._drain_thread.is_alive() and not self._is_working():
            self._memory.close()

    # -- draining

    def _request_drain(self) -> None:
        journal.request_drain(self._data_dir)
        self._is_due.set()

    def _drain_when_due(self) -> None:
        while self._is_due.wait() and not self._is_over.is_set():
            with self._draining:
                self._is_due.clear()
                self._drain_and_read()

    def _drain_and_read(self) -> None:
        is_drained = self._run_logged("drain", drain_while_requested)
        for name, action in (("team", sync_team), ("model", read_sessions)):
            if is_drained and not self._tasks[name].is_alive() and not self._is_over.is_set():
                self._start_task(name, action)

    def _start_task(self, name: str, action: Callable[[DataDir, ProjectMemories], object]) -> None:
        self._tasks[name] = threading.Thread(target=self._run_logged, args=(name, action), daemon=True)
        self._tasks[name].start()

    def _is_working(self) -> bool:
        """Return whether a thread still uses the store after a drain."""
        return any(one.is_alive() for one in self._tasks.values())

    def _run_logged(self, what: str, action: Callable[[DataDir, ProjectMemories], object]) -> bool:
        """Run an action and log its failure; the journals stay, so the worker goes on. Return whether it succeeded."""
        try:
            action(self._data_dir, self._memory)
        except Exception as error:  # noqa: BLE001
            message = str(error) if isinstance(error, ALMAError) else describe_error(error)
            log_problem(self._data_dir, EVENT, f"{what}: {message}")
            return False
        return True

    # -- answering

    def answer_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request: drain, recall, status or stop."""
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
            # Another version is installed now; the next wake-up starts it.
            self.stop()
        return {"ok": True}

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a text is about: rules, and as many exchanges as `evidence` asks for."""
        texts = [request.get(name) for name in ("project", "session", "text")]
        limit, most_exchanges = request.get("limit", 5), request.get("evidence", 0)
        if not all(isinstance(text, str) for text in texts) or not isinstance(limit, int):
            return {"ok": False, "error": "recall needs the texts project, session and text, and a whole number limit"}
        if not isinstance(most_exchanges, int):
            return {"ok": False, "error": "evidence must be a whole number: the most exchanges to return"}
        project, session, text = map(str, texts)
        try:
            with self._recalling:
                answer: dict[str, Any] = {"ok": True}
                most_rules = max(1, min(limit, _MOST_RULES))
                answer["rules"] = recall_rules(self._memory, project, session, text, most_rules)
                if most_exchanges > 0:
                    most = min(most_exchanges, _MOST_EXCHANGES)
                    answer["exchanges"] = recall_exchanges(self._memory, project, text, most)
                return answer
        except ALMAError as error:
            return {"ok": False, "error": str(error)}


def _stamp_code(code: str) -> list[tuple[float, int] | None]:
    """Return the time and size of the files that an update replaces, to detect a new version."""
    files = (code, os.path.join(os.path.dirname(os.path.dirname(code)), "__init__.py"))
    return [(os.path.getmtime(one), os.path.getsize(one)) if os.path.exists(one) else None for one in files]
