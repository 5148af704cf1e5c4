"""`claude -p` as a model: one question to the person's own Claude Code, alone with it.

Nothing of theirs takes part: no tools, hooks, plug-ins, MCP servers, memory files or commands, and no session is kept.
Only their way of logging in stays, which may be in their settings, so these are read (a setting of sources would lock
out those who log in through a helper). A text that names `@some/file` would have Claude Code attach that file, and one
that begins with `/` is taken for a command: attachments are forbidden in two ways, and our own words come first.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from ..errors import ModelOutputError, ModelUnavailableError
from ..types.asking import Answer, Prompt
from . import schema
from .answers import instructions, material, parse
from .patience import FinalOutputError
from .process import Finished, run

PATH_VARIABLE = "CLAUDE_SMART_CLI_PATH"
TIMEOUT_VARIABLE = "CLAUDE_SMART_CLI_TIMEOUT"
CHEAPEST = "haiku"
TIMEOUT = 120.0
_SYSTEM = "You turn notes into data. Reply with one JSON value and nothing else."
_SETTINGS = {"disableAllHooks": True, "permissions": {"deny": ["Read", "Bash", "WebFetch"]}}
_OPTIONS = (
    "-p",
    "--output-format",
    "json",
    "--tools",
    "",
    "--no-session-persistence",
    "--strict-mcp-config",
    "--disable-slash-commands",
)
_ALONE = {
    # Our own hooks do nothing at all in there: what we asked is never learned from.
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
# They tell of the session that a hook was called from.
_FOREIGN = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PLUGIN_DATA",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PROJECT_DIR",
)


class ClaudeCLI:
    def __init__(
        self, environ: Mapping[str, str], *, model: str = CHEAPEST, path: str = "", timeout: float = TIMEOUT
    ) -> None:
        self._environ = environ
        self._model = model
        self._path = path
        self._timeout = timeout

    @property
    def name(self) -> str:
        return f"claude-cli:{self._model}"

    def ask(self, prompt: Prompt) -> Answer:
        program = self.program()
        with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as folder:
            empty = os.path.join(folder, "empty")
            os.mkdir(empty)
            settings = os.path.join(folder, "settings.json")
            with open(settings, "w", encoding="utf-8") as file:
                json.dump(_SETTINGS, file)
            command = [program, *_OPTIONS, "--model", self._model, "--system-prompt", _SYSTEM, "--settings", settings]
            environ = self._alone(prompt.max_tokens)
            done = run(command, _question(prompt), folder=empty, environ=environ, timeout=self._timeout)
        return _answer(done, prompt, self.name)

    def program(self) -> str:
        """Where Claude Code is; ModelUnavailableError when it is not."""
        if self._path:
            found = shutil.which(os.path.expanduser(self._path))
            if found is None:
                raise ModelUnavailableError(f"{PATH_VARIABLE} names {self._path!r}, which is no program", (0, 0, 0.0))
            return os.path.abspath(found)
        found = shutil.which("claude", path=self._environ.get("PATH"))
        if found is None:
            raise ModelUnavailableError(
                f"the program `claude` is not on the PATH; set {PATH_VARIABLE} to where it is", (0, 0, 0.0)
            )
        return os.path.abspath(found)

    def _alone(self, max_tokens: int) -> dict[str, str]:
        kept = {name: value for name, value in self._environ.items() if name not in _FOREIGN}
        return {**kept, **_ALONE, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens)}


def _question(prompt: Prompt) -> bytes:
    """All of it goes through standard input: arguments can be seen by others, and on Windows may pass a shell."""
    text = f"{instructions(prompt)}\n\n{material(prompt)}"
    # The first word must be ours.
    return f"Task: {text}".encode("utf-8", "replace")


def _answer(done: Finished, prompt: Prompt, name: str) -> Answer:
    told = _told(done)
    spent = _spent(told)
    if told.get("is_error") or done.code != 0:
        raise ModelUnavailableError(f"claude failed: {_reason(told, done)}", spent)
    if told.get("stop_reason") == "refusal":
        raise FinalOutputError("the model refused to answer", spent)
    try:
        value = parse(str(told.get("result") or ""))
        schema.check(value, prompt.schema)
    except ModelOutputError as error:
        raise ModelOutputError(str(error), spent) from error
    used = told.get("modelUsage")
    model = next(iter(used), name) if isinstance(used, dict) else name
    return Answer(
        value=value,
        model=model,
        tokens_in=spent[0],
        tokens_out=spent[1],
        cost=spent[2],
        seconds=done.seconds,
        metered=isinstance(told.get("usage"), dict),
    )


def _told(done: Finished) -> Mapping[str, Any]:
    try:
        told = json.loads(done.output)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and told.get("type") == "result":
        return told
    if done.code != 0:
        raise ModelUnavailableError(f"claude ended with code {done.code}: {_shortened(done.errors)}")
    raise ModelOutputError(f"claude printed {len(done.output)} bytes that are no result")


def _reason(told: Mapping[str, Any], done: Finished) -> str:
    errors = told.get("errors")
    said = told.get("result") or (errors[0] if isinstance(errors, list) and errors else told.get("subtype"))
    return _shortened(str(said).encode()) if said else f"code {done.code}"


def _shortened(output: bytes) -> str:
    """What a program printed, as far as one line can tell it."""
    return " ".join(output[:2000].decode("utf-8", "replace").split())[:300] or "nothing"


def _spent(told: Mapping[str, Any]) -> tuple[int, int, float]:
    usage = told.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return (
        sum(_number(counts.get(name)) for name in names),
        _number(counts.get("output_tokens")),
        _money(told.get("total_cost_usd")),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _money(value: Any) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
    return float(value) if sound else 0.0
