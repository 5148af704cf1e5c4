"""Vectors in memory, as arrays.

Codes stay int8 and are made into floats a thousand at a time. The dot product of two codes is an integer of at most
2**24 for up to 1,024 dimensions, so float32 gives it exactly; longer vectors are multiplied in slices of that
length. A score is therefore the same as that of `alma.types.vector.cosine`.

Looking at every code costs about 0.2 ms for a thousand vectors: too much for hundreds of thousands. There the signs
go first: whether each code is above the middle of its dimension, one bit each, compared by counting the bits that
differ. That is a tenth of the work, needs no building, and takes any filter. The order it gives is rough, so several
thousand of the nearest by sign are scored by their codes, and only the first of those are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MissingExtraError
from ...types.vector import Vector, norm

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


def numpy() -> Any:
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

    def part(self, rows: Rows) -> Batch:
        return Batch(*(column[rows] for column in self))


class Segment:
    """Up to 65,536 vectors of one length."""

    def __init__(self, dim: int, room: int) -> None:
        np = numpy()
        self.room, self.count = room, 0
        self.held = Batch(np.empty((room, dim), "i1"), np.empty(room, "i8"), np.empty(room, "i8"), np.empty(room, "i4"))
        self.norm = np.empty(room)
        self._changes: Array | None = None
        """The rows where another scope begins, and the end."""
        self._signs: Array | None = None
        self._signed = 0

    def add(self, batch: Batch) -> None:
        here = slice(self.count, self.count + len(batch.n))
        for own, column in zip(self.held, batch, strict=True):
            own[here] = column
        self.norm[here] = _norms(batch.codes)
        self.count = here.stop

    def ordered(self, ranks: Array, room: int) -> Segment:
        """The same vectors by rank, and place for more."""
        np = numpy()
        order, made = np.argsort(ranks, kind="stable"), Segment(self.held.codes.shape[1], room)
        for own, column in zip((*self.held, self.norm), (*made.held, made.norm), strict=True):
            np.take(own, order, axis=0, out=column[: self.count], mode="clip")
        made.count = self.count
        return made

    def runs(self, scopes: Array | None) -> tuple[Array, Array]:
        """Where rows of these scopes start and where they stop; None: of any."""
        np = numpy()
        if scopes is None:
            return np.array([0]), np.array([self.count])
        if self._changes is None or self._changes[-1] != self.count:
            scope = self.held.scope[: self.count]
            self._changes = np.concatenate([[0], np.flatnonzero(scope[1:] != scope[:-1]) + 1, [self.count]])
        mask = _among(self.held.scope[self._changes[:-1]], scopes)
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
        return self._changes[edges[::2]], self._changes[edges[1::2]]

    def signs(self, middle: Array) -> Array:
        """A bit for each code, in words of 64, word by word: made when first asked for."""
        np = numpy()
        if self._signs is None:
            self._signs = np.empty((-(-len(middle) // 64), self.room), "u8")
        for start in range(self._signed, self.count, _ROWS):
            stop = min(start + _ROWS, self.count)
            self._signs[:, start:stop] = _signs(self.held.codes[start:stop], middle).T
        self._signed = self.count
        return self._signs


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a segment."""

    segment: Segment
    rows: Rows

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start if isinstance(self.rows, slice) else len(self.rows)

    def only(self, wanted: Array) -> Part:
        """Those of the rows where `wanted` is true."""
        found = numpy().flatnonzero(wanted)
        return Part(self.segment, found + self.rows.start if isinstance(self.rows, slice) else self.rows[found])

    def pieces(self) -> Iterator[Rows]:
        """The same rows, a few at a time."""
        for start in range(0, len(self), _ROWS):
            stop = min(start + _ROWS, len(self))
            if isinstance(self.rows, slice):
                yield slice(self.rows.start + start, self.rows.start + stop)
            else:
                yield self.rows[start:stop]


Parts = Sequence[Part]


def size(parts: Parts) -> int:
    return sum(map(len, parts))


class Shelf:
    """All vectors of one length."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._segments: list[Segment] = []
        self._middle: Array | None = None
        self._tells = False

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    def add(self, batch: Batch, ranks: Callable[[Array], Array]) -> None:
        """`ranks` says in which order scopes lie best, so that what is asked for together lies together."""
        while len(batch.n):
            segment = self._roomy(len(batch.n), ranks)
            fits = segment.room - segment.count
            segment.add(batch.part(slice(0, fits)))
            batch = batch.part(slice(fits, None))

    def _roomy(self, coming: int, ranks: Callable[[Array], Array]) -> Segment:
        """A segment that has place left; the first one grows, because most stores hold few vectors."""
        if not self._segments:
            self._segments.append(Segment(self._dim, min(SEGMENT, max(_SMALLEST, coming))))
        last = self._segments[-1]
        if last.count == last.room:
            room = min(SEGMENT, 2 * last.count)
            self._segments[-1] = last.ordered(ranks(last.held.scope[: last.count]), room)
            if last.count == SEGMENT:
                self._segments.append(Segment(self._dim, SEGMENT))
        return self._segments[-1]

    def select(self, scopes: Iterable[int] | None, numbers: Array | None = None) -> list[Part]:
        """The vectors in these scopes, and of these records only when they are named."""
        named = None if scopes is None else numpy().fromiter(scopes, "i8")
        return [part for segment in self._segments for part in _selected(segment, named, numbers) if len(part)]

    def is_wide(self, parts: Parts, limit: int) -> bool:
        """Whether to compare signs first."""
        return size(parts) > max(EXACT, 2 * candidates(limit)) and self._signs_tell()

    def _signs_tell(self) -> bool:
        """Codes that are mostly the same, such as 0, say little by their sign."""
        np = numpy()
        if self._middle is None and self._dim:
            codes = self._segments[0].held.codes[: self._segments[0].count]
            sample = codes[:: -(-len(codes) // _SAMPLE)]
            self._middle = np.rint(sample.mean(axis=0)).astype("i1")
            self._tells = bool((sample != self._middle).mean() > _TELLING)
        return self._tells

    def closest(self, parts: Parts, vector: Vector, count: int) -> list[Part]:
        """About `count` of these that are nearest by sign."""
        np = numpy()
        assert self._middle is not None
        (asked,) = _signs(np.frombuffer(vector, "i1")[None], self._middle)
        found = [_differing(part.segment.signs(self._middle)[:, part.rows], asked) for part in parts]
        histogram = sum(np.bincount(some, minlength=64 * len(asked) + 1) for some in found)
        cut = np.searchsorted(np.cumsum(histogram), count)
        return [part.only(some <= cut) for part, some in zip(parts, found, strict=True)]


def candidates(limit: int) -> int:
    return max(CANDIDATES, BELIEVED * limit)


def _among(values: Array, wanted: Array) -> Array:
    """Like `isin`, by a table: for many values of a small range it takes a fraction of the time."""
    np = numpy()
    top = int(values.max(initial=0))
    table = np.zeros(top + 1, bool)
    table[wanted[wanted <= top]] = True
    return table[values]  # type: ignore[no-any-return]


def _selected(segment: Segment, scopes: Array | None, numbers: Array | None) -> Iterator[Part]:
    np = numpy()
    if numbers is not None:
        rows = np.flatnonzero(_among(segment.held.n[: segment.count], numbers))
        yield Part(segment, rows if scopes is None else rows[_among(segment.held.scope[rows], scopes)])
        return
    starts, stops = segment.runs(scopes)
    long = stops - starts >= _LONG
    for start, stop in zip(starts[long].tolist(), stops[long].tolist(), strict=True):
        yield Part(segment, slice(start, stop))
    if not long.all():
        yield Part(segment, _spread(starts[~long], stops[~long]))


def _spread(starts: Array, stops: Array) -> Array:
    """All the rows from each start to its stop."""
    np = numpy()
    lengths = stops - starts
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)  # type: ignore[no-any-return]


def _signs(codes: Array, middle: Array) -> Array:
    np = numpy()
    packed = np.zeros((len(codes), 8 * -(-len(middle) // 64)), "u1")
    packed[:, : -(-len(middle) // 8)] = np.packbits(codes > middle, axis=1)
    return packed.view("u8")  # type: ignore[no-any-return]


def _differing(signs: Array, asked: Array) -> Array:
    """In how many bits each differs."""
    np = numpy()
    total = np.zeros(signs.shape[1], "u2")
    for own, word in zip(signs, asked, strict=True):
        total += np.bitwise_count(own ^ word)
    return total  # type: ignore[no-any-return]


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


class Scored(NamedTuple):
    scores: Array
    n: Array
    v: Array


def scored(parts: Parts, vector: Vector) -> Scored:
    """The cosine of each, with the number of its record and its own."""
    np = numpy()
    query = np.frombuffer(vector, "i1").astype("f4")
    dots = [_dots(part.segment.held.codes[rows], query) for part in parts for rows in part.pieces()]
    if not dots:
        return Scored(np.empty(0), np.empty(0, "i8"), np.empty(0, "i8"))
    scores = np.concatenate(dots)
    scale = norm(vector) * np.concatenate([part.segment.norm[part.rows] for part in parts])
    np.divide(scores, scale, out=scores, where=scale > 0)
    n, v = (np.concatenate([part.segment.held[at][part.rows] for part in parts]) for at in (1, 2))
    return Scored(scores, n, v)
