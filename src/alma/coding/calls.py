"""Tool calls: what was run or written, whether it worked, and which commands failed and then worked in another form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..reading.local import is_same_attempt
from .events import Event, as_dict, as_text
from .prompts import cut_text

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
_ERROR_CHARS = 4000
REPAIR_CALLS = 6
"""So many tool calls later, a command that works is no longer an answer to one that failed."""
REPAIR_TURNS = 1
"""So many times the person may have spoken in between."""

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
class ToolCall:
    """A tool call that came to its end."""

    tool: str
    command: str
    """The command line of a shell, the file of an edit, else the most telling argument."""
    ok: bool
    error: str
    is_stopped: bool
    in_background: bool
    offset: int

    @property
    def is_shell(self) -> bool:
        return self.tool.lower() in SHELLS

    @property
    def is_edit(self) -> bool:
        return self.tool.lower() in EDITORS


def read_call(event: Event) -> ToolCall:
    """Return the call that a PostToolUse or PostToolUseFailure event ends."""
    tool, arguments = event.text("tool_name"), event.tool_input
    error = event.text("error") if event.name == "PostToolUseFailure" else ""
    is_stopped = event.data.get("is_interrupt") is True or event.data.get("interrupted") is True
    ok = event.name == "PostToolUse" and not is_stopped
    if ok and tool.lower() in SHELLS and _BAD_EXIT.search(output := event.text("output")):
        ok, error = False, output
    in_background = arguments.get("run_in_background") is True
    return ToolCall(tool, find_subject(tool, arguments), ok, error, is_stopped, in_background, event.offset)


def find_subject(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what a call is about: the command line of a shell, the file of an edit, else its most telling argument."""
    return _first_text(arguments, _FILE_KEYS if tool.lower() in EDITORS else _TELLING_KEYS).strip()


def describe_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return one call in words: "run `npm install`", "edit src/a.ts", "go on with the plan: …"."""
    subject = find_subject(tool, arguments)
    line = cut_text(" ".join(subject.split()), _LINE_CHARS)
    if tool.lower() in SHELLS:
        return f"run `{line}`" if subject else "run a command"
    if tool.lower() in EDITORS:
        new = " ".join(_first_text(arguments, _NEW_KEYS).split())
        return f"edit {subject or 'a file'}" + (f": {cut_text(new, _LINE_CHARS)}" if new else "")
    if tool == "ExitPlanMode":
        return f"go on with the plan: {cut_text(subject, _PLAN_CHARS)}" if subject else "go on with the plan"
    return f"use {tool or 'a tool'}" + (f" ({line})" if subject else "")


def is_refusal(error: str) -> bool:
    """Return whether the host's words about a call say that the person did not want it."""
    return bool(_REFUSED.match(error))


def extract_reason(error: str) -> str:
    """Return what the person typed when they refused a call; '' when nothing."""
    match = _REASON.search(error.split(_ADVICE)[0])
    return match[1].strip() if match else ""


def diff_edit(proposed: Mapping[str, Any], final: Mapping[str, Any], written: str) -> str:
    """Return what a person changed in a proposed edit, as a difference of lines; '' when it is not known."""
    before, after = _new_text(proposed), written or _new_text(final)
    if not before or not after or before == after:
        return ""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return cut_text("\n".join(line for line in lines if not line.startswith("@@")), _CHANGE_CHARS)


def _new_text(arguments: Mapping[str, Any]) -> str:
    edits = arguments.get("edits")
    if isinstance(edits, list):
        return "\n".join(as_text(edit.get("new_string")) for edit in edits if isinstance(edit, dict))
    return next((text for key in _NEW_KEYS if (text := as_text(arguments.get(key)))), "")


def _first_text(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if (text := as_text(arguments.get(key))).strip()), "")


def find_own_answers(event: Event) -> tuple[str, str]:
    """Return the questions put to a person, and what they wrote themselves instead of choosing an offered answer."""
    replies, asked = event.tool_input.get("answers"), event.tool_input.get("questions")
    if not isinstance(replies, dict) or not isinstance(asked, list):
        return "", ""
    questions, own = [], []
    offered: dict[str, list[str]] = {}
    for one in map(as_dict, asked):
        options = one.get("options")
        labels = [as_text(as_dict(option).get("label")) for option in options] if isinstance(options, list) else []
        offered[as_text(one.get("question"))] = labels
    for question, reply in replies.items():
        labels = offered.get(question, [])
        is_chosen = as_text(reply) in labels or all(part in labels for part in as_text(reply).split(", "))
        if question in offered and as_text(reply).strip() and not is_chosen:
            questions.append(f"{question} ({' / '.join(filter(None, labels))})")
            own.append(reply.strip())
    return "\n".join(questions), "\n".join(own)


# -- commands that failed and then worked


@dataclass(frozen=True, slots=True)
class RepairedCommand:
    """A command that failed, why, and the form in which it worked."""

    failed: str
    error: str
    worked: str
    offset: int
    ids: tuple[str, str]
    edits: int = 0
    """How many edits lay between: with many, it may be the code that was mended and not the command."""
    failures: int = 1
    """How often it failed before the other form worked."""


@dataclass(slots=True)
class _Failure:
    command: str
    error: str
    id: str
    calls: int = 0
    turns: int = 0
    edits: int = 0
    failures: int = 1

    def is_form(self, command: str) -> bool:
        return self.command.split() == command.split()


class FailureTracker:
    """The failed commands of a session that still wait for a form that works, for each agent apart."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Failure]] = {}

    def count_turn(self) -> None:
        """Note that the person spoke."""
        for agent, waiting in self._waiting.items():
            for failure in waiting:
                failure.turns += 1
            self._waiting[agent] = [failure for failure in waiting if failure.turns <= REPAIR_TURNS]

    def add_call(self, event: Event, call: ToolCall) -> list[RepairedCommand]:
        """Count a call, and return the failed commands that it is the working form of."""
        waiting = self._waiting.setdefault(event.agent_id, [])
        for failure in waiting:
            failure.calls += 1
            failure.edits += call.is_edit and call.ok
        waiting[:] = [failure for failure in waiting if failure.calls <= REPAIR_CALLS]
        if not call.is_shell or not call.command:
            return []
        repairs = []
        if call.ok and not call.in_background:
            # A command that works as it was needs no other form: something else had been wrong.
            same = [failure for failure in waiting if failure.is_form(call.command)]
            solved = [one for one in waiting if one not in same and is_same_attempt(one.command, call.command)]
            repairs = [
                RepairedCommand(
                    failed=failure.command,
                    error=failure.error,
                    worked=call.command,
                    offset=event.offset,
                    ids=(failure.id, event.id),
                    edits=failure.edits,
                    failures=failure.failures,
                )
                for failure in solved
            ]
            waiting[:] = [failure for failure in waiting if failure not in same and failure not in solved]
        if call.error.strip() and not call.ok and not call.is_stopped:
            # A command that fails again is one failure, as it was last, counted.
            again = [failure for failure in waiting if failure.is_form(call.command)]
            failures = 1 + sum(failure.failures for failure in again)
            error = cut_text(call.error, _ERROR_CHARS, 0.75)
            waiting[:] = [failure for failure in waiting if failure not in again]
            waiting.append(_Failure(call.command, error, event.id, failures=failures))
        return repairs
