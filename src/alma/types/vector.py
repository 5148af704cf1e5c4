"""Vectors as int8 codes.

A vector is kept as one signed byte per dimension, scaled so that its largest component is 127. Only its direction
means anything, so no scale is stored and every store ranks on exactly the same numbers: the dot product of two
codes is an integer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from operator import mul

Vector = bytes


def quantize(values: Sequence[float]) -> Vector:
    peak = max(map(abs, values), default=0.0)
    if not math.isfinite(peak) or not all(map(math.isfinite, values)):
        raise ValueError("a vector holds a value that is not finite")
    if peak == 0.0:
        return bytes(len(values))
    return bytes(round(127 * value / peak) & 0xFF for value in values)


def codes(vector: Vector) -> memoryview:
    return memoryview(vector).cast("b")


@lru_cache(maxsize=1024)
def norm(vector: Vector) -> float:
    own = codes(vector)
    return math.sqrt(sum(map(mul, own, own)))


def cosine(a: Vector, b: Vector) -> float:
    if len(a) != len(b):
        raise ValueError(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    scale = norm(a) * norm(b)
    return sum(map(mul, codes(a), codes(b))) / scale if scale else 0.0


def cosines(vectors: Sequence[Vector], others: Sequence[Vector]) -> list[list[float]]:
    """Return the cosine of each vector with each of the others, which have the same length."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not vectors or not others:
        return [[cosine(one, other) for other in others] for one in vectors]
    first, second = (
        numpy.frombuffer(b"".join(some), numpy.int8).reshape(len(some), -1).astype(numpy.int32)
        for some in (vectors, others)
    )
    scales = numpy.outer([norm(one) for one in vectors], [norm(other) for other in others])
    table: list[list[float]] = (first @ second.T / numpy.where(scales == 0.0, 1.0, scales)).tolist()
    return table


def unit(vector: Vector) -> list[float]:
    """The same direction as floats of length one, for people and for stores that want floats."""
    scale = norm(vector)
    return [code / scale for code in codes(vector)] if scale else [0.0] * len(vector)
