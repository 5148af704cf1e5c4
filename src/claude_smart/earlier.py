"""What claude-smart 0.x left behind: session buffers and the database of its backend. Neither is read.

Its buffers name no project, and may lie in the folder of the journals. Claude Code's own transcripts have the same
turns with their project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .rules import count_noun

_ROW_BYTES = 1_000_000
_SQLITE = b"SQLite format 3\0"
INSTEAD = "`claude-smart learn --from-history` reads the same sessions from the transcripts of Claude Code"


def is_earlier_row(row: object) -> bool:
    """Return whether this is a line of a buffer of claude-smart 0.x."""
    return isinstance(row, dict) and "v" not in row and ("published_up_to" in row or "role" in row)


def is_earlier_buffer(path: str) -> bool:
    """Return whether a file is a session buffer of claude-smart 0.x, by its first line."""
    try:
        with open(path, "rb") as file:
            return is_earlier_row(json.loads(file.readline(_ROW_BYTES)))
    except (OSError, ValueError, RecursionError):
        return False


def count_unpublished(path: str) -> int:
    """Return how many turns of the user in a buffer were never sent to the old backend."""
    unpublished = 0
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        row = _read_row(line)
        if "published_up_to" in row:
            unpublished = 0
        elif row.get("role") == "User":
            unpublished += 1
    return unpublished


def _read_row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def describe_earlier(files: Iterable[str], home: str) -> str:
    """Return what claude-smart 0.x left and why it is not read; empty if it left nothing."""
    buffers = [path for path in files if is_earlier_buffer(path)]
    left = []
    if buffers:
        turns = sum(map(count_unpublished, buffers))
        left.append(f"{count_noun(len(buffers), 'buffer')} with {count_noun(turns, 'unpublished turn')}")
    database = os.path.join(home, ".reflexio", "data", "reflexio.db")
    if os.path.isfile(database):
        left.append(database)
    if not left:
        return ""
    return f"{' and '.join(left)} of claude-smart 0.x, not read: the project is not known. {INSTEAD}"


def describe_foreign_file(path: str) -> str:
    """Return why a file of claude-smart 0.x cannot be imported; empty for any other file."""
    if is_earlier_buffer(path):
        return f"{path} is a session buffer of claude-smart 0.x, which names no project. {INSTEAD}"
    try:
        with open(path, "rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return ""
    if not is_database:
        return ""
    return (
        f"{path} is a database. Rules of claude-smart 0.x (reflexio.db) are not imported: write those that you want to"
        f" keep into a .md file, one list item each, and pass it with --all. {INSTEAD}"
    )
