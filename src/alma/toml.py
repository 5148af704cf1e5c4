"""Changes in a TOML file: one table is added at the end or removed, and every other byte stays the same.

Not every syntax is handled, so a caller checks the values of the new text before it is written.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_GAP = re.compile(r"(\r\n|\n)\1\Z")
_HEADER = re.compile(r"^[ \t]*\[\[?[^\n]*$", re.MULTILINE)
_KEY = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def load(text: str, name: str) -> dict[str, Any]:
    """Return the values in a file; raise ConfigError about `name` if it is not valid TOML."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} is not valid TOML ({error}); fix it first. Nothing was changed") from error


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Return the text with this table at its end, replacing an existing one."""
    rest = drop(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(map(_format_key, path))}]"]
    lines += [f"{_format_key(key)} = {_format_value(one)}" for key, one in value.items()]
    if rest and not rest.endswith("\n"):
        rest += newline
    return f"{rest}{newline if rest.strip() else ''}{newline.join(lines)}{newline}"


def drop(text: str, path: Sequence[str]) -> str:
    """Return the text without this table and its subtables."""
    end = len(text)
    for header in reversed(list(_HEADER.finditer(text))):
        block, before = text[header.start() : end], text[: header.start()]
        end = header.start()
        inner = header[0].strip().lstrip("[").partition("]")[0]
        keys = [one[1] or one[2] or one[3] or "" for one in _KEY.finditer(inner)]
        if keys[: len(path)] != list(path):
            continue
        # Comments after the last line of the table belong to the next table.
        lines = block.splitlines(keepends=True)
        while not lines[-1].partition("#")[0].strip():
            lines.pop()
        # Remove the empty line before it too.
        before = _GAP.sub(r"\1", before)
        text = before + text[header.start() + len("".join(lines)) :]
        end = len(before)
    return text


def format_members(values: Mapping[str, Any]) -> str:
    """Return the text of a TOML file with these values: one line for each, and tables inline."""
    return "".join(f"{_format_key(key)} = {_format_value(value)}\n" for key, value in values.items())


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
