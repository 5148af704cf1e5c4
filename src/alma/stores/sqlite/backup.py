"""A copy of a store's file, taken while others go on writing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from ...errors import CorruptStoreError
from .._fresh import appearing

_PAGES = 2048
"""So many are copied before it is told how far the copy is."""

Progress = Callable[[int, int], None]


def copy(uri: str, source: Path, target: Path, progress: Progress | None = None) -> None:
    """What the file at `uri` held at one moment, whole and checked; `source` is its path, for messages."""
    with appearing(target) as part:
        sound = _copied(uri, part, progress)
        if sound != "ok":
            raise CorruptStoreError(f"{source} is damaged ({sound}), so no backup was made; run `alma doctor`")


def _copied(uri: str, part: Path, progress: Progress | None) -> str:
    """What SQLite says about the copy."""
    reading = sqlite3.connect(uri, uri=True, isolation_level=None)
    writing = sqlite3.connect(part, isolation_level=None)
    try:
        # Without a transaction the copy would begin anew whenever another process writes in between.
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
        told = (lambda _, left, total: progress(total - left, total)) if progress is not None else None
        reading.backup(writing, pages=_PAGES, progress=told)
        # One file and nothing beside it, until somebody opens it for writing.
        writing.execute("PRAGMA journal_mode = DELETE")
        [(sound,)] = writing.execute("PRAGMA quick_check(1)").fetchall()
        return str(sound)
    finally:
        writing.close()
        reading.close()
