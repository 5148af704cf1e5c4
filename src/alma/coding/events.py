"""A session's journal as events: what the hooks wrote, line by line, whatever became of the file since.

A hook may be killed in the middle of a line and a disk may be full, so a line that cannot be read is counted and
skipped, and a last line without its newline belongs to the next reading.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..text import replace_surrogates

VERSION = 1
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
        return as_text(self.data.get(name))

    @property
    def tool_input(self) -> Mapping[str, Any]:
        return as_dict(self.data.get("tool_input"))


def parse_journal(journal: bytes, offset: int = 0) -> tuple[list[Event], list[int]]:
    """Return the events in order, each id once (the first counts), and the numbers of the damaged lines.

    `offset` is where in its file the journal begins.
    """
    events: dict[str, Event] = {}
    damaged: list[int] = []
    for number, line in enumerate(journal.split(b"\n")[:-1], start=1):
        offset += len(line) + 1
        if not line.strip():
            continue
        event = _parse_event(line, offset)
        if event is None:
            damaged.append(number)
            # A torn line may be followed by a whole one.
            start = line.rfind(_START)
            event = _parse_event(line[start:], offset) if start > 0 else None
        if event is not None:
            events.setdefault(event.id, event)
    return list(events.values()), damaged


def _parse_event(line: bytes, offset: int) -> Event | None:
    found = as_dict(parse_line(line))
    name, id = as_text(found.get("event")), as_text(found.get("id"))
    at, data = as_moment(found.get("at")), found.get("data", {})
    if found.get("v") != VERSION or not name or not id or at is None or not isinstance(data, dict):
        return None
    attendance = None
    if "entry" in found or "attended" in found:
        attendance = find_attendance(as_text(found.get("entry")), declared=found.get("attended") is True)
    session, project, cwd, agent = (as_text(found.get(key)) for key in ("session", "project", "cwd", "agent_id"))
    return Event(id, name, at, session, project, cwd, agent, data, offset, attendance)


def parse_line(line: bytes) -> Any:
    """Return the JSON of a line, None when it is none. Half a surrogate pair, which no store can write, is replaced."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return replace_surrogates(value) if b"\\ud" in line.lower() else value


def as_moment(value: object) -> float | None:
    """Return seconds since 1970, None when the value is no time that a calendar knows."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_MOMENT:
        return None
    return float(value) if math.isfinite(value) else None


def as_text(value: object) -> str:
    """Return the value if it is text; a value of another type counts as missing."""
    return value if isinstance(value, str) else ""


def as_dict(value: object) -> dict[str, Any]:
    """Return the value if it is an object; a value of another type counts as empty."""
    return value if isinstance(value, dict) else {}
