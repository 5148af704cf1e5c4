"""Read files of JSON, JSON Lines and YAML that people hand over; what is wrong in one is named with its place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
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


def parse_json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{place} is not JSON: {error}; nothing was recorded") from error


def check_object(place: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{place} must be an object with {what}; nothing was recorded")
    return value


def read_object(source: str, what: str, *, is_yaml: bool = False) -> dict[str, Any]:
    """Read an object from a file of JSON, or of YAML unless its name says JSON."""
    text = read_text(source)
    if not is_yaml or source.endswith(".json"):
        return check_object(source, parse_json(source, text), what)
    import yaml

    try:
        return check_object(source, yaml.safe_load(text), what)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValidationError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


def read_objects(
    source: str, what: str, gaps: Mapping[str, Any] | None = None, *, may_be_empty: bool = False
) -> list[Line]:
    """Read the objects of a JSON list or of JSON Lines; `gaps` are filled where an object does not say it."""
    text = read_text(source)
    if text.lstrip().startswith("["):
        values = [(f"{source}, item {number}", value) for number, value in enumerate(parse_json(source, text), 1)]
    else:
        # Not splitlines: JSON may hold the other line separators of Unicode as they are.
        lines = [(f"{source}, line {number}", line) for number, line in enumerate(text.split("\n"), 1)]
        values = [(place, parse_json(place, line)) for place, line in lines if line.strip()]
    if not values and not may_be_empty:
        raise ValidationError(f"{source} holds nothing; nothing was recorded")
    return [(place, {**(gaps or {}), **check_object(place, value, what)}) for place, value in values]


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
