"""A cache of the file's vectors that is brought up to date at each query. Loaded when a vector is first searched for.

Entries are only ever added. One whose vector has gone is known by its number, which is outside the range that its
record holds now; the file is asked about that, and about whatever else can change, best candidates first.

Codes stay int8 and are made into floats a thousand at a time. The dot product of two codes is an integer of at most
2**24 for up to 1,024 dimensions, so float32 gives it exactly; longer vectors are multiplied in slices of that
length. A score is therefore the same as that of `alma.types.record.cosine`.

Looking at every code costs about 0.2 ms for a thousand vectors: too much for hundreds of thousands. There the signs
go first: whether each code is above the middle of its dimension, one bit each, compared by counting the bits that
differ. That is a tenth of the work, needs no building, and takes any filter. The order it gives is rough, so several
thousand of the nearest by sign are scored by their codes, and only the first of those are believed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ...errors import MissingExtraError
from ...types.query import Hit
from ...types.record import Vector, norm
from . import vectors
from .search import Filter

try:
    import numpy as np
except ImportError as error:
    raise MissingExtraError("numpy", "local", "Searching by vector") from error

Array = np.ndarray[Any, Any]

SEGMENT = 65_536
EXACT = 65_536  # Up to so many vectors are all scored by their codes.
CANDIDATES = 8_192
# Of so many candidates one is believed. Of a million vectors of MiniLM, the hundred nearest are among the 8,192 nearest
# by sign to 99.3 %, the ten nearest to 99.9 %.
BELIEVED = 80

_SLICE = 1024  # So many dimensions are summed exactly in float32.
_ROWS = 1024
_SAMPLE = 4096
_TELLING = 0.75
_FIRST_BATCH = 16
_GROWTH = 8
_VECTORS = 4


class Batch(NamedTuple):
    """Vectors of one length, with the numbers of their records, their own numbers, their scopes and norms."""

    codes: Array
    n: Array
    v: Array
    scope: Array
    norm: Array


def _make_batch(codes: Array, n: Array, v: Array, scope: Array) -> Batch:
    squares = np.zeros(len(codes))
    for at in range(0, codes.shape[1], _SLICE):
        part = codes[:, at : at + _SLICE].astype("f4")
        squares += np.einsum("ij,ij->i", part, part)
    return Batch(codes, n, v, scope, np.sqrt(squares))


class Segment:
    """Up to 65,536 vectors of one length. Its columns have room for more."""

    def __init__(self, first: Batch) -> None:
        self.columns = first
        self.count = len(first.n)
        self._signs: Array | None = None

    def add(self, batch: Batch) -> None:
        """Append a batch of vectors."""
        room, end = len(self.columns.n), self.count + len(batch.n)
        if end > room:
            more = min(SEGMENT, max(end, 2 * room)) - room
            self.columns = Batch(
                *(np.concatenate([one, np.empty((more, *one.shape[1:]), one.dtype)]) for one in self.columns)
            )
        for own, column in zip(self.columns, batch, strict=True):
            own[self.count : end] = column
        self.count = end

    def make_signs(self, middle: Array) -> Array:
        """Return a bit for each code, in words of 64, word by word: made when first asked for."""
        signs = np.empty((-(-len(middle) // 64), 0), "u8") if self._signs is None else self._signs
        if (done := signs.shape[1]) < self.count:
            fresh = _pack_signs(self.columns.codes[done : self.count], middle)
            signs = self._signs = np.concatenate([signs, np.ascontiguousarray(fresh.T)], axis=1)
        return signs


class SegmentRows(NamedTuple):
    """Some rows of a segment; None: all of them."""

    segment: Segment
    rows: Array | None

    def take(self, column: Array, start: int = 0, stop: int | None = None) -> Array:
        """Return the values of these rows, or of some of them."""
        if self.rows is None:
            return column[: self.segment.count][start:stop]
        return column.take(self.rows[start:stop], axis=0)


def count_rows(parts: list[SegmentRows]) -> int:
    """Return how many rows the parts have together."""
    return sum(part.segment.count if part.rows is None else len(part.rows) for part in parts)


class Shelf:
    """All vectors of one length."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._last: dict[int, Segment] = {}  # The segment of each kind that has room for more.
        self._middle: Array | None = None
        self._tells = False

    def add(self, batch: Batch, kinds: Array) -> None:
        """Vectors of one kind lie together, because a question is about one kind. `kinds` has the kind of a scope."""
        own = kinds.take(batch.scope, mode="clip")
        for kind in np.unique(own).tolist():
            rest = Batch(*(column[own == kind] for column in batch))
            while len(rest.n):
                last = self._last.get(kind)
                room = SEGMENT - (last.count if last else 0)
                some, rest = (Batch(*(column[part] for column in rest)) for part in (slice(room), slice(room, None)))
                if last is None:
                    last = self._last[kind] = Segment(some)
                    self.segments.append(last)
                else:
                    last.add(some)
                if last.count >= SEGMENT:
                    del self._last[kind]

    def select(self, scopes: Array | None, numbers: Array | None = None) -> list[SegmentRows]:
        """Return the vectors in these scopes, and of these records only when they are named."""
        parts = []
        for segment in self.segments:
            columns = segment.columns
            masks = [
                _find_among(column[: segment.count], allowed)
                for column, allowed in ((columns.scope, scopes), (columns.n, numbers))
                if allowed is not None
            ]
            mask = np.logical_and.reduce(masks) if masks else None
            parts.append(SegmentRows(segment, None if mask is None or mask.all() else np.flatnonzero(mask)))
        return [part for part in parts if part.rows is None or len(part.rows)]

    def is_wide(self, parts: list[SegmentRows], limit: int) -> bool:
        """Return whether to compare signs first; signs of codes that are mostly equal, such as 0, say little."""
        rows = count_rows(parts)
        if rows <= EXACT or rows <= 2 * count_candidates(limit):
            return False
        if self._middle is None:
            first = self.segments[0]
            sample = first.columns.codes[: first.count : -(-first.count // _SAMPLE)]
            self._middle = np.rint(sample.mean(axis=0)).astype("i1")
            self._tells = len(self._middle) > 0 and bool((sample != self._middle).mean() > _TELLING)
        return self._tells

    def find_closest(self, parts: list[SegmentRows], vector: Vector, count: int) -> list[SegmentRows]:
        """About `count` of these that are nearest by sign."""
        assert self._middle is not None
        (query,) = _pack_signs(np.frombuffer(vector, "i1")[None], self._middle)
        distances = []
        for part in parts:
            distance = np.zeros(part.segment.count, "u2")
            for own, word in zip(part.segment.make_signs(self._middle), query, strict=True):
                distance += np.bitwise_count(own ^ word)
            distances.append(part.take(distance))
        histogram = sum(np.bincount(distance, minlength=64 * len(query) + 1) for distance in distances)
        cut = np.searchsorted(np.cumsum(histogram), count)
        closest = []
        for part, distance in zip(parts, distances, strict=True):
            rows = np.flatnonzero(distance <= cut)
            closest.append(SegmentRows(part.segment, rows if part.rows is None else part.rows[rows]))
        return closest


def count_candidates(limit: int) -> int:
    """Return how many vectors are compared exactly to find so many."""
    return max(CANDIDATES, BELIEVED * limit)


def _find_among(values: Array, allowed: Array) -> Array:
    """Like `isin`, by a table: for many values of a small range it takes a fraction of the time."""
    top = int(values.max(initial=0))
    table = np.zeros(top + 1, bool)
    table[allowed[allowed <= top]] = True
    return table.take(values)


def _pack_signs(codes: Array, middle: Array) -> Array:
    packed = np.zeros((len(codes), 8 * -(-len(middle) // 64)), "u1")
    packed[:, : -(-len(middle) // 8)] = np.packbits(codes > middle, axis=1)
    return packed.view("u8")


def _score_parts(parts: list[SegmentRows], vector: Vector) -> tuple[Array, Array, Array]:
    """Return the cosine of each, with the number of its record and its own."""
    query = np.frombuffer(vector, "i1").astype("f4")
    slices = [slice(at, at + _SLICE) for at in range(0, len(query), _SLICE)]
    dots = [np.empty(0)]
    for part in parts:
        for start in range(0, count_rows([part]), _ROWS):
            codes = part.take(part.segment.columns.codes, start, start + _ROWS)
            dots.append(sum((codes[:, one].astype("f4") @ query[one] for one in slices), start=np.zeros(len(codes))))
    scores = np.concatenate(dots)
    n, v, norms = (
        np.concatenate([np.empty(0, "i8"), *(part.take(part.segment.columns[at]) for part in parts)])
        for at in (1, 2, 4)
    )
    scale = norm(vector) * norms
    np.divide(scores, scale, out=scores, where=scale > 0)
    return scores, n, v


class Cache:
    """The vectors of a database, loaded into memory for nearest-neighbour search."""

    def __init__(self) -> None:
        self._shelves: dict[int, Shelf] = {}  # By length.
        self._kinds: dict[str, int] = {}
        self._generation = -1
        self._next_v = 0

    def __len__(self) -> int:
        return sum(segment.count for shelf in self._shelves.values() for segment in shelf.segments)

    def nearest(self, db: sqlite3.Connection, vector: Vector, filter: Filter, limit: int) -> list[Hit]:
        """Must be called inside a read transaction, so that cache and file are of one moment."""
        scopes = filter.scopes(db)
        if scopes == []:
            # Most memories have no record of some kinds.
            return []
        self._refresh(db)
        best: dict[str, float] | None = None
        for parts, depth in self._plan_attempts(db, vector, filter, limit, scopes):
            best = _find_best(db, _score_parts(parts, vector), filter, limit, depth)
            if best is not None:
                break
        ranked = sorted((best or {}).items(), key=lambda item: (-item[1], item[0]))
        return [Hit(id, score) for id, score in ranked[:limit]]

    def _refresh(self, db: sqlite3.Connection) -> None:
        select = "SELECT value FROM meta WHERE name IN ('generation', 'next_v') ORDER BY name"
        (generation,), (next_v,) = db.execute(select).fetchall()
        if (generation, next_v) == (self._generation, self._next_v):
            return
        since = self._next_v if self._generation >= 0 and next_v >= self._next_v else 0
        # Until it has succeeded nothing counts as loaded.
        self._generation = -1
        # About how many vectors the file holds tells when most of the cache is garbage.
        select = "SELECT (SELECT count(*) FROM vector_tail), (SELECT count(*) FROM vector_block)"
        waiting, blocks = db.execute(select).fetchone()
        most = 2 * (waiting + blocks * vectors.BLOCK) + vectors.BLOCK
        if since == 0 or len(self) + next_v - since > most:
            since, self._shelves = 0, {}
        scopes = dict(db.execute("SELECT id, kind FROM scope"))
        kinds = np.zeros(1 + max(scopes, default=0), "i8")
        for id, kind in scopes.items():
            kinds[id] = self._kinds.setdefault(kind, len(self._kinds))
        for dim, batch in _read_batches(db, since):
            self._shelves.setdefault(dim, Shelf()).add(batch, kinds)
        self._generation, self._next_v = generation, next_v

    def _plan_attempts(
        self, db: sqlite3.Connection, vector: Vector, filter: Filter, limit: int, ids: list[int] | None
    ) -> Iterator[tuple[list[SegmentRows], int | None]]:
        """What to rank, and how many of the best to look at before giving up; the last attempt does not give up.

        When little of the best is wanted, all that is wanted is so little that the file can be asked for it at once,
        and only that is ranked.
        """
        if len(vector) not in self._shelves:
            return
        shelf, count = self._shelves[len(vector)], count_candidates(limit)
        scopes = None if ids is None else np.fromiter(ids, "i8")
        numbers = filter.list_few(db)
        if numbers == []:
            return
        if numbers is not None:
            yield shelf.select(scopes, np.array(numbers, "i8")), None
            return
        # A record may have several vectors among the best.
        depth = max(count // BELIEVED, _VECTORS * limit)
        few = _GROWTH * max(_FIRST_BATCH, 3 * limit)
        for is_listed in (False, True):
            rows = db.execute(*filter.select_superset()) if is_listed else ()
            parts = shelf.select(scopes, np.fromiter((n for (n,) in rows), "i8") if is_listed else None)
            if shelf.is_wide(parts, limit):
                yield shelf.find_closest(parts, vector, count), depth
            elif not is_listed:
                yield parts, few if filter.record.sql and count_rows(parts) > few else None
        yield parts, None


def _read_batches(db: sqlite3.Connection, since: int) -> Iterator[tuple[int, Batch]]:
    """What the file has in blocks, and then what waits in the tail, with its length."""
    select = (
        "SELECT b.dim, b.codes, m.rows FROM vector_block b JOIN vector_block_meta m USING (first_v)"
        " WHERE b.last_v >= ? ORDER BY b.first_v"
    )
    for dim, codes, packed in db.execute(select, (since,)):
        count = len(packed) // vectors.ROW_BYTES
        n = np.frombuffer(packed, "<i8", count)
        v = np.frombuffer(packed, "<i8", count, 8 * count)
        scope = np.frombuffer(packed, "<i4", count, 16 * count)
        live = (scope != vectors.NOWHERE) & (v >= since)
        yield dim, _make_batch(np.frombuffer(codes, "i1").reshape(count, dim)[live], n[live], v[live], scope[live])
    select = "SELECT dim, v, n, scope, codes FROM vector_tail WHERE v >= ? ORDER BY dim, v"
    for dim, rows in groupby(db.execute(select, (since,)).fetchall(), key=itemgetter(0)):
        _, numbers, records, scopes, tail = zip(*rows, strict=True)
        block = np.frombuffer(b"".join(tail), "i1").reshape(len(tail), dim)
        yield dim, _make_batch(block, np.array(records, "i8"), np.array(numbers, "i8"), np.array(scopes, "i4"))


def _find_best(
    db: sqlite3.Connection, scored: tuple[Array, Array, Array], filter: Filter, limit: int, depth: int | None
) -> dict[str, float] | None:
    """Return the best score by id, for as many records as asked for; None when it gave up."""
    # CROSS JOIN keeps the planner from starting at all the records of a status.
    select = (
        "SELECT r.n, r.id, r.v_first, r.v_first + r.v_count FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"
        f"{filter.record.after('WHERE')}"
    )
    total = len(scored[0])
    end = total if depth is None else min(depth, total)
    size = min(max(_FIRST_BATCH, 3 * limit), end)
    while True:
        best: dict[str, float] = {}
        # Equal scores are never parted.
        floor = np.partition(scored[0], total - size)[total - size] if size else np.inf
        top = np.flatnonzero(scored[0] >= floor)
        scores, numbers, vector_numbers = (column[top].tolist() for column in scored)
        rows = db.execute(select, (json.dumps(list(set(numbers))), *filter.record.params))
        stored = {number: rest for number, *rest in rows}
        for score, number, vector_number in zip(scores, numbers, vector_numbers, strict=True):
            # Its vector is still the record's, and the record is wanted.
            id, first, last = stored.get(number, ("", 0, 0))
            if first <= vector_number < last:
                best[id] = max(best.get(id, score), score)
        if len(best) >= limit:
            return best
        if size == end:
            return best if depth is None else None
        size = min(_GROWTH * size, end)
