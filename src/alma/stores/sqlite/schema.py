"""The tables, how an older file becomes a newer one, and the views a person reads."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from ...errors import CorruptStoreError, NewerStoreError, ReadOnlyError
from ...types.kinds import KINDS, Kind

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
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_create_tables]
"""Migration number i brings a file from version i to i + 1. Only ever append."""


def read_version(db: sqlite3.Connection, path: Path) -> int:
    """The version of the file, 0 for a new one; raises when it is not ours or newer than this program."""
    application = _read_pragma(db, "application_id")
    version = _read_pragma(db, "user_version")
    if application == 0 and version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        return 0
    if application != APPLICATION_ID:
        raise CorruptStoreError(f"{path} is not an alma database; name another path for the store")
    if version > len(MIGRATIONS):
        raise NewerStoreError(f"{path} has format {version}, this alma knows up to {len(MIGRATIONS)}: update alma")
    return version


def _read_pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def is_current(db: sqlite3.Connection, path: Path) -> bool:
    if read_version(db, path) < len(MIGRATIONS):
        return False
    return _read_views(db) == _digest_views(_define_views())


def refuse_old(db: sqlite3.Connection, path: Path) -> None:
    """What is opened to be read only cannot be brought up to date."""
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
    definitions = _define_views()
    if _read_views(db) != _digest_views(definitions):
        for name in _read_views(db).split(" ")[1:]:
            db.execute(f'DROP VIEW IF EXISTS "{name}"')
        for name, definition in definitions.items():
            db.execute(f'DROP VIEW IF EXISTS "{name}"')
            db.execute(definition)
        db.execute("UPDATE meta SET value = ? WHERE name = 'views'", (_digest_views(definitions),))


def _read_views(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT value FROM meta WHERE name = 'views'").fetchone()[0])


def _digest_views(definitions: dict[str, str]) -> str:
    names = " ".join(definitions)
    return f"{hashlib.sha256(''.join(definitions.values()).encode()).hexdigest()[:16]} {names}"


def _define_views(kinds: Iterable[Kind] | None = None) -> dict[str, str]:
    """A view per kind, by name."""
    return {
        _view_name(kind.name): _define_view(kind)
        for kind in (KINDS.values() if kinds is None else kinds)
        if kind.name.isidentifier()
    }


_TABLES = {"meta", "scope", "record", "link", "tag", "words", "word", "word_source"}
_COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")


def _view_name(kind: str) -> str:
    return f"{kind}_view" if kind in _TABLES or kind.startswith(("sqlite_", "vector_", "words_")) else kind


def _define_view(kind: Kind) -> str:
    columns = ["r.id", "s.project", "s.agent", "s.user", "r.session", "r.status", "r.text"]
    taken = {column.split(".")[1] for column in columns} | {*_COUNTS, *_TIMES, "version", "superseded_by"}
    for name in kind.fields:
        shown = f"body_{name}" if name in taken else name
        columns.append(f"""json_extract(r.body, '$."{name}"') AS "{shown}\"""")
    columns += [f"coalesce(json_extract(r.evidence, '$.{name}'), 0) AS {name}" for name in _COUNTS]
    for name in _TIMES:
        seconds = f"strftime('%Y-%m-%dT%H:%M:%S', r.{name} / 1000000, 'unixepoch')"
        columns.append(f"{seconds} || printf('.%06dZ', r.{name} % 1000000) AS {name}")
    columns += ["r.version", "r.superseded_by"]
    return (
        f'CREATE VIEW "{_view_name(kind.name)}" AS SELECT {", ".join(columns)}'
        f" FROM record r JOIN scope s ON s.id = r.scope WHERE s.kind = '{kind.name}'"
    )
