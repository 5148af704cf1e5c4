"""The port of a backend: store entities and relationships as given and find them again. `Graph` does the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Protocol, TypeVar

from ..types.graph import Direction, Entity, Relationship
from ..types.times import from_micros, to_micros

T = TypeVar("T")
Item = TypeVar("Item", Entity, Relationship)
_TIMES = ("valid_from", "valid_to", "created_at")
_LISTS = ("aliases", "sources", "absorbed")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityFilter:
    """Which entities. None accepts all; at most one of `ids` and `keys` is set."""

    ids: Collection[str] | None = None
    keys: Collection[str] | None = None  # Those with any of these among their keys.
    type: str | None = None
    source: str | None = None  # Those that come from this record.


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFilter:
    """Which relationships. None accepts all; at most one of `ids`, `ends` and `pairs` is set."""

    ids: Collection[str] | None = None
    ends: Collection[str] | None = None  # Those that go out from these entities, come in to them, or both.
    direction: Direction = Direction.BOTH
    pairs: Collection[tuple[str, str]] | None = None  # Those that lead from the first of a pair to the second.
    types: Collection[str] | None = None
    at: datetime | None = None  # Those that hold at this moment.
    source: str | None = None


def list_conditions(where: EntityFilter | RelationFilter) -> dict[str, Any]:
    """Return what is set, by name; the ends as `out_ends`, `in_ends` or `both_ends`, the time as a number."""
    values = {one.name: value for one in fields(where) if (value := getattr(where, one.name)) is not None}
    direction = values.pop("direction", "")
    if "ends" in values:
        values[f"{direction}_ends"] = values.pop("ends")
    if "at" in values:
        values["at"] = to_micros(values["at"])
    return values


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What is to be written, all or none. Nothing is both put and removed."""

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    removed_entities: tuple[str, ...] = ()
    removed_relationships: tuple[str, ...] = ()


class RowReader(Protocol):
    """Everything comes newest first by `created_at`, ties by id, greatest first; ids in any order."""

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]: ...

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]: ...

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many of these hold at a moment."""


Attempt = Callable[[RowReader], tuple[T, GraphChange]]


class Rows(RowReader, Protocol):
    @property
    def place(self) -> str:
        """Where the rows lie: the same for everybody who sees the same ones."""

    def change(self, attempt: Attempt[T]) -> T:
        """Write what `attempt` makes of what is stored; nobody else writes in between. It may be called again."""

    def close(self) -> None: ...


def sort_newest(items: Iterable[Item], limit: int | None = None) -> list[Item]:
    return sorted(items, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]


def list_columns(one: Entity | Relationship) -> dict[str, Any]:
    """Return the values that are searched, and as `data` the whole as one line of JSON, which any column can hold."""
    values = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in ("span", "spans")}
    values |= {name: to_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    columns = {"id": one.id, "type": one.type, "sources": list(one.sources), "created": values["created_at"]}
    if isinstance(one, Relationship):
        columns |= {name: values[name] for name in ("subject", "object", "valid_from", "valid_to")}
    return {**columns, "data": json.dumps(values, allow_nan=False)}


def decode_item(kind: type[Item], text: str) -> Item:
    """Return the entity or relationship that `list_columns` wrote as `data`."""
    values: dict[str, Any] = json.loads(text)
    values |= {name: from_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    values |= {name: tuple(values[name]) for name in _LISTS if name in values}
    return kind(**values)
