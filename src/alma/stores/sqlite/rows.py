"""A record as a row, and back."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import CorruptStoreError
from ...types import evidence
from ...types.evidence import Evidence
from ...types.record import Provenance, Record, Status
from ...types.times import from_micros, to_micros
from ...types.vector import Vector
from .._plain import unstorable
from . import vectors

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


class Row(NamedTuple):
    """What is written of a record, made before the write lock is taken."""

    record: Record
    scope: Scope
    place: tuple[Any, ...]
    v_hash: str
    content: tuple[Any, ...]


def to_row(record: Record) -> Row:
    try:
        place = (record.session, str(record.status), record.key, to_micros(record.created_at))
        v_hash = hash_of(record.vectors)
        content = (
            record.version,
            to_micros(record.updated_at),
            None if record.valid_from is None else to_micros(record.valid_from),
            None if record.valid_to is None else to_micros(record.valid_to),
            record.superseded_by,
            v_hash,
            "{}" if record.evidence is evidence.NONE else _encode(record.evidence.to_json()),
            _provenance(record.provenance),
            record.text,
            _encode(dict(record.body)),
        )
    except (TypeError, ValueError) as problem:
        raise unstorable(record, problem) from problem
    scope = (record.kind, record.project, record.agent, record.user, record.embedder)
    return Row(record, scope, place, v_hash, content)


def hash_of(vectors: Sequence[Vector]) -> str:
    """Tells whether a record's vectors changed without reading them."""
    if not vectors:
        return ""
    digest = hashlib.blake2b(",".join(str(len(vector)) for vector in vectors).encode(), digest_size=8)
    for vector in vectors:
        digest.update(vector)
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _provenance(provenance: Provenance) -> str:
    return _encode(provenance.to_json())


@lru_cache(maxsize=256)
def _provenance_of(text: str) -> Provenance:
    return Provenance.from_json(json.loads(text))


_SELECT = (
    "SELECT r.n, r.v_first, r.v_count, s.kind, s.project, s.agent, s.user, s.embedder,"
    f" {', '.join('r.' + name for name in _NAMES)} FROM record r JOIN scope s ON s.id = r.scope"
    " WHERE r.n IN (SELECT value FROM json_each(?))"
)


def read(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Record]:
    """The records with these numbers, by number; those that are gone are left out."""
    wanted = json.dumps(list(numbers))
    rows = db.execute(_SELECT, (wanted,)).fetchall()
    links = _side(db, "SELECT n, target FROM link", wanted)
    tags = _side(db, "SELECT n, name FROM tag", wanted)
    codes = vectors.read(db, {row[0]: (row[1], row[2]) for row in rows if row[2]})
    try:
        return {
            row[0]: _record(row[3:], links.get(row[0], ()), tags.get(row[0], ()), codes.get(row[0], ())) for row in rows
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStoreError("a record is damaged; restore a backup or run `alma doctor`") from error


def _side(db: sqlite3.Connection, select: str, wanted: str) -> Mapping[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for n, value in db.execute(f"{select} WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n, i", (wanted,)):
        found[n] = (*found.get(n, ()), value)
    return found


def _record(row: tuple[Any, ...], links: tuple[str, ...], tags: tuple[str, ...], codes: tuple[Vector, ...]) -> Record:
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
        provenance=_provenance_of(provenance),
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
