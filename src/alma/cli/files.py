"""Read files of JSON, JSON Lines and YAML that people hand over; what is wrong in one is named with its line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import NotFoundError, ScopeError, ValidationError
from .render import Progress

Line = tuple[str, dict[str, Any]]
"""An object, and its place such as `chat.jsonl, line 3`."""
_BATCH = 100
_REFUSED = (ValidationError, ScopeError, NotFoundError)


def read_text(source: str) -> str:
    """Read a file, or standard input for '-'."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{source} cannot be read: {error}") from error


def parse_object(place: str, text: str, what: str) -> dict[str, Any]:
    return _check_object(place, _parse(place, text), what)


def read_object(source: str, what: str) -> dict[str, Any]:
    return parse_object("standard input" if source == "-" else source, read_text(source), what)


def read_mapping(source: str, what: str) -> dict[str, Any]:
    """Read a mapping from a file of YAML or JSON."""
    text = read_text(source)
    if source.endswith(".json"):
        return parse_object(source, text, what)
    import yaml

    try:
        return _check_object(source, yaml.safe_load(text), what)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValidationError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


def read_objects(source: str, what: str) -> list[Line]:
    """Read the objects of a JSON list or of JSON Lines."""
    text = read_text(source)
    values = _read_list(source, text) if text.lstrip().startswith("[") else _read_lines(source, text)
    return [(place, _check_object(place, value, what)) for place, value in values]


def read_lines(source: str, what: str, gaps: Mapping[str, Any]) -> list[Line]:
    """Read the objects of JSON Lines; `gaps` are filled where a line does not say it."""
    values = _read_lines(source, read_text(source))
    return [(place, {**gaps, **_check_object(place, value, what)}) for place, value in values]


def send_lines(lines: Sequence[Line], send: Callable[[list[dict[str, Any]]], list[Any]], report: Progress) -> list[Any]:
    """Send all of them, batch by batch. Each batch is kept whole or not at all; a refused line is named."""
    answers: list[Any] = []
    for start in range(0, len(lines), _BATCH):
        batch = lines[start : start + _BATCH]
        try:
            answers += send([given for _, given in batch])
        except _REFUSED:
            # Nothing of the batch was written. One by one it becomes clear which line it is.
            for place, given in batch:
                try:
                    answers += send([given])
                except _REFUSED as error:
                    kept = f"; the {len(answers)} before it were recorded, so go on from this line" if answers else ""
                    raise type(error)(f"{place}: {error}{kept}") from error
        report(len(answers), len(lines))
    return answers


def _check_object(place: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{place} must be an object with {what}; nothing was recorded")
    return value


def _read_lines(source: str, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines: JSON may hold the other line separators of Unicode as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{source}, line {number}"
            yield place, _parse(place, line)


def _read_list(source: str, text: str) -> Iterator[tuple[str, Any]]:
    values = _parse(source, text)
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    for value in values:
        while text[at] in " \t\r\n,":
            at += 1
        yield f"{source}, line {text.count(chr(10), 0, at) + 1}", value
        _, at = decoder.raw_decode(text, at)


def _parse(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was recorded") from error
