"""What somebody said, as it is searched: who counts as a person, and where a text falls into sentences.

What a program printed is quoted as data: one line, in code marks, short, and labelled as output.
"""

from __future__ import annotations

import re

from ..text import passages as split_text

_MACHINES = frozenset({"assistant", "ai", "bot", "model", "agent", "system", "developer", "tool", "function"})
_NAMELESS = _MACHINES | {"user", "human", "me", "person"}

_LEAST, _MOST = 25, 300
_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^\W_a-z])|(?<=[。！？])|\n+")  # fmt: skip


def is_person(speaker: str) -> bool:
    return speaker.casefold() not in _MACHINES


def by_name(speaker: str, text: str) -> str:
    """The words with the name of who said them; a role such as 'user' says nothing about anybody."""
    return text if speaker.casefold() in _NAMELESS else f"{speaker}: {text}"


def sentences(text: str) -> list[str]:
    """The text in pieces of about a sentence; a very short one goes with the next, a very long one is cut."""
    found: list[str] = []
    waiting = ""
    for piece in filter(None, map(str.strip, _BREAK.split(text))):
        waiting = f"{waiting} {piece}" if waiting else piece
        if len(waiting) >= _LEAST:
            found += split_text(waiting, _MOST)
            waiting = ""
    return [*found, waiting] if waiting else found


def passages(speaker: str, text: str) -> tuple[str, ...]:
    """What is embedded: of a person each sentence and the whole, of a machine the whole.

    People say the thing that matters in passing, in one sentence among others; a machine writes pages about one thing.
    """
    whole = by_name(speaker, text)
    if not is_person(speaker):
        return (whole,)
    found = [by_name(speaker, one) for one in sentences(text)]
    return (*found, whole) if len(found) > 1 else (whole,)


# --- what a program printed ------------------------------------------------------------------------

OUTPUT_LABEL = "program output: "
_OUTPUT_CHARS = 120
_MAX_OUTPUTS = 3  # So many outputs are quoted; the first ones.
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_MARKS = str.maketrans({"`": "'", "<": "‹", ">": "›"})
_QUOTED = re.compile(rf"{OUTPUT_LABEL}`[^`\n]+`(?:, `[^`\n]+`)*")


def quote_output(*texts: str) -> str:
    """Return labelled excerpts of what programs printed; empty when there is nothing to quote."""
    excerpts = [excerpt for excerpt in map(_excerpt, texts[:_MAX_OUTPUTS]) if excerpt]
    return f"{OUTPUT_LABEL}{', '.join(f'`{excerpt}`' for excerpt in excerpts)}" if excerpts else ""


def is_quoted_output(text: str) -> bool:
    return _QUOTED.fullmatch(text) is not None


def _excerpt(text: str) -> str:
    words = _ANSI.sub("", text).translate(_MARKS).split()
    visible = " ".join("".join(sign for sign in word if sign.isprintable()) for word in words)
    flat = " ".join(visible.split())
    return flat if len(flat) <= _OUTPUT_CHARS else f"{flat[: _OUTPUT_CHARS - 1].rstrip()}…"
