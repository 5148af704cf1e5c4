"""Whether a person sits at a session. Only a person's words make rules; programs and scripts drive sessions, too.

The host says how it was started by `CLAUDE_CODE_ENTRYPOINT`, which the hook writes into each line of the journal.
"""

from __future__ import annotations

from enum import StrEnum

_INTERACTIVE = frozenset(("cli", "claude-desktop", "claude-vscode", "vscode", "jetbrains", "cursor", "windsurf", "zed"))
"""The entry points at which a person types. Only these very names: `n8n-cli` is none of them."""
_PROGRAMS = frozenset(("sdk", "mcp", "action", "headless", "ci", "agent", "print"))
"""Parts of the names of entry points that a program uses: `sdk-cli` (`claude -p`), `sdk-py`, `sdk-ts`."""


class Attendance(StrEnum):
    """Who drives a session. What an unknown driver says may be a rule, but waits for a person."""

    PERSON = "person"
    UNKNOWN = "unknown"
    PROGRAM = "program"


def find_attendance(entry: str, *, declared: bool = False) -> Attendance:
    """Return who drives a session with this entry point; `declared` is CLAUDE_SMART_ATTENDED=1."""
    if declared:
        return Attendance.PERSON
    parts = set(entry.lower().replace("_", "-").split("-"))
    if parts & _PROGRAMS:
        return Attendance.PROGRAM
    return Attendance.PERSON if entry in _INTERACTIVE else Attendance.UNKNOWN
