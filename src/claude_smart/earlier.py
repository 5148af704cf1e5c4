"""What claude-smart 0.x left behind: session buffers and the database of its backend.

Both name a project only by the name of its folder. `claude-smart import` reads the rows of the folder in which it runs,
and all of them if the user passes `--all`. What they say becomes candidates: the rules were worded by a model, and a
turn in a buffer may not be a person's. Buffers may lie in the folder of the journals.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from alma.coding.events import Attendance, Event
from alma.coding.session import build_session
from alma.engine.coding_sessions import find_teachings
from alma.engine.rules import Teaching
from alma.errors import ValidationError
from alma.hooks.privacy import remove_private
from alma.text import digest
from alma.types.kinds import LASTING, Reach, RuleSource
from alma.types.times import from_iso

from .rules import count_noun

_ROW_BYTES = 1_000_000
_SQLITE = b"SQLite format 3\0"
INSTEAD = "`claude-smart learn --from-history` reads the same sessions from the transcripts of Claude Code"
# Rules of a project, rules of all projects, and preferences.
_TABLES = ("user_playbooks", "agent_playbooks", "profiles")
_COLUMNS = ("user_id", "content", "trigger", "rationale", "created_at")
# What has a status is archived, replaced or not yet valid. Not every version has all columns.
_CONDITIONS = {
    "status": "status IS NULL",
    "playbook_status": "playbook_status <> 'rejected'",
    "expiration_timestamp": "expiration_timestamp > CAST(strftime('%s', 'now') AS INTEGER)",
}


class EarlierRules(NamedTuple):
    """What a file of claude-smart 0.x teaches, and how many rows of other folders it has, by the folder's name."""

    teachings: list[Teaching]
    elsewhere: Counter[str]


class _OldRow(NamedTuple):
    folder: str | None  # None: it is for all projects.
    content: str
    trigger: str
    why: str
    created_at: str


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
    return len(_read_unpublished(path))


def _read_unpublished(path: str) -> list[dict[str, Any]]:
    """Return the user's turns in a buffer that were never sent to the old backend."""
    unpublished: list[dict[str, Any]] = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        row = _read_row(line)
        if "published_up_to" in row:
            unpublished.clear()
        elif row.get("role") == "User" and isinstance(row.get("content"), str):
            unpublished.append(row)
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
    advice = "import what belongs to a project, in its folder: claude-smart import FILE"
    return f"{' and '.join(left)} of claude-smart 0.x; {advice}. {INSTEAD}"


def read_earlier_file(path: str, folders: Collection[str], *, is_all: bool = False) -> EarlierRules | None:
    """Return what a buffer or a database of claude-smart 0.x teaches; None for any other file.

    Rows of other folders than these are only counted, unless `is_all`.
    """
    if is_earlier_buffer(path):
        return _read_buffer(path, folders, is_all)
    try:
        with open(path, "rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return None
    return _read_database(path, folders, is_all) if is_database else None


def _read_buffer(path: str, folders: Collection[str], is_all: bool) -> EarlierRules:
    session, elsewhere = Path(path).stem, Counter[str]()
    events: list[Event] = []
    for number, row in enumerate(_read_unpublished(path)):
        # The first versions did not note the folder.
        folder = str(row.get("user_id") or "")
        if folder and folder not in folders and not is_all:
            elsewhere[folder] += 1
            continue
        moment = row["ts"] if isinstance(row.get("ts"), int) else 0
        id = digest(path, str(number), row["content"], size=32)
        data = {"prompt": remove_private(row["content"])}
        events.append(Event(id, "UserPromptSubmit", moment, session, data=data, attendance=Attendance.PERSON))
    teachings = find_teachings(build_session(events), -1)
    lasting = [teaching._replace(sure=False) for teaching in teachings if teaching.reach in LASTING]
    return EarlierRules(lasting, elsewhere)


def _read_database(path: str, folders: Collection[str], is_all: bool) -> EarlierRules:
    teachings: list[Teaching] = []
    elsewhere: Counter[str] = Counter()
    try:
        with closing(sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)) as database:
            rows = list(_read_rows(database, path))
    except sqlite3.Error as error:
        raise ValidationError(f"{path} cannot be read as a database of claude-smart 0.x: {error}. {INSTEAD}") from error
    for row in rows:
        if row.folder is not None and row.folder not in folders and not is_all:
            elsewhere[row.folder] += 1
        elif rule := remove_private(row.content).strip():
            teachings.append(_make_teaching(row, rule))
    return EarlierRules(teachings, elsewhere)


def _read_rows(database: sqlite3.Connection, path: str) -> Iterator[_OldRow]:
    """Yield the rules of a database; ValidationError if it is another one."""
    is_known = False
    for table in _TABLES:
        present = {name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")}
        if "content" not in present:
            continue
        is_known = True
        columns = ", ".join(name if name in present else "NULL" for name in _COLUMNS)
        conditions = [condition for name, condition in _CONDITIONS.items() if name in present]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        for folder, *texts in database.execute(f"SELECT {columns} FROM {table}{where}"):
            yield _OldRow(None if folder is None else str(folder), *(str(text or "") for text in texts))
    if not is_known:
        problem = f"is a database, but not one of claude-smart 0.x (reflexio.db): it has no table {_TABLES[0]}"
        raise ValidationError(f"{path} {problem}. {INSTEAD}")


def _make_teaching(row: _OldRow, rule: str) -> Teaching:
    reach = Reach.ALWAYS if row.folder is None else Reach.PROJECT
    try:
        moment = from_iso(row.created_at)
    except ValueError:
        moment = None
    id = f"imp:{digest(rule, reach, size=12)}"
    trigger, why = remove_private(row.trigger), remove_private(row.why)
    return Teaching(id, rule, reach, RuleSource.IMPORT, trigger, why, sure=False, at=moment)
