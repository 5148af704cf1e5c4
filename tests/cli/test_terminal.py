"""What is drawn, character by character."""

from __future__ import annotations

import io

from alma.cli.shapes import line, table
from alma.cli.terminal import Screen


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    """A branch or a commit may be called anything."""
    file = io.StringIO()
    grid = table("branch")
    grid.add("\x1b]0;title\x07main")
    Screen(file, color=True).draw(line("Red \x1b[31malert\x07\x9b31m"), grid)
    shown = file.getvalue()
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    assert "Red [31malert31m" in shown
    assert "]0;titlemain" in shown


def test_what_others_wrote_cannot_turn_the_order_of_letters() -> None:
    file = io.StringIO()
    Screen(file, color=False).draw(line("\u202egpj.exe\u202c \u2066عربى\u2069"))
    assert file.getvalue() == "gpj.exe عربى\n"
