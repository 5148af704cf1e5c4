"""The marked part of a file that is ours, its items, and how a memory reads as one of them.

    - **When deploying:** Use blue-green deployment. *Why:* It can be rolled back. <!-- 4kq0m8zt w31x9c -->

The comment names the memory and a digest of the words as they were written: an item whose words no longer fit its
digest was edited by hand. Everything around the marked part stays as it is, byte for byte.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import ValidationError

# -- text as one line of Markdown that is nothing but text, and back
#
# A backslash stands before what would act as structure: a tag or comment, a heading, a fence, an `@path` that a host
# would load, the marks of our own lines. Code spans stay as they are. `decode(encode(text))` is `fold(text)`.

MEANT = "\\`@<!>*_#~[-+"
"""What a backslash may stand before."""

_SPACE = re.compile(r"\s+")
_RUN = re.compile(r"`+")
_RUN_OR_ESCAPE = re.compile(r"`+|\\[\\`@<!>*_#~\[+-]")
_ESCAPED = re.compile(r"\\([\\`@<!>*_#~\[+-])")
_UNSEEN = ("Cc", "Cf", "Cs", "Co")
_JOINERS = "\u200c\u200d"
"""Persian and Indic spelling and emoji need these."""
_LABEL = re.compile(r"(?=([*_])(?:Why|Instead):\1)")
_OPENS = re.compile(r"(?:#|~~~|>|[-+*](?:\s|$)|[-*_](?:\s*[-*_]){2,}\s*$|\[[^\]]*\]:|(\*\*|__)(?=.*:\1))")
_MARKUP = re.compile(
    r"(?P<mail>(?<![\w.+-])@)|(?P<tag><(?=[A-Za-z/!?]))|(?P<open>(?<=<)!(?=--))|(?P<close>(?<=--)>)"
    r"|(?P<tick>`)|(?P<slash>\\+)"
)
_ENDS_HEAD = re.compile(r"(?<=:)(?:\*(?=\*)|_(?=_))")


def fold(text: str) -> str:
    """Return the text on one line, without what nobody sees."""
    flat = _SPACE.sub(" ", text).strip()
    if flat.isascii() and flat.isprintable():
        return flat
    from ..engine.inject.escape import remove_unseen  # Its patterns take a while to compile.

    seen = "".join(
        sign for sign in remove_unseen(flat) if unicodedata.category(sign) not in _UNSEEN or sign in _JOINERS
    )
    return _SPACE.sub(" ", seen).strip()


def encode(text: str, *, head: bool = False) -> str:
    """Return the text on one line of Markdown; as a head, it holds nothing that would end one."""
    flat = fold(text)
    marks = {found.start() for found in _LABEL.finditer(flat)}
    marks |= {0} if _OPENS.match(flat) else set()
    marks |= {found.start() for found in _ENDS_HEAD.finditer(flat)} if head else set()
    out: list[str] = []
    for start, end, is_code in _split_code(flat, _RUN):
        at = end if is_code else start
        out.append(flat[start:at])
        while at < end:
            found = _MARKUP.match(flat, at)
            stop = min(found.end(), end) if found is not None and found["slash"] else at + 1
            part = flat[at:stop]
            if found is not None and found["slash"]:
                is_alone = len(part) == 1 and (stop == len(flat) or flat[stop] not in MEANT)
                out.append(part if is_alone else part * 2)
            else:
                out.append(f"\\{part}" if found is not None or at in marks else part)
            at = stop
    return "".join(out)


def decode(line: str) -> str:
    parts = (
        line[start:end] if code else _ESCAPED.sub(r"\1", line[start:end]) for start, end, code in _split_code(line)
    )
    return fold("".join(parts))


def _split_code(text: str, sign: re.Pattern[str] = _RUN_OR_ESCAPE) -> Iterator[tuple[int, int, bool]]:
    """Yield code spans and what is between them, in order. In a line of Markdown, a backtick after a backslash opens
    none; in a text that is yet to be written, a backslash is one, and a comment is seen in a code span too."""
    done = at = 0
    while opening := sign.search(text, at):
        start, at = opening.span()
        runs = (run for run in _RUN.finditer(text, at) if len(run[0]) == at - start)
        closing = next(runs, None) if opening[0][0] == "`" else None
        if closing is None:
            continue
        if sign is _RUN and any(mark in text[start : closing.end()] for mark in ("<!--", "-->")):
            continue
        if start > done:
            yield done, start, False
        yield start, closing.end(), True
        done = at = closing.end()
    if done < len(text):
        yield done, len(text), False


# -- items

_MOST = 10_000
"""Characters of an item that are looked at; far more than are ever kept."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MARK = re.compile(r"\s*<!--\s*(?P<id>[0-9a-hjkmnp-tv-z]{8})(?:\s+(?P<base>[0-9a-hjkmnp-tv-z]{6}))?\s*-->")
_HEAD = re.compile(r"(?P<mark>\*\*|__)(?P<head>[^\s].*?):(?P=mark)(?:\s+|$)")
_LABELS = re.compile(r"(?P<mark>[*_])(?P<name>Why|Instead):(?P=mark)\s*")


@dataclass(frozen=True, slots=True)
class Words:
    """What an item says: when it applies, what it is about, why, and what to do instead."""

    text: str
    head: str = ""
    why: str = ""
    instead: str = ""

    def folded(self) -> Words:
        return Words(fold(self.text), fold(self.head), fold(self.why), fold(self.instead))

    @property
    def digest(self) -> str:
        return make_digest("\x1f".join((self.head, self.text, self.why, self.instead)), 6)

    def line(self) -> str:
        head = f"**{encode(self.head, head=True)}:** " if self.head else ""
        why = f" *Why:* {encode(self.why)}" if self.why else ""
        instead = f" *Instead:* {encode(self.instead)}" if self.instead else ""
        return f"{head}{encode(self.text)}{why}{instead}"


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list as it stands in a file."""

    said: str
    """Its Markdown on one line, without the comment."""
    number: int
    """The line of the file it begins in."""
    id: str = ""
    base: str = ""
    """The digest of the words it was written with; empty: it was written by hand."""
    heading: str = ""


def make_digest(text: str, length: int) -> str:
    """Return a digest in letters and digits that are not mistaken for each other."""
    value = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return "".join(_ALPHABET[value >> 5 * at & 31] for at in range(length))


def write_item(words: Words, id: str) -> str:
    return f"- {words.line()} <!-- {id} {words.digest} -->"


def read_item(said: str, number: int, heading: str = "") -> Item:
    """Return an item from its Markdown, which may go over several lines."""
    flat = fold(said)
    marks = list(_MARK.finditer(flat))
    if not marks:
        return Item(flat[:_MOST], number, heading=heading)
    last = marks[-1]
    rest = fold(f"{flat[: last.start()]} {flat[last.end() :]}")
    return Item(rest[:_MOST], number, last["id"], last["base"] or "", heading)


def read_words(said: str, parts: Collection[str]) -> Words:
    """Return the words of an item whose kind has these `parts` (head, why, instead); anything else is text."""
    # As long as the line, with what only looks like a mark blotted out.
    blot = _ESCAPED.sub("\0\0", said)
    for start, end, is_code in _split_code(said):
        if is_code:
            blot = blot[:start] + "\0" * (end - start) + blot[end:]
    start, head = 0, ""
    if "head" in parts and (found := _HEAD.match(blot)):
        head, start = said[found.start("head") : found.end("head")], found.end()
    labels = [one for one in _LABELS.finditer(blot, start) if one["name"].lower() in parts]
    ends = [*(one.start() for one in labels), len(said)]
    values = {"why": "", "instead": ""}
    for label, end in zip(labels, ends[1:], strict=True):
        values[label["name"].lower()] += f" {said[label.end() : end]}"
    words = Words(decode(said[start : ends[0]]), decode(head), decode(values["why"]), decode(values["instead"]))
    # A head alone says nothing of its own; then it is the text.
    return words if words.text else Words(decode(said))


# -- the marked part

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
    items: tuple[Item, ...] = ()
    title: str = ""
    """The first heading."""
    other: tuple[tuple[int, str], ...] = ()
    """Lines that are no item: their number and what they say."""


def find_block(text: str, name: str) -> Block | None:
    """Return the marked part; None when there is none."""
    begun: tuple[int, int] | None = None
    found: Block | None = None
    lines: list[str] = []
    for number, start, line in _skip_code(text):
        if _BEGIN.fullmatch(line):
            if begun is not None or found is not None:
                raise _damaged(name, number, "begins a second time; there may be one block only")
            begun, lines = (start, number), []
        elif _END.fullmatch(line):
            if begun is None:
                raise _damaged(name, number, "ends without having begun")
            found = Block(begun[0], start + len(line), *_read_lines(lines, begun[1] + 1, numbered=False))
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


def _skip_code(text: str) -> Iterator[tuple[int, int, str]]:
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


def list_items_outside(text: str, block: Block | None) -> list[Item]:
    """Return the items of lists that a person wrote around the marked part."""
    rest = text if block is None else text[: block.start] + _blank(text[block.start : block.end]) + text[block.end :]
    if front := re.match(r"\ufeff?---\r?\n.*?\r?\n---[ \t]*(?=\r?\n|\Z)", rest, re.DOTALL):
        rest = _blank(front[0]) + rest[front.end() :]
    lines = {number: line for number, _, line in _skip_code(_remove_comments(rest))}
    most = max(lines, default=0)
    # What is in a fence ends an item as an empty line does.
    return list(_read_lines([lines.get(number, "") for number in range(1, most + 1)], 1, numbered=True)[0])


def _blank(text: str) -> str:
    return "\n" * text.count("\n")


def _remove_comments(text: str) -> str:
    """Return the text without comments, but for those that name a memory."""
    out: list[str] = []
    done = 0
    while (start := text.find("<!--", done)) >= 0 and (end := text.find("-->", start)) >= 0:
        comment = text[start : end + 3]
        out += (text[done:start], comment if _MARK.fullmatch(comment) else _blank(comment))
        done = end + 3
    return "".join((*out, text[done:]))


def _read_lines(
    lines: Sequence[str], first: int, *, numbered: bool
) -> tuple[tuple[Item, ...], str, tuple[tuple[int, str], ...]]:
    """Return the items, the first heading, and the lines that are no item, with their numbers."""
    items: list[Item] = []
    other: list[tuple[int, str]] = []
    title = heading = ""
    said: list[str] = []
    began = depth = 0

    def close() -> None:
        if any(part.strip() for part in said):
            items.append(read_item(" ".join(said), began, heading))
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
    return tuple(items), title, tuple(other)


def find_newline(text: str) -> str:
    """Return what ends the lines of a text: the first of them says it."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def place_block(text: str, block: Block | None, lines: Iterable[str], front: str) -> str:
    """Return the text with the marked part in its place, or at the end when there was none yet."""
    end = find_newline(text)
    if block is not None:
        # The first mark stays as it is: an earlier version may have written it.
        begin = text[block.start :].split("\n", 1)[0].removesuffix("\r")
        return text[: block.start] + end.join((begin, *lines, END)) + text[block.end :]
    ours = end.join((BEGIN, *lines, END))
    if not text:
        return front + ours + "\n"
    gap = "" if text.endswith(end * 2) else end if text.endswith("\n") else end * 2
    return text + gap + ours + end


def remove_block(text: str, name: str) -> str:
    """Return the text without the marked part and the empty line that was put before it."""
    block = find_block(text, name)
    if block is None:
        raise ValidationError(f"{name} has no block of rules")
    end = find_newline(text)
    before, after = text[: block.start], text[block.end :].removeprefix(end)
    return (before.removesuffix(end) if before.endswith(end * 2) else before) + after
