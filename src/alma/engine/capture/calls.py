"""Tool calls: what was run or written, and whether it worked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .events import Event, text
from .words import cut, one_line

SHELLS = frozenset(
    """bash powershell pwsh shell terminal cmd zsh run_shell_command run_terminal_cmd exec_command local_shell
    execute_command""".split()
)
EDITORS = frozenset(
    """edit write multiedit notebookedit apply_patch create_file edit_file write_file replace str_replace
    str_replace_editor""".split()
)
_FILE_KEYS = ("file_path", "filePath", "notebook_path", "path")
_TELLING_KEYS = ("command", *_FILE_KEYS, "plan", "pattern", "url", "query", "description", "prompt")
_NEW_KEYS = ("new_string", "content", "new_source", "newString")
_LINE_CHARS = 300
_PLAN_CHARS = 2500
_CHANGE_CHARS = 1500

# How a shell tool says that the command failed when the host itself does not.
_BAD_EXIT = re.compile(
    r"\A\s*(?:Error:\s*)?Exit code:? [1-9]\d*\b"
    r"|(?:\A|\n)[^\n]{0,80}\b(?:exited with (?:code|status)|exit (?:code|status):?) [1-9]\d*\.?\s*\Z",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\s*(?:Error:\s*)?The user doesn't want to (?:proceed with this tool use|take this action)")
_REASON = re.compile(r"(?:the user said|reason for the rejection):\s*(.*)\Z", re.DOTALL)
_ADVICE = "\nNote: The user's next message may contain a correction or preference."


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that came to its end."""

    tool: str
    what: str
    """The command line of a shell, the file of an edit, else the most telling argument."""
    ok: bool
    error: str = ""
    stopped: bool = False
    background: bool = False

    @property
    def shell(self) -> bool:
        return self.tool.lower() in SHELLS

    @property
    def edit(self) -> bool:
        return self.tool.lower() in EDITORS


def of(event: Event) -> Call:
    """The call that a PostToolUse or PostToolUseFailure event ends."""
    tool, given = text(event.data.get("tool_name")), arguments(event)
    error = text(event.data.get("error")) if event.name == "PostToolUseFailure" else ""
    stopped = event.data.get("is_interrupt") is True or event.data.get("interrupted") is True
    ok = event.name == "PostToolUse" and not stopped
    if ok and tool.lower() in SHELLS:
        output = text(event.data.get("output"))
        ok = not _BAD_EXIT.search(output)
        error = "" if ok else output
    return Call(tool, what(tool, given), ok, error, stopped, given.get("run_in_background") is True)


def arguments(event: Event) -> Mapping[str, Any]:
    given = event.data.get("tool_input")
    return given if isinstance(given, dict) else {}


def what(tool: str, given: Mapping[str, Any]) -> str:
    keys = _FILE_KEYS if tool.lower() in EDITORS else _TELLING_KEYS
    return next((text(given[key]).strip() for key in keys if text(given.get(key)).strip()), "")


def account(tool: str, given: Mapping[str, Any]) -> str:
    """One call in words: "run `npm install`", "edit src/a.ts", "go on with the plan: …"."""
    about = what(tool, given)
    if tool.lower() in SHELLS:
        return f"run `{one_line(about, _LINE_CHARS)}`" if about else "run a command"
    if tool.lower() in EDITORS:
        new = next((text(given[key]) for key in _NEW_KEYS if text(given.get(key)).strip()), "")
        return f"edit {about or 'a file'}" + (f": {one_line(new, _LINE_CHARS)}" if new else "")
    if tool == "ExitPlanMode":
        return f"go on with the plan: {cut(about, _PLAN_CHARS)}" if about else "go on with the plan"
    return f"use {tool or 'a tool'}" + (f" ({one_line(about, _LINE_CHARS)})" if about else "")


def refused(error: str) -> bool:
    """Whether the host's words about a call say that the person did not want it."""
    return bool(_REFUSED.match(error))


def reason(error: str) -> str:
    """What the person typed when they refused a call; '' when nothing."""
    found = _REASON.search(error.split(_ADVICE)[0])
    return found[1].strip() if found else ""


def changed(proposed: Mapping[str, Any], given: Mapping[str, Any], written: str) -> str:
    """What a person changed in what was proposed, as a difference of lines; '' when the event does not have both."""
    before, after = _new(proposed), written or _new(given)
    if not before or not after or before == after:
        return ""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return cut("\n".join(line for line in lines if not line.startswith("@@")), _CHANGE_CHARS)


def _new(given: Mapping[str, Any]) -> str:
    edits = given.get("edits")
    if isinstance(edits, list):
        return "\n".join(text(edit.get("new_string")) for edit in edits if isinstance(edit, dict))
    return next((text(given[key]) for key in _NEW_KEYS if text(given.get(key))), "")


def answers(event: Event) -> tuple[str, str]:
    """The questions put to a person, and what they wrote themselves instead of choosing among the answers given."""
    given = arguments(event)
    replies, asked = given.get("answers"), given.get("questions")
    if not isinstance(replies, dict) or not isinstance(asked, list):
        return "", ""
    offered: dict[str, list[str]] = {}
    for one in asked:
        if isinstance(one, dict):
            options = one.get("options")
            listed = options if isinstance(options, list) else []
            offered[text(one.get("question"))] = [text(o.get("label")) for o in listed if isinstance(o, dict)]
    own = {
        question: reply.strip()
        for question, reply in replies.items()
        if question in offered and isinstance(reply, str) and reply.strip() and not _chosen(reply, offered[question])
    }
    questions = [f"{question} ({' / '.join(filter(None, offered[question]))})" for question in own]
    return "\n".join(questions), "\n".join(own.values())


def _chosen(reply: str, labels: list[str]) -> bool:
    return reply in labels or all(part in labels for part in reply.split(", "))
