"""A session's journal as events: what the hooks wrote, line by line, whatever became of the file since.

A hook may be killed in the middle of a line and a disk may be full, so a line that cannot be read is counted and
skipped, and a last line without its newline belongs to the next reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..text import replace_surrogates

_LAST_MOMENT = 253_402_300_799.0  # the end of the year 9999: what a datetime can hold
# Unescaped, this cannot stand inside a JSON string: where it does, a whole line follows a torn one.
_START = b'{"v":'
_INTERACTIVE = frozenset(("cli", "claude-desktop", "claude-vscode", "vscode", "jetbrains", "cursor", "windsurf", "zed"))
"""The entry points at which a person types. Only these very names: `n8n-cli` is none of them."""
_PROGRAMS = frozenset(("sdk", "mcp", "action", "headless", "ci", "agent", "print"))
"""Parts of the names of entry points that a program uses: `sdk-cli` (`claude -p`), `sdk-py`, `sdk-ts`."""


class Attendance(StrEnum):
    """Who drives a session. Only a person's words make rules; those of an unknown driver wait for a person."""

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
    """One thing that happened in a session; `offset` is the byte just after its line."""

    id: str
    name: str
    at: float
    session: str = ""
    project: str = ""
    cwd: str = ""
    agent_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    offset: int = 0
    attendance: Attendance | None = None
    """Who drove the session; None where the event does not say."""

    def text(self, name: str) -> str:
        """Return a field of the data; empty when it is missing or no text."""
        return get_text(self.data, name)

    @property
    def tool_input(self) -> dict[str, Any]:
        return get_dict(self.data, "tool_input")


def parse_journal(journal: bytes, offset: int = 0) -> tuple[list[Event], list[int]]:
    """Return the events in order, each id once (the first counts), and the numbers of the damaged lines.

    `offset` is where in its file the journal begins.
    """
    events: dict[str, Event] = {}
    damaged: list[int] = []
    for number, line in enumerate(journal.split(b"\n")[:-1], start=1):
        offset += len(line) + 1
        event = _parse_event(line, offset)
        if event is None and line.strip():
            damaged.append(number)
            # A torn line may be followed by a whole one.
            event = _parse_event(line[max(line.rfind(_START), 0) :], offset)
        if event is not None:
            events.setdefault(event.id, event)
    return list(events.values()), damaged


def _parse_event(line: bytes, offset: int) -> Event | None:
    fields = parse_line(line)
    at, data = fields.get("at", -1), fields.get("data", {})
    name, id, session, project, cwd, agent, entry = (
        get_text(fields, key) for key in ("event", "id", "session", "project", "cwd", "agent_id", "entry")
    )
    if fields.get("v") != 1 or not name or not id or not is_moment(at) or not isinstance(data, dict):
        return None
    attendance = None
    if not fields.keys().isdisjoint(("entry", "attended")):
        attendance = find_attendance(entry, declared=fields.get("attended") is True)
    return Event(id, name, float(at), session, project, cwd, agent, data, offset, attendance)


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the object in a line; empty when there is none. Half a surrogate pair is replaced: no store takes it."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    value = value if isinstance(value, dict) else {}
    fixed: dict[str, Any] = replace_surrogates(value) if b"\\ud" in line.lower() else value
    return fixed


def is_moment(value: Any) -> bool:
    """Return whether a value is seconds since 1970 that a calendar knows."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MOMENT


def get_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is a text with more than spaces; a value of another type is missing."""
    return next((value for name in names if isinstance(value := values.get(name), str) and value.strip()), "")


def get_dict(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object; a value of another type counts as empty."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def get_dicts(values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a field that is a list."""
    value = values.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
