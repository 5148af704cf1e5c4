from __future__ import annotations

import pytest

from alma.cli.marks import bar, interval


@pytest.mark.parametrize(
    ("mean", "low", "high", "drawn"),
    [
        (0.5, 0.2, 0.8, "··├──●──┤··"),
        (0.0, 0.0, 0.2, "●─┤········"),
        (1.0, 1.0, 1.0, "··········●"),
    ],
)
def test_an_interval_is_drawn_between_0_and_1(mean: float, low: float, high: float, drawn: str) -> None:
    assert interval(mean, low, high, 11) == drawn


def test_a_bar_shows_anything_above_nothing() -> None:
    assert bar(0, 10) == ""
    assert bar(1, 1000, 20) == "█"
    assert bar(10, 10, 20) == "█" * 20
    assert bar(1, 0) == ""
