"""The check that refuses regular expressions of exponential time."""

from __future__ import annotations

import pytest
from tools.check_patterns import find_ambiguous_repeats


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(\w+\s?)*!",
        r"(?:[a-z]+\d*)*$",
        r"(?:x*|y)*z",
        r"^(?:(?:\w|\.)+@?)+$",
        r"(?:[^\n]*\s*)*;",
    ],
)
def test_an_ambiguous_repeat_is_found(pattern: str) -> None:
    assert list(find_ambiguous_repeats(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w+\s)*!",
        r"(?:[a-z]+,)*",
        r"(?:a++)+b",
        r"(?>a+)+b",
        r"(?:\d+\.){3}\d+",
        r"(?:\s*-\s[^\n]+\n)*",
        r"a+b+c+",
    ],
)
def test_a_repeat_with_a_separator_passes(pattern: str) -> None:
    assert not list(find_ambiguous_repeats(pattern))
