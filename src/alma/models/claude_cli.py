"""`claude -p` as a model: one question to the person's own Claude Code, alone with it.

Nothing of theirs takes part: no tools, hooks, plug-ins, MCP servers, memory files or commands, and no session is kept.
Only their way of logging in stays, which may be in their settings, so these are read (a setting of sources would lock
out those who log in through a helper). A text that names `@some/file` would have Claude Code attach that file, and one
that begins with `/` is taken for a command: attachments are forbidden in two ways, and our own words come first.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ..errors import ModelOutputError, ModelUnavailableError
from ..types.asking import Prompt
from .budget import NOTHING
from .client import ANTHROPIC_TOKENS, check_end, read_object
from .program import DISABLE, SYSTEM, TIMEOUT, ProgramModel, run_program, shorten_output, write_question

PATH_VARIABLE = "CLAUDE_SMART_CLI_PATH"
TIMEOUT_VARIABLE = "CLAUDE_SMART_CLI_TIMEOUT"
CHEAPEST = "haiku"
_SETTINGS = {"disableAllHooks": True, "permissions": {"deny": ["Read", "Bash", "WebFetch"]}}
_OPTIONS = (
    "-p", "--output-format", "json", "--tools", "",
    "--no-session-persistence", "--strict-mcp-config", "--disable-slash-commands",
)  # fmt: skip
_ALONE = {
    DISABLE: "1",
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


class ClaudeCLI(ProgramModel):
    """A model that is reached through the `claude` command."""

    binary, path_variable = "claude", PATH_VARIABLE
    token_names = ANTHROPIC_TOKENS

    def __init__(
        self, environ: Mapping[str, str], *, model: str = CHEAPEST, path: str = "", timeout: float = TIMEOUT
    ) -> None:
        super().__init__(environ, path=path, timeout=timeout)
        self.name = f"claude-cli:{model}"
        self._model = model

    def send(self, prompt: Prompt) -> dict[str, Any]:
        """Run the command and return its reply."""
        program = self.find_program()
        environ = {name: value for name, value in self._environ.items() if name not in _FOREIGN}
        environ |= {**_ALONE, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(prompt.max_tokens)}
        text = write_question(prompt)
        with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as folder:
            empty, settings = os.path.join(folder, "empty"), os.path.join(folder, "settings.json")
            os.mkdir(empty)
            with open(settings, "w", encoding="utf-8") as file:
                json.dump(_SETTINGS, file)
            command = [program, *_OPTIONS, "--model", self._model, "--system-prompt", SYSTEM, "--settings", settings]
            code, output, errors = run_program(command, text, folder=empty, environ=environ, timeout=self._timeout)
        reply = read_object(output)
        if reply is None or reply.get("type") != "result":
            if code != 0:
                raise ModelUnavailableError(f"claude ended with code {code}: {shorten_output(errors)}")
            raise ModelOutputError(
                f"claude printed {len(output):,} bytes, not a result" if output else "claude printed nothing"
            )
        if reply.get("is_error") or code != 0:
            listed = reply.get("errors")
            reason = reply.get("result") or (listed[0] if isinstance(listed, list) and listed else reply.get("subtype"))
            detail = shorten_output(str(reason or f"code {code}").encode())
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
