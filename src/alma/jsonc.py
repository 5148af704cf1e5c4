"""Changes in a JSON file that leave every other byte of it alone; comments and trailing commas are no hindrance.

The settings of editors are written by people: their order, indentation, line ends and remarks stay as they are. `put`
and `drop` are inverse: what was put where nothing was, and then dropped, leaves the text as it was before. Only an
object that held nothing but a line break is then closed on its own line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError

_STRING = r'"(?:[^"\\]|\\.)*+"'
_REMARK = r"//[^\n\r]*+|(?>/\*.*?\*/)"
_SKIP = re.compile(rf"(?:[ \t\r\n\ufeff]|{_REMARK})*+", re.DOTALL)
_TOKEN = re.compile(rf"{_STRING}|{_REMARK}|,", re.DOTALL)
_ENDS = re.compile(rf"(?:[ \t\r\n]|{_REMARK})*+[}}\]]", re.DOTALL)


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


def load(text: str, name: str, *, remarks: bool = True) -> dict[str, Any]:
    """The object that a file holds; a sentence about `name` when it holds none.

    `remarks=False` is for files whose reader knows JSON and nothing else.
    """
    try:
        value = json.loads(_bare(text) if remarks else text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not valid JSON ({error}); mend it first, nothing was changed") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must hold a JSON object, not {type(value).__name__}; nothing was changed")
    return value


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this value at the end of these keys. `text` holds an object, as `load` makes sure."""
    return _put(text, _object(text, _bare(text), _after(text, 0)), path, value)


def drop(text: str, path: Sequence[str]) -> str:
    """The text without the member at the end of these keys; as it is when there is none."""
    outer = _object(text, _bare(text), _after(text, 0))
    for key in path[:-1]:
        member = outer.member(key)
        if member is None or text[member.value] != "{":
            return text
        outer = _object(text, _bare(text), member.value)
    while (found := outer.member(path[-1])) is not None:
        text = _without(text, outer, outer.members.index(found))
        outer = _object(text, _bare(text), outer.start)
    return text


def _bare(text: str) -> str:
    """The same text, character for character, with spaces for remarks and for commas that nothing follows."""

    def bared(found: re.Match[str]) -> str:
        token = found[0]
        if token == ",":
            follows = text[: found.start()].rstrip()[-1:] not in ("", "{", "[", ",")
            return " " if follows and _ENDS.match(text, found.end()) else ","
        return token if token[0] == '"' else re.sub(r"[^\r\n]", " ", token)

    made = _TOKEN.sub(bared, text)
    return f" {made[1:]}" if made.startswith("\ufeff") else made


def _put(text: str, outer: _Object, path: Sequence[str], value: Any) -> str:
    key, rest = path[0], path[1:]
    member = outer.member(key)
    if member is None:
        for one in reversed(rest):
            value = {one: value}
        return _added(text, outer, key, value)
    if not rest:
        indent = _line_indent(text, member.start)
        return text[: member.value] + _shown(value, text, outer, indent) + text[member.end :]
    if text[member.value] != "{":
        raise ConfigError(f"`{key}` must be a JSON object to hold `{rest[0]}`; nothing was changed")
    return _put(text, _object(text, _bare(text), member.value), rest, value)


def _added(text: str, outer: _Object, key: str, value: Any) -> str:
    name = json.dumps(key, ensure_ascii=False)
    if outer.members:
        last = outer.members[-1]
        # A first member says nothing about the space between two; the one after its colon is a hint.
        space = _space_before(text, last.start) or (" " if text[last.value - 1] == " " else "")
        member = f",{space}{name}: {_shown(value, text, outer, _line_indent(text, last.start))}"
        return text[: last.end] + member + text[last.end :]
    indent, newline = _line_indent(text, outer.start), _newline(text)
    inside = indent + _unit(text)
    member = f"{newline}{inside}{name}: {_shown(value, text, outer, inside)}"
    close = "" if text[outer.start + 1 : outer.end] else newline + indent
    return text[: outer.start + 1] + member + close + text[outer.start + 1 :]


def _without(text: str, outer: _Object, place: int) -> str:
    """What stands between the member and its neighbours goes with it if it is space, and stays if it is a remark."""
    member = outer.members[place]
    last = place == len(outer.members) - 1
    if last and not place:
        return _emptied(text, outer, member)
    if last or (place and _is_plain(text, outer.members[place - 1].end, member.start)):
        before, between = outer.members[place - 1].end, text[outer.members[place - 1].end : member.start]
        kept = "" if _is_plain(text, before, member.start) else _less_comma(between).rstrip(" \t\r\n")
        return text[:before] + kept + text[member.end :]
    following = outer.members[place + 1].start
    between = text[member.end : following]
    kept = "" if _is_plain(text, member.end, following) else _less_comma(between).lstrip(" \t")
    return text[: member.start] + kept + text[following:]


def _emptied(text: str, outer: _Object, member: _Member) -> str:
    """The object without its only member."""
    before, rest = text[outer.start + 1 : member.start], text[member.end : outer.end].removeprefix(",")
    if before.strip(" \t\r\n"):
        return text[: member.start] + rest.lstrip(" \t") + text[outer.end :]
    alone = rest == _newline(text) + _line_indent(text, outer.start)
    return text[: outer.start + 1] + ("" if alone else rest) + text[outer.end :]


def _is_plain(text: str, start: int, end: int) -> bool:
    return not text[start:end].strip(" \t\r\n,")


def _less_comma(between: str) -> str:
    at = _TOKEN.sub(lambda found: found[0] if found[0] == "," else " " * len(found[0]), between).find(",")
    return between if at < 0 else between[:at] + between[at + 1 :]


def _shown(value: Any, text: str, outer: _Object, indent: str) -> str:
    """A value as this text writes its own: on one line when the object around it is, else indented alike."""
    if outer.members and "\n" not in text[outer.start : outer.end]:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _newline(text) + indent)


def _unit(text: str) -> str:
    found = re.search(r"\{[ \t]*\r?\n([ \t]+)\"", text)
    return found[1] if found and text[: found.start()].strip(" \t\r\n\ufeff") == "" else "  "


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


def _after(text: str, at: int) -> int:
    """Past space and remarks."""
    found = _SKIP.match(text, at)
    return found.end() if found else at


def _object(text: str, bare: str, start: int) -> _Object:
    """Where the members of the object that starts here are."""
    decoder, members = json.JSONDecoder(), []
    at = _after(text, start + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(bare, at)
        value = _after(text, _after(text, end) + 1)
        _, end = decoder.raw_decode(bare, value)
        members.append(_Member(key, at, value, end))
        at = _after(text, end)
        if text[at] == ",":
            at = _after(text, at + 1)
    return _Object(start, tuple(members), at)
