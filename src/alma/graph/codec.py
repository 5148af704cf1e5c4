"""Entities and relationships as one line of JSON, for backends that keep them so beside the columns they search."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from ..types.graph import Entity, Relationship
from ..types.times import from_micros, to_micros
from .rows import Item

_TIMES = ("valid_from", "valid_to", "created_at")
_LISTS = ("aliases", "sources", "absorbed")


def to_number(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def list_columns(one: Entity | Relationship) -> dict[str, Any]:
    """Return the values that are searched, and as `data` the whole in plain letters, which any column can hold."""
    values = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in ("span", "spans")}
    values |= {name: to_number(values[name]) for name in _TIMES if name in values}
    columns = {"id": one.id, "type": one.type, "sources": list(one.sources), "created": values["created_at"]}
    if isinstance(one, Relationship):
        columns |= {name: values[name] for name in ("subject", "object", "valid_from", "valid_to")}
    return {**columns, "data": json.dumps(values, allow_nan=False)}


def decode_item(kind: type[Item], text: str) -> Item:
    values: dict[str, Any] = json.loads(text)
    values |= {name: from_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    values |= {name: tuple(values[name]) for name in _LISTS if name in values}
    return kind(**values)
