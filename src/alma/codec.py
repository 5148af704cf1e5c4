"""From a stored record to a value of a feature: the fields of a dataclass say what is read and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .types.record import Record
from .types.times import from_iso

T = TypeVar("T")
Converter = Callable[[Any], Any]

_AS_STORED: Mapping[str, str] = {"project_id": "project", "session_id": "session"}
_CONTAINERS = (tuple, list, dict)


def decode_record(cls: Callable[..., T], record: Record, names: Mapping[str, str] = _AS_STORED, **values: Any) -> T:
    """Return a dataclass: each field comes from `values`, else from the record's body, else from the record itself.

    `names` lists the fields that have another name where they are stored.
    """
    names = {**_AS_STORED, **names}
    for name, convert in _list_converters(cls):
        stored = names.get(name, name)
        if name not in values and stored in record.body:
            value = record.body[stored]
            values[name] = value if value is None else convert(value)
        elif name not in values and hasattr(record, stored):
            values[name] = getattr(record, stored)
    return cls(**values)


@lru_cache(maxsize=32)
def _list_converters(cls: Any) -> list[tuple[str, Converter]]:
    """Return each field with the function that makes its value from JSON."""
    hints = get_type_hints(cls)
    converters: list[tuple[str, Converter]] = []
    for part in fields(cls):
        hint = hints[part.name]
        kind = next(one for one in get_args(hint) if one is not type(None)) if isinstance(hint, UnionType) else hint
        origin = get_origin(kind)
        if kind is datetime:
            converters.append((part.name, from_iso))
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            converters.append((part.name, kind))
        else:
            copy = dict if origin is Mapping else origin
            converters.append((part.name, copy if copy in _CONTAINERS else lambda value: value))
    return converters
