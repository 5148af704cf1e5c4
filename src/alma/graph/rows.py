"""What a backend does: keep entities and relationships as given and find them again. `Graph` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from ..types.graph import Direction, Entity, Relationship

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which relationships of some entities. None asks for nothing."""

    direction: Direction = Direction.BOTH
    types: Collection[str] | None = None
    at: datetime | None = None
    """Those that hold at this moment; None: all that ever did."""

    def accepts(self, one: Relationship, ends: Collection[str]) -> bool:
        outward = self.direction is not Direction.IN and one.subject in ends
        inward = self.direction is not Direction.OUT and one.object in ends
        return (outward or inward) and self.alike(one)

    def alike(self, one: Relationship) -> bool:
        return (self.types is None or one.type in self.types) and (self.at is None or one.holds_at(self.at))


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written, all or none. What is removed is removed after the rest is put."""

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    removed_entities: tuple[str, ...] = ()
    removed_relationships: tuple[str, ...] = ()


class Reading(Protocol):
    """Everything comes newest first by `created_at`, ties by id, greatest first, unless said otherwise."""

    def entities(self, ids: Collection[str]) -> list[Entity]:
        """By id, in any order; unknown ones are left out."""

    def named(self, keys: Collection[str]) -> list[Entity]:
        """Those with any of these among their keys."""

    def listed(self, type: str | None, limit: int) -> list[Entity]: ...

    def relationships(self, ids: Collection[str]) -> list[Relationship]:
        """By id, in any order; unknown ones are left out."""

    def edges(self, ends: Collection[str] | None, wanted: Wanted, limit: int) -> list[Relationship]:
        """Those of these entities, or of all."""

    def between(self, pairs: Collection[tuple[str, str]]) -> list[Relationship]:
        """All that lead from the first of a pair to the second, in any order."""

    def sourced(self, sources: Collection[str]) -> tuple[list[Entity], list[Relationship]]:
        """What comes from any of these records, in any order."""

    def counts(self, at: datetime) -> tuple[dict[str, int], dict[str, int], int]:
        """Entities by type, relationships by type, and how many of these hold at a moment."""


Attempt = Callable[[Reading], tuple[T, Change]]


class Rows(Reading, Protocol):
    @property
    def place(self) -> str:
        """Where the rows lie: the same for everybody who sees the same ones."""

    def change(self, attempt: Attempt[T]) -> T:
        """Write what `attempt` makes of what is held; nobody else writes in between. It may be called again."""

    def close(self) -> None: ...


def newest_first(one: Entity | Relationship) -> tuple[object, str]:
    return (one.created_at, one.id)
