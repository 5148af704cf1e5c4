"""How answers are shown to people."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from alma.cli.render import Output, draw_interval, format_duration, shorten_ids


@pytest.mark.parametrize(
    ("mean", "low", "high", "drawn"),
    [
        (0.5, 0.2, 0.8, "··├──●──┤··"),
        (0.0, 0.0, 0.2, "●─┤········"),
        (1.0, 1.0, 1.0, "··········●"),
    ],
)
def test_an_interval_is_drawn_between_0_and_1(mean: float, low: float, high: float, drawn: str) -> None:
    assert draw_interval(mean, low, high, 11) == drawn


def test_what_others_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A branch or a commit may be called anything."""
    out = Output()
    out.line("Red \x1b[31malert\x07\x9b31m")
    out.table([{"branch": "\x1b]0;title\x07main"}])
    out.show({"branch": "\x1b[2Jmain"})
    shown = capsys.readouterr().out
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    assert "Red [31malert31m" in shown
    assert "]0;titlemain" in shown


def test_what_others_wrote_cannot_turn_the_order_of_letters(capsys: pytest.CaptureFixture[str]) -> None:
    Output().line("\u202egpj.exe\u202c \u2066عربى\u2069")
    assert capsys.readouterr().out == "gpj.exe عربى\n"


def test_a_table_is_one_line_a_row_and_fits_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.is_terminal, out.width = True, 60
    rows = [("kno_01", "word " * 40, "user"), ("kno_02", "two\nlines", "ops")]
    out.table([dict(zip(("id", "fact", "agent"), row, strict=True)) for row in rows])
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == 2
    assert max(map(len, rows)) <= 60
    assert "…" in rows[0]
    assert rows[1].startswith("kno_02  two lines")


def test_ids_are_short_as_long_as_they_differ() -> None:
    assert shorten_ids(["kno_01m7hh60wj7n40", "kno_01m7hh60wk0000"]) == {
        "kno_01m7hh60wj7n40": "kno_01m7hh60wj",
        "kno_01m7hh60wk0000": "kno_01m7hh60wk",
    }
    same = ["kno_01m7hh60wj7n40q2hs10s46r3q", "kno_01m7hh60wj7n40q2hs10s46r3r"]
    assert shorten_ids(same) == {one: one for one in same}


@dataclass(frozen=True)
class Part:
    name: str
    size: int


@dataclass(frozen=True)
class Whole:
    title: str
    empty: str
    steps: list[str]
    parts: list[Part]


def test_any_dataclass_is_a_card_and_its_parts_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show(Whole("All of it", "", ["first", "second"], [Part("wheel", 2048), Part("nut", 1)]))
    shown = capsys.readouterr().out
    assert "title  All of it\n" in shown
    assert "steps  first\n         second\n" in shown
    assert "wheel  2.0 kB\n" in shown
    assert "empty" not in shown


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (230, "230 ms"),
        (2129, "2.13 s"),
        (59_900, "59.9 s"),
        (217_143, "3 min 37 s"),
        (7_260_000, "2 h 1 min"),
    ],
)
def test_durations_are_readable(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text
