"""The port of a backend: keep entities and relationships as given and find them again. `Graph` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Protocol, TypeVar

from ..types.graph import Direction, Entity, Relationship

T = TypeVar("T")
Item = TypeVar("Item", Entity, Relationship)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityFilter:
    """Which entities. None accepts all; at most one of `ids` and `keys` is set."""

    ids: Collection[str] | None = None
    keys: Collection[str] | None = None
    """Those with any of these among their keys."""
    type: str | None = None
    source: str | None = None
    """Those that come from this record."""

    def conditions(self) -> dict[str, Any]:
        """Return what is set, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFilter:
    """Which relationships. None accepts all; at most one of `ids`, `ends` and `pairs` is set."""

    ids: Collection[str] | None = None
    ends: Collection[str] | None = None
    """Those that go out from these entities, come in to them, or both."""
    direction: Direction = Direction.BOTH
    pairs: Collection[tuple[str, str]] | None = None
    """Those that lead from the first of a pair to the second."""
    types: Collection[str] | None = None
    at: datetime | None = None
    """Those that hold at this moment."""
    source: str | None = None

    def conditions(self) -> dict[str, Any]:
        """Return what is set, by name; the ends as `out_ends`, `in_ends` or `both_ends`."""
        values = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        direction, ends = values.pop("direction"), values.pop("ends", None)
        return values if ends is None else {**values, f"{direction}_ends": ends}


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written, all or none. Nothing is both put and removed."""

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    removed_entities: tuple[str, ...] = ()
    removed_relationships: tuple[str, ...] = ()


class Reading(Protocol):
    """Everything comes newest first by `created_at`, ties by id, greatest first; ids in any order."""

    def find_entities(self, where: EntityFilter, limit: int | None = None) -> list[Entity]: ...

    def find_relationships(self, where: RelationFilter, limit: int | None = None) -> list[Relationship]: ...

    def count_types(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Return entities by type, relationships by type, and how many of these hold at a moment."""


Attempt = Callable[[Reading], tuple[T, Change]]


class Rows(Reading, Protocol):
    @property
    def place(self) -> str:
        """Where the rows lie: the same for everybody who sees the same ones."""

    def change(self, attempt: Attempt[T]) -> T:
        """Write what `attempt` makes of what is held; nobody else writes in between. It may be called again."""

    def close(self) -> None: ...


def sort_newest(items: Iterable[Item], limit: int | None = None) -> list[Item]:
    return sorted(items, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]
