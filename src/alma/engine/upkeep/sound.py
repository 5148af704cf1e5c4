"""Whether a line of an export is a record that every store can hold and every reader can read.

Files come from anywhere. What is not sound is refused before anything is written: once it is held, it would be in the
way of each retrieval that meets it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import fields
from datetime import datetime
from typing import Any

from ...types.evidence import Evidence
from ...types.kinds import KINDS
from ...types.record import Record, from_json
from ..view import view

HERE_ONLY = ("marker",)
"""What a store notes about itself."""
_TEXTS = ("id", "kind", "project", "agent", "user", "session", "key", "text", "superseded_by", "embedder")
_LISTS = ("links", "tags", "vectors")
_OBJECTS = ("body", "evidence", "provenance")
_LONGEST_ID = 256
_MOST = 2**53
_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
_DEEPEST = 200
_COUNTS = [field.name for field in fields(Evidence) if field.type == "int"]


def sound(line: str, data: Any, projects: Collection[str], now: datetime) -> Record:
    """The record that a line holds; ValueError or another error of reading says why it is none."""
    if not isinstance(data, dict):
        raise ValueError("it is no object")
    _shape(data)
    if "\\ud" in line.lower():
        # Half a character is valid in JSON and nowhere else.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    made = from_json(data)
    _place(made, projects)
    _evidence(made.evidence)
    _reads(made, now)
    return made


def _shape(data: dict[str, Any]) -> None:
    for name in _TEXTS:
        if not isinstance(data[name], str):
            raise ValueError(f"{name} must be a text")
    for name in _LISTS:
        if not isinstance(data[name], list) or not all(isinstance(one, str) for one in data[name]):
            raise ValueError(f"{name} must be a list of texts")
    for name in _OBJECTS:
        if not isinstance(data[name], dict):
            raise ValueError(f"{name} must be an object")
    if type(data["version"]) is not int or not 0 < data["version"] < _MOST:
        raise ValueError("version must be a whole number from 1")
    if data["created_at"] is None or data["updated_at"] is None:
        raise ValueError("it must say when it was made and changed")
    _not_too_deep(data["body"])


def _not_too_deep(body: dict[str, Any]) -> None:
    level: list[Any] = [body]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return
    raise ValueError(f"body is nested deeper than {_DEEPEST} levels")


def _place(record: Record, projects: Collection[str]) -> None:
    if record.kind not in KINDS or record.kind in HERE_ONLY:
        raise ValueError(f"the kind {record.kind!r} is unknown here")
    if not record.id or not record.id.isprintable() or len(record.id) > _LONGEST_ID:
        raise ValueError(f"id must be 1 to {_LONGEST_ID} visible characters")
    if record.project not in projects:
        raise ValueError(f"its project is {record.project!r}, and the file is of {' and '.join(sorted(projects))}")


def _evidence(held: Evidence) -> None:
    if not all(0 <= getattr(held, name) < _MOST for name in _COUNTS):
        raise ValueError("the counts of its evidence must be 0 or more")
    if not all(0 <= at <= _LAST_SECOND and 0 <= worth <= 1 for at, worth in held.recent):
        raise ValueError("the recent results of its evidence must be a second and a worth from 0 to 1 each")


def _reads(record: Record, now: datetime) -> None:
    """Its own codec understands it."""
    kind = KINDS[record.kind]
    for name in {*kind.editable, *kind.unique}:
        if not isinstance(record.body[name], str):
            raise ValueError(f"{name} must be a text")
    if not isinstance(record.body.get("metadata", {}), dict):
        raise ValueError("metadata must be an object")
    kind.text(record.body)
    kind.passages(record.body)
    if kind.decode is not None:
        view(record, now)
