"""The marked block of a rule file, its list items, and the conversion of a memory to an item and back.

    - **When deploying:** Use blue-green deployment. *Why:* It can be rolled back. <!-- 4kq0m8zt w31x9c -->

The comment holds an id of the memory and a digest of its words as exported. If the words no longer match the digest, a
person edited the item. Everything outside the block stays unchanged, byte for byte.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ..engine.escape import remove_unseen
from ..errors import ValidationError

# -- text as one line of Markdown without structure, and back
#
# A backslash escapes everything that would act as structure: a tag or comment, a heading, a fence, an `@path` that a
# host would load, the marks of our own lines. Code spans stay unchanged, except for one that contains a comment, which
# is recognised there too. `decode_text(encode_text(text))` equals `fold_text(text)`.

# The characters that a backslash may escape.
_MEANT = r"\\`@<!>*_#~\[+-"
_SPACE = re.compile(r"\s+")
_UNSEEN = ("Cc", "Cf", "Cs", "Co")
_JOINERS = "\u200c\u200d"  # Persian and Indic spelling and emoji need these.
_OPENS = re.compile(r"#|~~~|>|[-+*](?:\s|$)|[-*_](?:\s*[-*_]){2,}\s*$|\[[^\]]*\]:|(\*\*|__)(?=.*:\1)")
# A code span; `{0}` is what may occur between two runs of backticks.
_CODE = r"(?P<ticks>`++){0}(?:(?!(?P=ticks)(?!`))`++{0})*+(?P=ticks)(?!`)"
_STRUCTURE = (
    rf"(?P<code>{_CODE.format(r'(?:[^`<-]++|<(?!!--)|-(?!->))++')})"
    rf"|(?P<slashes>\\\\+|\\(?=[{_MEANT}]))|\\"
    r"|(?P<mark>`+|(?<![\w.+-])@|<(?=[A-Za-z/!?])|(?<=<)!(?=--)|(?<=--)>|(?P<label>[*_])(?=(?:Why|Instead):(?P=label))"
)
_TEXT = re.compile(f"{_STRUCTURE})")
_HEAD_TEXT = re.compile(rf"{_STRUCTURE}|(?<=:)(?:\*(?=\*)|_(?=_)))")
_WRITTEN = re.compile(rf"{_CODE.format('[^`]++')}|`+|\\(?P<meant>[{_MEANT}])")


def fold_text(text: str) -> str:
    """Return the text on one line, without invisible characters."""
    flat = _SPACE.sub(" ", text).strip()
    if flat.isascii() and flat.isprintable():
        return flat
    seen = (sign for sign in remove_unseen(flat) if unicodedata.category(sign) not in _UNSEEN or sign in _JOINERS)
    return _SPACE.sub(" ", "".join(seen)).strip()


def encode_text(text: str, *, head: bool = False) -> str:
    """Return the text as one line of Markdown. With `head`, it contains nothing that would end a bold head."""

    def escape(match: re.Match[str]) -> str:
        return match[0] * 2 if match["slashes"] else re.sub(".", r"\\\g<0>", match[0]) if match["mark"] else match[0]

    flat = fold_text(text)
    line = (_HEAD_TEXT if head else _TEXT).sub(escape, flat)
    return f"\\{line}" if _OPENS.match(flat) and line[0] == flat[0] else line


def decode_text(line: str) -> str:
    """Return the plain text of one line of Markdown."""
    return fold_text(_WRITTEN.sub(lambda match: match["meant"] or match[0], line))


# -- items

_MOST = 10_000  # How many characters of an item are read; far more than are ever stored.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_MARK = re.compile(r"\s*<!--\s*(?P<id>[0-9a-hjkmnp-tv-z]{8})(?:\s+(?P<base>[0-9a-hjkmnp-tv-z]{6}))?\s*-->")
_HEAD = re.compile(r"(?P<mark>\*\*|__)(?P<head>[^\s].*?):(?P=mark)(?:\s+|$)")
_LABELS = re.compile(r"(?P<mark>[*_])(?P<name>Why|Instead):(?P=mark)\s*")


class Words(NamedTuple):
    """The parts of an item: what to do, when it applies (`head`), why, and what to do instead."""

    text: str
    head: str = ""
    why: str = ""
    instead: str = ""

    def normalise(self) -> Words:
        """Return the words with each part on one line, without invisible characters."""
        return Words(*map(fold_text, self))

    @property
    def digest(self) -> str:
        """Return a digest of all parts, to detect edits."""
        return make_digest("\x1f".join((self.head, self.text, self.why, self.instead)), 6)

    def line(self) -> str:
        """Return the words as the Markdown of an item."""
        head = f"**{encode_text(self.head, head=True)}:** " if self.head else ""
        why = f" *Why:* {encode_text(self.why)}" if self.why else ""
        instead = f" *Instead:* {encode_text(self.instead)}" if self.instead else ""
        return f"{head}{encode_text(self.text)}{why}{instead}"


class Item(NamedTuple):
    """A list item in a file."""

    markdown: str  # Its Markdown on one line, without the comment.
    number: int  # The line of the file where it begins.
    id: str = ""
    base: str = ""  # The digest of the exported words; empty if a person wrote the item.


def make_digest(text: str, length: int) -> str:
    """Return a digest of letters and digits that are not easily confused."""
    value = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return "".join(_ALPHABET[value >> 5 * at & 31] for at in range(length))


def write_item(words: Words, id: str) -> str:
    """Return the line of a list for a memory, with its id and digest in a comment."""
    return f"- {words.line()} <!-- {id} {words.digest} -->"


def read_item(markdown: str, number: int) -> Item:
    """Return an item from its Markdown, which may span several lines."""
    flat = fold_text(markdown)
    marks = list(_MARK.finditer(flat))
    if not marks:
        return Item(flat[:_MOST], number)
    last = marks[-1]
    return Item(
        fold_text(f"{flat[: last.start()]} {flat[last.end() :]}")[:_MOST], number, last["id"], last["base"] or ""
    )


def read_words(markdown: str, parts: Collection[str]) -> Words:
    """Return the words of an item whose kind has these `parts` (head, why, instead); the rest is text."""
    # The same line with code spans and escaped characters blanked, so that only real marks match.
    blot = _WRITTEN.sub(lambda match: "\0" * len(match[0]), markdown)
    start, head = 0, ""
    if "head" in parts and (match := _HEAD.match(blot)):
        head, start = markdown[slice(*match.span("head"))], match.end()
    labels = [one for one in _LABELS.finditer(blot, start) if one["name"].lower() in parts]
    ends = [*(one.start() for one in labels), len(markdown)]
    values = {"why": "", "instead": ""}
    for label, end in zip(labels, ends[1:], strict=True):
        values[label["name"].lower()] += f" {markdown[label.end() : end]}"
    words = Words(*map(decode_text, (markdown[start : ends[0]], head, *values.values())))
    # A head without text is read as the text.
    return words if words.text else Words(decode_text(markdown))


# -- the marked block

BLOCK_MARK = "<!-- alma:begin"
_BEGIN = BLOCK_MARK + " Edit, add or remove items, then {how} -->"
_PLAIN_NAME = re.compile(r"[\w./]+(?:-[\w./]+)*")
END = "<!-- alma:end -->"
_EDGE = re.compile(r"^[ \t]*<!--\s*alma:(?P<kind>begin\b[^>\n]*|end\s*)-->[ \t]*(?=\r?$)", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"\ufeff?---\r?\n.*?\r?\n---[ \t]*(?=\r?\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_POINT = re.compile(r"\s*(?P<sign>[-*+]|\d{1,9}[.)])\s+(?P<said>.*)")
_HEADING = re.compile(r" {0,3}#{1,6}\s+.*")
_MERGE = re.compile(r"^(?:<{7}|>{7})", re.MULTILINE)


class Block(NamedTuple):
    """The position of the marked block in a text, and its content."""

    start: int
    end: int
    items: tuple[Item, ...] = ()
    title: str = ""  # The first heading.
    other: tuple[tuple[int, str], ...] = ()  # Lines that are not items: their numbers and texts.


def find_block(text: str, name: str) -> Block | None:
    """Return the marked block; None if there is none. Raise ValidationError if it is damaged."""

    def make_error(at: int, what: str) -> ValidationError:
        number = text.count("\n", 0, at) + 1
        return ValidationError(f"{name}, line {number}: the block of rules {what}. Nothing was changed.")

    edges = list(_EDGE.finditer(_hide_code(text)))
    for index, edge in enumerate(edges):
        is_end = edge["kind"].startswith("end")
        if is_end and index != 1:
            raise make_error(edge.start(), "ends but does not begin; remove this line")
        if not is_end and index:
            raise make_error(edge.start(), "begins a second time; a file can have only one block")
    if not edges:
        return None
    begin, end = edges[0], edges[-1]
    if len(edges) == 1:
        raise make_error(begin.start(), f"begins but does not end; put {END} after its last item")
    if merge := _MERGE.search(text, begin.end(), end.start()):
        raise make_error(merge.start(), "has an unresolved merge conflict")
    inside = text[begin.end() : end.start()].split("\n")
    first = text.count("\n", 0, begin.end()) + 1
    return Block(begin.start(), end.end(), *_read_lines(inside, first, signs="-*+"))


def _hide_code(text: str) -> str:
    """Return the text with fenced code replaced by spaces. Fences in our block and unclosed fences are ignored.

    An unclosed kind of fence is not searched again, so that many of them do not take long.
    """
    lines = text.split("\n")
    unclosed: tuple[str, ...] = ()
    at, is_ours = 0, False
    while at < len(lines):
        edge = _EDGE.fullmatch(lines[at].removesuffix("\r"))
        is_ours = edge["kind"].startswith("begin") if edge else is_ours
        opening = None if is_ours else _FENCE.match(lines[at])
        at += 1
        if opening is None or opening[1].startswith(unclosed):
            continue
        closing = re.compile(rf" {{0,3}}{opening[1]}+\s*")
        end = next((number for number in range(at, len(lines)) if closing.fullmatch(lines[number])), None)
        if end is None:
            unclosed += (opening[1],)
        else:
            lines[at - 1 : end + 1] = map(_blank, lines[at - 1 : end + 1])
            at = end + 1
    return "\n".join(lines)


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def list_items_outside(text: str, block: Block | None) -> list[Item]:
    """Return the list items that a person wrote outside the block, except those in code or comments."""
    if block is not None:
        text = text[: block.start] + _blank(text[block.start : block.end]) + text[block.end :]
    text = _FRONT.sub(lambda match: _blank(match[0]), text, 1) if _FRONT.match(text) else text
    # After the last `-->` there is no comment, and searching for one would take long.
    last = text.rfind("-->") + len("-->")
    bare = _COMMENT.sub(lambda match: match[0] if _MARK.fullmatch(match[0]) else _blank(match[0]), text[:last])
    text = bare + text[last:]
    return list(_read_lines(_hide_code(text).split("\n"), 1, signs="-*+.)")[0])


def _read_lines(
    lines: Sequence[str], first: int, *, signs: str
) -> tuple[tuple[Item, ...], str, tuple[tuple[int, str], ...]]:
    """Return the items, the first heading, and the numbered lines that are not items."""
    points: list[tuple[int, list[str]]] = []
    other: list[tuple[int, str]] = []
    title, depth, is_open = "", 0, False
    for number, line in enumerate(lines, first):
        point = _POINT.fullmatch(line)
        plain = line.expandtabs(4)
        indent = len(plain) - len(plain.lstrip())
        if point is not None and point["sign"][-1] in signs:
            # A nested point continues the one above: "but not in models.py" is not a rule on its own. A point below one
            # that ends in a colon, and a point with an id of its own, are separate items.
            is_name = is_open and points[-1][1][0].rstrip().endswith(":")
            if is_open and indent >= depth + 2 and not is_name and "<!--" not in line:
                points[-1][1].append(f"({point['said'].strip()})")
            else:
                points.append((number, [point["said"]]))
                depth, is_open = indent, True
        elif is_open and line[:1] in " \t" and line.strip():
            points[-1][1].append(line)
        else:
            is_open = False
            if _HEADING.fullmatch(line):
                title = title or line.strip()
            elif line.strip():
                other.append((number, line.strip()))
    items = [read_item(" ".join(parts), number) for number, parts in points if any(map(str.strip, parts))]
    return tuple(items), title, tuple(other)


def make_begin(command: str, name: str) -> str:
    """Return the first marker of a new block, with the command that imports the file `name`."""
    how = f"run: {command} {name}" if _PLAIN_NAME.fullmatch(name) else "import this file"
    return _BEGIN.format(how=how)


def find_newline(text: str) -> str:
    """Return the line ending of a text, as its first line has it."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def place_block(text: str, block: Block | None, lines: Iterable[str], front: str, begin: str) -> str:
    """Return the text with the block replaced, or with a new block at the end, whose first marker is `begin`."""
    end = find_newline(text)
    if block is not None:
        # Keep the first marker: an earlier version may have written it with other words.
        begin = text[block.start :].split("\n", 1)[0].removesuffix("\r")
        return text[: block.start] + end.join((begin, *lines, END)) + text[block.end :]
    ours = end.join((begin, *lines, END))
    if not text:
        return f"{front}{ours}\n"
    gap = "" if text.endswith(end * 2) else end if text.endswith("\n") else end * 2
    return f"{text}{gap}{ours}{end}"


def remove_block(text: str, name: str) -> str:
    """Return the text without the block and the empty line before it. Raise ValidationError if there is no block."""
    block = find_block(text, name)
    if block is None:
        raise ValidationError(f"{name} has no block of rules to remove")
    end = find_newline(text)
    before, after = text[: block.start], text[block.end :].removeprefix(end)
    return (before.removesuffix(end) if before.endswith(end * 2) else before) + after
