"""Plain text and Markdown: one document, a very long one in parts that end with a paragraph."""

from __future__ import annotations

from collections.abc import Iterator

from ...text import digest
from ..reading.sources import Reading
from ..types import Document, Format, Piece, Voice
from .shape import said, session_of

PART_CHARS = 64_000
_SEARCHED = 8_000


def read(reading: Reading, format: Format, known_as: str, voice: Voice) -> Iterator[Piece]:
    """`known_as` names the document: the same when it is read again, wherever its folder then stands."""
    held, number = "", 0
    for chunk in reading.chunks:
        held += chunk.replace("\r\n", "\n")
        while len(held) > PART_CHARS:
            number += 1
            cut = _end(held)
            yield from _part(reading, format, known_as, voice, held[:cut], number)
            held = held[cut:]
    yield from _part(reading, format, known_as, voice, held, number + 1)


def _end(held: str) -> int:
    """Where a part ends: after a paragraph, else after a line, else a word, else where it is full."""
    for sign in ("\n\n", "\n", " "):
        found = held.rfind(sign, PART_CHARS - _SEARCHED, PART_CHARS)
        if found >= 0:
            return found + len(sign)
    return PART_CHARS


def _part(reading: Reading, format: Format, known_as: str, voice: Voice, words: str, number: int) -> Iterator[Piece]:
    if not said(words.replace("\0", "")):
        return
    source = reading.source
    yield Document(
        format=format,
        session=session_of(format, f"document:{digest(known_as)}"),
        name=source.leaf,
        title=known_as,
        text=words,
        part=str(number),
        at=source.modified,
        voice=voice,
    )
