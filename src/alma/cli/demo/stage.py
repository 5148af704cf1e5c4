"""How the demo is shown: headings, panels, and tables that grow row by row on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ...errors import ALMAError
from ..shapes import Cell, Heading, Panel, Shape, Table, line
from ..terminal import Screen

Row = tuple[Cell, ...]


class DemoError(ALMAError):
    """The engine did not do what the demo promises."""


def expect(holds: object, what: str) -> None:
    if not holds:
        raise DemoError(f"the demo expected that {what}; please report this with the output of `alma doctor --json`")


class Stage:
    def __init__(self, screen: Screen, pause: float) -> None:
        self._screen = screen
        self._pause = pause
        self._acts = 0

    def act(self, title: str, what: str) -> None:
        self._acts += 1
        self._wait()
        self.show(line(""), Heading(f" {self._acts}. {title} "))
        self.say(what)

    def say(self, text: str, style: str = "dim") -> None:
        self.show(line(text, style))

    def show(self, *shapes: Shape) -> None:
        self._screen.draw(*shapes)

    def panel(self, text: str, title: str) -> None:
        self.show(Panel(text, title))

    def grow(self, table: Table, rows: Iterable[Row]) -> None:
        """Fill a table; on a terminal each row appears when it happens."""
        with self._screen.growing(table) as redraw:
            for row in rows:
                table.add(*row)
                redraw()
                self._wait()

    def _wait(self) -> None:
        if self._pause:
            time.sleep(self._pause)
