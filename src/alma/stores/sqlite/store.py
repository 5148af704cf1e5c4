"""SQLiteStore: the storage port over one file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from heapq import nlargest
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import BusyError, CorruptStoreError, ReadOnlyError
from ...types import evidence
from ...types.evidence import Evidence
from ...types.kinds import KINDS
from ...types.query import Hit, Where
from ...types.record import Provenance, Record, Status
from ...types.times import from_micros, to_micros
from ...types.vector import Vector
from .. import sql
from ..memory import refuse_record, refuse_version
from . import check, filters, vectors
from . import words as index
from .cache import Cache
from .check import Progress
from .database import Database

_PAGE = 256
_FEW_CELLS = 128
_MANY_SCOPES = 200
"""More scopes than this are not looked for in the index of words."""

Scope = tuple[str, str, str, str, str]
"""kind, project, agent, user, embedder"""

PLACE = ("session", "status", "key", "created_at")
"""Columns that some index is made of: an update that leaves them out leaves the indexes alone."""
CONTENT = (
    "version",
    "updated_at",
    "valid_from",
    "valid_to",
    "superseded_by",
    "v_hash",
    "evidence",
    "provenance",
    "text",
    "body",
)
_NAMES = ("id", *PLACE, *CONTENT)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_STATUSES = {str(status): status for status in Status}


class HeldRow(NamedTuple):
    """What is known of a record before it is overwritten or deleted."""

    id: str
    n: int
    version: int
    v_hash: str
    text: str
    scope: int
    place: tuple[Any, ...]
    span: vectors.Span


class RowChange(NamedTuple):
    row: Row
    n: int
    scope: int
    held: HeldRow | None


class SQLiteStore:
    """Records, words and vectors in one file; any number of threads and processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 30.0, read_only: bool = False) -> None:
        self.path = Path(path).expanduser()
        self._db = Database(self.path, busy_timeout=busy_timeout, read_only=read_only)
        self._forget(0)

    def put(self, records: Sequence[Record]) -> None:
        fresh = [_to_row(record) for record in records]
        if not fresh:
            return
        is_passing = all(record.kind in KINDS and KINDS[record.kind].passing for record in records)
        with self._db.write(passing=is_passing) as db:
            _write_changes(db, _plan_changes(db, fresh))

    def get(self, ids: Sequence[str]) -> list[Record]:
        with self._db.read() as db:
            clause = sql.match_names("id", ids, filters.DIALECT)
            numbers = dict(db.execute(f"SELECT id, n FROM record WHERE {clause.sql}", clause.params))
            records = _read_rows(db, numbers.values())
        return [records[numbers[id]] for id in ids if id in numbers]

    def snapshot(self) -> AbstractContextManager[None]:
        """All that this thread reads inside belongs to one moment."""
        return self._db.snapshot()

    def delete(self, ids: Sequence[str]) -> int:
        with self._db.write() as db:
            held = _find_held(db, ids)
            vectors.remove_spans(db, [one.span for one in held])
            index.replace_rows(db, [(one.n, one.text, one.scope) for one in held])
            for table in ("link", "tag", "record"):
                db.executemany(f"DELETE FROM {table} WHERE n = ?", [(one.n,) for one in held])
            _forget_scopes(db, {one.scope for one in held})
        return len(held)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Which records is settled at the start; their content is read page by page while the caller goes on."""
        with self._db.read() as db:
            numbers = _find_newest(db, where, limit)
        return self._pages(numbers, where)

    def _pages(self, numbers: Sequence[int], where: Where) -> Iterator[Record]:
        for start in range(0, len(numbers), _PAGE):
            page = numbers[start : start + _PAGE]
            with self._db.read() as db:
                records = _read_rows(db, page)
            for n in page:
                # It may have been deleted or changed since the scan began.
                if n in records and where.accepts(records[n]):
                    yield records[n]

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        condition = filters.compile_filter(where)
        if limit <= 0:
            return []
        with self._db.read() as db:
            self._notice_opening()
            return self._cache.nearest(db, vector, condition, limit)

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        condition = filters.compile_filter(where)
        if limit <= 0:
            return []
        with self._db.read() as db:
            self._notice_opening()
            return index.match(db, self._frequencies, words, condition, limit, _MANY_SCOPES)

    def count(self, where: Where) -> dict[tuple[str, str, str], int]:
        clause = sql.join_clauses(*sql.compile_where(where, filters.DIALECT))
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
                return check.find_problems(db, self.path, can_write=True)
        except ReadOnlyError:
            with self._db.read() as db:
                return check.find_problems(db, self.path, can_write=False)

    def stats(self) -> dict[str, Any]:
        """What a person wants to know about the file."""
        with self._db.read() as db:
            return check.collect_stats(db, self.path)

    def vacuum(self) -> None:
        """Leave no byte of deleted records in the file, and give unused space back.

        The word index is built anew (its segments keep deleted terms until they are merged), every page is rewritten,
        and the write-ahead log is emptied. BusyError when another connection still reads from that log.
        """
        with self._db.use() as db:
            db.execute("INSERT INTO words (words) VALUES ('rebuild')")
            db.execute("VACUUM")
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise BusyError(
                f"another process reads {self.path}, so its log still holds old content; vacuum again later"
            )

    def backup(self, target: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Copy what the file holds at this moment to a new file, while others read and write."""
        with self._db.read():
            pass
        with self._db.translate_errors():
            check.copy_file(self._db.reading_uri, self.path, Path(target), progress)

    def close(self) -> None:
        self._db.close()
        self._forget(0)

    def _notice_opening(self) -> None:
        """The file may have been replaced by another, or this process by its child."""
        if self._opening != self._db.openings:
            self._forget(self._db.openings)

    def _forget(self, opening: int) -> None:
        self._opening = opening
        self._cache = Cache()
        self._frequencies = index.Frequencies()


def _find_newest(db: sqlite3.Connection, where: Where, limit: int | None) -> Sequence[int]:
    if limit is not None and all(names is None for names in (where.keys, where.sessions, where.linked, where.tagged)):
        cells = _list_cells(db, where)
        if len(cells) <= _FEW_CELLS:
            return _find_newest_of_each(db, cells, replace(where, statuses=None), max(limit, 0))
    numbers = filters.compile_filter(where).select_numbers()
    select = f"{numbers.sql} ORDER BY r.created_at DESC, r.id DESC LIMIT ?"
    rows = db.execute(select, (*numbers.params, -1 if limit is None else max(limit, 0)))
    return array("q", (n for (n,) in rows))


def _list_cells(db: sqlite3.Connection, where: Where) -> list[sql.Clause]:
    """Conditions, at most one of which holds for a record: within each some index has the newest first."""
    scopes = filters.compile_filter(where).scopes(db)
    if scopes is None:
        scopes = [id for (id,) in db.execute("SELECT id FROM scope LIMIT ?", (_FEW_CELLS + 1,))]
    if where.statuses is None:
        return [sql.Clause("r.scope = ?", (scope,)) for scope in scopes]
    statuses = sorted({str.__str__(status) for status in where.statuses})
    return [sql.Clause("r.scope = ? AND r.status = ?", cell) for cell in product(scopes, statuses)]


def _find_newest_of_each(db: sqlite3.Connection, cells: list[sql.Clause], where: Where, limit: int) -> Sequence[int]:
    """Within one cell the newest are found by walking an index; over several all would have to be sorted."""
    rest = sql.compile_where(where, filters.DIALECT).record
    found: list[tuple[int, str, int]] = []
    for cell in cells:
        clause = sql.join_clauses(cell, rest)
        select = (
            f"SELECT r.created_at, r.id, r.n FROM record r WHERE {clause.sql}"
            " ORDER BY r.created_at DESC, r.id DESC LIMIT ?"
        )
        found += db.execute(select, (*clause.params, limit))
    return [n for _, _, n in nlargest(limit, found)]


def _find_held(db: sqlite3.Connection, ids: Collection[str]) -> list[HeldRow]:
    clause = sql.match_names("id", ids, filters.DIALECT)
    columns = f"id, n, version, v_hash, text, scope, v_first, v_count, {', '.join(PLACE)}"
    rows = db.execute(f"SELECT {columns} FROM record WHERE {clause.sql}", clause.params)
    return [HeldRow._make((*row[:6], row[8:], row[6:8])) for row in rows]


def _plan_changes(db: sqlite3.Connection, fresh: list[Row]) -> list[RowChange]:
    """What has to be written, by the port's rules about versions; ConflictError if they forbid it."""
    held = {one.id: one for one in _find_held(db, [row.record.id for row in fresh])}
    taken: dict[str, Row] = {}
    for row in fresh:
        record = row.record
        before = taken[record.id].record.version if record.id in taken else None
        if before is None and record.id in held:
            before = held[record.id].version
        if before is not None and record.version <= before:
            raise refuse_version(record, before)
        taken[record.id] = row
    columns = "kind, project, agent, user, embedder"
    scopes: dict[Scope, int] = dict.fromkeys((row.scope for row in taken.values()), 0)
    db.executemany(f"INSERT OR IGNORE INTO scope ({columns}) VALUES (?, ?, ?, ?, ?)", scopes)
    for scope in scopes:
        select = f"SELECT id FROM scope WHERE ({columns}) = (?, ?, ?, ?, ?)"
        (scopes[scope],) = db.execute(select, scope).fetchone()
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'record'").fetchone()
    changes = []
    for id, row in taken.items():
        one = held.get(id)
        last += one is None
        changes.append(RowChange(row, last if one is None else one.n, scopes[row.scope], one))
    return changes


_COLUMNS = ("n", "id", "scope", *PLACE, "v_first", "v_count", *CONTENT)
_INSERT = f"INSERT INTO record ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_UPDATE = f"UPDATE record SET {', '.join(f'{name} = ?' for name in CONTENT)} WHERE n = ?"
_MOVED = ("scope", *PLACE, "v_first", "v_count")
_MOVE = f"UPDATE record SET {', '.join(f'{name} = ?' for name in _MOVED)} WHERE n = ?"


def _write_changes(db: sqlite3.Connection, changes: list[RowChange]) -> None:
    spans = _write_vectors(db, changes)
    inserts, updates, moves, unindexed, indexed, left = [], [], [], [], [], set()
    for row, n, scope, held in changes:
        if held is None:
            inserts.append((n, row.record.id, scope, *row.place, *spans[n], *row.content))
            indexed.append((n, row.record.text, scope))
            continue
        updates.append((*row.content, n))
        span = spans.get(n, held.span)
        if (held.scope, held.place, held.span) != (scope, row.place, span):
            moves.append((scope, *row.place, *span, n))
        if (held.scope, held.text) != (scope, row.record.text):
            unindexed.append((n, held.text, held.scope))
            indexed.append((n, row.record.text, scope))
        if held.scope != scope:
            left.add(held.scope)
    index.replace_rows(db, unindexed, indexed)
    for statement, values in ((_INSERT, inserts), (_UPDATE, updates), (_MOVE, moves)):
        db.executemany(statement, values)
    for table in ("link", "tag"):
        _write_side(db, table, changes)
    if left:
        _forget_scopes(db, left)


def _write_vectors(db: sqlite3.Connection, changes: list[RowChange]) -> dict[int, vectors.Span]:
    """Replace the vectors that changed; the range of numbers that each of their records holds now."""
    changed = [
        change
        for change in changes
        if change.held is None or (change.held.scope, change.held.v_hash) != (change.scope, change.row.v_hash)
    ]
    spans: dict[int, vectors.Span] = dict.fromkeys([change.n for change in changed], (0, 0))
    gone = [change.held.span for change in changed if change.held]
    if gone:
        vectors.remove_spans(db, gone)
    entries: list[vectors.VectorEntry] = []
    if any(change.row.record.vectors for change in changed):
        (v,) = db.execute("SELECT value FROM meta WHERE name = 'next_v'").fetchone()
        for change in changed:
            first, codes = v + len(entries), change.row.record.vectors
            if codes:
                spans[change.n] = (first, len(codes))
            for number, code in enumerate(codes, first):
                entries.append(vectors.VectorEntry(number, change.n, change.scope, bytes(code)))
        db.execute("UPDATE meta SET value = value + ? WHERE name = 'next_v'", (len(entries),))
        vectors.add_entries(db, entries)
    return spans


def _write_side(db: sqlite3.Connection, table: str, changes: list[RowChange]) -> None:
    """Links or tags, where they changed."""
    known = [change.n for change in changes if change.held]
    before: dict[int, list[str]] = defaultdict(list)
    column = "target" if table == "link" else "name"
    select = f"SELECT n, {column} FROM {table} WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n, i"
    for n, value in db.execute(select, (json.dumps(known),)) if known else ():
        before[n].append(value)
    gone, fresh = [], []
    for change in changes:
        record = change.row.record
        after = record.links if table == "link" else record.tags
        if list(after) == before.get(change.n, []):
            continue
        gone.append((change.n,))
        fresh += [(change.n, i, value) for i, value in enumerate(after)]
    db.executemany(f"DELETE FROM {table} WHERE n = ?", gone)
    db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", fresh)


def _forget_scopes(db: sqlite3.Connection, scopes: set[int]) -> None:
    """A scope that no record is in any more goes with the last of them."""
    db.executemany(
        "DELETE FROM scope WHERE id = ? AND NOT EXISTS (SELECT 1 FROM record WHERE record.scope = scope.id)",
        [(scope,) for scope in scopes],
    )


# -- a record as a row, and back


class Row(NamedTuple):
    """What is written of a record, made before the write lock is taken."""

    record: Record
    scope: Scope
    place: tuple[Any, ...]
    v_hash: str
    content: tuple[Any, ...]


def _to_row(record: Record) -> Row:
    try:
        place = (record.session, str(record.status), record.key, to_micros(record.created_at))
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
            "{}" if record.evidence is evidence.NONE else _encode(record.evidence.to_json()),
            _dump_provenance(record.provenance),
            record.text,
            _encode(dict(record.body)),
        )
    except (TypeError, ValueError) as problem:
        raise refuse_record(record, problem) from problem
    scope = (record.kind, record.project, record.agent, record.user, record.embedder)
    return Row(record, scope, place, v_hash, content)


@lru_cache(maxsize=256)
def _dump_provenance(provenance: Provenance) -> str:
    return _encode(provenance.to_json())


@lru_cache(maxsize=256)
def _load_provenance(text: str) -> Provenance:
    return Provenance.from_json(json.loads(text))


_SELECT = (
    "SELECT r.n, r.v_first, r.v_count, s.kind, s.project, s.agent, s.user, s.embedder,"
    f" {', '.join('r.' + name for name in _NAMES)} FROM record r JOIN scope s ON s.id = r.scope"
    " WHERE r.n IN (SELECT value FROM json_each(?))"
)


def _read_rows(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Record]:
    """The records with these numbers, by number; those that are gone are left out."""
    wanted = json.dumps(list(numbers))
    rows = db.execute(_SELECT, (wanted,)).fetchall()
    links = _read_side(db, "SELECT n, target FROM link", wanted)
    tags = _read_side(db, "SELECT n, name FROM tag", wanted)
    codes = vectors.read_spans(db, {row[0]: (row[1], row[2]) for row in rows if row[2]})
    try:
        return {
            row[0]: _to_record(row[3:], links.get(row[0], ()), tags.get(row[0], ()), codes.get(row[0], ()))
            for row in rows
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStoreError("a record is damaged; restore a backup or run `alma doctor`") from error


def _read_side(db: sqlite3.Connection, select: str, wanted: str) -> Mapping[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for n, value in db.execute(f"{select} WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n, i", (wanted,)):
        found[n] = (*found.get(n, ()), value)
    return found


def _to_record(
    row: tuple[Any, ...], links: tuple[str, ...], tags: tuple[str, ...], codes: tuple[Vector, ...]
) -> Record:
    kind, project, agent, user, embedder, id, session, status, key, created_at, *content = row
    version, updated_at, valid_from, valid_to, superseded_by, _, held_evidence, provenance, text, body = content
    created = from_micros(created_at)
    return Record(
        id=id,
        kind=kind,
        project=project,
        agent=agent,
        user=user,
        session=session,
        status=_STATUSES[status],
        key=key,
        text=text,
        body=json.loads(body),
        evidence=evidence.NONE if held_evidence == "{}" else Evidence.from_json(json.loads(held_evidence)),
        provenance=_load_provenance(provenance),
        links=links,
        tags=tags,
        created_at=created,
        updated_at=created if updated_at == created_at else from_micros(updated_at),
        valid_from=None if valid_from is None else from_micros(valid_from),
        valid_to=None if valid_to is None else from_micros(valid_to),
        version=version,
        superseded_by=superseded_by,
        embedder=embedder,
        vectors=codes,
    )
