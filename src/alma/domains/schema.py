"""A domain: what there is in it, what may be learned in it, and how fast what was learned fades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..engine import validate
from ..errors import ValidationError, unknown
from ..types import times
from ..types.scope import plain

_MAX_VALUE = 10_000


@dataclass(frozen=True, slots=True)
class EntityType:
    """A sort of thing in the domain, such as a paper or a lead."""

    name: str
    description: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationshipType:
    """How things of one type stand to things of another, such as an experiment that supports a hypothesis."""

    name: str
    source_type: str
    target_type: str


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that fits its schema."""

    type: str
    attributes: Mapping[str, Any]

    @property
    def text(self) -> str:
        kind, parts = self.type.replace("_", " "), []
        for name, value in self.attributes.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            parts.append(f"{name.replace('_', ' ')}: {shown}")
        return f"{kind} ({', '.join(parts)})" if parts else kind

    def as_plain(self) -> dict[str, Any]:
        return {"type": self.type, "attributes": dict(self.attributes)}

    def as_knowledge(self) -> dict[str, Any]:
        """The arguments with which `ALMA.add_domain_knowledge` keeps it, but for the agent and the category."""
        return {"fact": self.text, "tags": (f"entity:{self.type}",), "metadata": {"entity": self.as_plain()}}


@dataclass(frozen=True, slots=True)
class Relationship:
    """Two things and how they stand to each other, as the schema allows it."""

    type: str
    source: Entity
    target: Entity

    @property
    def text(self) -> str:
        return f"{self.source.text} {self.type.replace('_', ' ')} {self.target.text}"

    def as_knowledge(self) -> dict[str, Any]:
        tags = tuple(dict.fromkeys((f"entity:{self.source.type}", f"entity:{self.target.type}")))
        known = {"type": self.type, "source": self.source.as_plain(), "target": self.target.as_plain()}
        return {"fact": self.text, "tags": tags, "metadata": {"relationship": known}}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSchema:
    """What memory is like in one domain."""

    id: str
    name: str
    description: str = ""
    entity_types: tuple[EntityType, ...] = ()
    relationship_types: tuple[RelationshipType, ...] = ()
    learning_categories: tuple[str, ...] = ()
    """What may be learned; empty: everything that is not excluded."""
    excluded_categories: tuple[str, ...] = ()
    min_occurrences_for_heuristic: int = 3
    confidence_decay_days: float = 30.0
    """After so many days without use or confirmation a memory counts half as recent."""
    created_at: datetime = field(default_factory=times.now)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate.name("name", self.name)
        known = [one.name for one in self.entity_types]
        learned, excluded = list(map(plain, self.learning_categories)), list(map(plain, self.excluded_categories))
        _refuse_twice(f"entity types of {self.name}", known)
        for kind in self.entity_types:
            _refuse_twice(f"attributes of {kind.name!r}", kind.attributes)
        _refuse_twice(f"learning categories of {self.name}", learned)
        _refuse_twice(f"excluded categories of {self.name}", excluded)
        if both := set(learned) & set(excluded):
            names = ", ".join(sorted(both))
            raise ValidationError(f"{names}: both a learning category and an excluded one; it can be only one of them")
        for relation in self.relationship_types:
            for end in (relation.source_type, relation.target_type):
                if end not in known:
                    valid = ", ".join(known) or "none, since the schema has no entity types"
                    raise ValidationError(
                        f"unknown entity type {end!r} in the relationship {relation.name!r}. Valid: {valid}."
                    )
        validate.whole("min_occurrences_for_heuristic", self.min_occurrences_for_heuristic, 1, 1000)
        validate.number("confidence_decay_days", self.confidence_decay_days, 0.01)

    def allows(self, category: str) -> bool:
        """Whether something of this category may be learned; case and space around it make no difference."""
        if plain(category) in map(plain, self.excluded_categories):
            return False
        return not self.learning_categories or plain(category) in map(plain, self.learning_categories)

    def entity_type(self, name: str) -> EntityType:
        for one in self.entity_types:
            if one.name == name:
                return one
        raise ValidationError(unknown(f"entity type of {self.name}", name, [one.name for one in self.entity_types]))

    def entity(self, type_: str, /, **attributes: Any) -> Entity:
        """A thing of this domain: `schema.entity("lead", stage="new")`. What the schema does not know is refused."""
        kind = self.entity_type(validate.name("entity type", type_))
        for name in attributes:
            if name not in kind.attributes:
                raise ValidationError(unknown(f"attribute of {kind.name!r}", name, kind.attributes))
        checked = validate.metadata(attributes)
        for name, value in checked.items():
            if isinstance(value, str):
                validate.text(name, value, _MAX_VALUE)
            if isinstance(value, dict) or value is None:
                raise ValidationError(f"{name} must be a text, a number or a list of them, not {value!r}")
        return Entity(kind.name, checked)

    def relationship(self, type_: str, /, source: Entity, target: Entity) -> Relationship:
        """Two things and how they stand to each other; their types must be those that the schema gives."""
        named = [one for one in self.relationship_types if one.name == validate.name("relationship type", type_)]
        if not named:
            valid = dict.fromkeys(one.name for one in self.relationship_types)
            raise ValidationError(unknown(f"relationship type of {self.name}", type_, valid))
        if not any((one.source_type, one.target_type) == (source.type, target.type) for one in named):
            valid = dict.fromkeys(f"{one.source_type} → {one.target_type}" for one in named)
            raise ValidationError(f"{type_!r} goes {', '.join(valid)}, not {source.type} → {target.type}")
        return Relationship(type_, source, target)


def _refuse_twice(label: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValidationError(f"{label}: {name!r} is there twice")
