"""The values of a JSON text one after another: its elements, or its members, and never all of it at once.

A value is read by the standard decoder from a window that grows until the value is whole. Where one is damaged or too
long, the reading goes on at the next place that looks as its neighbours begin: `{"title": …, "create_time":`. Inside a
string such a place cannot be, because its quotes would be escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...text import replace_surrogates
from .lines import DECODER, LIMIT, Damaged

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_SCALAR = r'(?:"(?:[^"\\]|\\.){0,2000}"|[^\s,{}\[\]":]{1,60})'
_BEGINS = re.compile(rf'\{{\s*"((?:[^"\\]|\\.){{1,200}})"\s*:\s*(?:{_SCALAR}\s*,\s*"((?:[^"\\]|\\.){{1,200}})"\s*:)?')
_MARGIN = 16
"""An error this close to the end of the window may be due to that end."""
_OVERLAP = 8_192
_MOST_DAMAGE = 1_000
_MOST_WASTE = 64
"""So many times the limit may be read in vain before the rest is given up."""


class Item(NamedTuple):
    key: str
    """The name of the member, or of the list it is in; empty in a list that is the whole text."""
    number: int
    """Its number in the list; -1 for a member."""
    value: Any
    at: int
    """The character it begins at."""


class _Broken(Exception):
    pass


class Elements:
    """Reads one JSON text, or several that follow each other."""

    def __init__(self, chunks: Iterable[str], damaged: Damaged, limit: int = LIMIT) -> None:
        self._chunks = iter(chunks)
        self._damaged = damaged
        self._limit = limit
        self._window = ""
        self._pos = 0
        self._before = 0
        self._ended = False
        self._sibling: re.Pattern[str] | None = None
        self._damages = 0
        self._wasted = 0
        self._gave_up = False

    def read(self, enter: frozenset[str] = frozenset()) -> Iterator[Item]:
        """The elements of a list; the members of an object, and in those named by `enter` the elements."""
        while opening := self._peek():
            if opening == "[":
                yield from self._list("")
            elif opening == "{":
                yield from self._object(enter)
            else:
                self._damaged(self._place(), "neither a list nor an object begins here; the rest was not read")
                self._give_up()

    # -- lists and objects

    def _list(self, key: str) -> Iterator[Item]:
        self._pos += 1
        index = 0
        self._sibling = None
        while following := self._peek():
            if following == "]" and self._closes(key):
                return
            at = self._before + self._pos
            try:
                if following in ",]}":
                    raise _Broken("a comma or a bracket where an element should be")
                self._sibling = self._sibling or self._signature()
                value = self._value()
                yield Item(key, index, value, at)
                index += 1
                if self._peek() == ",":
                    self._pos += 1
                elif self._peek() != "]":
                    raise _Broken("no comma after an element" if self._peek() else "it ends in the middle")
            except _Broken as error:
                self._damaged(f"element {index} (character {at:,})", str(error))
                index += 1
                if not self._go_on():
                    return self._give_up()
        self._damaged(self._place(), "the list is not closed: the file ends in the middle")
        self._give_up()

    def _closes(self, key: str) -> bool:
        """Whether a bracket ends this list: after a damaged place it may be that of a list inside an element."""
        start = self._pos
        self._pos += 1
        if self._peek() in (("", "[", "{") if not key else (",", "}", "")):
            return True
        self._pos = start
        return False

    def _object(self, enter: frozenset[str]) -> Iterator[Item]:
        self._pos += 1
        at = self._before + self._pos
        try:
            while (following := self._peek()) != "}":
                at = self._before + self._pos
                if not following:
                    raise _Broken("the object is not closed: the file ends in the middle")
                key = self._key()
                at = self._before + self._pos
                if self._peek() == "[" and key in enter:
                    yield from self._list(key)
                    if self._gave_up:
                        return
                else:
                    yield Item(key, -1, self._value(), at)
                if self._peek() == ",":
                    self._pos += 1
                elif self._peek() != "}":
                    raise _Broken("no comma after a member" if self._peek() else "the file ends in the middle")
            self._pos += 1
        except _Broken as error:
            self._damaged(f"character {at:,}", str(error))
            yield from self._entered_later(enter)

    def _entered_later(self, enter: frozenset[str]) -> Iterator[Item]:
        """The lists asked for that stand after a damaged member."""
        names = "|".join(map(re.escape, sorted(enter)))
        while enter and self._find(re.compile(rf'"({names})"\s*:\s*(?=\[)')):
            found = re.compile(rf'"({names})"\s*:\s*(?=\[)').match(self._window, self._pos)
            if found is None:
                return
            self._pos = found.end()
            yield from self._list(found[1])
        self._give_up()

    def _key(self) -> str:
        key = self._value()
        if not isinstance(key, str) or self._peek() != ":":
            raise _Broken("a member without a name")
        self._pos += 1
        self._peek()
        return key

    # -- values

    def _value(self) -> Any:
        while True:
            try:
                value, end = DECODER.raw_decode(self._window, self._pos)
            except json.JSONDecodeError as error:
                if self._ended or not self._cut_short(error):
                    raise _Broken("it ends in the middle" if self._at_the_end(error) else error.msg) from None
            except RecursionError:
                raise _Broken("nested too deep") from None
            else:
                if self._is_whole(value, end) and end - self._pos <= self._limit:
                    start, self._pos = self._pos, end
                    return replace_surrogates(value) if self._window.find("\\u", start, end) >= 0 else value
            if len(self._window) - self._pos > self._limit:
                raise _Broken(f"longer than {self._limit:,} characters; passed over")
            self._grow(min(2 * (len(self._window) - self._pos), self._limit + 1))

    def _is_whole(self, value: Any, end: int) -> bool:
        """A number may go on after the end of the window, and one such as `1.5e` ends early before it."""
        room = _MARGIN if isinstance(value, int | float) else 0
        return self._ended or end + room < len(self._window)

    def _cut_short(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._window) - _MARGIN

    def _at_the_end(self, error: json.JSONDecodeError) -> bool:
        return self._ended and self._cut_short(error)

    # -- going on after damage

    def _signature(self) -> re.Pattern[str] | None:
        """How the elements of this list begin."""
        if len(self._window) - self._pos < _OVERLAP:
            self._grow(2 * _OVERLAP)
        found = _BEGINS.match(self._window, self._pos)
        if found is None:
            return None
        first = rf'\{{\s*"{re.escape(found[1])}"\s*:'
        second = rf'\s*{_SCALAR}\s*,\s*"{re.escape(found[2])}"\s*:' if found[2] else ""
        return re.compile(first + second)

    def _go_on(self) -> bool:
        """Move to the next element that looks like one; False when there is none."""
        self._damages += 1
        self._wasted += len(self._window) - self._pos
        if self._damages >= _MOST_DAMAGE or self._wasted > _MOST_WASTE * self._limit:
            self._damaged(self._place(), "too much is damaged; the rest was not read")
            return False
        self._pos += 1
        return self._sibling is not None and self._find(self._sibling)

    def _find(self, pattern: re.Pattern[str]) -> bool:
        while True:
            found = pattern.search(self._window, self._pos)
            if found is not None:
                self._pos = found.start()
                return True
            self._pos = max(self._pos, len(self._window) - _OVERLAP)
            if self._ended:
                self._pos = len(self._window)
                return False
            self._grow(2 * _OVERLAP)

    def _give_up(self) -> None:
        """What follows cannot be told apart."""
        self._window, self._pos, self._ended, self._gave_up = "", 0, True, True

    # -- the window

    def _peek(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            space = _SPACE.match(self._window, self._pos)
            self._pos = space.end() if space else self._pos
            if self._pos < len(self._window):
                return self._window[self._pos]
            if self._ended:
                return ""
            self._grow(1)

    def _grow(self, wanted: int) -> None:
        pieces = [self._window[self._pos :]]
        size = len(pieces[0])
        while size < max(wanted, 1) or len(pieces) == 1:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            pieces.append(chunk)
            size += len(chunk)
        self._before += self._pos
        self._window, self._pos = "".join(pieces), 0

    def _place(self) -> str:
        return f"character {self._before + self._pos:,}"
