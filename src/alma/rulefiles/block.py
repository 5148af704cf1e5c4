"""The marked part of a file that is ours. Everything around it stays as it is, byte for byte."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import ValidationError
from .lines import Item, is_mark, item

BEGIN = "<!-- alma:begin Edit, add or remove items, then import this file -->"
END = "<!-- alma:end -->"
_BEGIN = re.compile(r"\s*<!--\s*alma:begin\b[^>]*-->\s*")
_END = re.compile(r"\s*<!--\s*alma:end\s*-->\s*")
_OPENING = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})")
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})\s*")
_BULLET = re.compile(r"\s*[-*+]\s+(?P<said>.*)")
_NUMBERED = re.compile(r"\s*\d{1,9}[.)]\s+(?P<said>.*)")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(?P<title>.*?)\s*#*\s*")
_MERGE = ("<<<<<<<", ">>>>>>>")


@dataclass(frozen=True, slots=True)
class Block:
    """Where the marked part is in a text, and what stands in it."""

    start: int
    end: int
    lines: tuple[str, ...]
    """Between the marks."""
    first: int
    """The number of the first of them in the file."""


@dataclass(frozen=True, slots=True)
class Content:
    items: tuple[Item, ...]
    title: str
    """The first heading."""
    other: tuple[tuple[int, str], ...]
    """Lines that are no item: their number and what they say."""


def find(text: str, name: str) -> Block | None:
    """The marked part; None when there is none."""
    begun: tuple[int, int] | None = None
    found: Block | None = None
    lines: list[str] = []
    for number, start, line in _outside_code(text):
        if _BEGIN.fullmatch(line):
            if begun is not None or found is not None:
                raise _damaged(name, number, "begins a second time; there may be one block only")
            begun, lines = (start, number), []
        elif _END.fullmatch(line):
            if begun is None:
                raise _damaged(name, number, "ends without having begun")
            found = Block(begun[0], start + len(line), tuple(lines), begun[1] + 1)
            begun = None
        elif begun is not None:
            if line.startswith(_MERGE):
                raise _damaged(name, number, "holds an unfinished merge")
            lines.append(line)
    if begun is not None:
        raise _damaged(name, begun[1], f"begins and never ends; put {END} after its last item")
    return found


def _damaged(name: str, number: int, what: str) -> ValidationError:
    return ValidationError(f"{name}, line {number}: the block of rules {what}. Nothing was changed.")


def _outside_code(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield number, place and words of the lines that are not in a fenced piece of code; only a line feed ends one.

    In our own part there is no such thing, and a fence that is never closed is a slip, and no reason to lose sight of
    what follows.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    closing = {at: found["mark"] for at, line in enumerate(lines) if (found := _FENCE.fullmatch(line))}
    ends = deque(closing)
    ours, start, skipped = False, 0, -1
    for at, (line, whole) in enumerate(zip(lines, text.split("\n"), strict=True)):
        if at > skipped:
            ours = not _END.fullmatch(line) if ours else bool(_BEGIN.fullmatch(line))
            opening = None if ours else _OPENING.match(line)
            while opening and ends and ends[0] <= at:
                ends.popleft()
            closes = (end for end in ends if opening and closing[end].startswith(opening["mark"]))
            skipped = next(closes, at - 1) if opening else at - 1
            if skipped < at:
                yield at + 1, start, line
        start += len(whole) + 1


def content(block: Block) -> Content:
    return _read(block.lines, block.first, numbered=False)


def outside(text: str, block: Block | None) -> list[Item]:
    """The items of lists that a person wrote around the marked part."""
    rest = text if block is None else text[: block.start] + _blank(text[block.start : block.end]) + text[block.end :]
    if front := re.match(r"\ufeff?---\r?\n.*?\r?\n---[ \t]*(?=\r?\n|\Z)", rest, re.DOTALL):
        rest = _blank(front[0]) + rest[front.end() :]
    lines = {number: line for number, _, line in _outside_code(_uncommented(rest))}
    most = max(lines, default=0)
    # What is in a fence ends an item as an empty line does.
    return list(_read([lines.get(number, "") for number in range(1, most + 1)], 1, numbered=True).items)


def _blank(text: str) -> str:
    return "\n" * text.count("\n")


def _uncommented(text: str) -> str:
    """Without comments, but for those that name a memory."""
    out: list[str] = []
    done = 0
    while (start := text.find("<!--", done)) >= 0 and (end := text.find("-->", start)) >= 0:
        comment = text[start : end + 3]
        out += (text[done:start], comment if is_mark(comment) else _blank(comment))
        done = end + 3
    return "".join((*out, text[done:]))


def _read(lines: Sequence[str], first: int, *, numbered: bool) -> Content:
    items: list[Item] = []
    other: list[tuple[int, str]] = []
    title = heading = ""
    said: list[str] = []
    began = depth = 0

    def close() -> None:
        if any(part.strip() for part in said):
            items.append(item(" ".join(said), began, heading))
        said.clear()

    for number, line in enumerate(lines, first):
        bullet = _BULLET.fullmatch(line) or (_NUMBERED.fullmatch(line) if numbered else None)
        plain = line.expandtabs(4)
        indent = len(plain) - len(plain.lstrip())
        # A point below another says more about that one: "but not in models.py" is no rule of its own. A point that
        # only names what follows, and one that has a memory of its own, stand for themselves.
        alone = not said or said[0].rstrip().endswith(":") or "<!--" in line or indent < depth + 2
        if bullet is not None and not alone:
            said.append(f"({bullet['said'].strip()})")
        elif bullet is not None:
            close()
            depth, began = indent, number
            said.append(bullet["said"])
        elif said and line[:1] in " \t" and line.strip():
            said.append(line)
        else:
            close()
            if titled := _HEADING.fullmatch(line):
                heading, title = titled["title"], title or line.strip()
            elif line.strip():
                other.append((number, line.strip()))
    close()
    return Content(tuple(items), title, tuple(other))


# -- writing


def newline(text: str) -> str:
    """What ends the lines of a text: the first of them says it."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def placed(text: str, block: Block | None, lines: Iterable[str], front: str) -> str:
    """The text with the marked part in its place, or at the end when there was none yet."""
    end = newline(text)
    if block is not None:
        # The first mark stays as it is: an earlier version may have written it.
        begin = text[block.start :].split("\n", 1)[0].removesuffix("\r")
        return text[: block.start] + end.join((begin, *lines, END)) + text[block.end :]
    ours = end.join((BEGIN, *lines, END))
    if not text:
        return front + ours + "\n"
    gap = "" if text.endswith(end * 2) else end if text.endswith("\n") else end * 2
    return text + gap + ours + end


def without(text: str, name: str) -> str:
    """The text without the marked part and the empty line that was put before it."""
    block = find(text, name)
    if block is None:
        raise ValidationError(f"{name} has no block of rules")
    end = newline(text)
    before, after = text[: block.start], text[block.end :].removeprefix(end)
    return (before.removesuffix(end) if before.endswith(end * 2) else before) + after
