"""What is shown, as values: lines with styles, tables, panels. `terminal` turns them into colours and boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """Text in pieces, each with its style."""

    spans: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: Line) -> Line:
        return Line((*self.spans, *other.spans))

    def __str__(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(text: object, style: str = "") -> Line:
    return Line(((str(text), style),))


def stacked(lines: Iterable[Line]) -> Line:
    """Lines under each other, as one."""
    out = Line()
    for one in lines:
        out = out + line("\n") + one if out.spans else one
    return out


Cell = Line | str


@dataclass(frozen=True, slots=True)
class Column:
    name: str = ""
    style: str = ""
    wrap: bool = True
    right: bool = False


@dataclass(slots=True)
class Table:
    """Without column names it is a plain grid."""

    columns: tuple[Column, ...]
    title: str = ""
    title_style: str = "bold"
    caption: str = ""
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        self.rows.append(cells)


def table(*columns: Column | str, title: str = "", title_style: str = "bold", caption: str = "") -> Table:
    made = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return Table(made, title, title_style, caption)


@dataclass(frozen=True, slots=True)
class Panel:
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that are as long as they are, whatever the width, such as those of a diff."""

    text: Line


Shape = Line | Table | Panel | Heading | Verbatim
