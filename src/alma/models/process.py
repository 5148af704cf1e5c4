"""Runs a program that may hang, flood or never end, and always returns in time with nothing left running."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError

MOST_OUTPUT, _MOST_ERRORS = 4, 64  # Megabytes.
_POLL_SECONDS = 0.05

_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    output: bytes
    errors: bytes


def run(command: Sequence[str], data: bytes, *, folder: str, environ: Mapping[str, str], timeout: float) -> Finished:
    """Return the program's exit code and what it printed. `data` is its standard input.

    Files instead of pipes: nothing has to read along, and a grandchild that keeps the output open delays nothing.
    """
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        source.write(data)
        source.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=source,
                stdout=output,
                stderr=errors,
                cwd=folder,
                env=dict(environ),
                # A group of its own, so that it can be ended with all its children.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            reason = error.strerror or error
            raise ModelUnavailableError(f"{command[0]} cannot be started: {reason}", (0, 0, 0.0)) from error
        _running.add(process)
        try:
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                for file, megabytes in ((output, MOST_OUTPUT), (errors, _MOST_ERRORS)):
                    if os.fstat(file.fileno()).st_size > megabytes * 1024 * 1024:
                        raise ModelOutputError(f"{command[0]} printed more than {megabytes} MB and was ended")
                if process.returncode is None and time.monotonic() > deadline:
                    raise ModelTimeoutError(f"{command[0]} gave no answer in {timeout:g} s and was ended")
        finally:
            _running.discard(process)
            _end(process)
        output.seek(0)
        errors.seek(0)
        return Finished(process.returncode, output.read(), errors.read(2000))


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
    command = [killer, "/F", "/T", "/PID", str(process.pid)]
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, creationflags=flags, timeout=10, check=False)
    if process.poll() is None:
        process.kill()


@atexit.register
def _end_all() -> None:
    """A worker that ends in the middle of a question leaves no program behind."""
    for process in list(_running):
        _end(process)
