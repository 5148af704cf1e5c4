"""Readers for lines and JSON values of files of any size, in bounded memory, and safe access to values of foreign JSON.

`JsonStream` is written by hand because a streaming parser such as ijson stops at the first damaged value. Here the
standard decoder reads a value from a window that grows until the value is complete. After a damaged or too long value,
reading continues at the next place that begins like its siblings: `{"title": …, "create_time":`. Such a place cannot be
inside a string, because its quotes would be escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

from ..coding.events import as_dicts
from ..text import replace_surrogates

LIMIT = 16 * 1024 * 1024  # The longest line or value that is read, in characters.
Damaged = Callable[[str, str], None]  # Receives the place and the reason.
JsonObject = dict[str, Any]

_SPACE = re.compile(r"[ \t\r\n\ufeff,]*")  # Including commas, whose positions do not matter.
_SCALAR = r'(?:"(?:[^"\\]|\\.){0,2000}"|[^\s,{}\[\]":]{1,60})'
_BEGINNING = re.compile(
    rf'\{{\s*"((?:[^"\\]|\\.){{1,200}})"\s*:\s*(?:{_SCALAR}\s*,\s*"((?:[^"\\]|\\.){{1,200}})"\s*:)?'
)
_MARGIN = 16  # An error this close to the end of the window may be caused by the end itself.
_OVERLAP = 8_192
_MAX_DAMAGES = 1_000
_MAX_WASTE = 64  # How many times the limit may be read in vain before the rest of the file is skipped.
_DECODER = json.JSONDecoder(
    strict=False,
    # A number with thousands of digits is meaningless here, and slow to parse.
    parse_int=lambda digits: int(digits) if len(digits) <= 40 else digits,
    parse_constant=lambda _: None,
)


def read_lines(chunks: Iterable[str], damaged: Damaged, limit: int = LIMIT) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without its line ending. Lines that are too long are reported and skipped."""
    number, size = 1, 0
    parts: list[str] = []
    pieces = chain.from_iterable(re.split(r"(\n)", chunk) for chunk in chunks)
    for piece in chain(pieces, (None,)):
        if piece is not None and piece != "\n":
            size += len(piece)
            parts = [*parts, piece] if size <= limit else []
            continue
        if size > limit:
            damaged(f"line {number:,}", f"longer than {limit:,} characters; skipped")
        elif size or piece:
            yield number, "".join(parts).removesuffix("\r")
        number, size, parts = number + 1, 0, []


def read_objects(chunks: Iterable[str], damaged: Damaged) -> Iterator[tuple[int, JsonObject]]:
    """Yield the JSON object of each line with its number."""
    for number, line in read_lines(chunks, damaged):
        if stripped := line.strip(" \t\r\ufeff"):
            value, reason = parse_json(stripped)
            if isinstance(value, dict):
                yield number, value
            else:
                damaged(f"line {number:,}", reason or "not a JSON object")


def parse_json(text: str) -> tuple[Any, str]:
    """Return the value and an empty string, or None and the reason why the text is not JSON."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return None, f"not complete JSON: {error.msg} at character {error.pos:,}"
    except RecursionError:
        return None, "nested too deeply"
    return replace_surrogates(value) if "\\ud" in text.lower() else value, ""


# -- values of foreign JSON


def get_text(values: JsonObject, *names: str) -> str:
    """Return the first of these members that is a non-empty text; empty if there is none."""
    return next((value for name in names if isinstance(value := values.get(name), str) and value), "")


def join_blocks(content: object, types: Iterable[str] = ("text",), separator: str = "\n") -> str:
    """Return the text of a message, which is a string or a list of blocks with text."""
    if isinstance(content, str):
        return content
    blocks = [get_text(one, "text") for one in as_dicts(content) if one.get("type", "text") in types]
    return separator.join(block for block in blocks if block.strip())


def parse_time(value: object) -> datetime | None:
    """Return the time of an ISO 8601 text or of seconds, milli- or microseconds since 1970; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\d{9,17}(?:\.\d{1,9})?", value.strip()):
        value = float(value)
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            unit = next((unit for unit in (1e6, 1e3) if abs(value) > 1e8 * unit), 1.0)
            moment = datetime.fromtimestamp(value / unit, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if 1000 <= moment.year <= 2999 else None


# -- JSON texts of any size


class JsonItem(NamedTuple):
    """A member of a JSON object, or an element of a list."""

    key: str  # The name of the member, or of the list it is in; empty for a list at the top.
    number: int  # Its index in the list; -1 for a member.
    value: Any
    at: int  # The position of its first character.

    @property
    def place(self) -> str:
        """The place of an element, for messages."""
        return f"element {self.number} (character {self.at:,})"


class _BrokenError(Exception):
    pass


class JsonStream:
    """Reads one JSON text, or several in a row."""

    def __init__(self, chunks: Iterable[str], damaged: Damaged, limit: int = LIMIT) -> None:
        self._chunks = iter(chunks)
        self._damaged = damaged
        self._limit = limit
        self._window, self._pos, self._before = "", 0, 0
        self._has_ended = False
        self._damages = self._wasted = 0

    def read(self, enter: frozenset[str] = frozenset()) -> Iterator[JsonItem]:
        """Yield the elements of a list or the members of an object; of members in `enter`, yield the elements."""
        while opening := self._peek():
            if opening == "[":
                yield from self._read_list("")
            elif opening == "{":
                yield from self._read_object(enter)
            else:
                self._give_up("expected a list or an object here; the rest was not read")

    def _read_list(self, key: str) -> Generator[JsonItem, None, bool]:
        """Yield the elements; return whether the list was closed properly."""
        self._pos += 1
        index = 0
        sibling: re.Pattern[str] | None = None
        while following := self._peek():
            at = self._before + self._pos
            if following == "]":
                # After a damaged place, this bracket may belong to a list inside an element.
                self._pos += 1
                if self._peek() in (('"', "}", "") if key else ("", "[", "{")):
                    return True
                self._pos = at - self._before
            try:
                sibling = sibling or self._describe_beginning()
                yield JsonItem(key, index, self._read_value(), at)
            except _BrokenError as error:
                self._damaged(f"element {index} (character {at:,})", str(error))
                self._damages += 1
                self._wasted += len(self._window) - self._pos
                if self._damages >= _MAX_DAMAGES or self._wasted > _MAX_WASTE * self._limit:
                    self._give_up("too much is damaged; the rest was not read")
                    return False
                self._pos += 1
                if sibling is None or self._find_next(sibling) is None:
                    self._give_up()
                    return False
            index += 1
        self._give_up("the list is not closed: the file ends in the middle")
        return False

    def _read_object(self, enter: frozenset[str]) -> Iterator[JsonItem]:
        self._pos += 1
        at = self._before + self._pos
        try:
            while (following := self._peek()) != "}":
                at = self._before + self._pos
                if not following:
                    raise _BrokenError("the object is not closed: the file ends in the middle")
                key = self._read_value()
                if not isinstance(key, str) or self._peek() != ":":
                    raise _BrokenError("a member without a name")
                self._pos += 1
                opening = self._peek()
                at = self._before + self._pos
                if opening != "[" or key not in enter:
                    yield JsonItem(key, -1, self._read_value(), at)
                elif not (yield from self._read_list(key)):
                    return
            self._pos += 1
        except _BrokenError as error:
            self._damaged(f"character {at:,}", str(error))
            # The lists to enter may follow the damaged member, whose string may have consumed the quote before a name.
            name = re.compile(rf'\b({"|".join(map(re.escape, sorted(enter)))})"\s*:\s*(?=\[)')
            while enter and (match := self._find_next(name)):
                self._pos = match.end()
                yield from self._read_list(match[1])
            self._give_up()

    def _read_value(self) -> Any:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._window, self._pos)
            except json.JSONDecodeError as error:
                near_end = error.pos >= len(self._window) - _MARGIN
                is_cut = near_end or error.msg.startswith("Unterminated string")
                if self._has_ended or not is_cut:
                    raise _BrokenError("it ends in the middle" if is_cut else error.msg) from None
            except RecursionError:
                raise _BrokenError("nested too deeply") from None
            else:
                # A number may continue after the end of the window, and one such as `1.5e` ends early before it.
                room = _MARGIN if isinstance(value, int | float) else 0
                is_whole = self._has_ended or end + room < len(self._window)
                if is_whole and end - self._pos <= self._limit:
                    start, self._pos = self._pos, end
                    return replace_surrogates(value) if self._window.find("\\u", start, end) >= 0 else value
            if len(self._window) - self._pos > self._limit:
                raise _BrokenError(f"longer than {self._limit:,} characters; skipped")
            self._grow(min(2 * (len(self._window) - self._pos), self._limit + 1))

    def _describe_beginning(self) -> re.Pattern[str] | None:
        """Return a pattern of how the elements of this list begin; None if they are not objects."""
        if len(self._window) - self._pos < _OVERLAP:
            self._grow(2 * _OVERLAP)
        match = _BEGINNING.match(self._window, self._pos)
        if match is None:
            return None
        second = rf'\s*{_SCALAR}\s*,\s*"{re.escape(match[2])}"\s*:' if match[2] else ""
        return re.compile(rf'\{{\s*"{re.escape(match[1])}"\s*:' + second)

    def _find_next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move to the next match of a pattern and return it; None if there is none."""
        while (match := pattern.search(self._window, self._pos)) is None:
            if self._has_ended:
                return None
            self._pos = max(self._pos, len(self._window) - _OVERLAP)
            self._grow(2 * _OVERLAP)
        self._pos = match.start()
        return match

    def _give_up(self, reason: str = "") -> None:
        if reason:
            self._damaged(f"character {self._before + self._pos:,}", reason)
        self._window, self._pos, self._has_ended = "", 0, True

    def _peek(self) -> str:
        """Return the next character that is neither white space nor a comma; empty at the end."""
        while True:
            space = _SPACE.match(self._window, self._pos)
            self._pos = space.end() if space else self._pos
            if self._pos < len(self._window) or self._has_ended:
                return self._window[self._pos : self._pos + 1]
            self._grow(1)

    def _grow(self, least: int) -> None:
        """Extend the window to at least this many characters from the current position, if the text has them."""
        pieces = [self._window[self._pos :]]
        size = len(pieces[0])
        while size < least or len(pieces) == 1:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._has_ended = True
                break
            pieces.append(chunk)
            size += len(chunk)
        self._before += self._pos
        self._window, self._pos = "".join(pieces), 0
