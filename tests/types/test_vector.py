from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.types.record import cosine, quantize, unit

floats = st.floats(-1, 1).filter(lambda x: x == 0 or abs(x) > 1e-6)
vectors = st.lists(floats, min_size=1, max_size=40)


@given(vectors)
def test_quantizing_keeps_the_direction(values: list[float]) -> None:
    codes = quantize(values)
    length = math.sqrt(sum(value * value for value in values))
    if length:
        close = sum(a * b for a, b in zip(unit(codes), values, strict=True)) / length
        assert close > 0.99


@given(vectors)
def test_codes_survive_a_store_that_keeps_floats(values: list[float]) -> None:
    codes = quantize(values)
    assert quantize(unit(codes)) == codes


@given(vectors, vectors)
def test_cosine_is_symmetric_and_bounded(a: list[float], b: list[float]) -> None:
    size = min(len(a), len(b))
    left, right = quantize(a[:size]), quantize(b[:size])
    assert cosine(left, right) == cosine(right, left)
    assert -1.000001 <= cosine(left, right) <= 1.000001


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="2 and 3 dimensions"):
        cosine(b"ab", b"abc")
    with pytest.raises(ValueError, match="finite"):
        quantize([1.0, math.nan])
    assert cosine(bytes(3), b"abc") == 0.0
