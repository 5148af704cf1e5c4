"""Runs a program that may hang, flood or never end, and always comes back in time with nothing left running."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from ..errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError

MOST_OUTPUT = 4 * 1024 * 1024
_MOST_ERRORS = 64 * 1024
_POLL_SECONDS = 0.05
_CHUNK = 64 * 1024

_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    output: bytes
    errors: bytes
    seconds: float


def run(command: Sequence[str], given: bytes, *, folder: str, environ: Mapping[str, str], timeout: float) -> Finished:
    """The program's own end and what it printed. `given` is its standard input."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        process = _begin(command, source, folder, environ)
    _running.add(process)
    try:
        output, errors = _Reader(process.stdout, MOST_OUTPUT), _Reader(process.stderr, _MOST_ERRORS)
        _await(process, output, started + timeout, command[0], timeout)
        return Finished(process.returncode, output.end(), errors.end(), time.monotonic() - started)
    finally:
        _running.discard(process)
        _end(process)


def _begin(
    command: Sequence[str], source: IO[bytes], folder: str, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(environ),
            # A group of its own, so that it can be ended with all its children.
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise ModelUnavailableError(
            f"{command[0]} cannot be started: {error.strerror or error}", (0, 0, 0.0)
        ) from error


def _await(process: subprocess.Popen[bytes], output: _Reader, deadline: float, name: str, timeout: float) -> None:
    while process.poll() is None:
        if output.flooded:
            raise ModelOutputError(f"{name} printed more than {MOST_OUTPUT // 1024 // 1024} MB and was ended")
        if time.monotonic() > deadline:
            raise ModelTimeoutError(f"{name} gave no answer in {timeout:g} s and was ended")
        output.over.wait(_POLL_SECONDS)
        if output.over.is_set():
            time.sleep(_POLL_SECONDS)


class _Reader:
    """Reads a pipe to its end in a thread of its own, and keeps no more than it may."""

    def __init__(self, pipe: IO[bytes] | None, most: int) -> None:
        assert pipe is not None
        self.flooded = False
        self.over = threading.Event()
        self._pipe = pipe
        self._most = most
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def end(self) -> bytes:
        # A grandchild that took the pipe along may keep it open for ever.
        self._thread.join(1.0)
        return bytes(self._kept)

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), _CHUNK):
                room = self._most - len(self._kept)
                self._kept += piece[:room]
                if len(piece) > room:
                    self.flooded = True
        self.over.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    if os.name == "posix":
        # Not waited for yet, so its number cannot belong to anybody else.
        os.killpg(process.pid, signal.SIGKILL)
    else:
        _end_tree_on_windows(process)
    process.wait()


def _end_tree_on_windows(process: subprocess.Popen[bytes]) -> None:
    killer = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    nothing = subprocess.DEVNULL
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    try:
        subprocess.run(
            [killer, "/F", "/T", "/PID", str(process.pid)],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            creationflags=flags,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
    if process.poll() is None:
        process.kill()


@atexit.register
def _end_all() -> None:
    """A worker that ends in the middle of a question leaves no program behind."""
    for process in list(_running):
        _end(process)
