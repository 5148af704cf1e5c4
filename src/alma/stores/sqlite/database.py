"""One connection to one file: opened safely, shared by threads under a lock, opened again after a fork.

Whatever sqlite3 raises is turned, here and only here, into an error that says what to do.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ...errors import (
    ALMAError,
    BusyError,
    CorruptStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    ValidationError,
)
from ...folders import make_private_folder
from . import schema

_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 16777216",
)

_left_to_parents: list[sqlite3.Connection] = []
"""Connections that came through a fork: using or closing one could damage the file its parent is writing."""


class Database:
    def __init__(self, path: Path, *, busy_timeout: float, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._inode = 0
        self.openings = 0
        """Goes up whenever the file was opened again: what was remembered about it may not hold."""
        with self.use():
            pass

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """All that is read inside belongs to one moment."""
        with self._transaction("BEGIN") as db:
            yield db

    @contextmanager
    def write(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on disk when it ends; unsynced it is the system's, and safe from all but a power cut."""
        self._after_fork()
        with self._lock:
            if not synced:
                with self.use() as db:
                    db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction("BEGIN IMMEDIATE") as db:
                    yield db
            finally:
                if not synced and not self._closed:
                    with self.use() as db:
                        db.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection outside any transaction."""
        self._after_fork()
        with self._lock, self.translated():
            yield self._open()

    def close(self) -> None:
        self._after_fork()
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self.use() as db:
            db.execute(begin)
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        # A lock that another thread held while forking would never be released in the child.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        if self._connection is not None:
            _left_to_parents.append(self._connection)
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StorageError(f"{self.path} is closed; open the store again")
        if self._connection is not None and _inode(self.path) != self._inode:
            # Replaced, as by restoring a backup, or removed: what is written to the old file would be lost.
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._connect()
            # Whoever forgets to close a store has it closed when it is gone.
            weakref.finalize(self, _let_go, self._connection, os.getpid())
            self._inode = _inode(self.path)
            self.openings += 1
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            _create_private(self.path)
        elif not self.path.exists():
            raise StorageError(f"{self.path} does not exist, and read-only it cannot be made")
        mode = "ro" if self.read_only else "rw"
        db = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?mode={mode}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        for setting in _SETTINGS:
            db.execute(setting)
        if self.read_only:
            schema.refuse_old(db, self.path)
            return
        if schema.version_of(db, self.path) == 0:
            db.execute("PRAGMA page_size = 8192")
        self._use_wal(db)
        if not schema.is_current(db, self.path):
            db.execute("BEGIN IMMEDIATE")
            schema.migrate(db, self.path)
            db.execute("COMMIT")

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Changing the mode does not wait for the busy timeout, so several processes opening a new file must retry."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translate(error, self.path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise ValidationError(f"a value cannot be stored: {error}") from error


def _let_go(connection: sqlite3.Connection, opened_by: int) -> None:
    if os.getpid() == opened_by:
        connection.close()
    else:
        _left_to_parents.append(connection)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1


def _create_private(path: Path) -> None:
    """Made by us before SQLite sees it, so that it is never readable by others, not even for a moment."""
    try:
        if not path.exists():
            make_private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        kind = ReadOnlyError if isinstance(error, PermissionError) or error.errno == errno.EROFS else StorageError
        raise kind(f"{path} cannot be made: {error.strerror}; choose another path for the store") from error


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    # Text that is no UTF-8 is noticed by Python, which gives no code and quotes the text.
    undecodable = _code(error) == 0 and str(error).startswith("Could not decode")
    return undecodable or _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _translate(error: sqlite3.Error, path: Path) -> ALMAError:
    """The error for people; the original stays as its cause."""
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError(f"{path} is in use by another process and stayed locked; try again")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return ReadOnlyError(f"{path} cannot be written ({error}); check the owner and mode of the file and its folder")
    if code == sqlite3.SQLITE_FULL:
        return StorageFullError(f"no room left to write {path}; nothing was changed; free some space and try again")
    if is_damage(error):
        return CorruptStoreError(f"{path} is damaged or no database; restore a backup or run `alma doctor`")
    if code == sqlite3.SQLITE_CANTOPEN and path.exists() and not os.access(path.parent, os.W_OK):
        return ReadOnlyError(
            f"{path.parent} cannot be written, and SQLite needs to; copy the file elsewhere to read it"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StorageError(f"{path} cannot be opened ({error}); check that the folder exists and may be written")
    if "no such module" in str(error):
        return StorageError("the SQLite of this Python has no full-text search (FTS5); use another Python build")
    return StorageError(f"{path}: {error}; run `alma doctor` to check the file")
