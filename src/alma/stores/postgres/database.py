"""Connections to PostgreSQL: shared by threads, not by forked processes, and replaced when the server goes away.

Nothing here depends on the state of a session, so that it works behind a pooler that changes the session with every
transaction: each transaction sets what it needs. The pool has no threads of its own (those of psycopg_pool do not
survive a fork) and reports at once why a connection fails.

A write is repeated when its connection breaks, unless it was committed: the server is asked what became of it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.sql import Identifier, Literal

from ... import errors
from ...errors import ConfigError, ReadOnlyError, StorageError, UnavailableError
from ...forks import hold_at_fork

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_LONGEST_PAUSE = 0.5
_LOST = (UnavailableError, "the connection was lost; try again")
_RACES = (errors.BusyError, "others kept changing the same rows; nothing was changed, try again")
_CLASSES: dict[str, tuple[type[errors.ALMAError], str]] = {
    "42501": (ReadOnlyError, "the role may not do this ({}); grant it the rights, or use another role"),
    "25006": (ReadOnlyError, "the server or the role is read-only; nothing was changed; connect to the primary server"),
    "53100": (errors.StorageFullError, "no space left on the server; nothing was changed; free some space"),
    "53300": (errors.BusyError, "the server has no free connection; lower pool_size or raise max_connections"),
    "55P03": (errors.BusyError, "others locked the rows for too long; nothing was changed, try again"),
    "57014": (errors.BusyError, "the server cancelled a statement that took too long; nothing was changed"),
    "XX001": (errors.CorruptStoreError, "the database is damaged ({}); restore a backup"),
    "XX002": (errors.CorruptStoreError, "an index of the database is damaged ({}); run REINDEX"),
    "22": (errors.ValidationError, "a value cannot be stored: {}"),
    "54": (errors.ValidationError, "a value is too large to be stored: {}"),
    "08": _LOST,
    "57P": _LOST,
    "40001": _RACES,
    "40P01": _RACES,
}
_REPEATED = ("40001", "40P01", "53300", "57P01", "57P02", "57P03")
_REFUSED = ("authentication failed", "no password", "does not exist", "pg_hba.conf", "permission denied", "support SSL")

# Connections that came through a fork: using or closing one would disturb the parent.
_left_to_parents: list[Connection] = []


@dataclass(slots=True)
class Snapshot:
    """The snapshot of a thread, which has a connection from its first read on."""

    pid: int
    connection: Connection | None = None
    stack: ExitStack = field(default_factory=ExitStack)  # Ends the transaction and returns the connection.


class PostgresDatabase:
    """The connections of a process to one schema of a database, for one tenant."""

    def __init__(self, dsn: str, schema: str, tenant: str, pool_size: int, timeout: float, read_only: bool) -> None:
        self._dsn, self._size, self._timeout, self.read_only = dsn, pool_size, timeout, read_only
        self.schema, self.tenant = schema, escape_text(tenant)
        self.set_vector_schema("public")
        self._options, self.place = _read_options(dsn, timeout)
        self._lock = hold_at_fork(threading.Lock())
        self._local = threading.local()
        self._is_open = self._is_closed = False
        self._generation = 0
        self._changes: Counter[str] = Counter()
        self._listening: Connection | None = None
        self._listen_lock = hold_at_fork(threading.RLock())
        self._idle: list[Connection] = []
        self._start_anew()

    def set_vector_schema(self, name: str) -> None:
        """Set where pgvector is installed."""
        self.vector_schema = name
        settings = {
            "search_path": f"{quote_name(self.schema)}, {quote_name(name)}",
            "alma.tenant": f"={self.tenant}",
            "lock_timeout": str(int(self._timeout * 1000)),
            "jit": "off",
        }
        self._settings = ", ".join(set_locally(*setting) for setting in settings.items())

    # --- transactions

    def fetch(self, query: str, params: Sequence[Any] = (), *, binary: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Its transaction is sent with it, as one message."""
        if self._get_snapshot() is not None:
            return self.read(lambda connection: connection.execute(query, params, binary=binary).fetchall())

        def attempt(deadline: float) -> list[tuple[Any, ...]]:
            with self._borrow(deadline) as connection:
                with self._pipeline(connection):
                    self._execute_begin(connection, "READ ONLY")
                    cursor = connection.execute(query, params, binary=binary)
                    connection.execute("COMMIT")
                return cursor.fetchall()

        return self._repeat(attempt)

    def read(self, step: Callable[[Connection], T]) -> T:
        """Return what `step` returns, called in a transaction; it may be called again."""

        def attempt(deadline: float) -> T:
            with self._read_transaction(deadline, "READ ONLY") as connection:
                return step(connection)

        return self._repeat(attempt)

    @contextmanager
    def _read_transaction(self, deadline: float, mode: str) -> Iterator[Connection]:
        snapshot = self._get_snapshot()
        if snapshot is None:
            with self._borrow(deadline) as connection:
                connection.execute(self._begin(mode))
                yield connection
                connection.execute("COMMIT")
            return
        if snapshot.connection is None:
            with ExitStack() as stack:
                connection = stack.enter_context(self._borrow(deadline))
                connection.execute(self._begin("ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                stack.callback(connection.execute, "COMMIT")
                snapshot.connection, snapshot.stack = connection, stack.pop_all()
        yield snapshot.connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread reads inside belongs to one moment. A snapshot inside another is part of it.

        It begins with the first read, and costs nothing if nothing is read.
        """
        outer = self._get_snapshot()
        snapshot = outer or Snapshot(os.getpid())
        self._local.snapshot = snapshot
        try:
            yield
        finally:
            self._local.snapshot = outer
            if outer is None:
                with suppress(psycopg.Error):  # If it was lost, there is nothing to end.
                    snapshot.stack.close()

    def write(self, step: Callable[[Connection], T], ids: Sequence[str] = (), *, can_be_pipelined: bool = False) -> T:
        """Return what `step` returns, called in a transaction that was committed, exactly once.

        `step` may be called again after a failure. `ids` are the records that it writes: the trace by which a commit is
        recognised after the server was replaced. A step whose statements are sent one by one can be pipelined.
        """
        if self.read_only:
            raise ReadOnlyError(f"{self.place} was opened with read_only; nothing was changed")
        if self._get_snapshot() is not None:
            raise StorageError("nothing can be written inside a snapshot; leave it first")
        # The transaction whose commit was not answered: its number, the server's incarnation, and the result.
        unsettled: list[tuple[str, str, T]] = []
        is_doubtful = False

        def attempt(deadline: float) -> T:
            nonlocal is_doubtful
            with self._borrow(deadline) as connection:
                if unsettled:
                    verdict = self._find_verdict(connection, *unsettled[0][:2], ids)
                    if verdict == "committed":
                        return unsettled[0][2]
                    is_doubtful = is_doubtful or verdict == "doubtful"
                    unsettled.clear()
                try:
                    with self._pipeline(connection) if can_be_pipelined else nullcontext():
                        self._execute_begin(connection, "")
                        result = step(connection)
                        query = "SELECT pg_current_xact_id()::text, max(value)::text FROM incarnation"
                        [(number, incarnation)] = connection.execute(query).fetchall()
                except errors.ConflictError as error:
                    if is_doubtful:
                        raise self._doubt() from error
                    raise
                unsettled.append((number, incarnation or self._read_incarnation(connection), result))
                try:
                    connection.execute("COMMIT")
                except psycopg.Error:
                    if not connection.broken:
                        unsettled.clear()
                    raise
                return result

        try:
            return self._repeat(attempt)
        except errors.ALMAError as error:
            if unsettled:
                raise self._doubt() from error
            raise

    def execute_alone(self, statement: str, watch: Callable[[Any], None] | None = None) -> None:
        """Execute a statement that no transaction may contain; `watch` is called with the server's notices."""

        def attempt(deadline: float) -> None:
            with self._borrow(deadline) as connection:
                if watch is not None:
                    connection.add_notice_handler(watch)
                try:
                    connection.execute(f"SET lock_timeout = {int(self._timeout * 1000)}; SET statement_timeout = 0")
                    connection.execute(statement)
                finally:
                    # Its settings and handlers go with it.
                    self._discard(connection)

        self._repeat(attempt)

    def _read_incarnation(self, connection: Connection) -> str:
        """Return a value that changes when the server crashes or a standby takes over: both empty unlogged tables."""
        row = connection.execute("SELECT max(value) FROM incarnation").fetchone()
        if row is None or row[0] is None:
            row = connection.execute("INSERT INTO incarnation VALUES (gen_random_uuid()) RETURNING value").fetchone()
        return str(row and row[0])

    def _find_verdict(self, connection: Connection, number: str, incarnation: str, ids: Sequence[str]) -> str:
        """Return what became of a transaction: committed, aborted or, after a crash, perhaps doubtful."""
        try:
            [(status,)] = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (number,)).fetchall()
        except psycopg.errors.InvalidParameterValue:
            return "aborted"  # The server forgot it in a crash and has not used its number again.
        if status == "in progress":
            raise psycopg.OperationalError("the transaction is still in progress")
        if status is None:
            raise self._doubt()
        if status == "aborted":
            return "aborted"
        connection.execute(self._begin(""))
        is_same = self._read_incarnation(connection) == incarnation
        # After a crash the number may have been used for another transaction.
        query = "SELECT 1 FROM record WHERE tenant = %s AND id = ANY(%s) AND xmin = %s::text::xid LIMIT 1"
        rows = connection.execute(query, (self.tenant, list(ids), str(int(number) % 2**32))).fetchall()
        connection.execute("COMMIT")
        return "committed" if is_same or rows else "doubtful"

    def _doubt(self) -> errors.UnavailableError:
        doubt = "it is unknown whether the write was stored; read the records before you write them again"
        return errors.UnavailableError(f"{self.place}: the connection broke during a commit, and {doubt}")

    def _pipeline(self, connection: Connection) -> AbstractContextManager[Any]:
        """Statements inside are sent without waiting for each answer, where libpq can do that."""
        return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()

    def _execute_begin(self, connection: Connection, mode: str) -> None:
        """Begin a transaction with two statements: inside a pipeline, each is sent by itself."""
        connection.execute(f"BEGIN {mode}")
        connection.execute(f"SELECT {self._settings}")

    def _begin(self, mode: str) -> str:
        return f"BEGIN {mode}; SELECT {self._settings}"

    # --- changes by other processes

    def read_revision(self, *, by_notices: bool) -> object:
        """Return a value that differs from an earlier one if any process wrote in between."""
        if not by_notices:
            return self.fetch("SELECT pg_current_snapshot()::text, pg_postmaster_start_time()")[0]
        self._check_fork()
        with self._listen_lock:
            try:
                if self._listening is None:
                    # What happened while nobody listened counts as a change.
                    self._generation += 1
                    changes, self._listening = self._changes, self._connect()
                    self._listening.add_notify_handler(lambda notice: changes.update((notice.channel,)))
                    self._listening.execute(f"LISTEN {quote_name(self.channel)}")
                # The server delivers what was committed before with the answer.
                self._listening.execute("SELECT 1")
            except psycopg.Error:
                if self._listening is not None:
                    self._discard(self._listening)
                self._listening = None
                self._generation += 1
            return self._generation, self._changes.total()

    @property
    def channel(self) -> str:
        """Return the name under which the changes of this tenant are announced."""
        return f"alma_{blake2b(f'{self.schema} {self.tenant}'.encode(), digest_size=12).hexdigest()}"

    # --- connections

    def close(self) -> None:
        """Close all connections; those in use are closed when they are returned."""
        with self._lock:
            self._is_closed = True
            idle = self._idle
            self._idle = []
        with self._listen_lock:
            if self._listening is not None:
                idle.append(self._listening)
            self._listening = None
        for connection in idle if self._pid == os.getpid() else ():
            self._discard(connection)

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._all: set[Connection] = set()
        self._idle = []
        self._slots = threading.Semaphore(self._size)
        # A store that nobody closed is closed when it is collected.
        weakref.finalize(self, _close_all, self._all, self._pid)

    def _check_fork(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                _left_to_parents.extend(self._all)
                self._listening = None
                self._start_anew()

    def _get_snapshot(self) -> Snapshot | None:
        snapshot: Snapshot | None = getattr(self._local, "snapshot", None)
        return snapshot if snapshot is not None and snapshot.pid == os.getpid() else None

    def _has_begun_snapshot(self) -> bool:
        snapshot = self._get_snapshot()
        return snapshot is not None and snapshot.connection is not None

    @contextmanager
    def _borrow(self, deadline: float) -> Iterator[Connection]:
        self._check_fork()
        slots = self._slots
        if not slots.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise errors.BusyError(f"all {self._size} connections stayed in use; try again, or raise pool_size")
        try:
            with self._lock:
                if self._is_closed:
                    raise StorageError(f"{self.place} is closed; open the store again")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            slots.release()

    def _take_back(self, connection: Connection) -> None:
        if self._pid != os.getpid() or connection not in self._all:
            return  # It belongs to the process that forked this one, or is closed.
        if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        with self._lock:
            self._idle.append(connection)
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            # If one is lost, the others are likely to be lost as well.
            lost = [] if is_idle and not self._is_closed else self._idle
            self._idle = self._idle if lost is not self._idle else []
        for one in lost:
            self._discard(one)

    def _discard(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.close()

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None, **self._options)
        self._all.add(connection)
        self._is_open = True
        return connection

    def _repeat(self, attempt: Callable[[float], T]) -> T:
        """Call until it succeeds, fails for good, or time is over; it gets the moment when time is over."""
        deadline, pause = time.monotonic() + self._timeout, 0.01
        while True:
            try:
                return attempt(deadline)
            except psycopg.Error as error:
                is_over = time.monotonic() + pause > deadline or self._has_begun_snapshot()
                if is_over or not self._is_passing(error):
                    # The chain of a failed connection may quote the connection string.
                    raise self._translate(error) from (error if error.sqlstate else None)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _is_passing(self, error: psycopg.Error) -> bool:
        if error.sqlstate is not None:
            return error.sqlstate in _REPEATED or error.sqlstate.startswith("08")
        is_refused = any(sign in str(error) for sign in _REFUSED)
        is_starting = any(sign in str(error) for sign in ("starting up", "recovery", "too many", "connection slots"))
        return isinstance(error, psycopg.OperationalError) and (is_starting or (self._is_open and not is_refused))

    def _translate(self, error: psycopg.Error) -> errors.ALMAError:
        reason = " ".join(str(error).split())
        state = error.sqlstate or ""
        if not state and isinstance(error, psycopg.OperationalError):
            # A piece of a password with odd characters may have been taken for a host or a database.
            shown = reason if "@" not in reason and self.place.startswith("PostgreSQL at") else "check the dsn"
            if any(sign in reason for sign in _REFUSED):
                return ConfigError(f"{self.place} refused the connection: {shown}")
            return UnavailableError(f"{self.place} cannot be reached; check the dsn and that the server runs ({shown})")
        for prefix, (kind, message) in _CLASSES.items():
            if state.startswith(prefix):
                return kind(f"{self.place}: {message.format(reason)}")
        return StorageError(f"{self.place}: {reason}")


def escape_text(text: str) -> str:
    """Return text without NUL, which PostgreSQL cannot hold; the order is the same, and `restore_text` undoes it."""
    text = str.__str__(text)
    if text.isprintable():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise errors.ValidationError(f"{text[:50]!r} is not valid Unicode: {error.reason}") from error
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def restore_text(text: str) -> str:
    """Return the text that was escaped."""
    return text.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in text else text


def set_locally(name: str, value: str) -> str:
    """Return the expression that changes a setting until the transaction ends."""
    return f"set_config('{name}', {Literal(value).as_string(None)}, true)"


def quote_name(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return Identifier(name).as_string(None)


def _read_options(dsn: str, timeout: float) -> tuple[dict[str, Any], str]:
    """Return the options that a connection string leaves open, and how messages name the server."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The reason quotes the string.
        advice = "write postgresql://user:password@host:5432/database, with special characters percent-encoded"
        raise ConfigError(f"dsn is not a connection string of PostgreSQL; {advice}") from None
    options = {"connect_timeout": max(2, int(timeout)), "application_name": "alma", "client_encoding": "utf8"}
    options |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
    place = f"{parts.get('host') or 'the local server'}{':' if parts.get('port') else ''}{parts.get('port') or ''}"
    place = f"PostgreSQL at {place}, database {parts.get('dbname') or 'of the user'}"
    if dsn.count("@") > 1 or "@" in place:
        place = "PostgreSQL"
    return {name: value for name, value in options.items() if name not in parts}, place


def _close_all(connections: set[Connection], opened_by: int) -> None:
    if os.getpid() == opened_by:
        for connection in list(connections):
            connection.close()
