"""Vectors as int8 codes.

A vector is kept as one signed byte per dimension, scaled so that its largest component is 127. Only its direction
means anything, so no scale is stored and every store ranks on exactly the same numbers: the dot product of two
codes is an integer.
"""

from __future__ import annotations

import math
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


def dot(a: Vector, b: Vector) -> int:
    return sum(map(mul, codes(a), codes(b)))


@lru_cache(maxsize=1024)
def norm(vector: Vector) -> float:
    return math.sqrt(dot(vector, vector))


def cosine(a: Vector, b: Vector) -> float:
    if len(a) != len(b):
        raise ValueError(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    scale = norm(a) * norm(b)
    return dot(a, b) / scale if scale else 0.0


def unit(vector: Vector) -> list[float]:
    """The same direction as floats of length one, for people and for stores that want floats."""
    scale = norm(vector)
    return [code / scale for code in codes(vector)] if scale else [0.0] * len(vector)
