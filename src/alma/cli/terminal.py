"""The only user of Rich, loaded when something is drawn: no markup in what users wrote, no colour where none is
wanted, a fixed width when piped."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from .shapes import Cell, Heading, Line, Panel, Shape, Table, Verbatim

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

    from .output import Progress

PIPED_WIDTH = 100

# What others wrote, such as the name of a branch, must not move the cursor or colour the screen.
# Nor may it turn around the order in which letters are read.
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = {code: None for code in (*range(32), *range(127, 160), *_TURNING) if chr(code) not in "\n\t"}

Redraw = Callable[[], None]


class Screen:
    """Where shapes are drawn; `file=None` draws for nobody."""

    def __init__(self, file: TextIO | None, color: bool) -> None:
        self._console = _console(io.StringIO() if file is None else file, color)

    @property
    def is_live(self) -> bool:
        return self._console.is_terminal

    def draw(self, *shapes: Shape) -> None:
        for shape in shapes:
            self._console.print(_rendered(shape), soft_wrap=isinstance(shape, Verbatim))

    @contextmanager
    def growing(self, table: Table) -> Iterator[Redraw]:
        """A table that is drawn again as often as asked; where nothing can be redrawn, once at the end."""
        if not self.is_live:
            yield lambda: None
            self.draw(table)
            return
        from rich.live import Live

        with Live(_rendered(table), console=self._console, auto_refresh=False) as live:
            yield lambda: live.update(_rendered(table), refresh=True)


@contextmanager
def progress_bar(file: TextIO, color: bool, what: str, *, of_bytes: bool = False) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    done = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    with Progress(*columns, console=_console(file, color), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _console(file: TextIO, color: bool) -> Console:
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            # Left to `main`, like a broken pipe anywhere else.
            raise BrokenPipeError

    width = None if file.isatty() else PIPED_WIDTH
    return Ours(file=file, width=width, no_color=not color, markup=False, emoji=False, highlight=False)


def _rendered(shape: Shape) -> RenderableType:
    match shape:
        case Line():
            return _text(shape)
        case Table():
            return _table(shape)
        case Panel():
            return _panel(shape)
        case Heading():
            return _heading(shape)
        case Verbatim():
            return _text(shape.text)


def _text(cell: Cell) -> Text:
    from rich.text import Text

    spans = ((cell, ""),) if isinstance(cell, str) else cell.spans
    return Text.assemble(*((text.translate(_UNSEEN), style) for text, style in spans))


def _table(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    named = any(column.name for column in table.columns)
    made = RichTable.grid(padding=(0, 1)) if not named else RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    made.title, made.title_style, made.title_justify = table.title and _text(table.title), table.title_style, "left"
    made.caption, made.caption_justify = table.caption and _text(table.caption), "left"
    for column in table.columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        made.add_column(column.name, style=column.style, no_wrap=not column.wrap, overflow="fold", justify=justify)
    for row in table.rows:
        made.add_row(*map(_text, row))
    return made


def _panel(panel: Panel) -> RenderableType:
    from rich.panel import Panel as RichPanel
    from rich.text import Text

    text = Text(panel.text) if panel.text else Text("(nothing)", "dim italic")
    return RichPanel(text, title=Text(panel.title, "bold"), title_align="left", border_style="blue")


def _heading(heading: Heading) -> RenderableType:
    from rich.rule import Rule
    from rich.text import Text

    return Rule(Text(heading.text, "bold"), align="left", style="blue")
