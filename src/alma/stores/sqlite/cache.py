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
from .._sql import Clause
from . import vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SLICE = 1024
"""So many dimensions are summed exactly in float32."""
_FIRST_BATCH = 64
_GROWTH = 8
_TRIES = 2


def numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError("numpy", "local", "Searching by vector") from error
    return np


class Piece:
    """Up to 1,024 vectors of one length."""

    __slots__ = ("codes", "count", "n", "norm", "scope", "v")

    def __init__(self, codes: Array, n: Array, v: Array, scope: Array) -> None:
        self.codes, self.n, self.v, self.scope = codes, n, v, scope
        self.norm = _norms(codes)
        self.count = len(n)

    @classmethod
    def with_room(cls, dim: int) -> Piece:
        np = numpy()
        size = vectors.BLOCK
        piece = cls(np.zeros((size, dim), "i1"), np.zeros(size, "i8"), np.zeros(size, "i8"), np.zeros(size, "i4"))
        piece.count = 0
        return piece

    def take(self, other: Piece) -> Piece | None:
        """Move in what there is room for; the rest."""
        moved = min(other.count, len(self.n) - self.count)
        here = slice(self.count, self.count + moved)
        for name in ("codes", "n", "v", "scope", "norm"):
            getattr(self, name)[here] = getattr(other, name)[:moved]
        self.count += moved
        if moved == other.count:
            return None
        return Piece(other.codes[moved:], other.n[moved:], other.v[moved:], other.scope[moved:])


class Columns(NamedTuple):
    n: Array
    v: Array
    scope: Array
    norm: Array


class Matrix:
    """The vectors of one length."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._columns: Columns | None = None
        self.full: list[Piece] = []
        self.open: Piece | None = None

    def add(self, piece: Piece) -> None:
        self._columns = None
        if piece.count == vectors.BLOCK:
            self.full.append(piece)
            return
        rest: Piece | None = piece
        while rest is not None:
            if self.open is None:
                self.open = Piece.with_room(self._dim)
            rest = self.open.take(rest)
            if self.open.count == vectors.BLOCK:
                self.full.append(self.open)
                self.open = None

    def pieces(self) -> Iterator[Piece]:
        yield from self.full
        if self.open is not None:
            yield self.open

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
        self._matrices: dict[int, Matrix] = {}
        self._generation = -1
        self._next_v = 0

    def nearest(
        self, db: sqlite3.Connection, vector: Vector, scopes: Sequence[int] | None, where: Clause, limit: int
    ) -> list[Hit]:
        """Must be called inside a read transaction, so that cache and file are of one moment."""
        self._refresh(db)
        matrix = self._matrices.get(len(vector))
        if matrix is None or (scopes is not None and not scopes):
            return []
        scores, n, v = _scored(matrix, vector, scopes)
        best: dict[str, float] = {}
        for batch in _batches(db, scores, n, where, limit):
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
        if since and sum(map(len, self._matrices.values())) > 2 * _held(db) + vectors.BLOCK:
            self._load(db, 0)
        self._generation, self._next_v = generation, next_v

    def _load(self, db: sqlite3.Connection, since: int) -> None:
        """Whatever has a number from `since` on; from 0 on, everything anew."""
        np = numpy()
        if since == 0:
            self._matrices = {}
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
            self._add(dim, Piece(block[new], n[new], v[new], scope[new]))
        select = "SELECT dim, v, n, scope, codes FROM vector_tail WHERE v >= ? ORDER BY dim, v"
        self._load_tail(db.execute(select, (since,)).fetchall())

    def _load_tail(self, rows: list[tuple[int, int, int, int, bytes]]) -> None:
        np = numpy()
        for dim in sorted({row[0] for row in rows}):
            _, v, n, scope, codes = zip(*(row for row in rows if row[0] == dim), strict=True)
            block = np.frombuffer(b"".join(codes), "i1").reshape(len(v), dim)
            self._add(dim, Piece(block, np.array(n, "i8"), np.array(v, "i8"), np.array(scope, "i4")))

    def _add(self, dim: int, piece: Piece) -> None:
        self._matrices.setdefault(dim, Matrix(dim)).add(piece)


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


def _wanted(scopes: Sequence[int] | None) -> Array:
    """By scope, whether it takes part; the last answer is for all greater ones. Scope 0 is a hole."""
    np = numpy()
    if scopes is None:
        return np.array([False, True])  # type: ignore[no-any-return]
    wanted = np.zeros(max(scopes) + 2, bool)
    wanted[np.array(scopes)] = True
    return wanted  # type: ignore[no-any-return]


def _scored(matrix: Matrix, vector: Vector, scopes: Sequence[int] | None) -> tuple[Array, Array, Array]:
    """Scores, record numbers and vector numbers of all that lie in the scopes."""
    np = numpy()
    query = np.frombuffer(vector, "i1").astype("f4")
    columns = matrix.columns()
    wanted = _wanted(scopes)
    inside = wanted[np.minimum(columns.scope, len(wanted) - 1)]
    dots, start = [np.zeros(0)], 0
    for piece in matrix.pieces():
        rows = np.flatnonzero(inside[start : start + piece.count])
        start += piece.count
        if len(rows):
            # A whole piece is used as it lies; picking rows would copy it.
            dots.append(_dots(piece.codes[rows if len(rows) < piece.count else slice(0, piece.count)], query))
    scores = np.concatenate(dots)
    scale = norm(vector) * columns.norm[inside]
    np.divide(scores, scale, out=scores, where=scale > 0)
    return scores, columns.n[inside], columns.v[inside]


def _batches(db: sqlite3.Connection, scores: Array, n: Array, where: Clause, limit: int) -> Iterator[Array]:
    """Indexes in falling order of score, ever more at a time; equal scores are never parted.

    When little of the first is wanted, all that is wanted is so little that the file can be asked for it at once.
    """
    np = numpy()
    size, ceiling = max(_FIRST_BATCH, 2 * limit), np.inf
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
