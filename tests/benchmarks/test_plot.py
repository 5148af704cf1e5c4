from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks._plot import axis, bar_chart, line_chart
from hypothesis import given
from hypothesis import strategies as st

NAME = "{http://www.w3.org/2000/svg}"
FINITE = st.floats(-1e6, 1e6)


def drawn(path: Path) -> ElementTree.Element:
    return ElementTree.parse(path).getroot()


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NAME}text")]


def test_a_line_for_each_series(tmp_path: Path) -> None:
    path = tmp_path / "lines.svg"
    line_chart(path, "Found", "k", "share", {"ours": [(1, 0.5), (2, 0.9)], "theirs": [(1, 0.2), (2, 0.3)]})
    root = drawn(path)
    assert len(list(root.iter(f"{NAME}polyline"))) == 2
    assert {"Found", "k", "share", "ours", "theirs"} <= set(texts(root))


def test_higher_values_are_drawn_higher(tmp_path: Path) -> None:
    path = tmp_path / "lines.svg"
    line_chart(path, "", "", "", {"a": [(1, 10), (2, 20)]})
    [line] = drawn(path).iter(f"{NAME}polyline")
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert x1 < x2
    assert y1 > y2


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    hostile = '</svg><script>alert("x")</script> & more'
    bar_chart(path, hostile, [hostile], {hostile: [1.0]}, hostile)
    root = drawn(path)
    assert texts(root).count(hostile) == 4
    assert not list(root.iter(f"{NAME}script"))


def test_a_bar_is_as_tall_as_its_value(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    bar_chart(path, "", ["first", "second"], {"ours": [1.0, 0.5], "theirs": [0.25, math.nan]})
    bars = [one.attrib for one in drawn(path).iter(f"{NAME}rect") if "x" in one.attrib]
    # The legend's squares are 14 wide.
    tall = [float(bar["height"]) for bar in bars if bar["width"] != "14"]
    assert len(tall) == 3
    assert tall[0] == pytest.approx(4 * tall[1], abs=1)
    assert tall[0] == pytest.approx(2 * tall[2], abs=1)


def test_a_group_may_have_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    bar_chart(path, "", ["any@5\nturns"], {"ours": [0.5]})
    assert {"any@5", "turns", "0.50"} <= set(texts(drawn(path)))


def test_a_chart_can_be_read_in_light_and_in_dark(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    bar_chart(path, "t", ["g"], {"s": [1.0]})
    assert "prefers-color-scheme: dark" in path.read_text(encoding="utf-8")
    assert any(one.attrib.get("class") == "back" for one in drawn(path).iter(f"{NAME}rect"))


def test_powers_of_ten_are_evenly_spaced_on_a_logarithmic_axis() -> None:
    along = axis([1, 10, 100], log=True)
    assert [along.at(value) for value in (1, 10, 100)] == pytest.approx([0, 0.5, 1])


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="above 0"):
        line_chart(tmp_path / "a.svg", "", "", "", {"a": [(0, 1), (1, 1)]}, log_x=True)
    with pytest.raises(ValueError, match="at least one point"):
        line_chart(tmp_path / "a.svg", "", "", "", {})
    with pytest.raises(ValueError, match="2 groups"):
        bar_chart(tmp_path / "a.svg", "", ["a", "b"], {"s": [1.0]})


@given(st.lists(FINITE, min_size=1))
def test_every_value_lies_on_its_axis(values: list[float]) -> None:
    along = axis(values)
    assert all(-1e-6 <= along.at(value) <= 1 + 1e-6 for value in values)
    assert list(along.ticks) == sorted(along.ticks)
    assert 2 <= len(along.ticks) <= 12


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_every_value_lies_on_its_logarithmic_axis(values: list[float]) -> None:
    along = axis(values, log=True)
    assert all(-1e-6 <= along.at(value) <= 1 + 1e-6 for value in values)
