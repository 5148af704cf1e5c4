"""Several processes that answer on one port: started, watched and stopped together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.context import SpawnProcess

from prometheus_client import multiprocess

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which `prometheus_client` adds up the figures of all processes."""
_LOG = logging.getLogger("alma.http")
_WATCH_SECONDS = 0.5
_RESTART_SECONDS = 1.0


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
