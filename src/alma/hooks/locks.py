"""A lock between processes that ends with its holder, however the holder ends.

It is an exclusive transaction on a small SQLite file that nothing is ever written to: SQLite knows how to lock a file
on every system, and a killed process leaves no lock behind. The file itself means nothing, and stays.
"""

from __future__ import annotations

import os
import sqlite3
import time
from types import TracebackType
from typing import Self

from ..errors import StorageError

_NO_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Held:
    """A lock that this process has. Leaving the block, or the process, gives it back."""

    __slots__ = ("_connection", "path")

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def held(path: str, wait: float = 0.0) -> Held | None:
    """The lock, after at most `wait` seconds; None when somebody else keeps it."""
    deadline = time.monotonic() + wait
    while True:
        left = max(0.0, deadline - time.monotonic())
        try:
            connection = _locked(path, left)
        except sqlite3.Error as error:
            if _code(error) in _BUSY:
                return None
            if _code(error) not in _NO_DATABASE:
                raise StorageError(
                    f"{path} cannot be locked ({error}); check the owner and mode of its folder"
                ) from error
            # Emptied where it lies: removing it would take the file away from under somebody who locked it meanwhile.
            os.truncate(path, 0)
            continue
        if connection is not None:
            return Held(path, connection)


def _locked(path: str, wait: float) -> sqlite3.Connection | None:
    """None when the file was removed while we waited: a lock on a file that nobody can find is none."""
    inode = _made(path)
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        # Without this a journal lies beside the file as long as it is locked.
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN EXCLUSIVE")
        if _inode(path) == inode:
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _made(path: str) -> int:
    """Made by us before SQLite sees it, so that it is never readable by others.

    An existing file is not opened here: closing it again would drop the locks that this process has on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StorageError(f"{path} cannot be made: {error.strerror}") from error
    return _inode(path)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return -1


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
