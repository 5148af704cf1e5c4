"""A program as a model: the parts that Claude Code and the other coding agents share.

The text goes through standard input: arguments can be seen by others, and on Windows may pass a shell. Whatever the
program does, a call ends in time and leaves nothing running.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError
from ..types.asking import Prompt
from .budget import NOTHING
from .client import Provider, quote_material, write_instructions

TIMEOUT = 120.0
SYSTEM = "You turn notes into data. Reply with one JSON value and nothing else."
"""The system prompt of every program that accepts one."""
DISABLE = "CLAUDE_SMART_DISABLE"
"""Our own hooks do nothing where it is 1, so nothing is learned from our prompts."""


class ProgramModel(Provider):
    """A model that is reached by running a program, alone in an empty folder."""

    binary: str
    path_variable = ""

    def __init__(self, environ: Mapping[str, str], *, path: str = "", timeout: float = TIMEOUT) -> None:
        self._environ = environ
        self._path = path
        self._timeout = timeout

    def find_program(self) -> str:
        """Return where the program is; ModelUnavailableError when it is not installed."""
        program = shutil.which(os.path.expanduser(self._path) or self.binary, path=self._environ.get("PATH"))
        if program is None:
            name = self.path_variable or "its `path`"
            problem = f"the program `{self.binary}` is not on the PATH; install it, or set {name} to its path"
            if self._path:
                problem = f"{name} is {self._path!r}, which is not a program; set it to the path of `{self.binary}`"
            raise ModelUnavailableError(problem, NOTHING)
        return os.path.abspath(program)


def write_question(prompt: Prompt) -> bytes:
    """Return a prompt as one text. Our own words come first: a text that begins with `/` may be taken for a command."""
    return f"Task: {write_instructions(prompt)}\n\n{quote_material(prompt)}".encode("utf-8", "replace")


def shorten_output(output: bytes) -> str:
    """Return the beginning of what a program printed as one line."""
    return " ".join(output[:2000].decode("utf-8", "replace").split())[:300] or "nothing"


_MOST_OUTPUT, _MOST_ERRORS = 4, 64  # Megabytes.
_POLL_SECONDS = 0.05
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)

_running: set[subprocess.Popen[bytes]] = set()


def run_program(
    command: Sequence[str], data: bytes, *, folder: str, environ: Mapping[str, str], timeout: float
) -> tuple[int, bytes, bytes]:
    """Return the program's exit code, what it printed and the beginning of its errors. `data` is its standard input.

    The program may hang, flood or never end: this always returns in time, with nothing left running. Files instead of
    pipes: nothing has to read along, and a grandchild that keeps the output open delays nothing.
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
                creationflags=_NO_WINDOW,
            )
        except OSError as error:
            raise ModelUnavailableError(f"{command[0]} cannot be started: {error.strerror}", NOTHING) from error
        _running.add(process)
        try:
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                for file, megabytes in ((output, _MOST_OUTPUT), (errors, _MOST_ERRORS)):
                    if os.fstat(file.fileno()).st_size > megabytes * 1024 * 1024:
                        raise ModelOutputError(f"{command[0]} printed more than {megabytes} MB and was stopped")
                if process.returncode is None and time.monotonic() > deadline:
                    raise ModelTimeoutError(f"{command[0]} did not answer within {timeout:g} s and was stopped")
        finally:
            _running.discard(process)
            _end_process(process)
        output.seek(0)
        errors.seek(0)
        return process.returncode, output.read(), errors.read(2000)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    if os.name == "posix":
        # Not waited for yet, so its number cannot belong to anybody else.
        os.killpg(process.pid, signal.SIGKILL)
    else:
        killer = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        command = [killer, "/F", "/T", "/PID", str(process.pid)]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, creationflags=_NO_WINDOW, timeout=10, check=False)
        process.kill()
    process.wait()


@atexit.register
def _end_all() -> None:
    """A worker that ends in the middle of a question leaves no program behind."""
    for process in list(_running):
        _end_process(process)
