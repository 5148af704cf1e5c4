"""What of a host's event is written down: the fields of each, shortened and without what is private or secret."""

from __future__ import annotations

import json
import os

from .paths import digest
from .privacy import Trimmer, cut_redacted, redact_and_cut
from .project import clean_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TOOL_EVENTS = frozenset(("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied"))
MACHINE_SOURCES = frozenset(("system", "loop_wakeup", "schedule_wakeup", "poll_event"))
_MACHINE_MADE = (
    "<command-name>",
    "<command-message>",
    "<local-command-stdout>",
    "<local-command-caveat>",
    "<task-notification>",
    "<cross-session-message",
    "<system-reminder>",
)
OWN_COMMANDS = frozenset(("tag", "learn", "forget", "show", "dashboard"))
_PREFIXED_COMMANDS = OWN_COMMANDS | {"review", "edit", "restore"}
"""Those that are ours behind the plug-in's name; alone, hosts have commands of these names themselves."""
_OWN = ("smart", "claude-smart")
"""The names that the plug-in may have in a host."""
_INPUT_CHARS = 16_000
_ENTRY_CHARS = 60
_MOST_PARTS = 1000
# How many characters of the beginning and of the end of a text are kept.
_SHORT = (1000, 0)
_PROMPT = (24_000, 8000)
_REPLY = (4000, 12_000)
_OUTPUT = (1000, 3000)
_TOOL = {"tool_name": _SHORT, "tool_use_id": _SHORT, "duration_ms": None}
# Each event's fields: texts with their lengths; None for a flag or a number.
_FIELDS: dict[str, dict[str, tuple[int, int] | None]] = {
    "SessionStart": dict.fromkeys(("source", "model", "transcript_path", "parent"), _SHORT),
    "UserPromptSubmit": {"prompt": _PROMPT, "prompt_id": _SHORT, "source": _SHORT},
    "UserPromptExpansion": {
        "command_name": _SHORT,
        "command_args": _PROMPT,
        "prompt": _PROMPT,
        "prompt_id": _SHORT,
    },
    "PreToolUse": _TOOL,
    "PostToolUse": _TOOL,
    "PostToolUseFailure": {**_TOOL, "error": _OUTPUT, "is_interrupt": None},
    "PermissionDenied": {**_TOOL, "reason": (3000, 1000)},
    "Stop": {"last_assistant_message": _REPLY, "stop_hook_active": None, "prompt_id": _SHORT},
    "SubagentStop": {
        **dict.fromkeys(("agent_id", "agent_type", "agent_transcript_path"), _SHORT),
        "last_assistant_message": _REPLY,
    },
    "PreCompact": {"trigger": _SHORT},
    "SessionEnd": {"reason": _SHORT},
}
EVENTS = _FIELDS.keys()
# A whole file before the edit says nothing that the edit does not.
_LEFT_OUT = frozenset(("originalFile", "isImage", "noOutputExpected", "gitDiff"))


class HookCall:
    """One call of the host: the event, and what is the same in all of them."""

    __slots__ = ("agent_id", "cwd", "given", "is_whole", "may_be_private", "name", "session")

    def __init__(
        self, given: Mapping[str, Any], name: str, *, may_be_private: bool = True, is_whole: bool = True
    ) -> None:
        self.given = given
        self.name = name
        self.may_be_private = may_be_private
        self.is_whole = is_whole
        """Whether all of it could be read."""
        self.session = self.text("session_id")
        self.cwd = clean_path(self.text("cwd"))
        self.agent_id = self.text("agent_id")

    def text(self, field: str) -> str:
        value = self.given.get(field)
        return value if isinstance(value, str) else ""

    @property
    def is_from_machine(self) -> bool:
        """Whether a prompt was made by the host or a tool, not by a person."""
        return self.text("source") in MACHINE_SOURCES or self.text("prompt").lstrip().startswith(_MACHINE_MADE)

    @property
    def own_command(self) -> str:
        """The name of our slash command that this is; empty when it is none."""
        name = ""
        if self.name == "UserPromptExpansion" and self.text("command_source") in ("", "plugin"):
            name = self.text("command_name").removeprefix("/")
        elif self.name == "UserPromptSubmit":
            name = _split_command(self.text("prompt"))[0]
        plugin, _, own = name.rpartition(":")
        ours = _PREFIXED_COMMANDS if plugin in _OWN else OWN_COMMANDS if not plugin else frozenset()
        return own if own in ours else ""


def _split_command(prompt: str) -> tuple[str, str]:
    """Return the name and the arguments of a slash command; empty when it is none."""
    text = prompt.strip()
    if not text.startswith("/") or not text[1:2].strip():
        return "", ""
    name, *rest = text[1:].split(None, 1)
    return name, rest[0] if rest else ""


def expand_own_command(call: HookCall) -> HookCall:
    """Return a slash command of ours that came as a prompt in the form in which the host reports an expanded one."""
    if call.name != "UserPromptSubmit" or not call.own_command:
        return call
    name, arguments = _split_command(call.text("prompt"))
    if ":" not in name:
        # Where the person has a command of that name themselves, it means that one.
        own = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
        project = os.environ.get("CLAUDE_PROJECT_DIR", "")
        folders = (own, *(os.path.join(folder, ".claude") for folder in (call.cwd, project) if folder))
        if any(os.path.isfile(os.path.join(folder, "commands", f"{name}.md")) for folder in folders):
            return call
    given = {**call.given, "command_name": name, "command_args": arguments}
    return HookCall(given, "UserPromptExpansion", may_be_private=call.may_be_private, is_whole=call.is_whole)


def build_line(call: HookCall, project: str, now: float, *, is_ignored: bool = False) -> dict[str, Any]:
    """Return the journal's line of an event."""
    data = _read_data(call)
    if is_ignored:
        data = {name: data[name] for name in ("tool_name", "tool_use_id") if name in data} | {"ignored": True}
    return {
        "v": 1,
        "id": _make_id(call, data),
        "at": now,
        "event": call.name,
        "session": call.session,
        "project": project,
        "cwd": redact_and_cut(call.cwd, *_SHORT, may_be_private=False),
        "agent_id": redact_and_cut(call.agent_id, *_SHORT, may_be_private=False),
        **read_entry_point(os.environ),
        "data": data,
    }


def read_entry_point(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return how the host was started, which tells a person's session from a program's; the drain runs without it."""
    attended = {"attended": True} if environ.get("CLAUDE_SMART_ATTENDED") == "1" else {}
    return {"entry": environ.get("CLAUDE_CODE_ENTRYPOINT", "")[:_ENTRY_CHARS], **attended}


def _make_id(call: HookCall, data: Mapping[str, Any]) -> str:
    """Return the same id for an event that is reported twice, where the host names it; else a fresh one."""
    field = "tool_use_id" if call.name in TOOL_EVENTS else "agent_id" if call.name == "SubagentStop" else "prompt_id"
    named = call.text(field)
    if not named or call.name in ("SessionStart", "SessionEnd", "PreCompact"):
        return os.urandom(16).hex()
    # One prompt can be answered several times, when a hook of somebody else sends the agent on; and what is typed while
    # the agent works, or told by a machine, comes with the id of the prompt it works on.
    said = str(data.get("last_assistant_message") or data.get("prompt") or "")
    return digest(call.session, call.name, named, said)


def _read_data(call: HookCall) -> dict[str, Any]:
    """Return the fields of an event that are written: those that the host gives in the type that we expect."""
    data: dict[str, Any] = {}
    for field, most in _FIELDS[call.name].items():
        value = call.given.get(field)
        if most is None and isinstance(value, bool | int | float):
            data[field] = value
        elif most is not None and isinstance(value, str):
            data[field] = redact_and_cut(value, *most, may_be_private=call.may_be_private)
    if call.name in TOOL_EVENTS:
        trimmer = Trimmer(_INPUT_CHARS, may_be_private=call.may_be_private)
        data["tool_input"] = trimmer.trim(call.given.get("tool_input", {}))
    if call.name == "PostToolUse":
        response = call.given.get("tool_response")
        data["output"] = _read_output(response, call.may_be_private)
        for name, field in (("interrupted", "interrupted"), ("user_modified", "userModified")):
            if isinstance(response, dict) and isinstance(response.get(field), bool):
                data[name] = response[field]
    # A command of the person's own that has the name of one of ours.
    if (call.name == "UserPromptSubmit" and call.own_command) or (
        call.name == "UserPromptExpansion" and call.text("command_name") in OWN_COMMANDS and not call.own_command
    ):
        data["source"] = "command"
    elif call.name == "UserPromptSubmit" and call.is_from_machine:
        data["source"] = data.get("source") or "system"
    return data


def _read_output(response: Any, may_be_private: bool) -> str:
    """Return what a tool answered, as text."""
    text = _join_texts(response)
    if text is not None:
        return redact_and_cut(text, *_OUTPUT, may_be_private=may_be_private)
    kept = {name: value for name, value in response.items() if name not in _LEFT_OUT}
    trimmed = Trimmer(_INPUT_CHARS, may_be_private=may_be_private).trim(kept)
    return cut_redacted(json.dumps(trimmed, ensure_ascii=False), *_OUTPUT)


def _join_texts(response: Any) -> str | None:
    """Return the text of an answer that is one; None for an answer of several fields."""
    if isinstance(response, list):
        return "\n".join(text for item in response[:_MOST_PARTS] if (text := _join_texts(item)))
    if not isinstance(response, dict):
        return "" if response is None else str(response)
    if isinstance(response.get("stdout"), str):
        return "\n".join(text for name in ("stdout", "stderr") if isinstance(text := response.get(name), str) and text)
    for name in ("text", "content", "result", "output"):
        if isinstance(response.get(name), str | list):
            return _join_texts(response[name])
    return None
