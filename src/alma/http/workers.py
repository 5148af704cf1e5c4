"""The processes of `alma serve`: one, or several that answer on one port and are started and stopped together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from multiprocessing.managers import BaseManager, DictProxy
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from prometheus_client import multiprocess

from ..connections import bind_socket, print_address, run_server
from ..listening import format_host, is_local
from . import NAME, HttpOptions, log_request, open_log
from .app import (
    METRICS_FOLDER,
    Watcher,
    announce_tokens,
    build,
    find_token_file,
    open_projects,
    read_rules,
)
from .noted import note_server
from .shell import DashboardSessions, Sessions
from .tokens import Tokens

if TYPE_CHECKING:
    from ..projects import Projects
    from ..tracing import Tracer

_LAST_SECONDS = 30
"""How long running requests may take after a signal."""
_CLOSE_SECONDS = 10
_LOG = logging.getLogger("alma.http")
_WATCH_SECONDS = 0.5
_RESTART_SECONDS = 1.0


def serve_port(options: HttpOptions) -> None:
    """Open the store, listen, and serve with as many processes as the options say until a signal ends it."""
    with _open_service(options) as (stack, tracer, path, projects):
        # Before listening, so that a store that cannot be opened is reported here and not to each client.
        projects.get().get_stats()
        listener = stack.enter_context(bind_socket(options.host, options.port))
        stream = stack.enter_context(open_log(options.log_file))
        announce_tokens(options, path)
        if is_local(options.host):
            url = f"{options.scheme}://{format_host(options.host)}:{listener.getsockname()[1]}"
            stack.enter_context(note_server(find_token_file(options, path), url, keeps_port=options.idle > 0))
        # Whoever reads the address may look for the note at once.
        print_address(options, NAME, listener)
        if options.workers == 1:
            _run_service(options, listener, path, projects, stream, tracer)
            return
        # Other processes must not use a connection of this one.
        projects.close()
        last_seconds = _LAST_SECONDS + options.drain + _CLOSE_SECONDS
        key = secrets.token_bytes(32)
        server = SessionKeeper(authkey=key).get_server()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run = partial(run_worker, options, keeper=(server.address, key))
        if supervise_workers(run, listener, options.workers, last_seconds) == signal.SIGINT:
            raise KeyboardInterrupt


@contextmanager
def _open_service(options: HttpOptions) -> Iterator[tuple[ExitStack, Tracer | None, Path, Projects]]:
    """Yield what every process needs: what to close at its end, its tracer, its configuration file and its memories.

    SIGTERM closes everything and ends the process with status 0, also before the server handles signals itself.
    """
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
            stack.callback(signal.signal, signal.SIGTERM, before)
        tracer = None
        if options.traces:
            from ..tracing import open_tracer

            tracer = stack.enter_context(open_tracer())
        path, projects = open_projects(options, tracer)
        stack.callback(projects.close)
        yield stack, tracer, path, projects


class SessionKeeper(BaseManager):
    """Keeps the codes and sessions of the dashboard in the supervisor, for all workers."""

    get_sessions: Callable[[], Sessions]


_SESSIONS: Sessions = {}
SessionKeeper.register("get_sessions", lambda: _SESSIONS, DictProxy)


def run_worker(options: HttpOptions, listener: socket.socket, keeper: tuple[Any, bytes]) -> None:
    """Serve on a listening socket as one of several processes.

    The store is opened by the first request, so that a worker that is started while the database is away waits for it.
    """
    with open_log(options.log_file) as stream, _open_service(options) as (_, tracer, path, projects):
        shared = SessionKeeper(*keeper)
        shared.connect()
        _run_service(options, listener, path, projects, stream, tracer, shared.get_sessions())


def _run_service(
    options: HttpOptions,
    listener: socket.socket,
    path: Path,
    projects: Projects,
    stream: IO[str],
    tracer: Tracer | None,
    shared: Sessions | None = None,
) -> None:
    is_stopping, is_used = threading.Event(), threading.Event()
    rules, tokens = read_rules(options, int(listener.getsockname()[1])), Tokens(find_token_file(options, path))
    watchers: list[Watcher] = [partial(log_request, stream), lambda call: is_used.set()]
    app = build(projects, tokens, rules, watchers, is_stopping, tracer, DashboardSessions(tokens, shared))
    threading.Thread(target=run_upkeep, args=(projects, is_stopping), daemon=True).start()
    if options.idle:
        threading.Thread(target=stop_when_idle, args=(options.idle, is_used, is_stopping), daemon=True).start()
    limits: dict[str, Any] = {"last_seconds": _LAST_SECONDS, "drain_seconds": options.drain}
    run_server(options, listener, app, **limits, on_stop=is_stopping.set)


def stop_when_idle(seconds: float, is_used: threading.Event, is_stopping: threading.Event) -> None:
    """End the server as SIGTERM does once no request, and no stream of changes, has ended for so many seconds."""
    while is_used.wait(seconds):
        is_used.clear()
    if not is_stopping.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def run_upkeep(projects: Projects, is_stopping: threading.Event, pause: float = 300.0) -> None:
    """Run upkeep where it is due, from time to time until the server stops."""
    while not is_stopping.wait(pause):
        try:
            # Between two batches the store is left to callers for a moment.
            projects.run_upkeep(partial(is_stopping.wait, 0.05))
        except Exception as error:  # noqa: BLE001 - the server goes on, and the next run may succeed
            _LOG.error("upkeep failed: %s", error)


def supervise_workers(run: Callable[[socket.socket], None], listener: socket.socket, count: int, seconds: float) -> int:
    """Run `run(listener)` in so many processes, and replace those that die. Return the signal that ended it.

    `run` must be importable by name. At the end each process gets SIGTERM, and so many seconds to stop.
    """
    context = multiprocessing.get_context("spawn")
    signals: list[int] = []
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, frame: signals.append(number))
    workers: list[SpawnProcess] = []
    with tempfile.TemporaryDirectory(prefix="alma-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        while not signals:
            for worker in [one for one in workers if not one.is_alive()]:
                _LOG.error("worker process %s ended with status %s; starting another", worker.pid, worker.exitcode)
                workers.remove(worker)
                multiprocess.mark_process_dead(worker.pid, folder)  # type: ignore[no-untyped-call]
                # A worker that fails at once must not be started again without a pause.
                time.sleep(_RESTART_SECONDS)
            while len(workers) < count and not signals:
                workers.append(context.Process(target=_run_worker, args=(run, listener), name="alma-worker"))
                workers[-1].start()
            connection.wait([one.sentinel for one in workers], _WATCH_SECONDS)
        for worker in workers:
            worker.terminate()
        deadline = time.monotonic() + seconds
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.exitcode is None:
                _LOG.error("worker process %s did not stop within %g s; it was killed", worker.pid, seconds)
                worker.kill()
                worker.join()
    return signals[0]


def _run_worker(run: Callable[[socket.socket], None], listener: socket.socket) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    # If the supervisor is killed, its workers must not keep the port.
    threading.Thread(target=follow_parent, daemon=True).start()
    with suppress(KeyboardInterrupt):
        run(listener)
