"""Vectors in memory: a cache over the file that is brought up to date at each query.

The codes stay int8, in pieces as they lie in the file; one piece at a time is made into floats. The dot product of
two codes is an integer of at most 2**24 for up to 1,024 dimensions, so float32 gives it exactly; longer vectors are
multiplied in slices of that length. A score is therefore the same as that of `alma.types.vector.cosine`.

Entries are only ever added. One whose vector has gone is known by its number, which is outside the range that its
record holds now; the file is asked about that, and about whatever else can change, best candidates first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MissingExtraError
from ...types.query import Hit
from ...types.vector import Vector, norm
from .._sql import Clause, both
from . import vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SLICE = 1024
"""So many dimensions are summed exactly in float32."""
_FIRST_BATCH = 16
_GROWTH = 8
_TRIES = 2
_SMALLEST = 16


def numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError("numpy", "local", "Searching by vector") from error
    return np


class Piece:
    """Up to 1,024 vectors of one length in one scope."""

    __slots__ = ("codes", "count", "n", "norm", "v")

    def __init__(self, codes: Array, n: Array, v: Array, norm: Array | None = None) -> None:
        self.codes, self.n, self.v = codes, n, v
        self.norm = _norms(codes) if norm is None else norm
        self.count = len(n)

    def part(self, rows: Array | slice) -> Piece:
        return Piece(self.codes[rows], self.n[rows], self.v[rows], self.norm[rows])

    def with_room(self, size: int) -> Piece:
        """The same vectors, and place for more."""
        np = numpy()
        room = size - self.count
        bigger = Piece(
            np.concatenate([self.codes[: self.count], np.zeros((room, self.codes.shape[1]), "i1")]),
            *(np.concatenate([column[: self.count], np.zeros(room, column.dtype)]) for column in self._columns()),
        )
        bigger.count = self.count
        return bigger

    def take(self, other: Piece) -> Piece | None:
        """Move in what there is room for; the rest."""
        moved = min(other.count, len(self.n) - self.count)
        here = slice(self.count, self.count + moved)
        self.codes[here] = other.codes[:moved]
        for own, column in zip(self._columns(), other._columns(), strict=True):
            own[here] = column[:moved]
        self.count += moved
        return None if moved == other.count else other.part(slice(moved, other.count))

    def _columns(self) -> tuple[Array, Array, Array]:
        return self.n, self.v, self.norm


class Columns(NamedTuple):
    n: Array
    v: Array
    norm: Array


class Shelf:
    """The vectors of one length in one scope."""

    def __init__(self) -> None:
        self._columns: Columns | None = None
        self._full: list[Piece] = []
        self._open: Piece | None = None

    def add(self, piece: Piece) -> None:
        self._columns = None
        rest: Piece | None = piece
        if piece.count == vectors.BLOCK:
            self._full.append(piece)
            return
        while rest is not None:
            self._open = self._roomy(rest)
            rest = self._open.take(rest)
            if self._open.count == vectors.BLOCK:
                self._full.append(self._open)
                self._open = None

    def _roomy(self, coming: Piece) -> Piece:
        """The open piece; it grows, because most scopes hold few vectors."""
        held = self._open or coming.part(slice(0, 0))
        if held.count < len(held.n):
            return held
        return held.with_room(min(vectors.BLOCK, max(_SMALLEST, 2 * held.count, held.count + coming.count)))

    def pieces(self) -> Iterator[Piece]:
        yield from self._full
        if self._open is not None:
            yield self._open

    def columns(self) -> Columns:
        """What is known of each vector beside its codes, in the order of the pieces."""
        if self._columns is None:
            join = numpy().concatenate
            self._columns = Columns(
                *(join([getattr(piece, name)[: piece.count] for piece in self.pieces()]) for name in Columns._fields)
            )
        return self._columns

    def __len__(self) -> int:
        return sum(piece.count for piece in self.pieces())


class Cache:
    def __init__(self) -> None:
        self._shelves: dict[int, dict[int, Shelf]] = {}
        """By length and scope."""
        self._generation = -1
        self._next_v = 0

    def nearest(
        self, db: sqlite3.Connection, vector: Vector, scopes: Sequence[int] | None, where: Clause, limit: int
    ) -> list[Hit]:
        """Must be called inside a read transaction, so that cache and file are of one moment."""
        self._refresh(db)
        held = self._shelves.get(len(vector), {})
        shelves = [held[scope] for scope in (held if scopes is None else scopes) if scope in held]
        if not shelves:
            return []
        scores, n, v = _scored(shelves, vector)
        best: dict[str, float] = {}
        for batch in _batches(db, scores, n, both(_within(scopes), where) if where.sql else where, limit):
            for id, score in _current(db, n[batch], v[batch], scores[batch], where):
                best[id] = max(best.get(id, score), score)
            if len(best) >= limit:
                break
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
        return [Hit(id, score) for id, score in ranked[:limit]]

    def _refresh(self, db: sqlite3.Connection) -> None:
        select = "SELECT value FROM meta WHERE name IN ('generation', 'next_v') ORDER BY name"
        (generation,), (next_v,) = db.execute(select).fetchall()
        since = self._next_v if generation == self._generation else 0
        if since == next_v:
            return
        # Until it has succeeded nothing counts as loaded.
        self._generation = -1
        self._load(db, since)
        if (
            since
            and sum(len(shelf) for shelves in self._shelves.values() for shelf in shelves.values())
            > 2 * _held(db) + vectors.BLOCK
        ):
            self._load(db, 0)
        self._generation, self._next_v = generation, next_v

    def _load(self, db: sqlite3.Connection, since: int) -> None:
        """Whatever has a number from `since` on; from 0 on, everything anew."""
        np = numpy()
        if since == 0:
            self._shelves = {}
        select = (
            "SELECT b.first_v, b.dim, b.codes, m.rows FROM vector_block b JOIN vector_block_meta m USING (first_v)"
            " WHERE b.last_v >= ? ORDER BY b.first_v"
        )
        for first_v, dim, codes, packed in db.execute(select, (since,)):
            count = len(packed) // vectors.ROW_BYTES
            n = np.frombuffer(packed, "<i8", count)
            v = np.frombuffer(packed, "<i8", count, 8 * count)
            scope = np.frombuffer(packed, "<i4", count, 16 * count)
            new = slice(None) if first_v >= since else v >= since
            block = np.frombuffer(codes, "i1").reshape(count, dim)
            self._add(dim, Piece(block[new], n[new], v[new]), scope[new])
        select = "SELECT dim, v, n, scope, codes FROM vector_tail WHERE v >= ? ORDER BY dim, v"
        self._load_tail(db.execute(select, (since,)).fetchall())

    def _load_tail(self, rows: list[tuple[int, int, int, int, bytes]]) -> None:
        np = numpy()
        for dim in sorted({row[0] for row in rows}):
            _, v, n, scope, codes = zip(*(row for row in rows if row[0] == dim), strict=True)
            block = np.frombuffer(b"".join(codes), "i1").reshape(len(v), dim)
            self._add(dim, Piece(block, np.array(n, "i8"), np.array(v, "i8")), np.array(scope, "i4"))

    def _add(self, dim: int, piece: Piece, scope: Array) -> None:
        np = numpy()
        shelves = self._shelves.setdefault(dim, {})
        found = np.unique(scope)
        for one in found.tolist():
            if one != 0:  # a hole
                part = piece if len(found) == 1 else piece.part(np.flatnonzero(scope == one))
                shelves.setdefault(one, Shelf()).add(part)


def _held(db: sqlite3.Connection) -> int:
    """About how many vectors the file holds, to tell when most of the cache is garbage."""
    (waiting,) = db.execute("SELECT count(*) FROM vector_tail").fetchone()
    (blocks,) = db.execute("SELECT count(*) FROM vector_block").fetchone()
    return int(waiting + blocks * vectors.BLOCK)


def _norms(codes: Array) -> Array:
    np = numpy()
    squares = np.zeros(len(codes))
    for start in range(0, codes.shape[1], _SLICE):
        part = codes[:, start : start + _SLICE].astype("f4")
        squares += np.einsum("ij,ij->i", part, part)
    return np.sqrt(squares)  # type: ignore[no-any-return]


def _dots(codes: Array, query: Array) -> Array:
    np = numpy()
    total = np.zeros(len(codes))
    for start in range(0, len(query), _SLICE):
        total += codes[:, start : start + _SLICE].astype("f4") @ query[start : start + _SLICE]
    return total  # type: ignore[no-any-return]


def _scored(shelves: Sequence[Shelf], vector: Vector) -> tuple[Array, Array, Array]:
    """Scores, record numbers and vector numbers of all that lie on the shelves."""
    np = numpy()
    query = np.frombuffer(vector, "i1").astype("f4")
    dots = [_dots(piece.codes[: piece.count], query) for shelf in shelves for piece in shelf.pieces()]
    columns = [shelf.columns() for shelf in shelves]
    n, v, lengths = (np.concatenate(column) for column in zip(*columns, strict=True))
    scores, scale = np.concatenate(dots), norm(vector) * lengths
    np.divide(scores, scale, out=scores, where=scale > 0)
    return scores, n, v


def _within(scopes: Sequence[int] | None) -> Clause:
    if scopes is None:
        return Clause()
    return Clause("r.scope IN (SELECT value FROM json_each(?))", (json.dumps(list(scopes)),))


def _batches(db: sqlite3.Connection, scores: Array, n: Array, where: Clause, limit: int) -> Iterator[Array]:
    """Indexes in falling order of score, ever more at a time; equal scores are never parted.

    When little of the first is wanted, all that is wanted is so little that the file can be asked for it at once.
    """
    np = numpy()
    size, ceiling = max(_FIRST_BATCH, 3 * limit), np.inf
    tried = 0
    while size < len(scores):
        floor = np.partition(scores, len(scores) - size)[len(scores) - size]
        if floor < ceiling:
            yield np.flatnonzero((scores >= floor) & (scores < ceiling))
            ceiling, tried = floor, tried + 1
        if tried == _TRIES and where.sql:
            break
        size *= _GROWTH
    rest = scores < ceiling
    if where.sql and rest.any():
        select = f"SELECT r.n FROM record r WHERE {where.sql}"
        wanted = np.fromiter((number for (number,) in db.execute(select, where.params)), "i8")
        rest &= np.isin(n, wanted)
    if rest.any():
        yield np.flatnonzero(rest)


def _current(db: sqlite3.Connection, n: Array, v: Array, scores: Array, where: Clause) -> Iterator[tuple[str, float]]:
    """(id, score) of those whose vector is still the record's and whose record is wanted."""
    # CROSS JOIN keeps the planner from starting at all the records of a status.
    select = (
        "SELECT r.n, r.id, r.v_first, r.v_first + r.v_count FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"
        f"{where.after('WHERE')}"
    )
    candidates = json.dumps(list(set(n.tolist())))
    found = {number: held for number, *held in db.execute(select, (candidates, *where.params))}
    for number, vector_number, score in zip(n.tolist(), v.tolist(), scores.tolist(), strict=True):
        if number in found:
            id, first, end = found[number]
            if first <= vector_number < end:
                yield id, score
