"""`claude -p` as a model: one question to the person's own Claude Code, alone with it.

Nothing of theirs takes part: no tools, hooks, plug-ins, MCP servers, memory files or commands, and no session is kept.
Only their way of logging in stays, which may be in their settings, so these are read (a setting of sources would lock
out those who log in through a helper). A text that names `@some/file` would have Claude Code attach that file, and one
that begins with `/` is taken for a command: attachments are forbidden in two ways, and our own words come first.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError
from ..types.asking import Prompt
from .budget import NOTHING
from .client import ANTHROPIC_TOKENS, Provider, check_end, quote_material, read_object, write_instructions

PATH_VARIABLE = "CLAUDE_SMART_CLI_PATH"
TIMEOUT_VARIABLE = "CLAUDE_SMART_CLI_TIMEOUT"
CHEAPEST = "haiku"
TIMEOUT = 120.0
_SYSTEM = "You turn notes into data. Reply with one JSON value and nothing else."
_SETTINGS = {"disableAllHooks": True, "permissions": {"deny": ["Read", "Bash", "WebFetch"]}}
_OPTIONS = (
    "-p", "--output-format", "json", "--tools", "",
    "--no-session-persistence", "--strict-mcp-config", "--disable-slash-commands",
)  # fmt: skip
_ALONE = {
    # Our own hooks do nothing in there: nothing is learned from our prompts.
    "CLAUDE_SMART_DISABLE": "1",
    "CLAUDE_CODE_SAFE_MODE": "1",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_EFFORT_LEVEL": "low",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "DISABLE_AUTOUPDATER": "1",
}
# They describe the session that a hook was called from.
_FOREIGN = (
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_ENV_FILE",
    "CLAUDE_PID", "CLAUDE_PLUGIN_DATA", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR",
)  # fmt: skip


class ClaudeCLI(Provider):
    """A model that is reached through the `claude` command."""

    token_names = ANTHROPIC_TOKENS

    def __init__(
        self, environ: Mapping[str, str], *, model: str = CHEAPEST, path: str = "", timeout: float = TIMEOUT
    ) -> None:
        self.name = f"claude-cli:{model}"
        self._environ = environ
        self._model = model
        self._path = path
        self._timeout = timeout

    def find_program(self) -> str:
        """Return where Claude Code is; ModelUnavailableError when it is not installed."""
        program = shutil.which(os.path.expanduser(self._path) or "claude", path=self._environ.get("PATH"))
        if program is None:
            problem = f"the program `claude` is not on the PATH; install it, or set {PATH_VARIABLE} to its path"
            if self._path:
                problem = f"{PATH_VARIABLE} is {self._path!r}, which is not a program; set it to the path of `claude`"
            raise ModelUnavailableError(problem, NOTHING)
        return os.path.abspath(program)

    def send(self, prompt: Prompt) -> dict[str, Any]:
        """Run the command and return its reply."""
        program = self.find_program()
        environ = {name: value for name, value in self._environ.items() if name not in _FOREIGN}
        environ |= {**_ALONE, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(prompt.max_tokens)}
        # Through standard input: arguments can be seen by others, and on Windows may pass a shell.
        text = f"Task: {write_instructions(prompt)}\n\n{quote_material(prompt)}".encode("utf-8", "replace")
        with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as folder:
            empty, settings = os.path.join(folder, "empty"), os.path.join(folder, "settings.json")
            os.mkdir(empty)
            with open(settings, "w", encoding="utf-8") as file:
                json.dump(_SETTINGS, file)
            command = [program, *_OPTIONS, "--model", self._model, "--system-prompt", _SYSTEM, "--settings", settings]
            code, output, errors = run_program(command, text, folder=empty, environ=environ, timeout=self._timeout)
        reply = read_object(output)
        if reply is None or reply.get("type") != "result":
            if code != 0:
                raise ModelUnavailableError(f"claude ended with code {code}: {_shorten(errors)}")
            raise ModelOutputError(
                f"claude printed {len(output):,} bytes, not a result" if output else "claude printed nothing"
            )
        if reply.get("is_error") or code != 0:
            listed = reply.get("errors")
            reason = reply.get("result") or (listed[0] if isinstance(listed, list) and listed else reply.get("subtype"))
            detail = _shorten(str(reason or f"code {code}").encode())
            raise ModelUnavailableError(f"claude failed: {detail}", self.count(reply) or NOTHING)
        return reply

    def read(self, reply: Mapping[str, Any]) -> str:
        """Return the text of a reply."""
        check_end(reply.get("stop_reason"), "claude")
        return str(reply.get("result") or "")

    def read_model(self, reply: Mapping[str, Any]) -> str:
        """Return the name of the model that answered; empty if it is not reported."""
        used = reply.get("modelUsage")
        return next(iter(used), "") if isinstance(used, dict) else ""


def _shorten(output: bytes) -> str:
    """Return the beginning of what a program printed as one line."""
    return " ".join(output[:2000].decode("utf-8", "replace").split())[:300] or "nothing"


# --- running a program -----------------------------------------------------------------------------

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
