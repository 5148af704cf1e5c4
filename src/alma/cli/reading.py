"""Files of JSON that people hand over: read whole, and each value with the place where it stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ValidationError


def read(source: str) -> str:
    """The text of a file, or of standard input for '-'."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{source} cannot be read: {error}") from error


def json_of(name: str, text: str) -> Any:
    """A value that was given on the command line."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f'{name} must be JSON, such as \'{{"team": "core"}}\': {error}') from error


def read_object(place: str, text: str, what: str) -> dict[str, Any]:
    return _object(place, _parsed(place, text), what)


def mapping(source: str, what: str) -> dict[str, Any]:
    """The mapping that a file of YAML or JSON holds."""
    text = read(source)
    if source.endswith(".json"):
        return read_object(source, text, what)
    import yaml

    try:
        return _object(source, yaml.safe_load(text), what)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValidationError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


def objects(source: str, what: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list, or of JSON Lines, each with its place such as `chat.jsonl, line 3`."""
    text = read(source)
    found = _listed(source, text) if text.lstrip().startswith("[") else _lines(source, text)
    return [(place, _object(place, value, what)) for place, value in found]


def _object(place: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{place} must be an object with {what}; nothing was recorded")
    return value


def _lines(source: str, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines: JSON may hold the other line separators of Unicode as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{source}, line {number}"
            yield place, _parsed(place, line)


def _listed(source: str, text: str) -> Iterator[tuple[str, Any]]:
    values = _parsed(source, text)
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    for value in values:
        while text[at] in " \t\r\n,":
            at += 1
        yield f"{source}, line {text.count(chr(10), 0, at) + 1}", value
        _, at = decoder.raw_decode(text, at)


def _parsed(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was recorded") from error
