"""Long texts become short ones and lose their secrets, in an order that never leaves half a secret behind.

What is kept is redacted together with a good piece of what is not, and only then cut to its length: a secret that
lies across the cut is seen whole. Tens of megabytes are cut before anything else looks at them.
"""

from __future__ import annotations

from .privacy import public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CUT = " … "
_MARGIN = 4096
"""So much of what is left out is looked at: more than the longest keys and tokens take."""
_BREAKS = " \t\r\n\"'`,;<>(){}[]|"
_MARK = "[REDACTED:"
_DEEPEST = 8
_ITEMS = 200
_NAME = 100


def redacted(text: str) -> str:
    if not text:
        return text
    from ..engine.redact import redact

    return redact(text).text


def told(text: str, head: int, tail: int, *, hiding: bool = True) -> str:
    """What may be written of a text: at most about `head` characters of its start and `tail` of its end."""
    if hiding:
        text = public(text)
    if len(text) <= head + tail:
        return redacted(text)
    start = _without_torn_end(text[: head + _MARGIN])
    front = _start(redacted(start), head)
    if not tail:
        return front + CUT
    rest = _without_torn_start(text[-(tail + _MARGIN) :])
    return front + CUT + _end(redacted(rest), tail)


def _without_torn_end(text: str) -> str:
    """Without the token that the cut went through, and without a key block that was not closed."""
    opened = text.rfind("-----BEGIN ")
    if opened >= 0 and "-----END " not in text[opened:]:
        text = text[:opened]
    return text[: max(text.rfind(sign) for sign in _BREAKS) + 1]


def _without_torn_start(text: str) -> str:
    closed, opened = text.find("-----END "), text.find("-----BEGIN ")
    if closed >= 0 and (opened < 0 or closed < opened):
        text = text[closed + len("-----END ") :]
    found = [place for sign in _BREAKS if (place := text.find(sign)) >= 0]
    return text[min(found) :] if found else ""


def _start(text: str, most: int) -> str:
    """A redaction's own mark is not cut in two either: what is left of one would read like a secret's name."""
    if len(text) <= most:
        return text
    mark = text.rfind(_MARK, 0, most + len(_MARK) - 1)
    end = text.find("]", mark) if mark >= 0 else -1
    return text[:mark] if end >= most else text[:most]


def _end(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    start = len(text) - most
    mark = text.rfind(_MARK, 0, start + len(_MARK) - 1)
    end = text.find("]", mark) if mark >= 0 else -1
    return text[end + 1 :] if end >= start else text[start:]


def cut(text: str, head: int, tail: int) -> str:
    """The start and the end of a text that has no secrets left."""
    return text if len(text) <= head + tail else _start(text, head) + CUT + _end(text, tail)


class Trim:
    """JSON values, shortened and redacted. `room` is what all strings together may still take."""

    __slots__ = ("_head", "_hiding", "_tail", "room")

    def __init__(self, room: int, head: int = 3000, tail: int = 1000, *, hiding: bool = True) -> None:
        self.room = room
        self._head = head
        self._tail = tail
        self._hiding = hiding

    def value(self, value: Any, name: str = "", depth: int = 0) -> Any:
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, int | float | None):
            return value
        if depth >= _DEEPEST:
            return CUT
        if isinstance(value, dict):
            return self._object(value, depth)
        return [self.value(item, name, depth + 1) for item in value[:_ITEMS]] if isinstance(value, list) else CUT

    def _object(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            if len(out) >= _ITEMS or self.room <= 0:
                break
            name = told(key, _NAME, 0, hiding=self._hiding)
            self.room -= len(name)
            out[name] = self.value(item, name, depth + 1)
        return out

    def _text(self, text: str, name: str) -> str:
        if self.room <= 0:
            return CUT
        head, tail = min(self._head, self.room), min(self._tail, max(0, self.room - self._head))
        out = _named(name, text, head, tail, self._hiding)
        self.room -= len(out)
        return out


def _named(name: str, text: str, head: int, tail: int, hiding: bool) -> str:
    """`{"password": "hunter2"}` gives itself away only by both together."""
    if not name:
        return told(text, head, tail, hiding=hiding)
    start = f"{name}="
    both = told(start + text, head + len(start), tail, hiding=hiding)
    return both.removeprefix(start) if both.startswith(start) else told(text, head, tail, hiding=hiding)
