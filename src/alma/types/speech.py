"""Spoken text as it is searched: which speakers are people, and how a text is split into sentences.

What a program printed is quoted as data: one line, in code marks, short, and labelled as output.
"""

from __future__ import annotations

import re

from ..text import passages as split_text

_MACHINES = frozenset("assistant ai bot model agent system developer tool function summary".split())
_NAMELESS = _MACHINES | {"user", "human", "me", "person"}

_LEAST, _MOST = 25, 300
_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^\W_a-z])|(?<=[。！？])|\n+")  # fmt: skip


def is_person(speaker: str) -> bool:
    """Return whether a speaker is a person and not a machine role such as "assistant"."""
    return speaker.casefold() not in _MACHINES


def by_name(speaker: str, text: str) -> str:
    """Return the text after its speaker's name; a role such as 'user' is not a name."""
    return text if speaker.casefold() in _NAMELESS else f"{speaker}: {text}"


def sentences(text: str) -> list[str]:
    """Return the text in pieces of about a sentence: short ones are joined, long ones are cut."""
    pieces: list[str] = []
    waiting = ""
    for piece in filter(None, map(str.strip, _BREAK.split(text))):
        waiting = f"{waiting} {piece}" if waiting else piece
        if len(waiting) >= _LEAST:
            pieces += split_text(waiting, _MOST)
            waiting = ""
    return [*pieces, waiting] if waiting else pieces


def passages(speaker: str, text: str) -> tuple[str, ...]:
    """Return the passages to embed: each sentence and the whole for a person, only the whole for a machine.

    People say the thing that matters in passing, in one sentence among others; a machine writes pages about one thing.
    """
    whole = by_name(speaker, text)
    if not is_person(speaker):
        return (whole,)
    parts = [by_name(speaker, one) for one in sentences(text)]
    return (*parts, whole) if len(parts) > 1 else (whole,)


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
    """Return whether a text is labelled program output, as `quote_output` writes it."""
    return _QUOTED.fullmatch(text) is not None


def _excerpt(text: str) -> str:
    words = _ANSI.sub("", text).translate(_MARKS).split()
    visible = " ".join("".join(sign for sign in word if sign.isprintable()) for word in words)
    flat = " ".join(visible.split())
    return flat if len(flat) <= _OUTPUT_CHARS else f"{flat[: _OUTPUT_CHARS - 1].rstrip()}…"


# -- who said it

OUTSIDE = {"tool": "program output", "content": "a file, page or message"}
# Marks a statement that did not come from the user directly.
NOTED = {"agent": "noted by an agent", "import": "imported"} | {name: f"from {text}" for name, text in OUTSIDE.items()}


def mark_source(origin: str) -> str:
    """Return the mark of a statement that did not come from the user directly; empty for the user's own."""
    return f" ({NOTED[origin]})" if origin in NOTED else ""
