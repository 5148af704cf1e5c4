"""A cache of the file's vectors that is brought up to date at each query.

Entries are only ever added. One whose vector has gone is known by its number, which is outside the range that its
record holds now; the file is asked about that, and about whatever else can change, best candidates first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...types.query import Hit
from ...types.vector import Vector
from .._sql import Clause
from . import segments, vectors
from .filters import Filter
from .segments import Batch, Parts, Scored, Shelf, numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_FIRST_BATCH = 16
_GROWTH = 8
_TRIES = 2
_VECTORS = 4


class Question(NamedTuple):
    vector: Vector
    filter: Filter
    limit: int

    @property
    def first(self) -> int:
        """So many of the best are looked at first."""
        return max(_FIRST_BATCH, 3 * self.limit)


class Cache:
    def __init__(self) -> None:
        self._shelves: dict[int, Shelf] = {}
        """By length."""
        self._generation = -1
        self._next_v = 0

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def nearest(self, db: sqlite3.Connection, vector: Vector, filter: Filter, limit: int) -> list[Hit]:
        """Must be called inside a read transaction, so that cache and file are of one moment."""
        self._refresh(db)
        if len(vector) not in self._shelves:
            return []
        asked = Question(vector, filter, limit)
        best: dict[str, float] | None = None
        for parts, depth in _attempts(db, self._shelves[len(vector)], asked):
            best = _best(db, segments.scored(parts, vector), asked, depth)
            if best is not None:
                break
        ranked = sorted((best or {}).items(), key=lambda item: (-item[1], item[0]))
        return [Hit(id, score) for id, score in ranked[:limit]]

    def _refresh(self, db: sqlite3.Connection) -> None:
        select = "SELECT value FROM meta WHERE name IN ('generation', 'next_v') ORDER BY name"
        (generation,), (next_v,) = db.execute(select).fetchall()
        if (generation, next_v) == (self._generation, self._next_v):
            return
        known = self._generation >= 0 and next_v >= self._next_v
        since = self._next_v if known else 0
        # Until it has succeeded nothing counts as loaded.
        self._generation = -1
        self._load(db, since)
        if since and len(self) > 2 * _held(db) + vectors.BLOCK:
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
            held = Batch(np.frombuffer(codes, "i1").reshape(count, dim), n, v, scope)
            live = scope != vectors.NOWHERE
            if first_v < since:
                live &= v >= since
            self._add(db, dim, held if live.all() else held.part(live))
        select = "SELECT dim, v, n, scope, codes FROM vector_tail WHERE v >= ? ORDER BY dim, v"
        self._load_tail(db, db.execute(select, (since,)).fetchall())

    def _load_tail(self, db: sqlite3.Connection, rows: list[tuple[int, int, int, int, bytes]]) -> None:
        np = numpy()
        for dim in sorted({row[0] for row in rows}):
            _, v, n, scope, codes = zip(*(row for row in rows if row[0] == dim), strict=True)
            block = np.frombuffer(b"".join(codes), "i1").reshape(len(v), dim)
            self._add(db, dim, Batch(block, np.array(n, "i8"), np.array(v, "i8"), np.array(scope, "i4")))

    def _add(self, db: sqlite3.Connection, dim: int, batch: Batch) -> None:
        self._shelves.setdefault(dim, Shelf(dim)).add(batch, lambda scope: _ranks(db, scope))


def _ranks(db: sqlite3.Connection, scope: Array) -> Array:
    """In the order of kinds first, because a question is about one kind, then of agents and users."""
    np = numpy()
    ranks = np.zeros(int(scope.max(initial=0)) + 1, "i8")
    listed = np.fromiter((id for (id,) in db.execute("SELECT id FROM scope ORDER BY kind, agent, user, id")), "i8")
    known = listed[listed < len(ranks)]
    ranks[known] = np.arange(len(known))
    return ranks[scope]  # type: ignore[no-any-return]


def _held(db: sqlite3.Connection) -> int:
    """About how many vectors the file holds, to tell when most of the cache is garbage."""
    (waiting,) = db.execute("SELECT count(*) FROM vector_tail").fetchone()
    (blocks,) = db.execute("SELECT count(*) FROM vector_block").fetchone()
    return int(waiting + blocks * vectors.BLOCK)


def _attempts(db: sqlite3.Connection, shelf: Shelf, asked: Question) -> Iterator[tuple[Parts, int | None]]:
    """What to rank, and how many of the best to look at before giving up; the last attempt does not give up.

    When little of the best is wanted, all that is wanted is so little that the file can be asked for it at once, and
    only that is ranked.
    """
    scopes = asked.filter.scopes(db)
    parts = shelf.select(scopes)
    if shelf.is_wide(parts, asked.limit):
        yield _by_sign(shelf, parts, asked)
    else:
        few = asked.first * _GROWTH ** (_TRIES - 1)
        yield parts, few if asked.filter.record.sql and segments.size(parts) > few else None
    parts = shelf.select(scopes, _numbers(db, asked.filter.about()))
    if shelf.is_wide(parts, asked.limit):
        yield _by_sign(shelf, parts, asked)
    yield parts, None


def _by_sign(shelf: Shelf, parts: Parts, asked: Question) -> tuple[Parts, int]:
    count = segments.candidates(asked.limit)
    # A record may have several vectors among the best.
    return shelf.closest(parts, asked.vector, count), max(count // segments.BELIEVED, _VECTORS * asked.limit)


def _numbers(db: sqlite3.Connection, select: Clause) -> Array:
    return numpy().fromiter((n for (n,) in db.execute(*select)), "i8")  # type: ignore[no-any-return]


def _best(db: sqlite3.Connection, found: Scored, asked: Question, depth: int | None) -> dict[str, float] | None:
    """The best score by id, for as many records as asked for; None when it gave up."""
    best: dict[str, float] = {}
    for batch in _batches(found.scores, asked.first, depth):
        for id, score in _current(db, Scored(*(column[batch] for column in found)), asked.filter.record):
            best[id] = max(best.get(id, score), score)
        if len(best) >= asked.limit:
            return best
    return best if depth is None else None


def _batches(scores: Array, first: int, depth: int | None) -> Iterator[Array]:
    """Indexes in falling order of score, ever more at a time; equal scores are never parted."""
    np = numpy()
    end = len(scores) if depth is None else min(depth, len(scores))
    size, ceiling = first, np.inf
    while size < end:
        floor = np.partition(scores, len(scores) - size)[len(scores) - size]
        if floor < ceiling:
            yield np.flatnonzero((scores >= floor) & (scores < ceiling))
            ceiling = floor
        size *= _GROWTH
    floor = np.partition(scores, len(scores) - end)[len(scores) - end] if end else np.inf
    if floor < ceiling:
        yield np.flatnonzero((scores >= floor) & (scores < ceiling))


def _current(db: sqlite3.Connection, found: Scored, where: Clause) -> Iterator[tuple[str, float]]:
    """(id, score) of those whose vector is still the record's and whose record is wanted."""
    # CROSS JOIN keeps the planner from starting at all the records of a status.
    select = (
        "SELECT r.n, r.id, r.v_first, r.v_first + r.v_count FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"
        f"{where.after('WHERE')}"
    )
    candidates = json.dumps(list(set(found.n.tolist())))
    held = {number: rest for number, *rest in db.execute(select, (candidates, *where.params))}
    for score, number, vector_number in zip(*(column.tolist() for column in found), strict=True):
        if number in held:
            id, first, end = held[number]
            if first <= vector_number < end:
                yield id, score
