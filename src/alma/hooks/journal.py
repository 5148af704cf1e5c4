"""The journal of a session: event lines, the file itself, the rules already shown, and waking the drain.

Each event becomes one JSON line with the fields that matter, shortened and without private passages and secrets. A line
is appended in a single write, so parallel hooks never tear it. The first line holds an id of the file, which tells it
apart from a later file of the same name. If a killed process left a line unfinished, the next writer closes it. Each
line after the first is sealed with a key of the data folder, so that a line that another program appended is known.
"""

from __future__ import annotations

import json
import os
import sys
import time

from ..processes import find_caller, is_headless_claude
from .paths import (
    DataDir,
    build_environment,
    compute_seal,
    create_key,
    describe_error,
    digest,
    log_problem,
    read_object,
    read_text,
    write_private,
)
from .privacy import Trimmer, cut_redacted, redact_and_cut
from .project import clean_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType
    from typing import Any

    from ..coding.events import Event
    from ..processes import Process

_STARTS = frozenset(("SessionStart", "UserPromptSubmit", "UserPromptExpansion"))
TOOL_EVENTS = frozenset(("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied"))
MACHINE_SOURCES = frozenset(("system", "loop_wakeup", "schedule_wakeup", "poll_event"))
_MACHINE_MADE = tuple(
    "<command-name> <command-message> <local-command-stdout> <local-command-caveat> <task-notification> "
    "<cross-session-message <system-reminder>".split()
)
OWN_COMMANDS = frozenset(("tag", "learn", "forget", "show", "dashboard"))
_PREFIXED_COMMANDS = OWN_COMMANDS | {"review", "edit", "restore"}
"""Commands that are ours with the plugin's prefix. Without it, some of the names belong to the host."""
_OWN = ("smart", "claude-smart")
"""The names that the plugin can have in a host."""
_INPUT_CHARS = 16_000
_ENTRY_CHARS = 60
_MOST_PARTS = 1000
# How many characters are kept of the start and of the end of a text.
_SHORT = (1000, 0)
_PROMPT = (24_000, 8000)
_REPLY = (4000, 12_000)
_OUTPUT = (1000, 3000)
_TOOL_MARKS = ("tool_name", "tool_use_id", "names_us")
"""What is kept of a tool call whose content is not recorded."""
_OWN_PROGRAMS = ("claude-smart", "claude_smart", "hook.py", "smart.py", "journal.key")
_TOOL: dict[str, tuple[int, int] | None] = {"tool_name": _SHORT, "host_tool": _SHORT, "tool_use_id": _SHORT}
# The fields stored for each event: texts with their lengths; None for a flag or a number.
_FIELDS: dict[str, dict[str, tuple[int, int] | None]] = {
    "SessionStart": dict.fromkeys(("source", "transcript_path", "parent"), _SHORT),
    "UserPromptSubmit": {"prompt": _PROMPT, "prompt_id": _SHORT, "source": _SHORT},
    "UserPromptExpansion": {"command_name": _SHORT, "command_args": _PROMPT, "prompt": _PROMPT, "prompt_id": _SHORT},
    "PreToolUse": _TOOL,
    "PostToolUse": _TOOL,
    "PostToolUseFailure": {**_TOOL, "error": _OUTPUT, "is_interrupt": None},
    "PermissionDenied": {**_TOOL, "reason": (3000, 1000)},
    "Stop": {"last_assistant_message": _REPLY, "stop_hook_active": None, "prompt_id": _SHORT},
    "SubagentStop": {"agent_id": _SHORT, "agent_type": _SHORT, "last_assistant_message": _REPLY},
    "PreCompact": {},
    "SessionEnd": {},
}
EVENTS = _FIELDS.keys()
# The fields of a tool's response that contain text.
_ANSWERS = ("stdout", "stderr", "error", "message", "text", "content", "result", "output")
_DEEPEST_ANSWER = 8
_WRITERS = frozenset(("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "edit", "write", "replace"))
"""Tools whose response repeats what the agent itself wrote."""
_MENTION_CHARS = 8000
_MOST_MENTIONS = 10
_MENTIONED_CHARS = 256 * 1024
_SILENT = frozenset(("stdout", "content", "output", "filePath", "file", "filenames"))
"""A response with one of these fields and no text counts as empty: a command without output, an image, or a file that a
tool read, wrote or listed. Redacting the file's JSON would take longer than everything else."""


class HookCall:
    """One call by the host: the event's name, its payload, and the fields that all events share."""

    __slots__ = ("_caller", "agent_id", "cwd", "entry", "host", "name", "payload", "session")

    def __init__(self, payload: Mapping[str, Any], name: str, host: str = "claude", entry: str | None = None) -> None:
        self.payload = payload
        self.name = name
        self.host = host
        self.entry = entry
        """How the host was started, if it is not Claude Code; None if the event does not show it."""
        self.session = self.text("session_id")
        self.cwd = clean_path(self.text("cwd"))
        self.agent_id = self.text("agent_id")
        self._caller: tuple[Process | None, float, list[Process]] | None = None

    def find_caller(self) -> tuple[Process | None, float, list[Process]]:
        """Return the program that brought the event, as `processes.find_caller` does, but read the processes once."""
        if self._caller is None:
            self._caller = find_caller()
        return self._caller

    def text(self, field: str) -> str:
        """Return a field of the payload; empty if it is missing or not a text."""
        value = self.payload.get(field)
        return value if isinstance(value, str) else ""

    @property
    def is_from_machine(self) -> bool:
        """Return whether the host or a tool wrote the prompt, not a person."""
        return self.text("source") in MACHINE_SOURCES or self.text("prompt").lstrip().startswith(_MACHINE_MADE)

    @property
    def own_command(self) -> str:
        """Return the name of our slash command that this call is; empty if it is not one."""
        name = ""
        if self.name == "UserPromptExpansion" and self.text("command_source") in ("", "plugin"):
            name = self.text("command_name").removeprefix("/")
        elif self.name == "UserPromptSubmit":
            name = _split_command(self.text("prompt"))[0]
        plugin, _, own = name.rpartition(":")
        ours = _PREFIXED_COMMANDS if plugin in _OWN else OWN_COMMANDS if not plugin else frozenset()
        return own if own in ours else ""


def _split_command(prompt: str) -> tuple[str, str]:
    """Return the name and the arguments of a slash command; both empty if the prompt is not one."""
    text = prompt.strip()
    if not text.startswith("/") or not text[1:2].strip():
        return "", ""
    name, *rest = text[1:].split(None, 1)
    return name, rest[0] if rest else ""


def expand_own_command(call: HookCall) -> HookCall:
    """Return a prompt that is one of our slash commands as a UserPromptExpansion; any other call unchanged."""
    if call.name != "UserPromptSubmit" or not call.own_command:
        return call
    name, arguments = _split_command(call.text("prompt"))
    if ":" not in name:
        # A command file of the person's own with that name takes precedence.
        own = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
        project = os.environ.get("CLAUDE_PROJECT_DIR", "")
        folders = (own, *(os.path.join(folder, ".claude") for folder in (call.cwd, project) if folder))
        if any(os.path.isfile(os.path.join(folder, "commands", f"{name}.md")) for folder in folders):
            return call
    payload = {**call.payload, "command_name": name, "command_args": arguments}
    return HookCall(payload, "UserPromptExpansion", call.host, call.entry)


def build_line(
    call: HookCall,
    project: str,
    now: float,
    *,
    is_ignored: bool = False,
    is_attended: bool = False,
    origin: str = "",
    mentioned: str = "",
) -> dict[str, Any]:
    """Return the journal line for an event. With `is_ignored`, only the tool's name and call id are stored.

    With `is_attended`, the session of a program counts as a person's. `origin` says which program brought the event,
    and `mentioned` has the prints of the files that the host adds to a prompt.
    """
    data = _read_data(call)
    if mentioned:
        data["prints"] = mentioned
    if is_ignored:
        data = {name: data[name] for name in _TOOL_MARKS if name in data} | {"ignored": True}
    return {
        "v": 1,
        "id": _make_id(call, data),
        "at": now,
        "event": call.name,
        "session": call.session,
        "host": call.host,
        "project": project,
        "cwd": redact_and_cut(call.cwd, *_SHORT),
        "agent_id": redact_and_cut(call.agent_id, *_SHORT),
        **read_entry_point(call),
        **({"attended": True} if is_attended else {}),
        **({"origin": origin} if origin else {}),
        "data": data,
    }


def read_entry_point(call: HookCall | None = None) -> dict[str, Any]:
    """Return how the host was started. It tells a person's session from a program's; the drain cannot see it itself.

    A repository may set the variables of Claude Code, so its command line takes precedence over them.
    """
    entry = os.environ.get("CLAUDE_CODE_ENTRYPOINT", "")
    if call is not None and call.host != "claude":
        if call.entry is None:
            return {}
        entry = call.entry
    elif sys.platform != "linux" and call is not None and call.name not in _STARTS:
        # Reading the processes takes too long there to do it for each event. What the others recorded holds.
        return {}
    elif os.environ.get("CLAUDE_CODE_SESSION_ATTENDED") == "0" or _is_headless(call):
        entry = entry if entry.startswith("sdk") else "headless"
    # A repository may set the variable, so it only takes away: the setting `programs` is what lets programs teach.
    is_declined = os.environ.get("CLAUDE_SMART_ATTENDED") == "0"
    return {"entry": "headless" if is_declined else entry[:_ENTRY_CHARS]}


def _is_headless(call: HookCall | None) -> bool:
    return is_headless_claude(call.find_caller()[0] if call is not None else find_caller()[0])


def _make_id(call: HookCall, data: Mapping[str, Any]) -> str:
    """Return an id that is the same when the host reports an event twice; a random one if the host gives no id."""
    field = "tool_use_id" if call.name in TOOL_EVENTS else "agent_id" if call.name == "SubagentStop" else "prompt_id"
    host_id = call.text(field)
    if not host_id and call.host != "claude" and "timestamp" in call.payload:
        # Two copies of the hook get the same time for an event, for example from the plugin and a project's settings.
        host_id = f"{call.payload['timestamp']} {json.dumps(data)}"
    if not host_id or call.name in ("SessionStart", "SessionEnd", "PreCompact"):
        return os.urandom(16).hex()
    # The text is part of the id: another plugin's Stop hook can make the agent answer a prompt several times, and text
    # typed or generated while the agent works carries the id of the prompt it works on.
    text = str(data.get("last_assistant_message") or data.get("prompt") or "")
    return digest(call.session, call.name, host_id, text)


def _read_data(call: HookCall) -> dict[str, Any]:
    """Return the fields of an event that are stored. A field of an unexpected type is left out."""
    data: dict[str, Any] = {}
    for field, most in _FIELDS[call.name].items():
        value = call.payload.get(field)
        if most is None and isinstance(value, bool | int | float):
            data[field] = value
        elif most is not None and isinstance(value, str):
            data[field] = redact_and_cut(value, *most)
    if call.name in TOOL_EVENTS:
        data["tool_input"] = Trimmer(_INPUT_CHARS).trim(call.payload.get("tool_input", {}))
        # Before the command is cut and redacted.
        if call.name == "PreToolUse" and names_own_program(call.payload.get("tool_input")):
            data["names_us"] = True
    if prints := _print_cut_text(call, data):
        data["prints"] = prints
    if call.name == "PostToolUse":
        response = call.payload.get("tool_response")
        data["output"] = _read_output(response)
        if prints := _print_outside_text(call, response, data["output"]):
            data["prints"] = prints
        if (exit_code := _find_exit_code(response)) is not None:
            data["exit_code"] = exit_code
        for name, field in (("interrupted", "interrupted"), ("user_modified", "userModified")):
            if isinstance(response, dict) and isinstance(response.get(field), bool):
                data[name] = response[field]
    # A command of the person's own with the same name as one of ours.
    if (call.name == "UserPromptSubmit" and call.own_command) or (
        call.name == "UserPromptExpansion" and call.text("command_name") in OWN_COMMANDS and not call.own_command
    ):
        data["source"] = "command"
    elif call.name == "UserPromptSubmit" and call.is_from_machine:
        data["source"] = data.get("source") or "system"
    return data


def cut_prompt(text: str) -> str:
    """Return a prompt as a journal stores it: shortened and without secrets."""
    return redact_and_cut(text, *_PROMPT)


def names_own_program(arguments: Any) -> bool:
    """Return whether the arguments of a shell tool name a program, a folder or a file of ours.

    The command that hands in notes does not count; it does nothing else.
    """
    names = ("command", "cmd", "commands", "script")
    values = [arguments.get(name) for name in names] if isinstance(arguments, dict) else [arguments]
    command = next(filter(None, values), None)
    if not command or not isinstance(command, str | list):
        return False
    text = command if isinstance(command, str) else " ".join(map(str, command))
    if any(name in text for name in _OWN_PROGRAMS):
        from ..hand_ins import is_hand_in

        return not (isinstance(command, str) and is_hand_in(command))
    # A folder may be called `alma` too; a program is the last part of a path, or a module.
    words = "".join(char if char not in "\"'`();|&<>=" else " " for char in text).split() if "alma" in text else ()
    return any(f"{word.rpartition('/')[2]}.".startswith("alma.") for word in words)


def _read_output(response: Any) -> str:
    """Return the text of a tool's response, or its JSON if the text is in unknown fields."""
    text = _join_texts(response)
    if text or not isinstance(response, dict) or not _SILENT.isdisjoint(response):
        return redact_and_cut(text, *_OUTPUT)
    return cut_redacted(json.dumps(Trimmer(_INPUT_CHARS).trim(response), ensure_ascii=False), *_OUTPUT)


def _print_outside_text(call: HookCall, response: Any, stored: str) -> str:
    """Return the prints of what a tool brought in; empty if the stored output shows all of it."""
    if call.text("tool_name") in _WRITERS:
        return ""
    file = response.get("file") if isinstance(response, dict) else None
    text = file.get("content") if isinstance(file, dict) else None
    if not isinstance(text, str):
        text = _join_texts(response)
        if text == stored:
            return ""
    arguments = call.payload.get("tool_input")
    known = arguments if isinstance(arguments, dict) else {}
    return str(_load_prints().print_result(call.text("tool_name"), known, text, call.cwd))


def _load_prints() -> ModuleType:
    # Most calls have nothing to print.
    from .. import word_prints

    return word_prints


def _print_cut_text(call: HookCall, data: Mapping[str, Any]) -> str:
    """Return the prints of an error or of another agent's message that is too long to be stored whole."""
    name = {"PostToolUseFailure": "error", "SubagentStop": "last_assistant_message"}.get(call.name, "")
    text = call.text(name) if name else ""
    if len(text) <= len(str(data.get(name, ""))):
        return ""
    return str(_load_prints().print_text(text))


def print_mentioned_files(call: HookCall, is_ignored: Callable[[str], bool]) -> str:
    """Return the prints of the files that a prompt mentions as `@path`: the host shows them to the agent."""
    prompt = call.text("prompt")
    if call.name != "UserPromptSubmit" or "@" not in prompt:
        return ""
    prompt = prompt[:_MENTION_CHARS]
    names = [part.partition('"')[0] for part in prompt.split('@"')[1:]]
    names += [word[1:].rstrip(".,;:!?)").partition("#")[0] for word in prompt.split() if word.startswith("@")]
    texts = []
    for name in names[:_MOST_MENTIONS]:
        path = os.path.join(call.cwd, os.path.expanduser(name))
        try:
            if os.path.isfile(path) and not is_ignored(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts.append(file.read(_MENTIONED_CHARS))
        except (OSError, ValueError):
            continue
    if not texts:
        return ""
    return str(_load_prints().print_text("\n".join(texts)))


def _find_exit_code(response: Any) -> int | None:
    """Return the exit code in the response of a shell tool; None if there is none."""
    metadata = response.get("metadata") if isinstance(response, dict) else None
    for values in (response, metadata):
        for name in ("exitCode", "exit_code"):
            if isinstance(values, dict) and type(values.get(name)) is int:
                return int(values[name])
    return None


def _join_texts(response: Any, depth: int = 0) -> str:
    if isinstance(response, dict):
        response = [part for name in _ANSWERS if isinstance(part := response.get(name), str | list | dict)]
    if not isinstance(response, list):
        return "" if response is None else str(response)
    parts = response[:_MOST_PARTS] if depth < _DEEPEST_ANSWER else ()
    return "\n".join(text for part in parts if (text := _join_texts(part, depth + 1)))


# -- the file

MB = 1_000_000
ALWAYS_TAKEN = frozenset("SessionStart UserPromptSubmit UserPromptExpansion Stop SessionEnd Shown Rejected".split())
"""A journal over its quota still accepts these events: what people said and which rules were shown."""
CLEARED_SECONDS = 60.0
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_MOST_PARENTS = 5


def append_line(data_dir: DataDir, session: str, line: Mapping[str, Any], quota_mb: int = 8) -> None:
    """Append an event to a journal. Raise OSError if the line cannot be written completely."""
    data_dir.create_folders()
    file = _open_journal(data_dir.journal_file(session), session)
    try:
        size, quota = os.lseek(file, 0, os.SEEK_END), quota_mb * MB
        if size > quota and line["event"] not in ALWAYS_TAKEN:
            if line["event"] not in TOOL_EVENTS:
                return
            # When commands ran is still recorded: what arrives meanwhile may be an agent's.
            data = line.get("data", {})
            line = {**line, "data": {name: data[name] for name in _TOOL_MARKS if name in data}}
        key = create_key(data_dir)
        if not size:
            # Only where files cannot be linked. If two processes find it empty, the first header counts.
            header = _build_header(session)
            data = header + _seal(_encode(line), key, _find_file_id(header))
        else:
            os.lseek(file, 0, os.SEEK_SET)
            data = _seal(_encode(line), key, _find_file_id(os.read(file, _HEADER_BYTES)))
        os.lseek(file, max(size - 1, 0), os.SEEK_SET)
        last = os.read(file, 1)
        if last and last != b"\n":
            # The writer was killed, or is about to end the line itself, which leaves a harmless empty line.
            data = b"\n" + data
        byte_count = os.write(file, data)
        if byte_count != len(data):
            raise OSError(f"wrote only {byte_count} of {len(data)} bytes; check the free disk space")
        if size <= quota < size + len(data):
            problem = f"the journal of session {session[:100]} exceeds {quota_mb} MB; tool calls are no longer recorded"
            log_problem(data_dir, str(line["event"]), problem)
    finally:
        os.close(file)


def _open_journal(path: str, session: str) -> int:
    """Open a journal to append to it. A new one has its header from the start, whoever else creates it."""
    try:
        return os.open(path, _FLAGS & ~os.O_CREAT)
    except FileNotFoundError:
        pass
    started = f"{path}.{os.urandom(8).hex()}"
    file = os.open(started, _FLAGS | os.O_EXCL, 0o600)
    try:
        os.write(file, _build_header(session))
        os.link(started, path)
    except OSError:
        # Another hook was faster, or files cannot be linked here.
        pass
    finally:
        os.close(file)
        os.unlink(started)
    return os.open(path, _FLAGS, 0o600)


def _build_header(session: str) -> bytes:
    return _encode({"v": 1, "id": os.urandom(16).hex(), "event": "Journal", "at": time.time(), "session": session})


def append_event(data_dir: DataDir, session: str, event: Event, project: str, origin: str) -> None:
    """Append an event that no hook reported, such as one from a transcript. `origin` says where it was read."""
    line = {"v": 1, "id": event.id, "at": event.at, "event": event.name, "session": session, "project": project}
    data = Trimmer(32_000).trim(dict(event.data))
    append_line(data_dir, session, {**line, "agent_id": event.agent_id, "origin": origin, "data": data})


_SEAL = b',"seal":"'
_HEADER_BYTES = 4096


def _seal(line: bytes, key: bytes, file_id: bytes) -> bytes:
    """Return a line with its seal, which also covers the file that it is in."""
    return line[:-2] + _SEAL + compute_seal(key, file_id, line[:-2]).encode() + b'"}\n' if key else line


def is_sealed(line: bytes, key: bytes, file_id: str) -> bool:
    """Return whether a line of a journal has the seal of this key and file."""
    body, _, end = line.rstrip().rpartition(_SEAL)
    return bool(key and body) and end == compute_seal(key, file_id.encode(), body).encode() + b'"}'


def _find_file_id(start: bytes) -> bytes:
    """Return the id in the first line of a journal."""
    return start.partition(b'"id":"')[2].partition(b'"')[0]


def _encode(line: Mapping[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


# -- sessions that continue others


def list_parents(data_dir: DataDir, session: str) -> list[str]:
    """Return the sessions that this one continues, nearest first. Clearing the context starts a new session."""
    parents: list[str] = []
    while len(parents) < _MOST_PARENTS:
        # One of the first lines of a journal names the parent.
        session = next(
            filter(None, map(_read_parent, read_text(data_dir.journal_file(session)).split("\n", 4)[:4])), ""
        )
        if not session or session in parents:
            break
        parents.append(session)
    return parents


def _read_parent(line: str) -> str:
    try:
        return str(json.loads(line)["data"]["parent"]) if '"parent"' in line else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def remember_cleared(data_dir: DataDir, cwd: str, session: str) -> None:
    """Record that a context was cleared. The host then starts another session in the same folder at once."""
    cleared = _read_cleared(data_dir) | {cwd: {"session": session, "at": time.time()}}
    data_dir.create_folders()
    write_private(data_dir.cleared, json.dumps(cleared).encode())


def find_cleared(data_dir: DataDir, cwd: str, session: str) -> str:
    """Return the session that was cleared in this folder a moment ago; empty if there is none."""
    cleared = str(_read_cleared(data_dir).get(cwd, {}).get("session", ""))
    return cleared if cleared != session else ""


def _read_cleared(data_dir: DataDir) -> dict[str, dict[str, Any]]:
    """Return the recently cleared sessions by folder. Malformed entries are skipped."""
    fresh, now = {}, time.time()
    for folder, entry in read_object(data_dir.cleared).items():
        at = entry.get("at") if isinstance(entry, dict) else None
        is_fresh = isinstance(at, int | float) and now - CLEARED_SECONDS <= at <= now
        if is_fresh and isinstance(entry.get("session"), str):
            fresh[folder] = entry
    return fresh


# -- rules that a context already contains: one id per line, followed by the agent id for a subagent, which has its own
# context. An exclamation mark after the id: the rule was repeated at a tool call because it was violated before.


def read_shown(data_dir: DataDir, session: str, agent: str = "") -> set[str]:
    """Return the ids of the rules that the context of a session, or of one of its subagents, already contains."""
    parts = (line.partition(" ") for line in read_text(data_dir.shown_file(session)).split("\n") if line)
    return {id for id, _, shown_to in parts if shown_to == agent}


def write_shown(data_dir: DataDir, session: str, ids: Iterable[str], agent: str = "", *, is_new: bool = False) -> None:
    """Add rules to those that a context contains. With `is_new`, the context contains only these."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | (os.O_TRUNC if is_new else os.O_APPEND)
    file = os.open(data_dir.shown_file(session), flags, 0o600)
    try:
        os.write(file, "".join(f"{id} {agent}".rstrip() + "\n" for id in ids).encode("utf-8", "replace"))
    finally:
        os.close(file)


# -- waking the drain, and asking the worker
#
# Why no wake-up is lost: a wake-up is a file, `wanted`, created after the hook's line is in its journal. A drain first
# removes the file and then reads all journals. Only one process can remove the file, and that process must drain
# everything: it starts after the removal, checks again afterwards, and puts the file back while it waits for another
# drain. So while the file exists, nothing has been missed; once it is gone, a drain that will read the line has begun.
# A fresh file needs no action: its creator has notified the worker or started one. An older file was left by a killed
# process and is handled again. A drain that is killed leaves its journals unchanged; the next wake-up, or the worker's
# own round, imports them.
#
# The worker uses JSON lines over a unix socket in the data folder. `multiprocessing.connection` would do the same, but
# takes longer to load than a whole hook.

FRESH_SECONDS = 5.0
"""Longer than a worker takes to start."""
STALE_SECONDS = 60.0
"""Longer than a healthy worker takes to handle a wake-up, unless it is draining."""
_TELL_SECONDS = 0.05
_WORKER = os.path.join("alma", "hooks", "worker.py")


def wake_drain(data_dir: DataDir, reason: str) -> None:
    """Request a drain and make sure that a process handles it soon. Does not wait for it."""
    try:
        is_leaving = reason == "SessionEnd" and os.environ.get("CLAUDE_SMART_BACKEND_STOP_ON_END") == "1"
        if is_leaving:
            # The worker handles a pending request before it stops. A later request gets a process of its own.
            ask_worker(data_dir, {"op": "stop"}, _TELL_SECONDS)
        age = request_drain(data_dir)
        if 0 <= age < FRESH_SECONDS:
            return
        python, script = find_runtime(data_dir)
        is_stale = age >= STALE_SECONDS
        if not is_stale and not is_leaving and notify_worker(data_dir, script):
            return
        if os.path.exists(request_file(data_dir)):
            os.utime(request_file(data_dir))
        is_alone = is_leaving or is_stale or os.environ.get("CLAUDE_SMART_BACKEND_AUTOSTART", "1") == "0"
        options = ["--once", "--if-wanted"] if is_alone else []
        folders = ["--home", data_dir.home, "--sessions", data_dir.sessions]
        _start_process([python, "-I", script, *folders, *options], build_environment(data_dir))
    except Exception as error:  # noqa: BLE001 - a hook goes on whatever happens here
        log_problem(data_dir, reason, f"cannot start a drain: {describe_error(error)}")


# -- the wake-up itself


def request_file(data_dir: DataDir) -> str:
    """Return the path of the file that requests a drain."""
    return os.path.join(data_dir.sessions, "wanted")


def request_drain(data_dir: DataDir) -> float:
    """Request a drain. Return the age of the pending request in seconds; -1 if there was none."""
    while True:
        try:
            data_dir.create_folders()
            os.close(os.open(request_file(data_dir), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return -1.0
        except FileExistsError:
            try:
                age = time.time() - os.stat(request_file(data_dir)).st_mtime
            except FileNotFoundError:
                # Just removed, perhaps by a drain that read our journal before our line was in it.
                continue
            # The clock was set back, so the age is unknown.
            return age if age >= 0 else FRESH_SECONDS


def claim_drain(data_dir: DataDir) -> bool:
    """Remove the request and take over the duty to drain. Return False if there is no request."""
    try:
        os.unlink(request_file(data_dir))
    except (FileNotFoundError, PermissionError):
        # Windows refuses while another process has the file open. The request is then still there next time.
        return False
    return True


def is_drain_requested(data_dir: DataDir) -> bool:
    """Return whether a drain request is pending."""
    return os.path.exists(request_file(data_dir))


# -- starting


def find_runtime(data_dir: DataDir) -> tuple[str, str]:
    """Return the interpreter and the script for a worker: the installed ones, otherwise our own."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = read_object(data_dir.runtime)
    python, folder = installed.get("python"), installed.get("path")
    if not isinstance(python, str) or not os.path.isfile(python):
        python = sys.executable
    script = os.path.join(folder, _WORKER) if isinstance(folder, str) and folder else ""
    return python, script if os.path.isfile(script) else os.path.join(own, _WORKER)


def _start_process(command: list[str], environ: Mapping[str, str]) -> None:
    """Start a process that inherits no open files: the host waits until every copy of a hook's output is closed."""
    if os.name == "nt":
        import subprocess

        # A hidden console instead of none: the interpreter of a virtual environment starts another one, which would
        # open a visible console.
        flags: int = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        own_job: int = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            subprocess.Popen(command, **pipes, env=environ, creationflags=flags | own_job)
        except PermissionError:
            # Some hosts do not let a child process leave their job.
            subprocess.Popen(command, **pipes, env=environ, creationflags=flags)
        return
    modes = ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY))
    actions: Any = [(os.POSIX_SPAWN_OPEN, file, os.devnull, mode, 0) for file, mode in modes]
    # In its own process session from the start: a host that exits may signal our process group at once.
    try:
        os.posix_spawn(command[0], command, environ, file_actions=actions, setsid=True)
    except NotImplementedError:
        # The worker then leaves our process session itself.
        os.posix_spawn(command[0], command, environ, file_actions=actions)


# -- talking to the worker


def notify_worker(data_dir: DataDir, script: str) -> bool:
    """Send the worker a wake-up. Return False if there is no worker to accept it."""
    # A worker for another journal folder never sees our request file.
    is_ours = read_object(data_dir.worker).get("sessions", data_dir.sessions) == data_dir.sessions
    request = {"op": "drain", "code": script}
    return is_ours and ask_worker(data_dir, request, _TELL_SECONDS, waits=False) is not None


def ask_worker(
    data_dir: DataDir, request: Mapping[str, Any], timeout: float, *, waits: bool = True
) -> dict[str, Any] | None:
    """Return the worker's answer; None if there is no worker or no answer in time. Without `waits`, an empty answer."""
    address = read_object(data_dir.worker).get("address")
    if not isinstance(address, str):
        return None
    # The C module below `socket`, which takes longer to load than all the work done here.
    import _socket

    deadline = time.monotonic() + timeout
    answer = b""
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            while waits and not answer.endswith(b"\n"):
                # The time is up or the worker has gone: no answer.
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = connection.recv(65536)
                if not piece or time.monotonic() > deadline:
                    return None
                answer += piece
        finally:
            connection.close()
        value = json.loads(answer) if waits else {}
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
