"""Looking for damage, figures about the file, and a copy of it taken while others go on writing."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import CorruptStoreError
from ...files import make_new_file
from . import vectors
from .database import is_damage

_PAGES = 2048
"""So many are copied before it is told how far the copy is."""

Progress = Callable[[int, int], None]


def find_problems(db: sqlite3.Connection, path: Path, *, can_write: bool) -> list[str]:
    """What is wrong. The index of words checks itself by a statement that only a writer may run."""
    problems: list[str] = []
    for check in (_check_file, *([_check_words] if can_write else []), _check_rows, _check_vectors):
        try:
            problems += check(db)
        except sqlite3.DatabaseError as error:
            # Damage may be such that looking for it fails.
            if not is_damage(error):
                raise
            problems.append(f"the file is damaged: {error}")
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        problems.append(f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}")
    return problems


def _check_file(db: sqlite3.Connection) -> list[str]:
    lines = [line for (line,) in db.execute("PRAGMA integrity_check(20)")]
    return [f"the file is damaged: {line}" for line in lines if line != "ok"]


def _check_words(db: sqlite3.Connection) -> list[str]:
    try:
        db.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
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
    wanted = {(v, n, scope) for n, scope, first, count in db.execute(select) for v in range(first, first + count)}
    for count, what in (
        (len(wanted - stored.keys()), "vectors of records are missing"),
        (len(stored.keys() - wanted), "vectors without a record"),
        (sum(count > 1 for count in stored.values()), "vectors are there more than once"),
    ):
        if count:
            yield f"{count} {what}"


def collect_stats(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
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


def copy_file(uri: str, source: Path, target: Path, progress: Progress | None = None) -> None:
    """Copy what the file at `uri` holds at one moment, whole and checked; `source` is its path, for messages."""
    with make_new_file(target) as part:
        reading = sqlite3.connect(uri, uri=True, isolation_level=None)
        writing = sqlite3.connect(part, isolation_level=None)
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
            raise CorruptStoreError(f"{source} is damaged ({verdict}), so no backup was made; run `alma doctor`")
