"""What of a host's event is written down: the fields of each, shortened and without what is private or secret."""

from __future__ import annotations

import json
import os

from .place import digest
from .project import writable
from .trim import Trim, cut, told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

EVENTS = frozenset(
    "SessionStart UserPromptSubmit UserPromptExpansion PreToolUse PostToolUse PostToolUseFailure PermissionDenied Stop"
    " SubagentStop PreCompact SessionEnd".split()
)
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
_SHORT = 1000
_ENTRY_CHARS = 60
_HEAD, _TAIL = 1000, 3000
"""Of an output or an error: what it began with, and how it ended."""
# A whole file before the edit says nothing that the edit does not.
_LEFT_OUT = frozenset(("originalFile", "isImage", "noOutputExpected", "gitDiff"))


class Call:
    """One call of the host: the event, and what is the same in all of them."""

    __slots__ = ("agent_id", "cwd", "given", "hiding", "name", "session", "whole")

    def __init__(self, given: Mapping[str, Any], name: str, *, hiding: bool = True, whole: bool = True) -> None:
        self.given = given
        self.name = name
        self.hiding = hiding
        """Whether something private may be in it."""
        self.whole = whole
        """Whether all of it could be read."""
        self.session = self.text("session_id")
        self.cwd = writable(self.text("cwd"))
        self.agent_id = self.text("agent_id")

    def text(self, field: str) -> str:
        value = self.given.get(field)
        return value if isinstance(value, str) else ""

    @property
    def from_a_machine(self) -> bool:
        """Whether a prompt was made by the host or a tool, not by a person."""
        return self.text("source") in MACHINE_SOURCES or self.text("prompt").lstrip().startswith(_MACHINE_MADE)

    @property
    def own_command(self) -> str:
        """The name of our slash command that this is; empty when it is none."""
        if self.name == "UserPromptExpansion":
            name = self.text("command_name").removeprefix("/")
            if self.text("command_source") not in ("", "plugin"):
                return ""
        else:
            name = _slashed(self.text("prompt"))[0] if self.name == "UserPromptSubmit" else ""
        plugin, _, own = name.rpartition(":")
        ours = _PREFIXED_COMMANDS if plugin in _OWN else OWN_COMMANDS if not plugin else frozenset()
        return own if own in ours else ""


def _slashed(prompt: str) -> tuple[str, str]:
    """The name and the arguments of a slash command; empty when it is none."""
    text = prompt.strip()
    if not text.startswith("/") or not text[1:2].strip():
        return "", ""
    name, *rest = text[1:].split(None, 1)
    return name, rest[0] if rest else ""


def as_expansion(call: Call) -> Call:
    """A slash command of ours that came as a prompt, as the host tells of an expanded one."""
    if call.name != "UserPromptSubmit" or not call.own_command:
        return call
    name, arguments = _slashed(call.text("prompt"))
    if ":" not in name and _is_theirs(call, name):
        return call
    given = {**call.given, "command_name": name, "command_args": arguments}
    return Call(given, "UserPromptExpansion", hiding=call.hiding, whole=call.whole)


def _is_theirs(call: Call, name: str) -> bool:
    """Whether the person has a command of that name themselves; then it means that one."""
    own = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    project = os.environ.get("CLAUDE_PROJECT_DIR", "")
    folders = (own, *(os.path.join(folder, ".claude") for folder in (call.cwd, project) if folder))
    return any(os.path.isfile(os.path.join(folder, "commands", f"{name}.md")) for folder in folders)


def line(call: Call, project: str, now: float, *, ignored: bool = False) -> dict[str, Any]:
    """The journal's line of an event."""
    data = _ignored(call) if ignored else {name: value for name, value in _data(call).items() if value is not None}
    return {
        "v": 1,
        "id": _id(call, data),
        "at": now,
        "event": call.name,
        "session": call.session,
        "project": project,
        "cwd": told(call.cwd, _SHORT, 0, hiding=False),
        "agent_id": told(call.agent_id, _SHORT, 0, hiding=False),
        **entry_point(os.environ),
        "data": data,
    }


def entry_point(environ: Mapping[str, str]) -> dict[str, Any]:
    """How the host was started, which tells a person's session from a program's; the drain runs without it."""
    attended = {"attended": True} if environ.get("CLAUDE_SMART_ATTENDED") == "1" else {}
    return {"entry": environ.get("CLAUDE_CODE_ENTRYPOINT", "")[:_ENTRY_CHARS], **attended}


def _id(call: Call, data: Mapping[str, Any]) -> str:
    """The same for the same event told twice, where the host names it; else a fresh one."""
    field = "tool_use_id" if call.name in TOOL_EVENTS else "agent_id" if call.name == "SubagentStop" else "prompt_id"
    named = call.text(field)
    if not named or call.name in ("SessionStart", "SessionEnd", "PreCompact"):
        return os.urandom(16).hex()
    # One prompt can be answered several times, when a hook of somebody else sends the agent on; and what is typed while
    # the agent works, or told by a machine, comes with the id of the prompt it works on.
    said = str(data.get("last_assistant_message") or data.get("prompt") or "")
    return digest(call.session, call.name, named, said)


def _ignored(call: Call) -> dict[str, Any]:
    return {"tool_name": _short(call, "tool_name"), "tool_use_id": _short(call, "tool_use_id"), "ignored": True}


def _data(call: Call) -> dict[str, Any]:
    if call.name in TOOL_EVENTS:
        return _of_tool(call)
    return _FIELDS[call.name](call)


def _text(call: Call, field: str, head: int, tail: int) -> str:
    return told(call.text(field), head, tail, hiding=call.hiding)


def _short(call: Call, field: str) -> str | None:
    """A short text of the host's, where it gives one."""
    return _text(call, field, _SHORT, 0) if isinstance(call.given.get(field), str) else None


def _flag(call: Call, field: str) -> bool | int | float | None:
    value = call.given.get(field)
    return value if isinstance(value, bool | int | float) else None


def _of_session(call: Call) -> dict[str, Any]:
    return {field: _short(call, field) for field in ("source", "model", "transcript_path", "parent")}


def _of_prompt(call: Call) -> dict[str, Any]:
    source = _short(call, "source") or ("system" if call.from_a_machine else None)
    if call.own_command:
        # One of ours would have come here as an expansion: this is a command of theirs that has the name of one.
        source = "command"
    return {"prompt": _text(call, "prompt", 24_000, 8000), "prompt_id": _short(call, "prompt_id"), "source": source}


def _of_command(call: Call) -> dict[str, Any]:
    return {
        "command_name": _text(call, "command_name", _SHORT, 0),
        "command_args": _text(call, "command_args", 24_000, 8000),
        "prompt": _text(call, "prompt", 24_000, 8000),
        "prompt_id": _short(call, "prompt_id"),
        "source": "command" if call.text("command_name") in OWN_COMMANDS and not call.own_command else None,
    }


def _of_tool(call: Call) -> dict[str, Any]:
    trim = Trim(_INPUT_CHARS, hiding=call.hiding)
    data: dict[str, Any] = {
        "tool_name": _text(call, "tool_name", _SHORT, 0),
        "tool_use_id": _short(call, "tool_use_id"),
        "tool_input": trim.value(call.given.get("tool_input", {})),
    }
    if call.name == "PostToolUse":
        response = call.given.get("tool_response")
        data["output"] = _output(response, call.hiding)
        data["interrupted"] = _said(response, "interrupted")
        data["user_modified"] = _said(response, "userModified")
    elif call.name == "PostToolUseFailure":
        data["error"] = _text(call, "error", _HEAD, _TAIL)
        data["is_interrupt"] = _flag(call, "is_interrupt")
    elif call.name == "PermissionDenied":
        data["reason"] = _text(call, "reason", 3000, 1000)
    return {**data, "duration_ms": _flag(call, "duration_ms")}


def _said(response: Any, field: str) -> bool | None:
    value = response.get(field) if isinstance(response, dict) else None
    return value if isinstance(value, bool) else None


def _of_stop(call: Call) -> dict[str, Any]:
    return {
        "last_assistant_message": _text(call, "last_assistant_message", 4000, 12_000),
        "stop_hook_active": _flag(call, "stop_hook_active"),
        "prompt_id": _short(call, "prompt_id"),
    }


def _of_subagent(call: Call) -> dict[str, Any]:
    shorts = {field: _short(call, field) for field in ("agent_id", "agent_type", "agent_transcript_path")}
    return {**shorts, "last_assistant_message": _text(call, "last_assistant_message", 4000, 12_000)}


_FIELDS: dict[str, Callable[[Call], dict[str, Any]]] = {
    "SessionStart": _of_session,
    "UserPromptSubmit": _of_prompt,
    "UserPromptExpansion": _of_command,
    "Stop": _of_stop,
    "SubagentStop": _of_subagent,
    "PreCompact": lambda call: {"trigger": _short(call, "trigger")},
    "SessionEnd": lambda call: {"reason": _short(call, "reason")},
}


def _output(response: Any, hiding: bool) -> str:
    """What a tool answered, as text."""
    text = _plain(response)
    if text is not None:
        return told(text, _HEAD, _TAIL, hiding=hiding)
    kept = {name: value for name, value in response.items() if name not in _LEFT_OUT}
    trimmed = Trim(_INPUT_CHARS, hiding=hiding).value(kept)
    return cut(json.dumps(trimmed, ensure_ascii=False), _HEAD, _TAIL)


def _plain(response: Any) -> str | None:
    """The text of an answer that is one; None for an answer of several fields."""
    if isinstance(response, str):
        return response
    if isinstance(response, list):
        return "\n".join(text for item in response[:_SHORT] if (text := _plain(item)))
    if not isinstance(response, dict):
        return "" if response is None else str(response)
    if isinstance(response.get("stdout"), str):
        return "\n".join(text for name in ("stdout", "stderr") if isinstance(text := response.get(name), str) and text)
    for name in ("text", "content", "result", "output"):
        if isinstance(response.get(name), str | list):
            return _plain(response[name])
    return None
