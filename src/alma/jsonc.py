"""Changes in a JSON file that leave every other byte of it alone; comments and trailing commas are no hindrance.

The settings of editors are written by people: their order, indentation, line ends and remarks stay as they are. `put`
and `drop` are inverse: what was put where nothing was, and then dropped, leaves the text as it was before. Only an
object that held nothing but a line break is then closed on its own line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import ConfigError, describe_parse_error, describe_type

_STRING = r'"(?:[^"\\]|\\.)*+"'
_REMARK = r"//[^\n\r]*+|(?>/\*.*?\*/)"
_TOKEN = re.compile(rf"{_STRING}|{_REMARK}|,", re.DOTALL)
_ENDS = re.compile(rf"(?:[ \t\r\n]|{_REMARK})*+[}}\]]", re.DOTALL)
_SPACE = " \t\r\n"


class _Member(NamedTuple):
    key: str | int  # The name of a member, or the place of an item.
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    start: int
    members: list[_Member]
    end: int  # Where the closing brace is.
    bare: str  # The whole text without remarks.

    def find(self, key: str | int) -> _Member | None:
        # Of two members with one name the later counts, as for every reader.
        return next((one for one in reversed(self.members) if one.key == key), None)


def load(text: str, name: str, *, remarks: bool = True) -> dict[str, Any]:
    """Return the object that a file holds; raises ConfigError about `name` when it holds none.

    `remarks=False` is for files whose reader knows JSON and nothing else.
    """
    try:
        value = json.loads(_hide_remarks(text) if remarks else text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{name} is not valid JSON ({describe_parse_error(error)}); fix the file first; nothing was changed"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must contain a JSON object, not {describe_type(value)}; nothing was changed")
    return value


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with this value at the end of these keys. `text` holds an object, as `load` makes sure."""
    outer = _read_object(text)
    for depth, key in enumerate(path, 1):
        member = outer.find(key)
        if member is None:
            for inner in reversed(path[depth:]):
                value = {inner: value}
            return _add_member(text, outer, key, value)
        if depth == len(path):
            break
        if text[member.value] != "{":
            raise ConfigError(f"`{key}` must be a JSON object so that `{path[depth]}` can be set; nothing was changed")
        outer = _read_object(text, member.value)
    assert member is not None
    return text[: member.value] + _format(value, text, outer, _find_indent(text, member.start)) + text[member.end :]


def append(text: str, path: Sequence[str], item: Any) -> str:
    """Return the text with this item at the end of the array at the end of these keys."""
    outer = _read_object(text)
    for key in path[:-1]:
        member = outer.find(key)
        assert member is not None
        outer = _read_object(text, member.value)
    member = outer.find(path[-1])
    if member is None or text[member.value] != "[":
        raise ConfigError(f"`{path[-1]}` must be a JSON array; nothing was changed")
    inside = outer.bare[member.value + 1 : member.end - 1].rstrip(_SPACE)
    at = member.value + 1 + len(inside)
    is_one_line = "\n" not in text[member.value : member.end]
    indent = _find_indent(text, member.start) + ("" if is_one_line else _find_unit(text))
    lines = json.dumps(item, indent=None if is_one_line else _find_unit(text), ensure_ascii=False)
    space = (" " if inside else "") if is_one_line else _find_newline(text) + indent
    return f"{text[:at]}{',' if inside else ''}{space}{lines.replace(chr(10), _find_newline(text) + indent)}{text[at:]}"


def drop(text: str, path: Sequence[str | int]) -> str:
    """Return the text without the member at the end of these keys; as it is when there is none.

    A number is the place of an item in an array.
    """
    outer = _read_object(text)
    for key in path[:-1]:
        member = outer.find(key)
        if member is None or text[member.value] not in "{[":
            return text
        outer = _read_object(text, member.value)
    while (member := outer.find(path[-1])) is not None:
        text = _remove_member(text, outer, outer.members.index(member))
        if isinstance(path[-1], int):
            break
        outer = _read_object(text, outer.start)
    return text


def _hide_remarks(text: str) -> str:
    """Return the same text, character for character, with spaces for remarks and for commas that nothing follows."""

    def hide(match: re.Match[str]) -> str:
        token = match[0]
        if token == ",":
            follows = text[: match.start()].rstrip()[-1:] not in ("", "{", "[", ",")
            return " " if follows and _ENDS.match(text, match.end()) else ","
        return token if token[0] == '"' else re.sub(r"[^\r\n]", " ", token)

    bare = _TOKEN.sub(hide, text)
    return f" {bare[1:]}" if bare.startswith("\ufeff") else bare


def _read_object(text: str, start: int | None = None) -> _Object:
    """Return where the members of an object or an array are; by default of the one that the text is."""
    bare, decoder = _hide_remarks(text), json.JSONDecoder()
    members: list[_Member] = []

    def skip_space(at: int) -> int:
        while bare[at] in _SPACE:
            at += 1
        return at

    start = skip_space(0) if start is None else start
    at = skip_space(start + 1)
    while bare[at] not in "}]":
        key: str | int = len(members)
        value = at
        if bare[start] == "{":
            key, end = decoder.raw_decode(bare, at)
            value = skip_space(skip_space(end) + 1)
        _, end = decoder.raw_decode(bare, value)
        members.append(_Member(key, at, value, end))
        at = skip_space(end)
        at = skip_space(at + 1) if bare[at] == "," else at
    return _Object(start, members, at, bare)


def _add_member(text: str, outer: _Object, key: str, value: Any) -> str:
    name = json.dumps(key, ensure_ascii=False)
    if outer.members:
        last = outer.members[-1]
        before = text[: last.start]
        # A first member says nothing about the space between two; the one after its colon is a hint.
        space = before[len(before.rstrip(_SPACE)) :] or (" " if text[last.value - 1] == " " else "")
        member = f",{space}{name}: {_format(value, text, outer, _find_indent(text, last.start))}"
        return text[: last.end] + member + text[last.end :]
    indent, newline = _find_indent(text, outer.start), _find_newline(text)
    inside = indent + _find_unit(text)
    member = f"{newline}{inside}{name}: {_format(value, text, outer, inside)}"
    close = "" if text[outer.start + 1 : outer.end] else newline + indent
    return text[: outer.start + 1] + member + close + text[outer.start + 1 :]


def _remove_member(text: str, outer: _Object, place: int) -> str:
    """Remove a member with the space around it; comments stay."""
    member = outer.members[place]
    if len(outer.members) == 1:
        before, rest = text[outer.start + 1 : member.start], text[member.end : outer.end].removeprefix(",")
        if before.strip(_SPACE):
            return text[: member.start] + rest.lstrip(" \t") + text[outer.end :]
        is_alone = rest == _find_newline(text) + _find_indent(text, outer.start)
        return text[: outer.start + 1] + ("" if is_alone else rest) + text[outer.end :]
    start, end = (outer.members[place - 1].end, member.start) if place else (member.end, outer.members[1].start)
    comma = outer.bare.index(",", start, end)
    remark = text[start:comma] + text[comma + 1 : end]
    if place:
        return text[:start] + (remark.rstrip(_SPACE) if remark.strip() else "") + text[member.end :]
    return text[: member.start] + (remark.lstrip(" \t") if remark.strip() else "") + text[end:]


def _format(value: Any, text: str, outer: _Object, indent: str) -> str:
    """Return a value as this text writes its own: on one line when the object around it is, else indented alike."""
    if outer.members and "\n" not in text[outer.start : outer.end]:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=_find_unit(text), ensure_ascii=False)
    return lines.replace("\n", _find_newline(text) + indent)


def _find_unit(text: str) -> str:
    """Return what one level is indented by."""
    match = re.match(r"[ \t\r\n\ufeff]*\{[ \t]*\r?\n([ \t]+)\"", text)
    return match[1] if match else "  "


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _find_indent(text: str, at: int) -> str:
    """Return the space that the line begins with."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]
