"""What a person sees at a terminal."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_ALIKE = 0.8


def read_screen(output: str) -> str:
    """Return what a program drew, without spaces, which many programs draw as moves."""
    return "".join(_ESCAPE.sub("", output).split())


def is_seen(line: str, screen: str) -> bool:
    """Return whether a line was drawn. A program redraws only what changed, so a few of its letters may be missing."""
    line = line.replace(" ", "")
    starts = [match.start() for match in re.finditer(re.escape(line[:7]), screen)]
    windows = [screen[start : start + len(line)] for start in starts]
    return any(SequenceMatcher(None, line, window, autojunk=False).ratio() > _ALIKE for window in windows)
