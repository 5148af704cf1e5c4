"""A prompt as blocks: headings, paragraphs, points of lists (with what is below them) and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ._masking import HIDDEN, mask

_POINT = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))[ \t]+"
    r"(?P<box>\[(?P<done>[ xX✓-]?)\][ \t]*)?(?P<text>\S.*)$"
)
_TODO = re.compile(
    r"^(?P<indent>[ \t]*)(?i:todo|fixme|(?:step|task) \d{1,3})\s*[:.)–-](?P<box>)(?P<done>)[ \t]*(?P<text>\S.*)$"
)
_BOX = re.compile(r"^(?P<indent>[ \t]*)(?P<box>\[(?P<done>[ xX✓-]?)\][ \t]+|[☐☑✅✔][ \t]*)(?P<text>\S.*)$")
_HEADING = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t]+(?P<hash>.+?)[ \t#]*|(?:\*\*|__)(?P<bold>[^*_\n]{1,80}?):?(?:\*\*|__):?)$"
)
_QUOTE = re.compile(r"^[ \t]*>")
_TABLE = re.compile(r"^[ \t]*\|.*\|[ \t]*$")
_INLINE_NUMBER = re.compile(r"(?:(?<=^)|(?<=[\s,;:]))\(?(\d{1,2})[.)]\s+(?=\S)")
_TICKED = ("x", "X", "✓")


@dataclass
class Piece:
    """Some text with its masked twin."""

    text: str
    masked: str

    def part(self, start: int, end: int | None = None) -> Piece:
        cut = slice(start, len(self.text) if end is None else end)
        return Piece(self.text[cut], self.masked[cut])

    def strip(self) -> Piece:
        left = len(self.text) - len(self.text.lstrip())
        return self.part(left, len(self.text.rstrip()))


@dataclass
class Heading:
    text: str
    lead: bool = False
    """A line that only opens the list after it ("Please do this:")."""


@dataclass
class Paragraph:
    piece: Piece


@dataclass
class Code:
    """Code, a quotation, a table: told along, never worked on by itself."""

    text: str


@dataclass
class Point:
    piece: Piece
    indent: int
    done: bool = False
    boxed: bool = False
    details: list[str] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


@dataclass
class Listing:
    points: list[Point] = field(default_factory=list)


Block = Heading | Paragraph | Code | Listing


def blocks(text: str) -> list[Block]:
    text = text.replace("\r\n", "\n").expandtabs(4)
    reader = _Reader()
    for line, masked in zip(text.split("\n"), mask(text).split("\n"), strict=True):
        reader.line(Piece(line, masked))
    reader.finish()
    return [made for block in reader.blocks for made in _opened(block)]


class _Reader:
    """Reads line by line; what belongs together is joined when something else begins."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._lines: list[Piece] = []
        self._code: list[str] = []
        self._stack: list[Point] = []
        self._blank = False

    def line(self, line: Piece) -> None:
        if not line.text.strip():
            if self._code:
                self._code.append("")
            self._blank = True
            self._flush()
            return
        if self._fenced(line) or self._point(line):
            pass
        elif heading := _HEADING.match(line.masked):
            self.finish()
            name = "hash" if heading["hash"] else "bold"
            self.blocks.append(Heading(line.part(*heading.span(name)).text.strip()))
        elif self._stack and (not self._blank or _indent(line) > self._stack[0].indent):
            self._continue(line)
        elif _QUOTE.match(line.text) or _TABLE.match(line.text) or (_indent(line) >= 4 and not self._lines):
            self._aside(line)
        else:
            self._end_list()
            self._lines.append(line.strip())
        self._blank = False

    def finish(self) -> None:
        self._flush()
        self._end_list()
        self._end_code()

    def _fenced(self, line: Piece) -> bool:
        """A line of a fenced block has nothing left in its masked twin."""
        if line.masked.strip(HIDDEN + " ") or not (self._code or re.match(r"\s*(?:```|~~~)", line.text)):
            self._end_code()
            return False
        self._flush()
        self._code.append(line.text)
        return True

    def _end_code(self) -> None:
        told = "\n".join(self._code).strip("\n")
        self._code = []
        if told:
            self._tell(told)

    def _tell(self, text: str) -> None:
        if self._stack:
            self._stack[-1].details.append(text)
        elif self.blocks and isinstance(self.blocks[-1], Code):
            self.blocks[-1].text += "\n" + text
        else:
            self.blocks.append(Code(text))

    def _aside(self, line: Piece) -> None:
        self._flush()
        self._end_list()
        self._tell(line.text.rstrip())

    def _point(self, line: Piece) -> bool:
        if (numbers := _numbers(line.masked)) and not line.masked[: numbers[0].start()].strip():
            self._flush()
            for point in _numbered(line, numbers):
                self._place(point)
            return True
        found = _POINT.match(line.masked) or _BOX.match(line.masked) or _TODO.match(line.masked)
        if found is None or not re.search(r"\w|" + HIDDEN, found["text"]):
            return False
        self._flush()
        box = found["box"] or ""
        point = Point(
            line.part(found.start("text")).strip(),
            indent=len(found["indent"]),
            done=found.groupdict()["done"] in _TICKED or box.strip() in ("☑", "✅", "✔"),
            boxed=bool(box),
        )
        self._place(point)
        return True

    def _place(self, point: Point) -> None:
        while self._stack and self._stack[-1].indent >= point.indent:
            self._stack.pop()
        if self._stack:
            self._stack[-1].points.append(point)
        elif self.blocks and isinstance(self.blocks[-1], Listing):
            self.blocks[-1].points.append(point)
        else:
            self.blocks.append(Listing([point]))
        self._stack.append(point)

    def _continue(self, line: Piece) -> None:
        point = self._stack[-1]
        stripped = line.strip()
        if point.details or self._blank:
            point.details.append(stripped.text)
        else:
            point.piece = Piece(f"{point.piece.text} {stripped.text}", f"{point.piece.masked} {stripped.masked}")

    def _end_list(self) -> None:
        self._stack = []

    def _flush(self) -> None:
        if self._lines:
            text, masked = (" ".join(getattr(one, name) for one in self._lines) for name in ("text", "masked"))
            self.blocks.append(Paragraph(Piece(text, masked)))
            self._lines = []


def _indent(line: Piece) -> int:
    return len(line.text) - len(line.text.lstrip(" "))


def _opened(block: Block) -> Iterator[Block]:
    """A paragraph that ends with a colon opens what comes next; one that counts (1) (2) (3) is a list."""
    if not isinstance(block, Paragraph):
        yield block
        return
    if numbers := _numbers(block.piece.masked):
        yield from _counted(block.piece, numbers)
    elif block.piece.masked.rstrip().endswith(":"):
        yield from _lead(block.piece)
    else:
        yield block


def _numbers(masked: str) -> list[re.Match[str]]:
    """Where a line counts: 1) 2), or 1. 2. 3., since "version 2. Then ..." is no counting."""
    found = list(_INLINE_NUMBER.finditer(masked))
    if [int(one[1]) for one in found] != list(range(1, len(found) + 1)):
        return []
    return found if len(found) > (1 if all(")" in one[0] for one in found) else 2) else []


def _counted(piece: Piece, numbers: list[re.Match[str]]) -> Iterator[Block]:
    before = piece.part(0, numbers[0].start()).strip()
    if before.text:
        yield from _opened(Paragraph(before))
    yield Listing(_numbered(piece, numbers))


def _numbered(piece: Piece, numbers: list[re.Match[str]]) -> list[Point]:
    ends = [*(one.start() for one in numbers[1:]), len(piece.text)]
    parts = [piece.part(one.end(), end).strip() for one, end in zip(numbers, ends, strict=True)]
    return [Point(one.part(0, len(one.text.rstrip(",; "))), indent=_indent(piece)) for one in parts]


def _lead(piece: Piece) -> Iterator[Block]:
    """Of a paragraph only its last sentence opens the list."""
    cut = max((found.end() for found in re.finditer(r"[.!?]\s+", piece.masked)), default=0)
    if cut:
        yield Paragraph(piece.part(0, cut).strip())
    yield Heading(piece.part(cut).text.strip().rstrip(":").strip(), lead=True)
