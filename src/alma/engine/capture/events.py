"""A session's journal as events: what the hooks wrote, line by line, whatever became of the file since.

A hook may be killed in the middle of a line and a disk may be full, so a line that cannot be read is counted and left
out, and a last line without its newline belongs to the next reading.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...text import replace_surrogates
from .attendance import Attendance, find_attendance

VERSION = 1
_LAST_MOMENT = 253_402_300_799.0  # the end of the year 9999: what a datetime can hold
# Unescaped, this cannot stand inside a JSON string: where it does, a whole line follows a torn one.
_START = b'{"v":'


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


def parse(journal: bytes) -> tuple[list[Event], list[int]]:
    """The events in order, each id once (the first counts), and the numbers of the lines that are damaged."""
    events: list[Event] = []
    damaged: list[int] = []
    known: set[str] = set()
    for number, (line, offset) in enumerate(_whole_lines(journal), start=1):
        if not line.strip():
            continue
        event = _read(line, offset)
        if event is None:
            damaged.append(number)
            event = _rescued(line, offset)
        if event is not None and event.id not in known:
            known.add(event.id)
            events.append(event)
    return events, damaged


def _whole_lines(journal: bytes) -> Iterator[tuple[bytes, int]]:
    start = 0
    while (end := journal.find(b"\n", start)) >= 0:
        yield journal[start:end], end + 1
        start = end + 1


def _rescued(line: bytes, offset: int) -> Event | None:
    """The whole event at the end of a line whose beginning is a torn one."""
    start = line.rfind(_START)
    return _read(line[start:], offset) if start > 0 else None


def _read(line: bytes, offset: int) -> Event | None:
    found = loads(line)
    if not isinstance(found, dict) or found.get("v") != VERSION:
        return None
    name, known_as, at, data = found.get("event"), found.get("id"), moment(found.get("at")), found.get("data", {})
    if not _name(name) or not _name(known_as) or at is None or not isinstance(data, dict):
        return None
    plain = {key: text(found.get(key)) for key in ("session", "project", "cwd", "agent_id")}
    return Event(
        id=str(known_as), name=str(name), at=at, data=data, offset=offset, attendance=_attendance(found), **plain
    )


def _attendance(line: Mapping[str, Any]) -> Attendance | None:
    if "entry" not in line and "attended" not in line:
        return None
    return find_attendance(text(line.get("entry")), declared=line.get("attended") is True)


def _name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def loads(line: bytes) -> Any:
    """The JSON of a line, None when it is none. Half of a surrogate pair, which no store can write, is replaced."""
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return replace_surrogates(found) if b"\\ud" in line.lower() else found


def moment(value: object) -> float | None:
    """Seconds since 1970, None when it is no time that a calendar knows."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_MOMENT:
        return None
    return float(value) if math.isfinite(value) else None


def text(value: object) -> str:
    """The value if it is text; what has another type than it should says nothing."""
    return value if isinstance(value, str) else ""
