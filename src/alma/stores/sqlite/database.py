"""One file: opened safely, shared by threads, closed for the time of a fork, and read where it cannot be written.

Threads share one connection under a lock. While one of them writes, the others read over a second connection, so that
a reader never waits for a writer. Whatever sqlite3 raises is turned, here and only here, into an error that says what
to do.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from ... import forks
from ...errors import (
    ALMAError,
    BusyError,
    CorruptStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    ValidationError,
)
from ...files import create_private, make_private_folder
from . import schema

FIRST, SECOND = "first", "second"
_SETTINGS = (
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cache_size = -16000",
    "journal_size_limit = 16777216",
)

_NOTE_SECONDS = 0.05
"""How long the writer of a note waits for other writers."""
_REFUSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

Stamp = tuple[int, ...]

_left_to_parents: list[sqlite3.Connection] = []
"""Connections that came through a fork: using or closing one could damage the file its parent is writing."""


class Database:
    def __init__(self, path: Path, *, busy_timeout: float, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._busy_timeout = busy_timeout
        self._open_files: dict[str, tuple[sqlite3.Connection, Stamp, weakref.finalize[..., Database]]] = {}
        """The connection `FIRST`, and `SECOND` for reading while another thread writes over the first."""
        self._closed = False
        self._lock = threading.RLock()
        self._reading = threading.RLock()
        """Acquired before the other: what readers remember of the file is for one of them at a time."""
        self._pid = os.getpid()
        self._snapshot: sqlite3.Connection | None = None
        """The connection of the thread that has `_reading`, while it reads a snapshot."""
        self._mode = ""
        self.openings = 0
        """Goes up whenever the file was opened again: what was remembered about it may not hold."""
        forks.hold_at_fork(self)
        with self.use():
            pass

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """All that is read inside belongs to one moment."""
        with self._reading, self.translate_errors():
            if self._snapshot is not None:
                yield self._snapshot
                return
            is_free = self._lock.acquire(blocking=False)
            try:
                with _transaction(self._open(FIRST if is_free else SECOND), "BEGIN") as db:
                    yield db
            finally:
                if is_free:
                    self._lock.release()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread reads inside belongs to one moment. A snapshot inside another is part of it."""
        with self.read() as db:
            outer, self._snapshot = self._snapshot, db
            try:
                yield
            finally:
                self._snapshot = outer

    @contextmanager
    def write(self, *, passing: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on disk when it ends.

        What is `passing` is the system's when it ends, safe from all but a power cut, and BusyError comes at once when
        others are writing: the writer of a note has no time to wait.
        """
        if not self._lock.acquire(timeout=_NOTE_SECONDS if passing else -1):
            raise BusyError(f"{self.path} is being written by another thread; try again")
        try:
            if self._mode != "mode=rw" and not self.read_only:
                # What could only be opened to be read may have become writable since.
                if not all(os.access(place, os.W_OK) for place in (self.path, self.path.parent)):
                    raise ReadOnlyError(
                        f"{self.path} can be read but not written: the file, its folder or the file system is "
                        "read-only; nothing was changed"
                    )
                self._disconnect(FIRST)
            with self.translate_errors():
                db = self._open()
                if passing:
                    _set_haste(db, "NORMAL", _NOTE_SECONDS)
                try:
                    with _transaction(db, "BEGIN IMMEDIATE"):
                        yield db
                finally:
                    if passing and not self._closed:
                        _set_haste(db, "FULL", self._busy_timeout)
        finally:
            self._lock.release()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection outside any transaction."""
        with self._lock, self.translate_errors():
            yield self._open()

    @property
    def reading_uri(self) -> str:
        """The address at which others in this process may open the file to read it."""
        return self._uri("mode=ro" if self._mode == "mode=rw" else self._mode)

    def close(self) -> None:
        with self._reading, self._lock:
            self._closed = True
            self._disconnect()

    # -- at a fork

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait until no thread uses the file, and close it.

        A child that inherits a connection shares SQLite's record of which file locks the process has, and has none of
        them: it could not write, or would write beside others.
        """
        if not self._reading.acquire(blocking, timeout):
            return False
        if not self._lock.acquire(blocking, timeout):
            self._reading.release()
            return False
        if not any(db.in_transaction for db, _, _ in self._open_files.values()):
            self._disconnect()
        return True

    def release(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            # Still open only when the thread that forked was in the middle of a transaction, as a signal handler is.
            _left_to_parents.extend(db for db, _, _ in self._open_files.values())
            self._open_files, self._snapshot = {}, None
        self._lock.release()
        self._reading.release()

    # -- opening

    def _open(self, which: str = FIRST) -> sqlite3.Connection:
        if self._closed:
            raise StorageError(f"{self.path} is closed; open the store again")
        if which in self._open_files and self._open_files[which][1] != _read_stamp(self.path, self._mode):
            # Replaced, as by restoring a backup, or removed: what is written to the old file would be lost.
            self._disconnect(which)
        if which not in self._open_files:
            db = self._connect() if which == FIRST else self._open_prepared(self._mode)
            # A store that nobody closed is closed when it is collected.
            finalizer = weakref.finalize(self, _let_go, db, os.getpid())
            self._open_files[which] = (db, _read_stamp(self.path, self._mode), finalizer)
            self.openings += 1
        return self._open_files[which][0]

    def _disconnect(self, *names: str) -> None:
        """Close the reading connection first: the one that is closed last tidies up, and only the writing one can."""
        for which in names or (SECOND, FIRST):
            if which in self._open_files:
                db, _, finalizer = self._open_files.pop(which)
                finalizer.detach()
                db.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            if self.read_only:
                if not self.path.exists():
                    raise StorageError(f"{self.path} does not exist, and read-only it cannot be made")
            else:
                _create_file(self.path)
                return self._open_prepared("mode=rw")
        except (ReadOnlyError, sqlite3.OperationalError) as error:
            if not (self.path.exists() and (isinstance(error, ReadOnlyError) or _get_code(error) in _REFUSED)):
                raise
        try:
            return self._open_prepared("mode=ro")
        except sqlite3.OperationalError as error:
            # Where nothing can be written SQLite cannot make its files; a file that nobody changes needs none of them.
            if _get_code(error) not in _REFUSED or _has_unfinished_changes(self.path):
                raise
            return self._open_prepared("mode=ro&immutable=1")

    def _open_prepared(self, mode: str) -> sqlite3.Connection:
        timeout = self._busy_timeout
        db = sqlite3.connect(self._uri(mode), uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            for setting in _SETTINGS:
                db.execute(f"PRAGMA {setting}")
            if mode != "mode=rw":
                schema.refuse_old(db, self.path)
            else:
                if schema.read_version(db, self.path) == 0:
                    db.execute("PRAGMA page_size = 8192")
                self._use_wal(db)
                if not schema.is_current(db, self.path):
                    with _transaction(db, "BEGIN IMMEDIATE"):
                        schema.migrate(db, self.path)
        except BaseException:
            db.close()
            raise
        self._mode = mode
        return db

    def _uri(self, mode: str) -> str:
        return f"file:{quote(str(self.path.absolute()))}?{mode}"

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Changing the mode does not wait for the busy timeout, so several processes opening a new file must retry."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if _get_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _make_error(error, self.path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise ValidationError(f"a value cannot be stored: {error}") from error


def _set_haste(db: sqlite3.Connection, synchronous: str, seconds: float) -> None:
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")


@contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    db.execute(begin)
    try:
        yield db
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _let_go(connection: sqlite3.Connection, opened_by: int) -> None:
    if os.getpid() == opened_by:
        connection.close()
    else:
        _left_to_parents.append(connection)


def _read_stamp(path: Path, mode: str) -> Stamp:
    """What tells that it is still the same file; what SQLite takes for unchangeable must not have changed at all."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (-1,)
    if "immutable" not in mode:
        return (status.st_ino,)
    return (status.st_ino, status.st_size, status.st_mtime_ns, _has_unfinished_changes(path))


def _has_unfinished_changes(path: Path) -> bool:
    for suffix in ("-wal", "-journal"):
        with suppress(FileNotFoundError):
            if path.with_name(path.name + suffix).stat().st_size:
                return True
    return False


def _create_file(path: Path) -> None:
    """Made by us before SQLite sees it, so that it is never readable by others, not even for a moment."""
    try:
        if not path.exists():
            make_private_folder(path.parent)
            create_private(path)
    except OSError as error:
        kind = ReadOnlyError if isinstance(error, PermissionError) or error.errno == errno.EROFS else StorageError
        raise kind(f"{path} cannot be made: {error.strerror}; choose another path for the store") from error


def _get_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    # Text that is no UTF-8 is noticed by Python, which gives no code and quotes the text.
    undecodable = _get_code(error) == 0 and str(error).startswith("Could not decode")
    return undecodable or _get_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _make_error(error: sqlite3.Error, path: Path) -> ALMAError:
    """The error for people; the original stays as its cause."""
    code = _get_code(error)
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
            f"{path.parent} cannot be written, and the last changes are in {path.name}-wal, which SQLite can only read "
            "where it can write; copy both files to another folder"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StorageError(f"{path} cannot be opened ({error}); check that the folder exists and may be written")
    if "no such module" in str(error):
        return StorageError("the SQLite of this Python has no full-text search (FTS5); use another Python build")
    return StorageError(f"{path}: {error}; run `alma doctor` to check the file")
