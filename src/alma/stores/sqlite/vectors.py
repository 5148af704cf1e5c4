"""Vectors on disk.

Every vector has a number v that only grows and is never used again; a record holds a range of them. New vectors
wait as single rows in `vector_tail`. When 1,024 of one length are there they become one row of `vector_block`, so
that a write stays small and reading them all stays fast. Beside each block `vector_block_meta` says which vector
belongs to which record and scope: it is kept apart because it is rewritten when a vector goes.

A vector that goes leaves a hole in its block: its codes are overwritten with zeros and its record number becomes
`HOLE`. A block that is mostly holes gives its vectors back to the tail.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ...errors import CorruptStoreError
from ...types.record import Vector

BLOCK = 1024
HOLE = -1
NOWHERE = 0  # The scope of a hole.
# In `vector_block_meta.rows`, for each vector: n and v as int64 and scope as int32, little-endian, field by field.
ROW_BYTES = 20

_MANY = 200  # More vectors of a block than this are read with the whole of it.

Span = tuple[int, int]  # v_first, v_count


class VectorEntry(NamedTuple):
    """One stored vector and the record it belongs to."""

    v: int
    n: int
    scope: int
    codes: Vector


class VectorBlock(NamedTuple):
    """A block of vectors that are stored in one row."""

    first_v: int
    last_v: int
    dim: int


class Meta(NamedTuple):
    """The record, number and scope of each vector of a block."""

    n: list[int]
    v: list[int]
    scope: list[int]

    def pack(self) -> bytes:
        """Return the columns as bytes."""
        count = len(self.n)
        return struct.pack(f"<{count}q{count}q{count}i", *self.n, *self.v, *self.scope)


def unpack_meta(rows: bytes) -> Meta:
    """Return the columns that `Meta.pack` wrote."""
    count = len(rows) // ROW_BYTES
    values = struct.unpack(f"<{count}q{count}q{count}i", rows)
    return Meta(list(values[:count]), list(values[count : 2 * count]), list(values[2 * count :]))


def add_entries(db: sqlite3.Connection, entries: Iterable[VectorEntry]) -> None:
    """Store vectors; full tails become blocks."""
    by_dim: dict[int, list[VectorEntry]] = defaultdict(list)
    for entry in entries:
        by_dim[len(entry.codes)].append(entry)
    for dim, some in by_dim.items():
        (waiting,) = db.execute("SELECT count(*) FROM vector_tail WHERE dim = ?", (dim,)).fetchone()
        if waiting + len(some) >= BLOCK:
            select = "SELECT v, n, scope, codes FROM vector_tail WHERE dim = ?"
            some = sorted([*map(VectorEntry._make, db.execute(select, (dim,))), *some])
            db.execute("DELETE FROM vector_tail WHERE dim = ?", (dim,))
            while len(some) >= BLOCK:
                v, n, scope, codes = map(list, zip(*some[:BLOCK], strict=True))
                db.execute("INSERT INTO vector_block VALUES (?, ?, ?, ?)", (v[0], v[-1], dim, b"".join(codes)))
                db.execute("INSERT INTO vector_block_meta VALUES (?, ?)", (v[0], Meta(n, v, scope).pack()))
                some = some[BLOCK:]
        insert = "INSERT INTO vector_tail (v, n, scope, codes, dim) VALUES (?, ?, ?, ?, ?)"
        db.executemany(insert, [(*entry, dim) for entry in some])


def remove_spans(db: sqlite3.Connection, spans: Iterable[Span]) -> None:
    """Delete the vectors of these spans."""
    ranges = [(first, first + count) for first, count in spans if count]
    db.executemany("DELETE FROM vector_tail WHERE v >= ? AND v < ?", ranges)
    removed = sorted(v for first, end in ranges for v in range(first, end))
    for block, numbers in _find_blocks(db, removed):
        meta = _read_meta(db, block)
        places = [place for _, place in _find_places(meta, numbers)]
        for place in places:
            meta.n[place], meta.scope[place] = HOLE, NOWHERE
        if meta.n.count(HOLE) > len(meta.n) // 2:
            _unpack_block(db, block, meta)
        elif places:
            db.execute("UPDATE vector_block_meta SET rows = ? WHERE first_v = ?", (meta.pack(), block.first_v))
            if block.dim:
                with db.blobopen("vector_block", "codes", block.first_v) as blob:
                    for place in places:
                        blob.seek(place * block.dim)
                        blob.write(bytes(block.dim))


def _find_blocks(db: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[VectorBlock, Sequence[int]]]:
    """Return the blocks that may hold some of the numbers, and which. Blocks of different lengths may overlap."""
    if not numbers:
        return
    select = "SELECT first_v, last_v, dim FROM vector_block WHERE last_v >= ? AND first_v <= ?"
    for block in map(VectorBlock._make, db.execute(select, (numbers[0], numbers[-1])).fetchall()):
        some = numbers[bisect_left(numbers, block.first_v) : bisect_right(numbers, block.last_v)]
        if some:
            yield block, some


def _read_meta(db: sqlite3.Connection, block: VectorBlock) -> Meta:
    (rows,) = db.execute("SELECT rows FROM vector_block_meta WHERE first_v = ?", (block.first_v,)).fetchone()
    return unpack_meta(rows)


def _read_codes(db: sqlite3.Connection, block: VectorBlock, places: Iterable[int]) -> list[Vector]:
    (codes,) = db.execute("SELECT codes FROM vector_block WHERE first_v = ?", (block.first_v,)).fetchone()
    return [codes[place * block.dim : (place + 1) * block.dim] for place in places]


def _find_places(meta: Meta, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(number, its place in the block) for those that are there."""
    for v in numbers:
        place = bisect_left(meta.v, v)
        if place < len(meta.v) and meta.v[place] == v and meta.n[place] != HOLE:
            yield v, place


def _unpack_block(db: sqlite3.Connection, block: VectorBlock, meta: Meta) -> None:
    live = [place for place, n in enumerate(meta.n) if n != HOLE]
    codes = _read_codes(db, block, live)
    for table in ("vector_block", "vector_block_meta"):
        db.execute(f"DELETE FROM {table} WHERE first_v = ?", (block.first_v,))
    db.execute("UPDATE meta SET value = value + 1 WHERE name = 'generation'")
    add_entries(db, [VectorEntry(meta.v[i], meta.n[i], meta.scope[i], own) for i, own in zip(live, codes, strict=True)])


def read_spans(db: sqlite3.Connection, spans: Mapping[int, Span]) -> dict[int, tuple[Vector, ...]]:
    """Return the vectors of records, by the record's number."""
    rows = sorted(v for first, count in spans.values() for v in range(first, first + count))
    if not rows:
        return {}
    select = "SELECT v, codes FROM vector_tail WHERE v IN (SELECT value FROM json_each(?))"
    stored: dict[int, Vector] = dict(db.execute(select, (json.dumps(rows),)))
    for block, some in _find_blocks(db, [v for v in rows if v not in stored]):
        stored |= _read_block(db, block, some)
    if len(stored) < len(rows):
        raise CorruptStoreError("vectors of records are missing; run `alma doctor`, or restore a backup")
    return {n: tuple(stored[v] for v in range(first, first + count)) for n, (first, count) in spans.items()}


def _read_block(db: sqlite3.Connection, block: VectorBlock, numbers: Sequence[int]) -> dict[int, Vector]:
    if block.last_v - block.first_v == BLOCK - 1:
        # Without gaps the place follows from the number. What belongs to a record is never a hole.
        places = {v: v - block.first_v for v in numbers}
    else:
        places = dict(_find_places(_read_meta(db, block), numbers))
    if block.dim == 0 or len(places) > _MANY:
        return dict(zip(places, _read_codes(db, block, places.values()), strict=True))
    stored: dict[int, Vector] = {}
    with db.blobopen("vector_block", "codes", block.first_v, readonly=True) as blob:
        # What was said together lies together and is read together.
        for _, run in groupby(enumerate(places.items()), lambda item: item[1][1] - item[0]):
            together = [entry for _, entry in run]
            blob.seek(together[0][1] * block.dim)
            codes = blob.read(len(together) * block.dim)
            stored |= {v: codes[i * block.dim : (i + 1) * block.dim] for i, (v, _) in enumerate(together)}
    return stored
