"""Changes in a JSON file that leave every other byte of it alone.

Settings are written by people: their order, indentation and line ends stay as they are. `put` and `drop` are inverse:
what was put where nothing was, and then dropped, leaves the text as it was before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alma.errors import ConfigError

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    members: tuple[_Member, ...]
    end: int
    """Where the closing brace is."""

    def member(self, key: str) -> _Member | None:
        # Of two members with one name the later counts, as for every reader.
        return next((one for one in reversed(self.members) if one.key == key), None)


def load(text: str, name: str) -> dict[str, Any]:
    """The object that a file holds; a sentence about `name` when it holds none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON ({error}); mend it first, nothing was changed") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must hold a JSON object, not {type(value).__name__}; nothing was changed")
    return value


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this value at the end of these keys. `text` is a valid JSON object."""
    return _put(text, _object(text, _after_space(text, 0)), path, value, "")


def drop(text: str, path: Sequence[str]) -> str:
    """The text without the member at the end of these keys; as it is when there is none."""
    outer = _object(text, _after_space(text, 0))
    for key in path[:-1]:
        member = outer.member(key)
        if member is None or text[member.value] != "{":
            return text
        outer = _object(text, member.value)
    while (found := outer.member(path[-1])) is not None:
        text = _without(text, outer, outer.members.index(found))
        outer = _object(text, outer.start)
    return text


def _put(text: str, outer: _Object, path: Sequence[str], value: Any, indent: str) -> str:
    key, rest = path[0], path[1:]
    member = outer.member(key)
    if member is None:
        return _added(text, outer, key, _nested(rest, value), indent)
    indent = _line_indent(text, outer.members[0].start)
    if not rest:
        return text[: member.value] + _shown(value, text, outer, indent) + text[member.end :]
    if text[member.value] != "{":
        raise ConfigError(f"`{key}` must be a JSON object to hold `{rest[0]}`; nothing was changed")
    return _put(text, _object(text, member.value), rest, value, indent)


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _added(text: str, outer: _Object, key: str, value: Any, indent: str) -> str:
    name = json.dumps(key, ensure_ascii=False)
    if not outer.members:
        inside, newline = indent + _unit(text), _newline(text)
        member = f"{newline}{inside}{name}: {_shown(value, text, outer, inside)}"
        close = "" if text[outer.start + 1 : outer.end] else newline + indent
        return text[: outer.start + 1] + member + close + text[outer.start + 1 :]
    last = outer.members[-1]
    # A first member says nothing about the space between two; the one after its colon is a hint.
    space = _space_before(text, last.start) or (" " if text[last.value - 1] == " " else "")
    member = f",{space}{name}: {_shown(value, text, outer, _line_indent(text, last.start))}"
    return text[: last.end] + member + text[last.end :]


def _without(text: str, outer: _Object, place: int) -> str:
    member = outer.members[place]
    if place:
        return text[: outer.members[place - 1].end] + text[member.end :]
    if len(outer.members) > 1:
        return text[: member.start] + text[outer.members[1].start :]
    indent = _line_indent(text, outer.start)
    rest = text[member.end : outer.end]
    return text[: outer.start + 1] + ("" if rest == _newline(text) + indent else rest) + text[outer.end :]


def _shown(value: Any, text: str, outer: _Object, indent: str) -> str:
    """A value as this text writes its own: on one line when the object around it is, else indented alike."""
    if outer.members and "\n" not in text[outer.start : outer.end]:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _newline(text) + indent)


def _unit(text: str) -> str:
    found = re.match(r"\s*\{[ \t]*\r?\n([ \t]+)\"", text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _space_before(text: str, at: int) -> str:
    start = at
    while text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:at]


def _line_indent(text: str, at: int) -> str:
    found = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 :])
    return found[0] if found else ""


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _object(text: str, start: int) -> _Object:
    """Where the members of the object that starts here are."""
    decoder, members = json.JSONDecoder(), []
    at = _after_space(text, start + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value = _after_space(text, _after_space(text, end) + 1)
        _, end = decoder.raw_decode(text, value)
        members.append(_Member(key, at, value, end))
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return _Object(start, tuple(members), at)
