"""SQLiteStore: the storage port over one file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from heapq import nlargest
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import BusyError, CorruptStoreError, ReadOnlyError
from ...types.kinds import KINDS
from ...types.query import Hit, Where, split_batches
from ...types.record import NONE, Record, Vector
from ...types.times import to_micros
from ..memory import decode_columns, keep_latest, refuse_record
from . import database, search, vectors
from .database import Database, Progress

if TYPE_CHECKING:
    from .cache import Cache

_PAGE = 256
_FEW_CELLS = 128
_MANY_SCOPES = 200  # More scopes than this are not looked for in the index of words.

SCOPE = ("kind", "project", "agent", "user", "embedder")
# Columns that some index is made of: an update that leaves them out leaves the indexes alone.
PLACE = ("session", "status", "key", "created_at")
CONTENT = (
    *("version", "updated_at", "valid_from", "valid_to", "superseded_by"),
    *("v_hash", "evidence", "provenance", "text", "body"),
)
_DAMAGED = "a record is damaged; run `alma doctor`, or restore a backup"
# The column of a side table, and the field of a record that it holds.
_SIDES = {"link": ("target", "links"), "tag": ("name", "tags")}

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class StoredRow(NamedTuple):
    """The stored row of a record before it is overwritten or deleted."""

    id: str
    n: int
    version: int
    v_hash: str
    text: str
    scope: int
    span: vectors.Span
    place: tuple[Any, ...]


class Row(NamedTuple):
    """The row of a record, encoded before the write lock is taken."""

    record: Record
    v_hash: str
    place: tuple[Any, ...]
    content: tuple[Any, ...]


class RowChange(NamedTuple):
    """A row to write, and the row that it replaces."""

    row: Row
    n: int
    scope: int
    before: StoredRow | None


class SQLiteStore:
    """Records, words and vectors in one file; any number of threads and processes may use it at once."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 30.0,
        read_only: bool = False,
        encryption_keys: Sequence[bytes] = (),
        trust: bool = False,
    ) -> None:
        """`encryption_keys` encrypt the whole file with SQLCipher: a new file with the first one.

        With `trust`, the file is opened even if git tracks it or another user owns it.
        """
        self.path = Path(path).expanduser()
        self._db = Database(
            self.path, busy_timeout=busy_timeout, read_only=read_only, encryption_keys=encryption_keys, trust=trust
        )
        self._cache: Cache | None
        self._forget(0)

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        rows = [_to_row(record) for record in records]
        if not rows:
            return
        is_passing = all(record.kind in KINDS and KINDS[record.kind].passing for record in records)
        with self._db.write(passing=is_passing) as db:
            _write_changes(db, _plan_changes(db, rows))

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        if not ids:
            return []
        with self._db.read() as db:
            clause = search.match_names("id", ids)
            numbers = dict(db.execute(f"SELECT id, n FROM record WHERE {clause.sql}", clause.params))
            records = _read_rows(db, numbers.values())
        if len(records) < len(numbers):
            # The index of ids has rows that the table has not.
            raise CorruptStoreError(_DAMAGED)
        return [records[numbers[id]] for id in ids if id in numbers]

    def snapshot(self) -> AbstractContextManager[None]:
        """All that this thread reads inside belongs to one moment."""
        return self._db.snapshot()

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed."""
        with self._db.write() as db:
            stored = _find_stored(db, ids)
            vectors.remove_spans(db, [one.span for one in stored])
            search.replace_rows(db, [(one.n, one.text, one.scope) for one in stored])
            for table in ("link", "tag", "record"):
                db.executemany(f"DELETE FROM {table} WHERE n = ?", [(one.n,) for one in stored])
            _forget_scopes(db, {one.scope for one in stored})
        return len(stored)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Which records is settled at the start; their content is read page by page while the caller goes on."""
        with self._db.read() as db:
            numbers = _find_newest(db, where, limit)

        def read_pages() -> Iterator[Record]:
            for page in split_batches(numbers, _PAGE):
                with self._db.read() as db:
                    records = _read_rows(db, page)
                # It may have been deleted or changed since the scan began.
                yield from (records[n] for n in page if n in records and where.accepts(records[n]))

        return read_pages()

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        condition = search.compile_filter(where)
        if limit <= 0:
            return []
        with self._db.read() as db:
            return self._open_cache().nearest(db, vector, condition, limit)

    def nearest_by_kind(self, vector: Vector, where: Where, limits: Mapping[str, int]) -> dict[str, list[Hit]]:
        """Return for each kind the records whose vectors are nearest, best first."""
        hits: dict[str, list[Hit]] = {}
        with self._db.read() as db:
            cache = self._open_cache()
            for kind, limit in limits.items():
                # Vectors of one kind lie together, so that each vector is still scored once.
                condition = search.compile_filter(replace(where, kinds={kind}))
                hits[kind] = cache.nearest(db, vector, condition, limit) if limit > 0 else []
        return hits

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        """Return the records that best match the words, best first."""
        condition = search.compile_filter(where)
        if limit <= 0:
            return []
        with self._db.read() as db:
            self._notice_opening()
            return search.match(db, self._frequencies, words, condition, limit, _MANY_SCOPES)

    def match_by_kind(self, words: str, where: Where, limits: Mapping[str, int]) -> dict[str, list[Hit]]:
        """Return for each kind the records that best match the words, best first."""
        hits: dict[str, list[Hit]] = {}
        with self._db.read() as db:
            self._notice_opening()
            for kind, limit in limits.items():
                condition = search.compile_filter(replace(where, kinds={kind}))
                found = search.match(db, self._frequencies, words, condition, limit, _MANY_SCOPES) if limit > 0 else []
                hits[kind] = found
        return hits

    def match_all(self, words: str, where: Where, limit: int) -> list[str]:
        """Return the ids of records that hold each of the words, newest first."""
        condition = search.compile_filter(where)
        if limit <= 0:
            return []
        with self._db.read() as db:
            self._notice_opening()
            return search.match_all(db, self._frequencies, words, condition, limit)

    def count(self, where: Where) -> dict[tuple[str, str, str], int]:
        """Return how many records there are of each kind, agent and status."""
        condition = search.compile_filter(where)
        clause = search.join_clauses(condition.scope, condition.record)
        select = (
            "SELECT s.kind, s.agent, r.status, count(*) FROM record r JOIN scope s ON s.id = r.scope"
            f"{clause.after('WHERE')} GROUP BY s.kind, s.agent, r.status"
        )
        with self._db.read() as db:
            return {(kind, agent, status): many for kind, agent, status, many in db.execute(select, clause.params)}

    def check(self) -> list[str]:
        """Nobody writes meanwhile; it takes about as long as reading the whole file."""
        try:
            with self._db.write() as db:
                return database.find_problems(db, self.path, can_write=True)
        except ReadOnlyError:
            with self._db.read() as db:
                return database.find_problems(db, self.path, can_write=False)

    def stats(self) -> dict[str, Any]:
        """Return the path, size and contents of the file."""
        with self._db.read() as db:
            return database.collect_stats(db, self.path)

    def revision(self) -> tuple[int, int]:
        """Return a value that differs from an earlier one if any process wrote to the file in between."""
        return self._db.read_revision()

    def vacuum(self) -> None:
        """Leave no byte of deleted records in the file, and give unused space back.

        The word index is rebuilt (its segments keep deleted terms until they are merged), every page is rewritten,
        and the write-ahead log is emptied. BusyError when another connection still reads from that log.
        """
        with self._db.use() as db:
            db.execute("INSERT INTO words (words) VALUES ('rebuild')")
            db.execute("VACUUM")
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise BusyError(
                f"another process is reading {self.path}, so its log still contains deleted content; vacuum again later"
            )

    def backup(self, target: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Copy what the file holds at this moment to a new file, while others read and write."""
        with self._db.read():
            pass
        with self._db.translate_errors():
            database.copy_file(self._db, Path(target), progress)

    def close(self) -> None:
        """Close the store."""
        self._db.close()
        self._forget(0)

    def _open_cache(self) -> Cache:
        """Return the cache of the vectors; to be called inside a read transaction."""
        from .cache import Cache

        self._notice_opening()
        if self._cache is None:
            self._cache = Cache()
        return self._cache

    def _notice_opening(self) -> None:
        """The file may have been replaced by another, or this process by its child."""
        if self._opening != self._db.openings:
            self._forget(self._db.openings)

    def _forget(self, opening: int) -> None:
        self._opening = opening
        self._cache = None
        self._frequencies = search.Frequencies()


def _find_newest(db: sqlite3.Connection, where: Where, limit: int | None) -> Sequence[int]:
    most = -1 if limit is None else max(limit, 0)
    newest = "ORDER BY r.created_at DESC, r.id DESC LIMIT ?"
    condition = search.compile_filter(where)
    if limit is not None and not condition.shortcut.sql:
        scopes = condition.scopes(db)
        if scopes is None:
            scopes = [id for (id,) in db.execute("SELECT id FROM scope LIMIT ?", (_FEW_CELLS + 1,))]
        statuses = None if where.statuses is None else sorted({str.__str__(status) for status in where.statuses})
        if len(scopes) * (1 if statuses is None else len(statuses)) <= _FEW_CELLS:
            # Within one scope and status the newest are found by walking an index; over several all would be sorted.
            rest = search.compile_filter(replace(where, statuses=None)).record
            cells = product(scopes) if statuses is None else product(scopes, statuses)
            cell_sql = "r.scope = ?" if statuses is None else "r.scope = ? AND r.status = ?"
            select = f"SELECT r.created_at, r.id, r.n FROM record r WHERE {cell_sql}{rest.after('AND')} {newest}"
            rows = [row for cell in cells for row in db.execute(select, (*cell, *rest.params, most))]
            return [n for _, _, n in nlargest(most, rows)]
    numbers = condition.select_numbers()
    return array("q", (n for (n,) in db.execute(f"{numbers.sql} {newest}", (*numbers.params, most))))


def _find_stored(db: sqlite3.Connection, ids: Collection[str]) -> list[StoredRow]:
    clause = search.match_names("id", ids)
    columns = f"id, n, version, v_hash, text, scope, v_first, v_count, {', '.join(PLACE)}"
    rows = db.execute(f"SELECT {columns} FROM record WHERE {clause.sql}", clause.params)
    return [StoredRow._make((*row[:6], row[6:8], row[8:])) for row in rows]


def _plan_changes(db: sqlite3.Connection, rows: list[Row]) -> list[RowChange]:
    """Return the rows to write; raise ConflictError for a version that is not newer."""
    stored = {one.id: one for one in _find_stored(db, [row.record.id for row in rows])}
    keep_latest((row.record for row in rows), {id: one.version for id, one in stored.items()})
    latest = {row.record.id: row for row in rows}
    get_scope, columns = attrgetter(*SCOPE), ", ".join(SCOPE)
    scopes = dict.fromkeys((get_scope(row.record) for row in latest.values()), 0)
    db.executemany(f"INSERT OR IGNORE INTO scope ({columns}) VALUES (?, ?, ?, ?, ?)", scopes)
    for scope in scopes:
        (scopes[scope],) = db.execute(f"SELECT id FROM scope WHERE ({columns}) = (?, ?, ?, ?, ?)", scope).fetchone()
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'record'").fetchone()
    changes = []
    for id, row in latest.items():
        before = stored.get(id)
        last += before is None
        changes.append(RowChange(row, before.n if before else last, scopes[get_scope(row.record)], before))
    return changes


_COLUMNS = ("n", "id", "scope", *PLACE, "v_first", "v_count", *CONTENT)
_INSERT = f"INSERT INTO record ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_UPDATE = f"UPDATE record SET {', '.join(f'{name} = ?' for name in CONTENT)} WHERE n = ?"
_MOVED = ("scope", *PLACE, "v_first", "v_count")
_MOVE = f"UPDATE record SET {', '.join(f'{name} = ?' for name in _MOVED)} WHERE n = ?"


def _write_changes(db: sqlite3.Connection, changes: list[RowChange]) -> None:
    spans = _write_vectors(db, changes)
    inserts, updates, moves, unindexed, indexed, left = [], [], [], [], [], set()
    for row, n, scope, before in changes:
        if before is None:
            inserts.append((n, row.record.id, scope, *row.place, *spans[n], *row.content))
            indexed.append((n, row.record.text, scope))
            continue
        updates.append((*row.content, n))
        span = spans.get(n, before.span)
        if (before.scope, before.place, before.span) != (scope, row.place, span):
            moves.append((scope, *row.place, *span, n))
        if (before.scope, before.text) != (scope, row.record.text):
            unindexed.append((n, before.text, before.scope))
            indexed.append((n, row.record.text, scope))
        if before.scope != scope:
            left.add(before.scope)
    search.replace_rows(db, unindexed, indexed)
    for statement, values in ((_INSERT, inserts), (_UPDATE, updates), (_MOVE, moves)):
        db.executemany(statement, values)
    replaced = [change.n for change in changes if change.before]
    for table, (_, field) in _SIDES.items():
        # Links or tags, where they changed.
        stored = _read_side(db, table, json.dumps(replaced)) if replaced else {}
        fresh = {change.n: getattr(change.row.record, field) for change in changes}
        changed = {n: values for n, values in fresh.items() if values != stored.get(n, ())}
        db.executemany(f"DELETE FROM {table} WHERE n = ?", [(n,) for n in changed if n in stored])
        entries = [(n, i, value) for n, values in changed.items() for i, value in enumerate(values)]
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", entries)
    if left:
        _forget_scopes(db, left)


def _write_vectors(db: sqlite3.Connection, changes: list[RowChange]) -> dict[int, vectors.Span]:
    """Replace the vectors that changed; the range of numbers that each of their records holds now."""
    changed = [
        change
        for change in changes
        if change.before is None or (change.before.scope, change.before.v_hash) != (change.scope, change.row.v_hash)
    ]
    vectors.remove_spans(db, [change.before.span for change in changed if change.before])
    spans: dict[int, vectors.Span] = dict.fromkeys([change.n for change in changed], (0, 0))
    entries: list[vectors.VectorEntry] = []
    if any(change.row.record.vectors for change in changed):
        (v,) = db.execute("SELECT value FROM meta WHERE name = 'next_v'").fetchone()
        for row, n, scope, _ in changed:
            first, codes = v + len(entries), row.record.vectors
            if codes:
                spans[n] = (first, len(codes))
            entries += [vectors.VectorEntry(first + i, n, scope, bytes(code)) for i, code in enumerate(codes)]
        db.execute("UPDATE meta SET value = value + ? WHERE name = 'next_v'", (len(entries),))
        vectors.add_entries(db, entries)
    return spans


def _forget_scopes(db: sqlite3.Connection, scopes: set[int]) -> None:
    """A scope that no record is in any more goes with the last of them."""
    db.executemany(
        "DELETE FROM scope WHERE id = ? AND NOT EXISTS (SELECT 1 FROM record WHERE record.scope = scope.id)",
        [(scope,) for scope in scopes],
    )


# -- a record as a row, and back


def _to_row(record: Record) -> Row:
    try:
        # Tells whether a record's vectors changed without reading them.
        lengths = ",".join(str(len(vector)) for vector in record.vectors)
        data = b"".join((lengths.encode(), *record.vectors))
        v_hash = hashlib.blake2b(data, digest_size=8).hexdigest() if record.vectors else ""
        content = (
            record.version,
            to_micros(record.updated_at),
            None if record.valid_from is None else to_micros(record.valid_from),
            None if record.valid_to is None else to_micros(record.valid_to),
            record.superseded_by,
            v_hash,
            "{}" if record.evidence is NONE else _encode(record.evidence.to_json()),
            _encode(record.provenance.to_json()),
            record.text,
            _encode(dict(record.body)),
        )
        place = (record.session, str(record.status), record.key, to_micros(record.created_at))
    except (TypeError, ValueError) as problem:
        raise refuse_record(record, problem) from problem
    return Row(record, v_hash, place, content)


_FIELDS = (*SCOPE, "id", *PLACE, *(name for name in CONTENT if name != "v_hash"))
_QUALIFIED = ", ".join(f"s.{name}" if name in SCOPE else f"r.{name}" for name in _FIELDS)
_SELECT = (
    f"SELECT r.n, r.v_first, r.v_count, {_QUALIFIED}"
    " FROM record r JOIN scope s ON s.id = r.scope WHERE r.n IN (SELECT value FROM json_each(?))"
)


def _read_rows(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Record]:
    """Return the records with these numbers, by number; those that are gone are left out."""
    wanted_json = json.dumps(list(numbers))
    rows = db.execute(_SELECT, (wanted_json,)).fetchall()
    links, tags = _read_side(db, "link", wanted_json), _read_side(db, "tag", wanted_json)
    codes = vectors.read_spans(db, {row[0]: (row[1], row[2]) for row in rows if row[2]})
    try:
        return {n: _to_record(row, links.get(n, ()), tags.get(n, ()), codes.get(n, ())) for n, _, _, *row in rows}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStoreError(_DAMAGED) from error


def _read_side(db: sqlite3.Connection, table: str, wanted_json: str) -> dict[int, tuple[str, ...]]:
    """Links or tags, by the number of their record."""
    values: dict[int, tuple[str, ...]] = {}
    select = f"SELECT n, {_SIDES[table][0]} FROM {table} WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n, i"
    for n, value in db.execute(select, (wanted_json,)):
        values[n] = (*values.get(n, ()), value)
    return values


def _to_record(row: list[Any], links: tuple[str, ...], tags: tuple[str, ...], codes: tuple[Vector, ...]) -> Record:
    fields = dict(zip(_FIELDS, row, strict=True))
    decode_columns(fields)
    return Record(**fields, links=links, tags=tags, vectors=codes)
