"""Parse a session's journal into events, and extract the user's own words from prompts.

A hook may be killed in the middle of a line, and a disk may be full. Lines that cannot be parsed are therefore counted
and skipped, and a last line without a newline is left for the next reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from ..engine.admit import clean
from ..text import replace_surrogates

_LAST_MOMENT = 253_402_300_799.0  # the end of the year 9999, the last that a datetime can represent
# These bytes cannot occur inside a JSON string. If they do, a complete line follows a torn one.
_START = b'{"v":'
_INTERACTIVE = frozenset(("cli", "claude-desktop", "claude-vscode", "vscode", "jetbrains", "cursor", "windsurf", "zed"))
"""The entry points at which a person types. Only exact names count; `n8n-cli` is not one of them."""
_PROGRAMS = frozenset(("sdk", "mcp", "action", "headless", "ci", "agent", "print"))
"""Parts of the names of entry points that programs use: `sdk-cli` (`claude -p`), `sdk-py`, `sdk-ts`."""


class Attendance(StrEnum):
    """Who drives a session. Only a person's words become rules; those of an unknown driver become candidates."""

    PERSON = "person"
    UNKNOWN = "unknown"
    PROGRAM = "program"


def find_attendance(entry: str, *, declared: bool = False) -> Attendance:
    """Return who drives a session, by the host's CLAUDE_CODE_ENTRYPOINT; `declared` is CLAUDE_SMART_ATTENDED=1."""
    if declared:
        return Attendance.PERSON
    if _PROGRAMS.intersection(entry.lower().replace("_", "-").split("-")):
        return Attendance.PROGRAM
    return Attendance.PERSON if entry in _INTERACTIVE else Attendance.UNKNOWN


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a session. `offset` is the position in the journal just after its line."""

    id: str
    name: str
    at: float
    session: str = ""
    project: str = ""
    agent_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    offset: int = 0
    attendance: Attendance | None = None
    """Who drove the session; None if the event does not record it."""
    host: str = ""
    """The coding agent; empty if the event does not record it."""
    origin: str = ""
    """Which program brought it; empty if the event does not record it."""
    is_sealed: bool = False
    """Whether our own code wrote the line."""
    doubt: str = ""
    """Why what it says is not known to be a person's; empty if nothing is known against it."""
    folder: str = ""
    """Where the agent was; empty if the event does not record it."""

    def text(self, name: str) -> str:
        """Return a field of the data; empty if it is missing or not a text."""
        return get_text(self.data, name)

    @property
    def tool_input(self) -> dict[str, Any]:
        """Return the arguments of the tool call; empty if there are none."""
        return get_dict(self.data, "tool_input")


def parse_journal(
    journal: bytes, is_sealed: Callable[[bytes, str], bool] | None = None
) -> tuple[list[Event], list[int]]:
    """Return the events in order, deduplicated by id (the first one wins), and the numbers of damaged lines.

    `is_sealed` tells whether our own code wrote a line into the file with an id; without it, no event is sealed.
    """
    events: dict[str, Event] = {}
    damaged: list[int] = []
    files: list[str] = []
    offset = 0
    for number, line in enumerate(journal.split(b"\n")[:-1], start=1):
        offset += len(line) + 1
        event = _parse_event(line, offset)
        if event is None and line.strip():
            damaged.append(number)
            # A complete line may follow a torn one.
            line = line[max(line.rfind(_START), 0) :]
            event = _parse_event(line, offset)
        if event is None or event.id in events:
            continue
        if event.name == "Journal":
            # Two processes may have begun the file at once.
            files.append(event.id)
        elif is_sealed is not None:
            event = replace(event, is_sealed=any(is_sealed(line, file) for file in files))
        events[event.id] = event
    return list(events.values()), damaged


def _parse_event(line: bytes, offset: int) -> Event | None:
    fields = parse_line(line)
    at, data = fields.get("at", -1), fields.get("data", {})
    keys = ("event", "id", "session", "project", "agent_id", "entry", "host", "origin", "cwd")
    name, id, session, project, agent, entry, host, origin, folder = (get_text(fields, key) for key in keys)
    if fields.get("v") != 1 or not name or not id or not is_moment(at) or not isinstance(data, dict):
        return None
    attendance = None
    if not fields.keys().isdisjoint(("entry", "attended")):
        attendance = find_attendance(entry, declared=fields.get("attended") is True)
    place = (session, project, agent, data, offset, attendance, host, origin)
    return Event(id, name, float(at), *place, folder=folder)


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line; empty if there is none. Lone surrogates are replaced; no store accepts them."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return as_dict(replace_surrogates(value) if b"\\ud" in line.lower() else value)


def is_moment(value: Any) -> bool:
    """Return whether a value is a timestamp in seconds that a datetime can represent."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MOMENT


def get_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is a non-blank text; empty if there is none."""
    return next((value for name in names if isinstance(value := values.get(name), str) and value.strip()), "")


def as_dict(value: object) -> dict[str, Any]:
    """Return a value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a value if it is a list, otherwise an empty list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def get_dict(values: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the object at a path of members; empty if there is none."""
    for name in path:
        values = as_dict(values.get(name))
    return as_dict(values)


def get_dicts(values: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """Return the objects in the first of these members that contains any."""
    return next((dicts for name in names if (dicts := as_dicts(values.get(name)))), [])


def list_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from list_texts(one)


# -- prompts: who wrote them, and which words in them are the person's own

_PERSONS = frozenset({"", "user", "sdk", "typed", "queued", "suggestion_accepted"})
"""Sources of prompts that a person wrote. A host that gives no source means a person."""

_MACHINE = re.compile(
    r"""\s*(?:
    </?(?:command-name|command-message|command-args|command-contents|local-command-[a-z]+|bash-input|bash-stdout
        |bash-stderr|user-memory-input|task-notification|cross-session-message|teammate-message|agent-message
        |channel|mcp-resource-update|mcp-polling-update|fork-boilerplate|session-start-hook|user-prompt-submit-hook
        |persisted-output|tool_use_error|new-diagnostics)[\s>/]
    |\[Request\ interrupted
    |\[Tool\ call\ |\[Agent\ call\ |\[SYSTEM\ NOTIFICATION
    |\[Your\ previous\ response\ |Your\ response\ (?:above\ )?was\ (?:cut\ off|stopped)
    |Output\ token\ limit\ hit
    |Caveat:\ The\ messages\ below\ were\ generated\ by\ the\ user\ while\ running\ local\ commands
    |This\ session\ is\ being\ continued\ from\ a\ previous\ conversation
    |(?:Another\ Claude|A\ peer)\ session\ sent\ a\ message
    |A\ message\ arrived\ from\ .*\n<
    |(?:Stop|TeammateIdle|TaskCreated|TaskCompleted)\ hook\ feedback:
    |Stop\ hook\ (?:blocking\ error|feedback)
    |PreToolUse:\S*\ hook\ |PostToolUse:\S*\ hook\ |API\ Error:
    |Async\ agent\ (?:launched|completed)
    )""",
    re.VERBOSE,
)
_BLOCKS = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|post-tool-use-hook)\b[^>]{0,300}>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
_WRAPPED = re.compile(r"\s*The user sent a new message while you were working:\n")
_AFTER_WRAPPED = re.compile(r"\n[ \t]*(?:IMPORTANT: After completing|This is how Claude Code surfaces messages)")

_ATTACHED = re.compile(
    r"""\[Image(?::|\ \#\d+)[^\]]{0,300}\]|\[Image\]|\[(?:\.\.\.)?(?:Pasted|Truncated)\ text\ \#\d+[^\]]{0,300}\]
    |```.*?(?:```|\Z)|(?<!\S)@(?:"[^"\n]+"|\S+)""",
    re.VERBOSE | re.DOTALL,
)
_LONE_PATH = re.compile(
    r"""['"]?(?:[A-Za-z]:\\|~?/|\.{1,2}/|[\w.-]+[/\\])\S*['"]?|\S+\.(?:png|jpe?g|gif|webp|pdf)""", re.I
)
_LETTER = re.compile(r"[^\W\d_]")

_COMMAND = re.compile(r"/([A-Za-z][\w.-]*(?::[\w.-]+)*)(?:\s+(.*))?\Z", re.DOTALL)
_OURS = ("smart", "claude-smart")
"""The names of the plugin in a host."""
_OUR_COMMANDS = frozenset({"tag", "learn", "show", "forget", "dashboard"})
"""Commands that are ours even without the plugin's prefix."""
_HOST_COMMANDS = frozenset(
    """add-dir agents bashes branch bug chrome clear compact config context continue copy cost desktop
    diff doctor effort exit export extra-usage fast feedback focus fork heapdump help hooks ide install-github-app
    install-slack-app keybindings login logout mcp memory mobile model new output-style passes permissions
    plugin plugins pr-comments privacy-settings quit recap release-notes reload-plugins remote-control remote-env
    rename reset resume rewind sandbox settings skills stats status statusline stickers tasks
    team-onboarding teleport terminal-setup theme todos tui undo upgrade usage vim voice
    web-setup""".split()
)
_LEAST_WORDS = 3
"""After another slash command, this many words or more may state a preference."""

_TAGS = re.compile(r"<command-(name|args)>(.*?)</command-\1>", re.DOTALL)


class SlashCommand(NamedTuple):
    """A slash command as a person typed it. `name` has no plugin prefix if the plugin is ours."""

    name: str
    words: str
    is_ours: bool

    @property
    def is_worth_keeping(self) -> bool:
        """Return whether to store it as a turn: it has words, and is neither ours nor the host's."""
        return bool(self.words) and not self.is_ours and self.name not in _HOST_COMMANDS

    @property
    def is_worth_hearing(self) -> bool:
        """Return whether its words may state a preference: more than a number or a name."""
        return self.is_worth_keeping and len(self.words.split()) >= _LEAST_WORDS


def extract_spoken(prompt: str, source: str = "") -> str:
    """Return the part of a prompt that a person wrote; empty if the host generated it."""
    if source not in _PERSONS:
        return ""
    if wrapped := _WRAPPED.match(prompt):
        prompt = _AFTER_WRAPPED.split(prompt[wrapped.end() :], maxsplit=1)[0]
    if _MACHINE.match(prompt):
        return ""
    left = _BLOCKS.sub("", prompt).strip()
    return "" if _MACHINE.match(left) else left


def has_content(words: str) -> bool:
    """Return whether a text is more than an image, a pasted file or a file name."""
    left = _ATTACHED.sub(" ", words).strip()
    return bool(_LETTER.search(left)) and not _LONE_PATH.fullmatch(left)


def parse_command(words: str) -> SlashCommand | None:
    """Return the slash command in a text; None if it is not one. A path is not a command."""
    match = _COMMAND.match(words)
    if not match:
        return None
    plugin, _, name = match[1].lower().rpartition(":")
    is_ours = plugin in _OURS or (not plugin and name in _OUR_COMMANDS)
    return SlashCommand(name if is_ours else match[1].lower(), (match[2] or "").strip(), is_ours)


def extract_note(arguments: str) -> str:
    """Return the note after one of our commands; empty if there are only options. `-- ` ends the options."""
    text = arguments.strip()
    if text == "--" or text.startswith("-- "):
        return text[2:].strip()
    return text if any(not word.startswith("-") for word in text.split()) else ""


def restore_typed(text: str) -> str:
    """Return the typed form of a command that the host recorded as `<command-name>/x</command-name>…`; otherwise ''."""
    parts = dict(_TAGS.findall(text)) if text.lstrip().startswith("<command-") else {}
    name = parts.get("name", "").strip()
    return f"/{name.lstrip('/')} {parts.get('args', '').strip()}".strip() if name else ""


def cut_text(text: str, most: int, tail: float = 0.5) -> str:
    """Return the start and the end of a long text in `most` characters; `tail` is the share of the end.

    Secrets are removed before the cut, because half a secret would not be recognised later.
    """
    if len(text) <= most or len(text := str(clean(text))) <= most:
        return text
    room = max(most - 3, 0)
    end = int(room * tail)
    return f"{text[: room - end]} … {text[len(text) - end :]}"[:most]
