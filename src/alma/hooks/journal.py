"""A session's files: its journal, the rules that its context holds, and the session whose context was cleared.

A journal has one JSON line an event, appended in one write, so that parallel hooks never tear a line. The first line
names the file, which tells it from a later one of the same name. A line that a killed process left unfinished is
closed by the next one who writes.
"""

from __future__ import annotations

import json
import os
import time

from .paths import DataDir, log_problem, read_object, read_text, write_private
from .privacy import Trimmer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..coding.events import Event

MB = 1_000_000
ALWAYS_TAKEN = frozenset("SessionStart UserPromptSubmit UserPromptExpansion Stop SessionEnd Shown Rejected".split())
"""What a journal over its quota still takes: what people said, and what was shown to them."""
CLEARED_SECONDS = 60.0
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_PATIENCE_SECONDS = 0.05
_MOST_PARENTS = 5
_MOST_BYTES = 1_000_000


def append_line(data_dir: DataDir, session: str, line: Mapping[str, Any], quota_mb: int = 8) -> None:
    """Add an event to a journal; raises OSError when it cannot be written whole."""
    data = _encode(line)
    data_dir.make()
    path, quota = data_dir.journal(session), quota_mb * MB
    if not os.path.exists(path):
        _create_journal(path, session)
    file = os.open(path, _FLAGS | os.O_CREAT, 0o600)
    try:
        # An empty file is about to get its first line, and an open line may still be in writing. If their writer was
        # killed, this one goes on after a while; at worst there is an empty line.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (is_whole := _ends_line(file)) and time.monotonic() < deadline:
            time.sleep(0.001)
        size = os.fstat(file).st_size
        if size > quota and line["event"] not in ALWAYS_TAKEN:
            return
        data = data if is_whole else (b"\n" if size else _encode_header(session)) + data
        _write(file, data)
        if size <= quota < size + len(data):
            problem = f"the journal of {session[:100]} is over {quota_mb} MB: no more tools"
            log_problem(data_dir, str(line["event"]), problem)
    finally:
        os.close(file)


def append_event(data_dir: DataDir, session: str, event: Event, project: str) -> None:
    """Add an event that no hook reported, such as one found in a transcript."""
    line = {
        "v": 1,
        "id": event.id,
        "at": event.at,
        "event": event.name,
        "session": session,
        "project": project,
        "cwd": event.cwd,
        "agent_id": event.agent_id,
        "data": Trimmer(32_000).trim(dict(event.data)),
    }
    append_line(data_dir, session, line)


def _encode(line: Mapping[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _encode_header(session: str) -> bytes:
    return _encode({"v": 1, "id": os.urandom(16).hex(), "event": "Journal", "at": time.time(), "session": session})


def _create_journal(path: str, session: str) -> None:
    """Make a journal that holds its first line from the first moment: written beside it and linked, once for all.

    Not every file system has links. Without them the first process writes it.
    """
    beside = f"{path}.{os.getpid()}"
    file = os.open(beside, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(file, _encode_header(session))
        os.link(beside, path)
    except (FileExistsError, OSError, AttributeError, NotImplementedError):
        return
    finally:
        os.close(file)
        os.unlink(beside)


def _ends_line(file: int) -> bool:
    """Return whether a journal ends with a whole line."""
    if not os.fstat(file).st_size:
        return False
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) == b"\n"


def _write(file: int, data: bytes) -> None:
    written = os.write(file, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written: is the disk full?")


# -- sessions that go on from others


def list_parents(data_dir: DataDir, session: str) -> list[str]:
    """Return the sessions that this one goes on from, nearest first: a cleared context starts a new session."""
    parents: list[str] = []
    while len(parents) < _MOST_PARENTS:
        # One of the first lines of a journal names the parent.
        session = next(filter(None, map(_read_parent, read_text(data_dir.journal(session)).split("\n", 4)[:4])), "")
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
    """Note that a context was cleared. The host ends one session and starts another in the same folder at once."""
    fresh = _read_cleared(data_dir) | {cwd: {"session": session, "at": time.time()}}
    data_dir.make()
    write_private(data_dir.cleared, json.dumps(fresh).encode())


def find_cleared(data_dir: DataDir, cwd: str, session: str) -> str:
    """Return the session that was cleared here a moment ago; empty when there is none."""
    cleared = str(_read_cleared(data_dir).get(cwd, {}).get("session", ""))
    return cleared if cleared != session else ""


def _read_cleared(data_dir: DataDir) -> dict[str, dict[str, Any]]:
    fresh, now = {}, time.time()
    for folder, entry in read_object(data_dir.cleared, _MOST_BYTES).items():
        at = entry.get("at") if isinstance(entry, dict) else None
        if isinstance(at, int | float) and 0 <= now - at <= CLEARED_SECONDS and isinstance(entry.get("session"), str):
            fresh[folder] = entry
    return fresh


# -- rules that a context holds: ids, one a line; those of a subagent, whose context is its own, with its id.
# An id with an exclamation mark: the rule was brought up at a tool call, because it was not followed before.


def read_shown(data_dir: DataDir, session: str, agent: str = "") -> set[str]:
    parts = (line.partition(" ") for line in read_text(data_dir.shown(session)).split("\n") if line)
    return {id for id, _, shown_to in parts if shown_to == agent}


def write_shown(data_dir: DataDir, session: str, ids: Iterable[str], agent: str = "", *, is_new: bool = False) -> None:
    """Add rules to those that a context holds; with `is_new` the context is empty but for these."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | (os.O_TRUNC if is_new else os.O_APPEND)
    file = os.open(data_dir.shown(session), flags, 0o600)
    try:
        os.write(file, "".join(f"{id} {agent}".rstrip() + "\n" for id in ids).encode("utf-8", "replace"))
    finally:
        os.close(file)
