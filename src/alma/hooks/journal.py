"""A session's journal: one JSON line an event, appended in one write, so that parallel hooks never tear a line.

The first line names the file, which tells it from a later one of the same name. A line that a killed process left
unfinished is closed by the next one who writes.
"""

from __future__ import annotations

import json
import os
import time

from . import log
from .place import Place
from .trim import Trim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Told(Protocol):
        """An event that is known from elsewhere."""

        @property
        def id(self) -> str: ...
        @property
        def name(self) -> str: ...
        @property
        def at(self) -> float: ...
        @property
        def cwd(self) -> str: ...
        @property
        def agent_id(self) -> str: ...
        @property
        def data(self) -> Mapping[str, Any]: ...


MB = 1_000_000
ALWAYS_TAKEN = frozenset(
    "SessionStart UserPromptSubmit UserPromptExpansion Stop SessionEnd Shown Interrupted Rejected".split()
)
"""What a journal over its quota still takes: what people said, and what was shown to them."""
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_PATIENCE_SECONDS = 0.05
_HEAD_BYTES = 16_384

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def append(place: Place, session: str, line: Mapping[str, Any], quota_mb: int = 8) -> None:
    """Raises OSError when it cannot be written whole."""
    data = _encode(line).encode("utf-8", "replace") + b"\n"
    place.make()
    file, size = _opened(place.journal(session), session)
    try:
        quota = quota_mb * MB
        if size > quota and line["event"] not in ALWAYS_TAKEN:
            return
        start = _start(file, size, session)
        _write(file, start + data)
        if size <= quota < size + len(start) + len(data):
            log.note(place, str(line["event"]), f"the journal of {session[:100]} is over {quota_mb} MB: no more tools")
    finally:
        os.close(file)


def append_event(place: Place, session: str, event: Told, project: str, quota_mb: int = 8) -> None:
    """An event that no hook reported, such as one found in a transcript."""
    line = {
        "v": 1,
        "id": event.id,
        "at": event.at,
        "event": event.name,
        "session": session,
        "project": project,
        "cwd": event.cwd,
        "agent_id": event.agent_id,
        "data": Trim(32_000).value(dict(event.data)),
    }
    append(place, session, line, quota_mb)


def _opened(path: str, session: str) -> tuple[int, int]:
    """The file and its size; made with its first line, if there is none."""
    try:
        file = os.open(path, _FLAGS)
    except FileNotFoundError:
        _make(path, _header(session))
        file = os.open(path, _FLAGS)
    return file, _size(file)


def _header(session: str) -> bytes:
    header = {"v": 1, "id": os.urandom(16).hex(), "event": "Journal", "at": time.time(), "session": session}
    return _encode(header).encode("utf-8", "replace") + b"\n"


def _make(path: str, header: bytes) -> None:
    """With its first line in it from the first moment: written beside it and linked, which succeeds for one alone."""
    beside = f"{path}.{os.getpid()}"
    _create(beside, header, os.O_TRUNC)
    try:
        os.link(beside, path)
    except FileExistsError:
        pass
    except (OSError, AttributeError, NotImplementedError):
        # Not every file system has links. Then somebody may see it empty for a moment, and waits.
        _claim(path, header)
    finally:
        os.unlink(beside)


def _claim(path: str, header: bytes) -> None:
    try:
        _create(path, header, os.O_EXCL)
    except FileExistsError:
        return


def _create(path: str, data: bytes, how: int) -> None:
    file = os.open(path, _FLAGS | os.O_CREAT | how, 0o600)
    try:
        _write(file, data)
    finally:
        os.close(file)


def _size(file: int) -> int:
    """Whoever made an empty file is about to write its first line; killed in between, it is left to us."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (size := os.fstat(file).st_size) and time.monotonic() < deadline:
        time.sleep(0.001)
    return size


def _start(file: int, size: int, session: str) -> bytes:
    """What must stand before our line."""
    if not size:
        return _header(session)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (whole := _ends_a_line(file)) and time.monotonic() < deadline:
        # Perhaps somebody is just writing it. If not, at worst an empty line comes of it.
        time.sleep(0.001)
    return b"" if whole else b"\n"


def _ends_a_line(file: int) -> bool:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) == b"\n"


def _write(file: int, data: bytes) -> None:
    written = os.write(file, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written: is the disk full?")


def parents(place: Place, session: str, most: int = 5) -> list[str]:
    """The sessions that this one goes on from, nearest first: a cleared context starts a new session."""
    found: list[str] = []
    while len(found) < most and (parent := _parent(place, session)) and parent not in found:
        found.append(parent)
        session = parent
    return found


def _parent(place: Place, session: str) -> str:
    """As the session's first lines tell it."""
    try:
        with open(place.journal(session), "rb") as file:
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
