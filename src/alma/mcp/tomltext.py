"""Changes in a TOML file that leave every other byte of it alone: one table added at the end, or removed.

A file that is written in a way not foreseen here gets another meaning: callers compare what it says before and after.
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
    """Return the text with this table at its end; one that is there is removed."""
    rest = drop(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(map(_format_key, path))}]"]
    lines += [f"{_format_key(key)} = {_format_value(one)}" for key, one in value.items()]
    if rest and not rest.endswith("\n"):
        rest += newline
    return f"{rest}{newline if rest.strip() else ''}{newline.join(lines)}{newline}"


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without this table and those below it; as it is when there is none."""
    end = len(text)
    for header in reversed(list(_HEADER.finditer(text))):
        block, before = text[header.start() : end], text[: header.start()]
        end = header.start()
        inner = header[0].strip().lstrip("[").partition("]")[0]
        keys = [one[1] or one[2] or one[3] or "" for one in _KEY.finditer(inner)]
        if keys[: len(path)] != list(path):
            continue
        # Comments after the last line of the table belong to the next one.
        size = last = 0
        for line in block.splitlines(keepends=True):
            size += len(line)
            if line.strip() and not line.strip().startswith("#"):
                last = size
        # The empty line before it came with it.
        for gap in ("\r\n\r\n", "\n\n"):
            if before.endswith(gap):
                before = before[: -len(gap) // 2]
                break
        text = before + text[header.start() + last :]
        end = len(before)
    return text


def _format_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_format_key(key)} = {_format_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
