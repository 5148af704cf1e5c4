"""A session's files: its journal, the rules that its context holds, and the session whose context was cleared.

A journal has one JSON line an event, appended in one write, so that parallel hooks never tear a line. The first line
names the file, which tells it from a later one of the same name. A line that a killed process left unfinished is
closed by the next one who writes.
"""

from __future__ import annotations

import json
import os
import time

from .paths import DataDir, log_problem, read_object, write_private
from .privacy import Trimmer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..coding.events import Event

MB = 1_000_000
ALWAYS_TAKEN = frozenset(
    "SessionStart UserPromptSubmit UserPromptExpansion Stop SessionEnd Shown Interrupted Rejected".split()
)
"""What a journal over its quota still takes: what people said, and what was shown to them."""
CLEARED_SECONDS = 60.0
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_PATIENCE_SECONDS = 0.05
_HEAD_BYTES = 16_384
_MOST_PARENTS = 5
_MOST_BYTES = 1_000_000

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def append_line(data_dir: DataDir, session: str, line: Mapping[str, Any], quota_mb: int = 8) -> None:
    """Add an event to a journal; raises OSError when it cannot be written whole."""
    data = _encode(line).encode("utf-8", "replace") + b"\n"
    data_dir.make()
    path, quota = data_dir.journal(session), quota_mb * MB
    try:
        file = os.open(path, _FLAGS)
    except FileNotFoundError:
        _create_journal(path, session)
        file = os.open(path, _FLAGS)
    try:
        # Whoever made an empty file is about to write its first line; killed in between, it is left to us.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (size := os.fstat(file).st_size) and time.monotonic() < deadline:
            time.sleep(0.001)
        if size > quota and line["event"] not in ALWAYS_TAKEN:
            return
        start = _encode_header(session) if not size else b"" if _ends_line(file) else b"\n"
        _write(file, start + data)
        if size <= quota < size + len(start) + len(data):
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


def _encode_header(session: str) -> bytes:
    header = {"v": 1, "id": os.urandom(16).hex(), "event": "Journal", "at": time.time(), "session": session}
    return _encode(header).encode("utf-8", "replace") + b"\n"


def _create_journal(path: str, session: str) -> None:
    """Make a journal that holds its first line from the first moment: written beside it and linked, once for all."""
    header, beside = _encode_header(session), f"{path}.{os.getpid()}"
    _write_new(beside, header, os.O_TRUNC)
    try:
        os.link(beside, path)
    except FileExistsError:
        pass
    except (OSError, AttributeError, NotImplementedError):
        # Not every file system has links. Then somebody may see it empty for a moment, and waits.
        try:
            _write_new(path, header, os.O_EXCL)
        except FileExistsError:
            return
    finally:
        os.unlink(beside)


def _write_new(path: str, data: bytes, flag: int) -> None:
    file = os.open(path, _FLAGS | os.O_CREAT | flag, 0o600)
    try:
        _write(file, data)
    finally:
        os.close(file)


def _ends_line(file: int) -> bool:
    """Return whether a journal ends with a whole line. Perhaps somebody is just writing it: that is waited for.

    If not, at worst an empty line comes of it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        os.lseek(file, -1, os.SEEK_END)
        if os.read(file, 1) == b"\n":
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)


def _write(file: int, data: bytes) -> None:
    written = os.write(file, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written: is the disk full?")


# -- sessions that go on from others


def list_parents(data_dir: DataDir, session: str) -> list[str]:
    """Return the sessions that this one goes on from, nearest first: a cleared context starts a new session."""
    parents: list[str] = []
    while len(parents) < _MOST_PARENTS and (parent := _read_parent(data_dir, session)) and parent not in parents:
        parents.append(parent)
        session = parent
    return parents


def _read_parent(data_dir: DataDir, session: str) -> str:
    """Return the parent that the first lines of a journal name."""
    try:
        with open(data_dir.journal(session), "rb") as file:
            lines = file.read(_HEAD_BYTES).split(b"\n")[:4]
    except OSError:
        return ""
    for line in lines:
        if b'"parent"' in line:
            try:
                return str(json.loads(line)["data"]["parent"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
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
    try:
        with open(data_dir.shown(session), "rb") as file:
            lines = file.read(_MOST_BYTES).decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return set()
    parts = (line.partition(" ") for line in lines if line)
    return {id for id, _, shown_to in parts if shown_to == agent}


def write_shown(data_dir: DataDir, session: str, ids: Iterable[str], agent: str = "", *, is_new: bool = False) -> None:
    """Add rules to those that a context holds; with `is_new` the context is empty but for these."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | (os.O_TRUNC if is_new else os.O_APPEND)
    file = os.open(data_dir.shown(session), flags, 0o600)
    try:
        os.write(file, "".join(f"{id} {agent}".rstrip() + "\n" for id in ids).encode("utf-8", "replace"))
    finally:
        os.close(file)
