"""A text in sentences: those that somebody says themselves.

Code, quotations, print-outs and what stands in a table are told by somebody else or by a machine; they are left out
here, and a quotation within a sentence is veiled. What is left keeps the words as they were said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..reading.pasted import remove_pasted

_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
_SETEXT = re.compile(r"^\s{0,3}(?:={2,}|-{3,})\s*$")
_BULLET = re.compile(r"^\s*(?:[-*+•·]|\(?\d{1,3}[.)])\s+(?P<rest>.*)$")
_BOX = re.compile(r"^\[(?P<mark>[ xX])\]\s+(?P<rest>.*)$")
_TABLE = re.compile(r"^\s*\|.*\|\s*$")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)")
# A full stop after these ends no sentence.
_SHORT = (
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bNo\.)(?<!\ba"
    r"pprox\.)"
)
_SPLIT = re.compile(rf"(?<=[.!?…]){_SHORT}[\"'”’)\]]*\s+|(?<=[。！？])\s*")
_QUOTED = re.compile(
    r"(?<![\w\"])\"(?=\S)[^\"\n]{1,600}(?<=\S)\"(?!\w)|“[^”\n]{1,600}”|«[^»\n]{1,600}»"
    r"|(?<![\w'])'(?=\S)[^'\n]{1,300}(?:(?<=\w)'(?=\w)[^'\n]{1,300})*(?<=\S)'(?!\w)"
)
_QUOTE_WORDS = 3
VEIL = "“…”"


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence and where it stands."""

    text: str
    """As it was said, on one line."""
    plain: str
    """With longer quotations veiled and marks of emphasis taken off: what is read."""
    heading: str = ""
    bulleted: bool = False
    box: str = ""
    """'open' or 'done' for a point with a box to tick."""
    block: int = 0
    """Sentences of one paragraph share it."""


def pieces(text: str, *, document: bool, only: re.Pattern[str] | None = None) -> list[Piece]:
    """`only` is what a line must hold to be looked at, where most of a long text is of no interest."""
    made: list[Piece] = []
    told = _COMMENT.sub(" ", text) if "<!--" in text else text
    for number, line in enumerate(_lines(told, document, only)):
        for sentence in _sentences(line.text):
            made.append(Piece(sentence, _plain(sentence), line.heading, line.bulleted, line.box, number))
    return made


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    heading: str
    bulleted: bool
    box: str


def _lines(text: str, document: bool, only: re.Pattern[str] | None) -> Iterator[_Line]:
    """Paragraphs and points, each on one line, with the heading they stand under."""
    heading, waiting = "", _Line("", "", False, "")
    for line, follows in _own_lines(text, only):
        title = _HEADING.match(line)
        if title or not line.strip():
            if waiting.text:
                yield waiting
            waiting = _Line("", "", False, "")
            heading = title["text"] if title else heading
            continue
        if _SETEXT.match(line):
            heading = waiting.text or heading
            waiting = _Line("", "", False, "")
            continue
        point = _BULLET.match(line)
        if waiting.text and (point or not follows or not _goes_on(waiting.text, line, document)):
            yield waiting
            waiting = _Line("", "", False, "")
        if waiting.text:
            waiting = _Line(f"{waiting.text} {line.strip()}", waiting.heading, waiting.bulleted, waiting.box)
            continue
        rest, box = _boxed(point["rest"] if point else line)
        waiting = _Line(rest.strip(), heading, point is not None, box)
    if waiting.text:
        yield waiting


def _boxed(text: str) -> tuple[str, str]:
    found = _BOX.match(text.strip())
    if not found:
        return text, ""
    return found["rest"], "open" if found["mark"] == " " else "done"


def _goes_on(before: str, line: str, document: bool) -> bool:
    """Whether a line is the rest of the one before: people press return after a thought, editors wrap anywhere."""
    first = line.strip()[:1]
    return document or (before[-1:] not in ".!?:;…" and first.islower())


def _own_lines(text: str, only: re.Pattern[str] | None) -> Iterator[tuple[str, bool]]:
    """Lines that are somebody's own words, and whether each follows right on the one before."""
    fence, follows = "", False
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1] == fence else fence
            follows = False
            continue
        if mark:
            fence, follows = mark[1], False
            continue
        if not line.strip():
            yield "", False
            follows = False
        elif (only is not None and not only.search(line)) or _foreign(line):
            follows = False
        else:
            yield line, follows
            follows = True


_LINE_CHARS = 20_000


def _foreign(line: str) -> bool:
    if (
        len(line) > _LINE_CHARS
        or line.lstrip().startswith(">")
        or _TABLE.match(line)
        or (line.startswith(("    ", "\t")) and not _BULLET.match(line))
    ):
        return True
    bare = _BULLET.match(line)
    return not remove_pasted(bare["rest"] if bare else line)


def _sentences(line: str) -> list[str]:
    return [piece.strip() for piece in _SPLIT.split(line) if piece.strip(" .,;:!-–—*_")]


def _plain(sentence: str) -> str:
    bare = _EMPHASIS.sub(r"\2", sentence)
    veiled = _QUOTED.sub(_veiled, bare) if any(mark in bare for mark in "\"“«'") else bare
    return " ".join(veiled.replace("’", "'").split())


def _veiled(found: re.Match[str]) -> str:
    """A quoted name is what is spoken of; a quoted sentence is someone else's."""
    return found[0] if len(found[0].split()) <= _QUOTE_WORDS else VEIL
