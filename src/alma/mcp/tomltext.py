"""Changes in a TOML file that leave every other byte of it alone: one table put in at the end, or taken out.

What the text says before and after is compared, so that a file written in a way not foreseen here is refused and never
damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"^[ \t]*\[\[?[^\n]*$", re.MULTILINE)
_KEY = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def load(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} is not valid TOML ({error}); mend it first, nothing was changed") from error


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """The text with this table, at its end; one that is there makes way."""
    rest = drop(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(map(_named, path))}]", *(f"{_named(key)} = {_shown(one)}" for key, one in value.items())]
    ended = rest if not rest or rest.endswith("\n") else rest + newline
    made = f"{ended}{newline if ended.strip() else ''}{newline.join(lines)}{newline}"
    _expect(made, rest, path, dict(value))
    return made


def drop(text: str, path: Sequence[str]) -> str:
    """The text without this table and those below it; as it is when there is none."""
    made = text
    while (place := _place(made, path)) is not None:
        start, end = place
        before = made[:start]
        # The empty line before it came with it.
        for gap in ("\r\n\r\n", "\n\n"):
            if before.endswith(gap):
                before = before[: -len(gap) // 2]
                break
        made = before + made[end:]
    _expect(made, text, path, None)
    return made


def _place(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    headers = list(_HEADER.finditer(text))
    for at, found in enumerate(headers):
        if _keys(found[0])[: len(path)] == list(path):
            following = headers[at + 1].start() if at + 1 < len(headers) else len(text)
            return found.start(), found.start() + _used(text[found.start() : following])
    return None


def _used(block: str) -> int:
    """How much of it is the table: what is remarked after its last line belongs to the next one."""
    size, used = 0, 0
    for line in block.splitlines(keepends=True):
        size += len(line)
        if line.strip() and not line.strip().startswith("#"):
            used = size
    return used


def _keys(header: str) -> list[str]:
    inner = header.strip().lstrip("[").partition("]")[0]
    return [found[1] or found[2] or found[3] or "" for found in _KEY.finditer(inner)]


def _expect(made: str, text: str, path: Sequence[str], value: dict[str, Any] | None) -> None:
    """What the new text says is what the old one said, but for this table."""
    try:
        now, was = load(made, "the result"), load(text, "the file")
    except ConfigError:
        now = was = {}
        path_is = None
    else:
        path_is = _taken(now, path)
        _taken(was, path)
    if path_is != value or now != was:
        name = ".".join(path)
        raise ConfigError(f"`{name}` is written there in a way that cannot be changed from here: edit it by hand")


def _taken(data: dict[str, Any], path: Sequence[str]) -> Any:
    """The value at the end of these keys, which then is no longer there; nor are tables that held nothing else."""
    holders = [data]
    for key in path[:-1]:
        inner = holders[-1].get(key)
        if not isinstance(inner, dict):
            return None
        holders.append(inner)
    value = holders[-1].pop(path[-1], None)
    for key, holder in zip(reversed(path[:-1]), reversed(holders[:-1]), strict=True):
        if not holder[key]:
            del holder[key]
    return value


def _named(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_named(key)} = {_shown(one)}" for key, one in value.items()) + " }"
    return str(value)
