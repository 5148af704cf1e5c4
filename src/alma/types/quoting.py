"""Text that a program printed, quoted as data: one line, in code marks, short, and labelled as output."""

from __future__ import annotations

import re

_LABEL = "program output: "
_CHARS = 120
_MOST = 3
"""So many outputs are quoted; the first ones."""
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_MARKS = str.maketrans({"`": "'", "<": "‹", ">": "›"})
_QUOTED = re.compile(rf"{_LABEL}`[^`\n]+`(?:, `[^`\n]+`)*")


def quote_output(*texts: str) -> str:
    """Return labelled excerpts of what programs printed; empty when there is nothing to quote."""
    excerpts = [excerpt for excerpt in map(_excerpt, texts[:_MOST]) if excerpt]
    return f"{_LABEL}{', '.join(f'`{excerpt}`' for excerpt in excerpts)}" if excerpts else ""


def is_quoted_output(text: str) -> bool:
    return _QUOTED.fullmatch(text) is not None


def _excerpt(text: str) -> str:
    words = _ANSI.sub("", text).translate(_MARKS).split()
    visible = " ".join("".join(sign for sign in word if sign.isprintable()) for word in words)
    flat = " ".join(visible.split())
    return flat if len(flat) <= _CHARS else f"{flat[: _CHARS - 1].rstrip()}…"
