"""The values of the graph: entities and the relationships between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..text import digest, name_key
from .times import to_iso

THING = "thing"  # The type of what is not known better.
_ID_CHARS = 200
Span = tuple[int, int]


class Direction(StrEnum):
    """From an entity, to it, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


def end_tags(id: str, direction: Direction = Direction.BOTH) -> tuple[str, ...]:
    """Return the tags of the relations that go out from an entity, come in to it, or both."""
    tags = {Direction.OUT: (f"{id} →",), Direction.IN: (f"→ {id}",)}
    return tags.get(direction, (f"{id} →", f"→ {id}"))


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something with a name. Without an id of its own it is known by its name."""

    name: str
    type: str = THING
    id: str = ""
    aliases: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)  # JSON values only.
    sources: tuple[str, ...] = ()  # Ids of the records it comes from, the latest last.
    confidence: float = 1.0
    absorbed: tuple[str, ...] = ()  # The ids of entities that turned out to be this one.
    created_at: datetime | None = None  # Set when it is stored.
    spans: tuple[Span, ...] = ()  # Where a text names it; not stored.

    def __post_init__(self) -> None:
        if not self.id and isinstance(self.name, str):
            key = name_key(self.name)
            id = key if len(key) <= _ID_CHARS else f"{key[:150]} {digest(key)}"
            object.__setattr__(self, "id", id)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys by which the entity is found."""
        return tuple(dict.fromkeys((*map(name_key, (self.name, *self.aliases)), *self.absorbed)))


@dataclass(frozen=True, slots=True)
class Relationship:
    """The entity `subject` does or is `type` to the entity `object`; both are ids."""

    subject: str
    type: str
    object: str
    id: str = ""
    valid_from: datetime | None = None  # None: as long as anybody knows.
    valid_to: datetime | None = None  # None: it still holds.
    confidence: float = 1.0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    created_at: datetime | None = None
    span: Span | None = None  # Where a text says so; not stored.

    def __post_init__(self) -> None:
        if not self.id and all(isinstance(one, str) for one in (self.subject, self.type, self.object)):
            object.__setattr__(self, "id", relationship_id(self.subject, self.type, self.object, self.valid_from))

    def holds_at(self, moment: datetime) -> bool:
        """Return whether the relationship held at a moment."""
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and (self.valid_to is None or moment < self.valid_to)

    def other(self, id: str) -> str:
        """Return the other end."""
        return self.object if id == self.subject else self.subject


def relationship_id(subject: str, type: str, object: str, since: datetime | None) -> str:
    """Return the id of a relationship: the same for the same ends, type and beginning."""
    # What is no time is refused when it is to be kept; until then it only needs a name.
    start = to_iso(since) or "" if isinstance(since, datetime | None) else str(since)
    return f"rel_{digest(subject, type, object, start)}"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entity next to another one, and the relationship between them."""

    entity: Entity
    relationship: Relationship


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The entities that were reached, nearest first, and the relationships between them."""

    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]
    depths: Mapping[str, int]  # How many steps away each entity is, by id.
    truncated: bool = False  # There was more than the limit allows.
    paths: tuple[Path, ...] = ()  # The ways to the entity that was asked for, shortest first.


@dataclass(frozen=True, slots=True)
class Path:
    """From one entity to another: `relationships[i]` joins `entities[i]` and `entities[i + 1]`, either way round."""

    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]

    def __len__(self) -> int:
        return len(self.relationships)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Two entities that may be one; a person or a model decides."""

    keep: Entity
    other: Entity
    why: str
    score: float


@dataclass(frozen=True, slots=True)
class GraphStats:
    """How many entities and relationships a graph has."""

    entities: int
    relationships: int  # All that are held, the ended ones too.
    current: int  # Those that hold now.
    entity_types: Mapping[str, int]
    relationship_types: Mapping[str, int]
    suggestions: tuple[Suggestion, ...] = ()  # Pairs that may be one, where they were asked for.
