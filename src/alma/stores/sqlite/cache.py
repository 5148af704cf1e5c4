"""A cache of the file's vectors that is brought up to date at each query.

Entries are only ever added. One whose vector has gone is known by its number, which is outside the range that its
record holds now; the file is asked about that, and about whatever else can change, best candidates first.

Codes stay int8 and are made into floats a thousand at a time. The dot product of two codes is an integer of at most
2**24 for up to 1,024 dimensions, so float32 gives it exactly; longer vectors are multiplied in slices of that
length. A score is therefore the same as that of `alma.types.vector.cosine`.

Looking at every code costs about 0.2 ms for a thousand vectors: too much for hundreds of thousands. There the signs
go first: whether each code is above the middle of its dimension, one bit each, compared by counting the bits that
differ. That is a tenth of the work, needs no building, and takes any filter. The order it gives is rough, so several
thousand of the nearest by sign are scored by their codes, and only the first of those are believed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MissingExtraError
from ...types.query import Hit
from ...types.vector import Vector, norm
from ..sql import Clause
from . import vectors
from .filters import Filter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Rows = Array | slice

SEGMENT = 65_536
EXACT = 65_536
"""Up to so many vectors are all scored by their codes."""
CANDIDATES = 8_192
BELIEVED = 80
"""Of so many candidates one is believed. Of a million vectors of MiniLM, the hundred nearest are among the 8,192
nearest by sign to 99.3 %, the ten nearest to 99.9 %."""

_SLICE = 1024
"""So many dimensions are summed exactly in float32."""
_ROWS = 1024
_SMALLEST = 16
_LONG = 256
"""Rows that follow each other are read in place when there are so many of them, and copied when there are fewer."""
_SAMPLE = 4096
_TELLING = 0.75
_FIRST_BATCH = 16
_GROWTH = 8
_TRIES = 2
_VECTORS = 4


def load_numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError("numpy", "local", "Searching by vector") from error
    return np


class Batch(NamedTuple):
    """Vectors of one length, with the numbers of their records, their own numbers, and their scopes."""

    codes: Array
    n: Array
    v: Array
    scope: Array


class Segment:
    """Up to 65,536 vectors of one length."""

    def __init__(self, dim: int, room: int) -> None:
        np = load_numpy()
        self.room, self.count = room, 0
        self.held = Batch(np.empty((room, dim), "i1"), np.empty(room, "i8"), np.empty(room, "i8"), np.empty(room, "i4"))
        self.norm = np.empty(room)
        self._changes: Array | None = None
        """The rows where another scope begins, and the end."""
        self._signs: Array | None = None
        self._signed = 0

    def add(self, batch: Batch, start: int) -> int:
        """Take in what there is room for, from the row `start` on; the row to go on from."""
        np = load_numpy()
        stop = min(start + self.room - self.count, len(batch.n))
        here = slice(self.count, self.count + stop - start)
        for own, column in zip(self.held, batch, strict=True):
            own[here] = column[start:stop]
        squares = np.zeros(stop - start)
        for at in range(0, batch.codes.shape[1], _SLICE):
            part = batch.codes[start:stop, at : at + _SLICE].astype("f4")
            squares += np.einsum("ij,ij->i", part, part)
        self.norm[here] = np.sqrt(squares)
        self.count = here.stop
        return stop

    def sort_by_rank(self, ranks: Array, room: int) -> Segment:
        """The same vectors by rank, and place for more."""
        np = load_numpy()
        order, sorted_segment = np.argsort(ranks, kind="stable"), Segment(self.held.codes.shape[1], room)
        for own, column in zip((*self.held, self.norm), (*sorted_segment.held, sorted_segment.norm), strict=True):
            np.take(own, order, axis=0, out=column[: self.count], mode="clip")
        sorted_segment.count = self.count
        return sorted_segment

    def find_runs(self, scopes: Array | None) -> tuple[Array, Array]:
        """Where rows of these scopes start and where they stop; None: of any."""
        np = load_numpy()
        if scopes is None:
            return np.array([0]), np.array([self.count])
        if self._changes is None or self._changes[-1] != self.count:
            scope = self.held.scope[: self.count]
            self._changes = np.concatenate([[0], np.flatnonzero(scope[1:] != scope[:-1]) + 1, [self.count]])
        mask = _find_among(self.held.scope[self._changes[:-1]], scopes)
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
        return self._changes[edges[::2]], self._changes[edges[1::2]]

    def make_signs(self, middle: Array) -> Array:
        """A bit for each code, in words of 64, word by word: made when first asked for."""
        np = load_numpy()
        if self._signs is None:
            self._signs = np.empty((-(-len(middle) // 64), self.room), "u8")
        for start in range(self._signed, self.count, _ROWS):
            stop = min(start + _ROWS, self.count)
            self._signs[:, start:stop] = _pack_signs(self.held.codes[start:stop], middle).T
        self._signed = self.count
        return self._signs


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a segment."""

    segment: Segment
    rows: Rows

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)

    def keep_rows(self, wanted: Array) -> Part:
        """Those of the rows where `wanted` is true."""
        rows = load_numpy().flatnonzero(wanted)
        return Part(self.segment, rows + self.rows.start if isinstance(self.rows, slice) else self.rows[rows])

    def split_rows(self) -> Iterator[Rows]:
        """The same rows, a few at a time."""
        for start in range(0, len(self), _ROWS):
            stop = min(start + _ROWS, len(self))
            if isinstance(self.rows, slice):
                yield slice(self.rows.start + start, self.rows.start + stop)
            else:
                yield self.rows[start:stop]


Parts = Sequence[Part]


def count_rows(parts: Parts) -> int:
    return sum(map(len, parts))


class Shelf:
    """All vectors of one length."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self.segments: list[Segment] = []
        self._middle: Array | None = None
        self._tells = False

    def add(self, batch: Batch, ranks: Callable[[Array], Array]) -> None:
        """`ranks` says in which order scopes lie best, so that what is asked for together lies together."""
        done, count = 0, len(batch.n)
        if count and not self.segments:
            # It grows, because most stores hold few vectors.
            self.segments.append(Segment(self._dim, min(SEGMENT, max(_SMALLEST, count))))
        while done < count:
            last = self.segments[-1]
            if last.count == last.room:
                room = min(SEGMENT, 2 * last.count)
                self.segments[-1] = last.sort_by_rank(ranks(last.held.scope[: last.count]), room)
                if last.count == SEGMENT:
                    self.segments.append(Segment(self._dim, SEGMENT))
            done = self.segments[-1].add(batch, done)

    def select(self, scopes: Iterable[int] | None, numbers: Array | None = None) -> list[Part]:
        """The vectors in these scopes, and of these records only when they are named."""
        np = load_numpy()
        named = None if scopes is None else np.fromiter(scopes, "i8")
        parts: list[Part] = []
        for segment in self.segments:
            if numbers is not None:
                rows = np.flatnonzero(_find_among(segment.held.n[: segment.count], numbers))
                parts.append(
                    Part(segment, rows if named is None else rows[_find_among(segment.held.scope[rows], named)])
                )
                continue
            starts, stops = segment.find_runs(named)
            lengths = stops - starts
            long = lengths >= _LONG
            for start, stop in zip(starts[long].tolist(), stops[long].tolist(), strict=True):
                parts.append(Part(segment, slice(start, stop)))
            if not long.all():
                # All the rows from each start to its stop.
                ends = np.cumsum(lengths[~long])
                rows = np.arange(ends[-1]) + np.repeat(stops[~long] - ends, lengths[~long])
                parts.append(Part(segment, rows))
        return [part for part in parts if len(part)]

    def is_wide(self, parts: Parts, limit: int) -> bool:
        """Whether to compare signs first."""
        rows = count_rows(parts)
        return rows > EXACT and rows > 2 * count_candidates(limit) and self._signs_tell()

    def _signs_tell(self) -> bool:
        """Codes that are mostly the same, such as 0, say little by their sign."""
        np = load_numpy()
        if self._middle is None and self._dim:
            codes = self.segments[0].held.codes[: self.segments[0].count]
            sample = codes[:: -(-len(codes) // _SAMPLE)]
            self._middle = np.rint(sample.mean(axis=0)).astype("i1")
            self._tells = bool((sample != self._middle).mean() > _TELLING)
        return self._tells

    def find_closest(self, parts: Parts, vector: Vector, count: int) -> list[Part]:
        """About `count` of these that are nearest by sign."""
        np = load_numpy()
        assert self._middle is not None
        (signs,) = _pack_signs(np.frombuffer(vector, "i1")[None], self._middle)
        distances = [
            _count_differing_bits(part.segment.make_signs(self._middle)[:, part.rows], signs) for part in parts
        ]
        histogram = sum(np.bincount(distance, minlength=64 * len(signs) + 1) for distance in distances)
        cut = np.searchsorted(np.cumsum(histogram), count)
        return [part.keep_rows(distance <= cut) for part, distance in zip(parts, distances, strict=True)]


def count_candidates(limit: int) -> int:
    return max(CANDIDATES, BELIEVED * limit)


def _find_among(values: Array, wanted: Array) -> Array:
    """Like `isin`, by a table: for many values of a small range it takes a fraction of the time."""
    np = load_numpy()
    top = int(values.max(initial=0))
    table = np.zeros(top + 1, bool)
    table[wanted[wanted <= top]] = True
    return table[values]  # type: ignore[no-any-return]


def _pack_signs(codes: Array, middle: Array) -> Array:
    np = load_numpy()
    packed = np.zeros((len(codes), 8 * -(-len(middle) // 64)), "u1")
    packed[:, : -(-len(middle) // 8)] = np.packbits(codes > middle, axis=1)
    return packed.view("u8")  # type: ignore[no-any-return]


def _count_differing_bits(signs: Array, asked: Array) -> Array:
    """In how many bits each differs."""
    np = load_numpy()
    total = np.zeros(signs.shape[1], "u2")
    for own, word in zip(signs, asked, strict=True):
        total += np.bitwise_count(own ^ word)
    return total  # type: ignore[no-any-return]


class Scored(NamedTuple):
    scores: Array
    n: Array
    v: Array


def score_parts(parts: Parts, vector: Vector) -> Scored:
    """The cosine of each, with the number of its record and its own."""
    np = load_numpy()
    query = np.frombuffer(vector, "i1").astype("f4")
    dots = []
    for part in parts:
        for rows in part.split_rows():
            codes = part.segment.held.codes[rows]
            slices = (slice(at, at + _SLICE) for at in range(0, len(query), _SLICE))
            products = (codes[:, one].astype("f4") @ query[one] for one in slices)
            dots.append(sum(products, start=np.zeros(len(codes))))
    if not dots:
        return Scored(np.empty(0), np.empty(0, "i8"), np.empty(0, "i8"))
    scores = np.concatenate(dots)
    scale = norm(vector) * np.concatenate([part.segment.norm[part.rows] for part in parts])
    np.divide(scores, scale, out=scores, where=scale > 0)
    n, v = (np.concatenate([part.segment.held[at][part.rows] for part in parts]) for at in (1, 2))
    return Scored(scores, n, v)


# -- the cache


class VectorQuery(NamedTuple):
    vector: Vector
    filter: Filter
    limit: int
    first: int
    """So many of the best are looked at first."""


class Cache:
    def __init__(self) -> None:
        self._shelves: dict[int, Shelf] = {}
        """By length."""
        self._generation = -1
        self._next_v = 0

    def __len__(self) -> int:
        return sum(segment.count for shelf in self._shelves.values() for segment in shelf.segments)

    def nearest(self, db: sqlite3.Connection, vector: Vector, filter: Filter, limit: int) -> list[Hit]:
        """Must be called inside a read transaction, so that cache and file are of one moment."""
        self._refresh(db)
        if len(vector) not in self._shelves:
            return []
        asked = VectorQuery(vector, filter, limit, max(_FIRST_BATCH, 3 * limit))
        best: dict[str, float] | None = None
        for parts, depth in _plan_attempts(db, self._shelves[len(vector)], asked):
            best = _find_best(db, score_parts(parts, vector), asked, depth)
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
        if since:
            # About how many vectors the file holds tells when most of the cache is garbage.
            (waiting,) = db.execute("SELECT count(*) FROM vector_tail").fetchone()
            (blocks,) = db.execute("SELECT count(*) FROM vector_block").fetchone()
            if len(self) > 2 * (waiting + blocks * vectors.BLOCK) + vectors.BLOCK:
                self._load(db, 0)
        self._generation, self._next_v = generation, next_v

    def _load(self, db: sqlite3.Connection, since: int) -> None:
        """Whatever has a number from `since` on; from 0 on, everything anew."""
        if since == 0:
            self._shelves = {}
        for dim, batch in _read_batches(db, since):
            self._shelves.setdefault(dim, Shelf(dim)).add(batch, lambda scope: _rank_scopes(db, scope))


def _read_batches(db: sqlite3.Connection, since: int) -> Iterator[tuple[int, Batch]]:
    """What the file has in blocks, and then what waits in the tail, with its length."""
    np = load_numpy()
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
        yield dim, held if live.all() else Batch(*(column[live] for column in held))
    select = "SELECT dim, v, n, scope, codes FROM vector_tail WHERE v >= ? ORDER BY dim, v"
    for dim, rows in groupby(db.execute(select, (since,)).fetchall(), key=itemgetter(0)):
        _, numbers, records, scopes, tail = zip(*rows, strict=True)
        block = np.frombuffer(b"".join(tail), "i1").reshape(len(numbers), dim)
        yield dim, Batch(block, np.array(records, "i8"), np.array(numbers, "i8"), np.array(scopes, "i4"))


def _rank_scopes(db: sqlite3.Connection, scope: Array) -> Array:
    """In the order of kinds first, because a question is about one kind, then of agents and users."""
    np = load_numpy()
    ranks = np.zeros(int(scope.max(initial=0)) + 1, "i8")
    listed = np.fromiter((id for (id,) in db.execute("SELECT id FROM scope ORDER BY kind, agent, user, id")), "i8")
    known = listed[listed < len(ranks)]
    ranks[known] = np.arange(len(known))
    return ranks[scope]  # type: ignore[no-any-return]


def _plan_attempts(db: sqlite3.Connection, shelf: Shelf, asked: VectorQuery) -> Iterator[tuple[Parts, int | None]]:
    """What to rank, and how many of the best to look at before giving up; the last attempt does not give up.

    When little of the best is wanted, all that is wanted is so little that the file can be asked for it at once, and
    only that is ranked.
    """
    scopes = asked.filter.scopes(db)
    parts = shelf.select(scopes)
    if shelf.is_wide(parts, asked.limit):
        yield _select_by_sign(shelf, parts, asked)
    else:
        few = asked.first * _GROWTH ** (_TRIES - 1)
        yield parts, few if asked.filter.record.sql and count_rows(parts) > few else None
    parts = shelf.select(scopes, _list_numbers(db, asked.filter.select_superset()))
    if shelf.is_wide(parts, asked.limit):
        yield _select_by_sign(shelf, parts, asked)
    yield parts, None


def _select_by_sign(shelf: Shelf, parts: Parts, asked: VectorQuery) -> tuple[Parts, int]:
    count = count_candidates(asked.limit)
    # A record may have several vectors among the best.
    return shelf.find_closest(parts, asked.vector, count), max(count // BELIEVED, _VECTORS * asked.limit)


def _list_numbers(db: sqlite3.Connection, select: Clause) -> Array:
    return load_numpy().fromiter((n for (n,) in db.execute(*select)), "i8")  # type: ignore[no-any-return]


def _find_best(db: sqlite3.Connection, found: Scored, asked: VectorQuery, depth: int | None) -> dict[str, float] | None:
    """The best score by id, for as many records as asked for; None when it gave up."""
    best: dict[str, float] = {}
    # CROSS JOIN keeps the planner from starting at all the records of a status.
    select = (
        "SELECT r.n, r.id, r.v_first, r.v_first + r.v_count FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"
        f"{asked.filter.record.after('WHERE')}"
    )
    for batch in _split_by_score(found.scores, asked.first, depth):
        scores, numbers, vector_numbers = (column[batch].tolist() for column in found)
        rows = db.execute(select, (json.dumps(list(set(numbers))), *asked.filter.record.params))
        held = {number: rest for number, *rest in rows}
        for score, number, vector_number in zip(scores, numbers, vector_numbers, strict=True):
            # Its vector is still the record's, and the record is wanted.
            id, first, end = held.get(number, ("", 0, 0))
            if first <= vector_number < end:
                best[id] = max(best.get(id, score), score)
        if len(best) >= asked.limit:
            return best
    return best if depth is None else None


def _split_by_score(scores: Array, first: int, depth: int | None) -> Iterator[Array]:
    """Indexes in falling order of score, ever more at a time; equal scores are never parted."""
    np = load_numpy()
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
