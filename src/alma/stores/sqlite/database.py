"""One file: opened safely, shared by threads, closed for the time of a fork, and read where it cannot be written.

Threads share one connection under a lock. While one of them writes, the others read over a second connection, so that
a reader never waits for a writer. Whatever sqlite3 raises is turned, here and only here, into an error that says what
to do.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ... import forks
from ...errors import (
    ALMAError,
    BusyError,
    CorruptStoreError,
    EarlierStoreError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    ValidationError,
)
from ...files import READABLE_BY_OTHERS, create_private, make_new_file, make_private_folder
from ...trust_register import BESIDE_A_STORE, check_store
from ...types.kinds import KINDS
from . import vectors
from .cipher import Cipher

FIRST, SECOND, WATCHING = "first", "second", "watching"
_SETTINGS = (
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cache_size = -16000",
    "journal_size_limit = 16777216",
)

_NOTE_SECONDS = 0.05  # How long the writer of a note waits for other writers.
_REFUSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)

Stamp = tuple[int, ...]

# Connections that came through a fork: using or closing one could damage the file its parent is writing.
_left_to_parents: list[sqlite3.Connection] = []


class Database:
    """The connections of a process to one database file."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout: float,
        read_only: bool,
        encryption_keys: Sequence[bytes] = (),
        trust: bool = False,
    ) -> None:
        self.path = path
        self._trust = trust
        self._cipher = Cipher(path, encryption_keys) if encryption_keys else None
        self.connect: Callable[..., sqlite3.Connection] = self._cipher.connect if self._cipher else sqlite3.connect
        self.read_only = read_only
        self._busy_timeout = busy_timeout
        # The connection `FIRST`, `SECOND` for reading while another thread writes over the first, and `WATCHING` to
        # notice what is written over any other.
        self._open_files: dict[str, tuple[sqlite3.Connection, Stamp, weakref.finalize[..., Database]]] = {}
        self._closed = False
        self._lock = threading.RLock()
        # Acquired before the other: what readers remember of the file is for one of them at a time.
        self._reading = threading.RLock()
        self._pid = os.getpid()
        # The connection of the thread that has `_reading`, while it reads a snapshot.
        self._snapshot: sqlite3.Connection | None = None
        self._mode = ""
        self.openings = 0  # Goes up whenever the file was opened again: what was remembered about it may not hold.
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
        """Return the connection outside any transaction."""
        with self._lock, self.translate_errors():
            yield self._open()

    def read_revision(self) -> tuple[int, int]:
        """Return a value that differs from an earlier one if anybody wrote to the file in between."""
        with self._reading, self.translate_errors():
            (version,) = self._open(WATCHING).execute("PRAGMA data_version").fetchone()
            return self.openings, version

    @property
    def reading_uri(self) -> str:
        """Return the address at which others in this process may open the file to read it."""
        return self._uri("mode=ro" if self._mode == "mode=rw" else self._mode)

    def close(self) -> None:
        """Close all connections."""
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
        """Let connections be used again after a fork."""
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
            # Each time, because a `git pull` may have replaced the file of a running process.
            check_store(self.path, trust=self._trust, suffixes=BESIDE_A_STORE)
            db = self._connect() if which == FIRST else self._open_prepared(self._mode)
            # A store that nobody closed is closed when it is collected.
            finalizer = weakref.finalize(self, _let_go, db, os.getpid())
            self._open_files[which] = (db, _read_stamp(self.path, self._mode), finalizer)
            self.openings += 1
        return self._open_files[which][0]

    def _disconnect(self, *names: str) -> None:
        """Close the reading connection first: the one that is closed last tidies up, and only the writing one can."""
        for which in names or (WATCHING, SECOND, FIRST):
            if which in self._open_files:
                db, _, finalizer = self._open_files.pop(which)
                finalizer.detach()
                db.close()

    def _connect(self) -> sqlite3.Connection:
        refusals: tuple[type[Exception], ...] = (ReadOnlyError, *self._errors)
        try:
            if self.read_only:
                if not self.path.exists():
                    raise StorageError(f"{self.path} does not exist and cannot be created in read-only mode")
            else:
                _create_file(self.path)
                return self._open_prepared("mode=rw")
        except refusals as error:
            if not (self.path.exists() and (isinstance(error, ReadOnlyError) or _get_code(error) in _REFUSED)):
                raise
        try:
            return self._open_prepared("mode=ro")
        except self._errors as error:
            # Where nothing can be written SQLite cannot make its files; a file that nobody changes needs none of them.
            if _get_code(error) not in _REFUSED or _has_unfinished_changes(self.path):
                raise
            return self._open_prepared("mode=ro&immutable=1")

    def _open_prepared(self, mode: str) -> sqlite3.Connection:
        timeout = self._busy_timeout
        db = self.connect(self._uri(mode), uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            for setting in _SETTINGS:
                db.execute(f"PRAGMA {setting}")
            if mode != "mode=rw":
                refuse_old(db, self.path)
            else:
                if read_version(db, self.path) == 0:
                    db.execute("PRAGMA page_size = 8192")
                self._use_wal(db)
                if not is_current(db, self.path):
                    with _transaction(db, "BEGIN IMMEDIATE"):
                        migrate(db, self.path)
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
            except self._errors as error:
                if _get_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error, *(self._cipher.errors if self._cipher else ()))

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as the errors of a store."""
        try:
            yield
        except self._errors as error:
            raise _make_error(error, self.path, is_encrypted=self._cipher is not None) from error
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
        raise kind(f"{path} cannot be created: {error.strerror}; choose another path for the store") from error


def _get_code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: Exception) -> bool:
    """Return whether an error means that the file is damaged."""
    # Text that is no UTF-8 is noticed by Python, which gives no code and quotes the text.
    undecodable = _get_code(error) == 0 and str(error).startswith("Could not decode")
    return undecodable or _get_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _make_error(error: Exception, path: Path, *, is_encrypted: bool) -> ALMAError:
    """Return the error of a store for an error of SQLite."""
    code = _get_code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError(f"{path} is in use by another process and stayed locked; try again")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return ReadOnlyError(f"{path} cannot be written ({error}); check the permissions of the file and its folder")
    if code == sqlite3.SQLITE_FULL:
        return StorageFullError(f"no space left to write {path}; nothing was changed; free some space and try again")
    if is_damage(error):
        what = "damaged" if is_encrypted else "damaged, encrypted (then set `encryption`) or not a database"
        return CorruptStoreError(f"{path} is {what}; run `alma doctor`, or restore a backup")
    if code == sqlite3.SQLITE_CANTOPEN and path.exists() and not os.access(path.parent, os.W_OK):
        return ReadOnlyError(
            f"{path.parent} is not writable, and SQLite can read the last changes in {path.name}-wal only in a "
            "writable folder; copy both files to another folder"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StorageError(f"{path} cannot be opened ({error}); check that the folder exists and is writable")
    if "no such module" in str(error):
        return StorageError("the SQLite of this Python has no full-text search (FTS5); use another Python build")
    return StorageError(f"{path}: {error}; run `alma doctor` to check the file")


# --- the tables, how an older file becomes a newer one, and the views a person reads

APPLICATION_ID = 0x414C4D41  # "ALMA"
TOKENIZER = "porter unicode61"

_FIRST = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('next_v', 1), ('generation', 0), ('views', '');

CREATE TABLE scope (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, project TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, embedder TEXT NOT NULL,
    UNIQUE (project, kind, agent, user, embedder)
);

CREATE TABLE record (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL REFERENCES scope (id),
    session TEXT NOT NULL,
    status TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER,
    superseded_by TEXT NOT NULL,
    v_first INTEGER NOT NULL,
    v_count INTEGER NOT NULL,
    v_hash TEXT NOT NULL,
    evidence TEXT NOT NULL,
    provenance TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX record_newest ON record (scope, created_at DESC, id DESC);
CREATE INDEX record_key ON record (key, scope) WHERE key <> '';
CREATE INDEX record_session ON record (session, created_at) WHERE session <> '';
CREATE INDEX record_status ON record (status, scope, created_at DESC, id DESC);

CREATE TABLE link (n INTEGER, i INTEGER, target TEXT NOT NULL, PRIMARY KEY (n, i)) WITHOUT ROWID;
CREATE INDEX link_target ON link (target, n);
CREATE TABLE tag (n INTEGER, i INTEGER, name TEXT NOT NULL, PRIMARY KEY (n, i)) WITHOUT ROWID;
CREATE INDEX tag_name ON tag (name, n);

CREATE VIEW word_source AS SELECT n, text, 's' || scope AS scope FROM record WHERE text <> '';
CREATE VIRTUAL TABLE words USING fts5 (
    text, scope, content = 'word_source', content_rowid = 'n', tokenize = '{TOKENIZER}'
);
CREATE VIRTUAL TABLE word USING fts5vocab (words, 'col');

CREATE TABLE vector_tail (
    v INTEGER PRIMARY KEY, dim INTEGER NOT NULL, n INTEGER NOT NULL, scope INTEGER NOT NULL, codes BLOB NOT NULL
);
CREATE INDEX vector_tail_dim ON vector_tail (dim, v);
CREATE TABLE vector_block (
    first_v INTEGER PRIMARY KEY, last_v INTEGER NOT NULL, dim INTEGER NOT NULL, codes BLOB NOT NULL
);
CREATE INDEX vector_block_range ON vector_block (last_v, first_v, dim);
CREATE TABLE vector_block_meta (first_v INTEGER PRIMARY KEY, rows BLOB NOT NULL);
"""


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _FIRST.split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


# Migration number i brings a file from version i to i + 1. Only ever append.
MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_create_tables]


_EARLIER_TABLES = {"heuristics", "outcomes", "preferences", "domain_knowledge", "anti_patterns"}


def read_version(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of the file, 0 for a new one; raise if it is not ours or newer than this version."""
    # Read together: another process may be creating the tables.
    with nullcontext() if db.in_transaction else _transaction(db, "BEGIN"):
        (application,), (version,) = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    is_empty = not names
    if application == 0 and version == 0 and is_empty:
        return 0
    if application != APPLICATION_ID and names >= _EARLIER_TABLES:
        raise EarlierStoreError(
            f"{path} is a database of alma-memory 0.x, which has another format. It was not changed. Move it to"
            " another path and import it from there: python examples/migrate/import_alma_0.py PATH (in alma's clone)"
        )
    if application != APPLICATION_ID:
        raise CorruptStoreError(f"{path} is not an alma database; choose another path for the store")
    if version > len(MIGRATIONS):
        raise NewerStoreError(
            f"{path} has format {version}, but this version of alma reads up to {len(MIGRATIONS)}; update alma"
        )
    return int(version)


def is_current(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a database has the newest format."""
    return read_version(db, path) == len(MIGRATIONS) and _read_views(db) == _digest_views(_define_views())


def refuse_old(db: sqlite3.Connection, path: Path) -> None:
    """Raise ReadOnlyError for an older format: a read-only connection cannot migrate it."""
    version = read_version(db, path)
    if version < len(MIGRATIONS):
        raise ReadOnlyError(
            f"{path} has format {version}, older than {len(MIGRATIONS)}; open it once for writing to update it"
        )


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """To be called inside a write transaction: another process may have been faster."""
    for number in range(read_version(db, path), len(MIGRATIONS)):
        MIGRATIONS[number](db)
        db.execute(f"PRAGMA user_version = {number + 1}")
    definitions, before = _define_views(), _read_views(db)
    if before != _digest_views(definitions):
        for name in {*before.split(" ")[1:], *definitions}:
            db.execute(f'DROP VIEW IF EXISTS "{name}"')
        for definition in definitions.values():
            db.execute(definition)
        db.execute("UPDATE meta SET value = ? WHERE name = 'views'", (_digest_views(definitions),))


def _read_views(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT value FROM meta WHERE name = 'views'").fetchone()[0])


def _digest_views(definitions: dict[str, str]) -> str:
    """What the file remembers of its views: whether they are the same, and their names."""
    return f"{hashlib.sha256(''.join(definitions.values()).encode()).hexdigest()[:16]} {' '.join(definitions)}"


_ROWS = "scoped_record"
_TABLES = {"meta", "scope", "record", "link", "tag", "words", "word", "word_source", _ROWS}
_COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")


def _define_views() -> dict[str, str]:
    """Return a view per kind, by name, and the one with what all kinds have.

    SQLite parses all views whenever a file is opened, so the columns that all kinds have are in one shared view.
    """
    leading = ("id", "project", "agent", "user", "session", "status", "text")
    trailing = (*_COUNTS, *_TIMES, "version", "superseded_by")
    views = {_ROWS: _define_rows()}
    for kind in KINDS.values():
        if not kind.name.isidentifier():
            continue
        is_taken = kind.name in _TABLES or kind.name.startswith(("sqlite_", "vector_", "words_"))
        name = f"{kind.name}_view" if is_taken else kind.name
        columns = [*leading]
        for field in kind.fields:
            alias = f"body_{field}" if field in {*leading, *trailing} else field
            columns.append(f"""json_extract(body, '$."{field}"') AS "{alias}\"""")
        columns += trailing
        views[name] = f"CREATE VIEW \"{name}\" AS SELECT {', '.join(columns)} FROM {_ROWS} WHERE kind = '{kind.name}'"
    return views


def _define_rows() -> str:
    columns = ["r.id", "s.kind", "s.project", "s.agent", "s.user", "r.session", "r.status", "r.text", "r.body"]
    columns += [f"coalesce(json_extract(r.evidence, '$.{count}'), 0) AS {count}" for count in _COUNTS]
    for moment in _TIMES:
        seconds = f"strftime('%Y-%m-%dT%H:%M:%S', r.{moment} / 1000000, 'unixepoch')"
        columns.append(f"{seconds} || printf('.%06dZ', r.{moment} % 1000000) AS {moment}")
    columns += ["r.version", "r.superseded_by"]
    return f"CREATE VIEW {_ROWS} AS SELECT {', '.join(columns)} FROM record r JOIN scope s ON s.id = r.scope"


# --- looking for damage, figures about the file, and a copy of it taken while others go on writing

_PAGES = 2048  # Pages copied between two reports of progress.

Progress = Callable[[int, int], None]


def find_problems(db: sqlite3.Connection, path: Path, *, can_write: bool) -> list[str]:
    """What is wrong. The index of words checks itself by a statement that only a writer may run."""
    problems: list[str] = []
    for check in (_check_file, *([_check_words] if can_write else []), _check_rows, _check_vectors):
        try:
            problems += check(db)
        except Exception as error:
            # Damage may be such that looking for it fails.
            if not is_damage(error):
                raise
            problems.append(f"the file is damaged: {error}")
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        problems.append(f"{path} {READABLE_BY_OTHERS} (mode {mode:04o}): run chmod 600 {path}")
    return problems


def _check_file(db: sqlite3.Connection) -> list[str]:
    lines = [line for (line,) in db.execute("PRAGMA integrity_check(20)")]
    return [f"the file is damaged: {line}" for line in lines if line != "ok"]


def _check_words(db: sqlite3.Connection) -> list[str]:
    try:
        db.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except Exception as error:
        if not is_damage(error):
            raise
        return [f"the index of words does not agree with the records: {error}"]
    return []


_ORPHANS = {
    "links without a record": "link WHERE n NOT IN (SELECT n FROM record)",
    "tags without a record": "tag WHERE n NOT IN (SELECT n FROM record)",
    "records without a scope": "record WHERE scope NOT IN (SELECT id FROM scope)",
    "scopes without a record": "scope WHERE id NOT IN (SELECT scope FROM record)",
    "records with a body, evidence or provenance that is not JSON": (
        "record WHERE NOT (json_valid(body) AND json_valid(evidence) AND json_valid(provenance))"
    ),
}


def _check_rows(db: sqlite3.Connection) -> Iterator[str]:
    for what, rows in _ORPHANS.items():
        (count,) = db.execute(f"SELECT count(*) FROM {rows}").fetchone()
        if count:
            yield f"{count} {what}"


def _check_vectors(db: sqlite3.Connection) -> Iterator[str]:
    stored: Counter[tuple[int, int, int]] = Counter()
    for v, n, scope, dim, length in db.execute("SELECT v, n, scope, dim, length(codes) FROM vector_tail"):
        stored[v, n, scope] += 1
        if dim != length:
            yield f"vector {v} has {length} codes instead of {dim}"
    select = (
        "SELECT first_v, b.last_v, b.dim, length(b.codes), m.rows"
        " FROM vector_block b LEFT JOIN vector_block_meta m USING (first_v)"
    )
    for first_v, last_v, dim, length, packed in db.execute(select):
        if packed is None or length != dim * (len(packed) // vectors.ROW_BYTES):
            yield f"the block of vectors {first_v} to {last_v} is not whole"
            continue
        meta = vectors.unpack_meta(packed)
        if meta.v != sorted(set(meta.v)) or (meta.v[0], meta.v[-1]) != (first_v, last_v):
            yield f"the block of vectors {first_v} to {last_v} is out of order"
        stored.update(row for row in zip(meta.v, meta.n, meta.scope, strict=True) if row[1] != vectors.HOLE)
    select = "SELECT n, scope, v_first, v_count FROM record WHERE v_count > 0"
    expected = {(v, n, scope) for n, scope, first, count in db.execute(select) for v in range(first, first + count)}
    for count, what in (
        (len(expected - stored.keys()), "vectors of records are missing"),
        (len(stored.keys() - expected), "vectors without a record"),
        (sum(count > 1 for count in stored.values()), "vectors are there more than once"),
    ):
        if count:
            yield f"{count} {what}"


def collect_stats(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return the path, size and contents of a database."""
    by_kind: dict[str, dict[str, int]] = {}
    select = (
        "SELECT s.kind, r.status, count(*) FROM record r JOIN scope s ON s.id = r.scope"
        " GROUP BY s.kind, r.status ORDER BY s.kind, r.status"
    )
    for kind, status, count in db.execute(select):
        by_kind.setdefault(kind, {})[status] = count
    select = "SELECT coalesce(sum(v_count), 0), (SELECT count(*) FROM vector_tail) FROM record"
    vector_count, waiting = db.execute(select).fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return {
        "path": str(path),
        "bytes": sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists()),
        "format": version,
        "records": sum(sum(statuses.values()) for statuses in by_kind.values()),
        "kinds": by_kind,
        "vectors": vector_count,
        "vectors_waiting": waiting,
    }


def copy_file(db: Database, target: Path, progress: Progress | None = None) -> None:
    """Copy what the file holds at one moment, whole and checked."""
    with make_new_file(target) as part:
        reading = db.connect(db.reading_uri, uri=True, isolation_level=None)
        writing = db.connect(part, isolation_level=None)
        try:
            # Without a transaction the copy would begin anew whenever another process writes in between.
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            report = (lambda _, left, total: progress(total - left, total)) if progress is not None else None
            reading.backup(writing, pages=_PAGES, progress=report)
            # One file and nothing beside it, until somebody opens it for writing.
            writing.execute("PRAGMA journal_mode = DELETE")
            [(verdict,)] = writing.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            writing.close()
            reading.close()
        if verdict != "ok":
            raise CorruptStoreError(f"{db.path} is damaged ({verdict}), so no backup was made; run `alma doctor`")
