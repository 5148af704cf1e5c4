"""Tool calls: what was run or written, whether it worked, and which commands failed and then worked in another form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..reading.local import is_same_attempt
from .events import Event, get_dict, get_dicts, get_text
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


class ToolCall(NamedTuple):
    """A tool call that came to its end."""

    command: str
    """The command line of a shell, the file of an edit, else the most telling argument."""
    offset: int
    is_shell: bool
    is_edit: bool
    ok: bool
    error: str
    is_stopped: bool


def read_call(event: Event) -> ToolCall:
    """Return the call that a PostToolUse or PostToolUseFailure event ends."""
    tool = event.text("tool_name").lower()
    error = event.text("error") if event.name == "PostToolUseFailure" else ""
    is_stopped = event.data.get("is_interrupt") is True or event.data.get("interrupted") is True
    ok = event.name == "PostToolUse" and not is_stopped
    if ok and tool in SHELLS and _BAD_EXIT.search(event.text("output")):
        ok, error = False, event.text("output")
    return ToolCall(find_subject(event), event.offset, tool in SHELLS, tool in EDITORS, ok, error, is_stopped)


def find_subject(event: Event) -> str:
    """Return what a call is about: the command line of a shell, the file of an edit, else its most telling argument."""
    is_edit = event.text("tool_name").lower() in EDITORS
    return get_text(event.tool_input, *(_FILE_KEYS if is_edit else _TELLING_KEYS)).strip()


def describe_call(event: Event) -> str:
    """Return one call in words: "run `npm install`", "edit src/a.ts", "go on with the plan: …"; '' without a tool."""
    tool, subject = event.text("tool_name"), find_subject(event)
    line = cut_text(" ".join(subject.split()), _LINE_CHARS)
    if tool.lower() in SHELLS:
        return f"run `{line}`" if subject else "run a command"
    if tool.lower() in EDITORS:
        new = " ".join(get_text(event.tool_input, *_NEW_KEYS).split())
        return f"edit {subject or 'a file'}" + (f": {cut_text(new, _LINE_CHARS)}" if new else "")
    if tool == "ExitPlanMode":
        return f"go on with the plan: {cut_text(subject, _PLAN_CHARS)}" if subject else "go on with the plan"
    return f"use {tool}" + (f" ({line})" if subject else "") if tool else ""


def is_refusal(error: str) -> bool:
    """Return whether the host's words about a call say that the person did not want it."""
    return bool(_REFUSED.match(error))


def extract_reason(error: str) -> str:
    """Return what the person typed when they refused a call; '' when nothing."""
    match = _REASON.search(error.split(_ADVICE)[0])
    return match[1].strip() if match else ""


def diff_edit(proposed: Event, final: Event) -> str:
    """Return what a person changed in a proposed edit, as a difference of lines; '' when it is not known."""
    before, after = _find_new(proposed.tool_input), final.text("written") or _find_new(final.tool_input)
    if not before or not after:
        return ""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return cut_text("\n".join(line for line in lines if not line.startswith("@@")), _CHANGE_CHARS)


def _find_new(arguments: Mapping[str, Any]) -> str:
    edits = get_dicts(arguments, "edits")
    return "\n".join(get_text(edit, "new_string") for edit in edits) if edits else get_text(arguments, *_NEW_KEYS)


def find_own_answers(event: Event) -> tuple[str, str]:
    """Return the questions put to a person, and what they wrote themselves instead of choosing an offered answer."""
    questions, own = [], []
    replies = get_dict(event.tool_input, "answers")
    for one in get_dicts(event.tool_input, "questions"):
        question, labels = (
            get_text(one, "question"),
            [get_text(option, "label") for option in get_dicts(one, "options")],
        )
        reply = get_text(replies, question)
        if reply and reply not in labels and any(part not in labels for part in reply.split(", ")):
            questions.append(f"{question} ({' / '.join(filter(None, labels))})")
            own.append(reply.strip())
    return "\n".join(questions), "\n".join(own)


# -- commands that failed and then worked


@dataclass(slots=True)
class RepairedCommand:
    """A command that failed, why, and the form in which it worked: empty while none did."""

    failed: str
    error: str
    ids: tuple[str, ...]
    worked: str = ""
    offset: int = 0
    edits: int = 0
    """How many edits lay between: with many, it may be the code that was mended and not the command."""
    failures: int = 1
    """How often it failed before the other form worked."""
    calls: int = field(default=0, compare=False)
    turns: int = field(default=0, compare=False)


class FailureTracker:
    """The failed commands of a session that still wait for a form that works, for each agent apart."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[RepairedCommand]] = {}

    def count_turn(self) -> None:
        """Note that the person spoke."""
        for waiting in self._waiting.values():
            for failure in waiting:
                failure.turns += 1

    def add_call(self, event: Event, call: ToolCall) -> list[RepairedCommand]:
        """Count a call, and return the failed commands that it is the working form of."""
        waiting = self._waiting.setdefault(event.agent_id, [])
        for failure in waiting:
            failure.calls += 1
            failure.edits += call.is_edit and call.ok
        waiting[:] = [one for one in waiting if one.calls <= REPAIR_CALLS and one.turns <= REPAIR_TURNS]
        if not call.is_shell or not call.command:
            return []
        same = [one for one in waiting if one.failed.split() == call.command.split()]
        solved = []
        if call.ok and event.tool_input.get("run_in_background") is not True:
            # A command that works as it was needs no other form: something else had been wrong.
            solved = [one for one in waiting if one not in same and is_same_attempt(one.failed, call.command)]
            for one in solved:
                one.worked, one.offset, one.ids = call.command, event.offset, (*one.ids, event.id)
            waiting[:] = [one for one in waiting if one not in same and one not in solved]
        elif call.error.strip() and not call.ok and not call.is_stopped:
            # A command that fails again is one failure, as it was last, counted.
            failures = 1 + sum(one.failures for one in same)
            error = cut_text(call.error, _ERROR_CHARS, 0.75)
            waiting[:] = [one for one in waiting if one not in same]
            waiting.append(RepairedCommand(call.command, error, (event.id,), failures=failures))
        return solved
