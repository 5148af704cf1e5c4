"""The port of a backend: store entities and relationships as given and find them again. `Graph` does the rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from ..types.graph import Direction, Entity, Relationship
from ..types.times import from_micros, to_micros

T = TypeVar("T")
Item = TypeVar("Item", Entity, Relationship)
TABLES = {Entity: "entity", Relationship: "relation"}
_TIMES = ("valid_from", "valid_to", "created_at")


class RowFilter(NamedTuple):
    """Which entities or relationships. None accepts all; at most one of `ids`, `keys`, `ends` and `pairs` is set."""

    ids: Collection[str] | None = None
    keys: Collection[str] | None = None  # Entities with any of these among their keys.
    ends: Collection[str] | None = None  # Relationships that go out from these entities, come in to them, or both.
    direction: str = Direction.BOTH
    pairs: Collection[tuple[str, str]] | None = None  # Those that lead from the first of a pair to the second.
    types: Collection[str] | None = None
    at: datetime | None = None  # Relationships that hold at this moment.
    source: str | None = None  # What comes from this record.

    def list_conditions(self) -> dict[str, Any]:
        """Return what is set, by name; the ends as `out_ends`, `in_ends` or `both_ends`, the time as a number."""
        values = {name: value for name, value in self._asdict().items() if value is not None}
        direction = values.pop("direction")
        if self.at is not None:
            values["at"] = to_micros(self.at)
        if self.ends is not None:
            values[f"{direction}_ends"] = values.pop("ends")
        return {name: value if isinstance(value, str | int) else list(value) for name, value in values.items()}


class GraphChange(NamedTuple):
    """What is to be written, all or none. Nothing is both put and removed."""

    entities: Sequence[Entity] = ()
    relationships: Sequence[Relationship] = ()
    removed_entities: Sequence[str] = ()
    removed_relationships: Sequence[str] = ()

    def list_tables(self) -> list[tuple[type[Any], Sequence[Any], Sequence[str]]]:
        """Return what is put and the ids of what is removed, of relationships and of entities."""
        edges = (Relationship, self.relationships, self.removed_relationships)
        return [edges, (Entity, self.entities, self.removed_entities)]


class RowReader(Protocol):
    def find(self, kind: type[Item], where: RowFilter, limit: int | None = None) -> list[Item]:
        """Return the newest first by `created_at`, ties by id, greatest first; ids in any order."""

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many of these hold at a moment."""
        edges = self.find(Relationship, RowFilter())
        entities = Counter(one.type for one in self.find(Entity, RowFilter()))
        return entities, Counter(one.type for one in edges), sum(one.holds_at(at) for one in edges)


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
    if isinstance(one, Entity):
        columns |= {"name": one.name, "keys": list(one.keys)}
    else:
        columns |= {name: values[name] for name in ("subject", "object", "valid_from", "valid_to")}
    return {**columns, "data": json.dumps(values, allow_nan=False)}


def decode_item(kind: type[Item], text: str) -> Item:
    """Return the entity or relationship that `list_columns` wrote as `data`."""
    values = json.loads(text)
    values |= {name: from_micros(values[name]) for name in _TIMES if values.get(name) is not None}
    return make_item(kind, **values)


def make_item(kind: type[Item], **values: Any) -> Item:
    """Return an entity or a relationship with the lists among its values as tuples."""
    values |= {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
    return kind(**values)
