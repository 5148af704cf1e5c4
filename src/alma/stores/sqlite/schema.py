"""The tables, how an older file becomes a newer one, and the views a person reads."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from ...errors import CorruptStoreError, NewerStoreError, ReadOnlyError
from ...types.kinds import KINDS

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


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_create_tables]
"""Migration number i brings a file from version i to i + 1. Only ever append."""


def read_version(db: sqlite3.Connection, path: Path) -> int:
    """The version of the file, 0 for a new one; raises when it is not ours or newer than this program."""
    (application,), (version,) = (
        db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application == 0 and version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        return 0
    if application != APPLICATION_ID:
        raise CorruptStoreError(f"{path} is not an alma database; name another path for the store")
    if version > len(MIGRATIONS):
        raise NewerStoreError(f"{path} has format {version}, this alma knows up to {len(MIGRATIONS)}: update alma")
    return int(version)


def is_current(db: sqlite3.Connection, path: Path) -> bool:
    return read_version(db, path) == len(MIGRATIONS) and _read_views(db) == _digest_views(_define_views())


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


_TABLES = {"meta", "scope", "record", "link", "tag", "words", "word", "word_source"}
_COUNTS = ("successes", "partials", "failures", "uses", "skips", "ups", "downs")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")


def _define_views() -> dict[str, str]:
    """A view per kind, by name."""
    views = {}
    for kind in KINDS.values():
        if not kind.name.isidentifier():
            continue
        is_taken = kind.name in _TABLES or kind.name.startswith(("sqlite_", "vector_", "words_"))
        name = f"{kind.name}_view" if is_taken else kind.name
        columns = ["r.id", "s.project", "s.agent", "s.user", "r.session", "r.status", "r.text"]
        taken = {column.split(".")[1] for column in columns} | {*_COUNTS, *_TIMES, "version", "superseded_by"}
        for field in kind.fields:
            shown = f"body_{field}" if field in taken else field
            columns.append(f"""json_extract(r.body, '$."{field}"') AS "{shown}\"""")
        columns += [f"coalesce(json_extract(r.evidence, '$.{count}'), 0) AS {count}" for count in _COUNTS]
        for time in _TIMES:
            seconds = f"strftime('%Y-%m-%dT%H:%M:%S', r.{time} / 1000000, 'unixepoch')"
            columns.append(f"{seconds} || printf('.%06dZ', r.{time} % 1000000) AS {time}")
        columns += ["r.version", "r.superseded_by"]
        views[name] = (
            f'CREATE VIEW "{name}" AS SELECT {", ".join(columns)}'
            f" FROM record r JOIN scope s ON s.id = r.scope WHERE s.kind = '{kind.name}'"
        )
    return views
