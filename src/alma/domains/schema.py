"""A domain: what there is in it, what may be learned in it, and how fast what was learned fades."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from ..types.record import new_id
from ..types.scope import plain

T = TypeVar("T")

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


# -- as plain data: what a person writes in Python or YAML, what a file of this package holds, what is stored

PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")

_MAX_NAMES = 1000


def _read_names(label: str, value: Any) -> tuple[str, ...]:
    given = _read_list(label, value)
    names = validate.names(label, given)
    if len(names) > _MAX_NAMES or len(names) < len(given):
        raise ValidationError(f"{label} must be at most {_MAX_NAMES} names, each there once")
    return names


def _read_list(label: str, value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list | tuple):
        raise ValidationError(f"{label} must be a list, not {value!r}")
    return list(value or ())


def _read_each(read: Callable[[str, Any], T]) -> Callable[[str, Any], tuple[T, ...]]:
    return lambda label, value: tuple(read(f"{label}[{at}]", one) for at, one in enumerate(_read_list(label, value)))


def _read_entity_type(label: str, value: Any) -> EntityType:
    """Read `{"name": "lead", "attributes": [...]}`, `{"lead": {"attributes": [...]}}`, or only a name."""
    if isinstance(value, EntityType):
        return value
    if isinstance(value, str):
        return EntityType(validate.name(label, value))
    if isinstance(value, Mapping) and len(value) == 1 and "name" not in value:
        [(name, rest)] = value.items()
        value = {"name": name, **_read_section(label, rest, ("description", "attributes"))}
    parts = _read_section(label, value, ("name", "description", "attributes"))
    return EntityType(
        validate.name(f"{label}.name", parts.get("name")),
        validate.optional_text(f"{label}.description", parts.get("description")) or "",
        _read_names(f"{label}.attributes", parts.get("attributes")),
    )


def _read_relationship_type(label: str, value: Any) -> RelationshipType:
    if isinstance(value, RelationshipType):
        return value
    valid = ("name", "source_type", "target_type")
    parts = _read_section(label, value, valid)
    return RelationshipType(*(validate.name(f"{label}.{part}", parts.get(part)) for part in valid))


def _read_section(label: str, value: Any, valid: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValidationError(f"{label} must be a mapping with some of: {', '.join(valid)}; not {value!r}")
    for name in value:
        if name not in valid:
            raise ValidationError(unknown(f"key in {label}", name, valid))
    return dict(value)


_PARTS: Mapping[str, Callable[[str, Any], Any]] = {
    "description": lambda label, value: validate.optional_text(label, value) or "",
    "entity_types": _read_each(_read_entity_type),
    "relationship_types": _read_each(_read_relationship_type),
    "learning_categories": _read_names,
    "excluded_categories": _read_names,
    "min_occurrences_for_heuristic": lambda label, value: validate.whole(label, value, 1, 1000),
    "confidence_decay_days": lambda label, value: validate.number(label, value, 0.01),
    "metadata": lambda label, value: validate.metadata(value),
}
CONFIG = tuple(_PARTS)
"""What a schema is written with."""


def from_config(name: str, config: Mapping[str, Any], **fields: Any) -> DomainSchema:
    """A schema from what a person wrote, without secrets; a part that is not known is an error that lists what is."""
    given = _read_section(f"schema {name!r}", config, ("name", *CONFIG))
    checked = validate.name("name", name)
    if given.pop("name", checked) != checked:
        raise ValidationError(f"the schema is called {checked!r} here and {config['name']!r} in its config")
    parts = {part: _PARTS[part](part, clean(value)) for part, value in given.items()}
    return DomainSchema(**({"id": new_id("dom"), "name": checked} | parts | fields))


def to_json(schema: DomainSchema) -> dict[str, Any]:
    """Everything, as `from_json` reads it."""
    values = asdict(replace(schema, metadata={})) | {"metadata": dict(schema.metadata)}
    decoded: dict[str, Any] = json.loads(json.dumps(values, default=times.to_iso))
    return decoded


def from_json(data: Mapping[str, Any]) -> DomainSchema:
    parts = {name: value for name, value in data.items() if name in CONFIG}
    return from_config(data["name"], parts, id=data["id"], created_at=times.from_iso(data["created_at"]))


@lru_cache(maxsize=len(PRESETS))
def preset(name: str) -> DomainSchema:
    """One of the schemas that come with alma."""
    from importlib.resources import files

    import yaml

    if name not in PRESETS:
        raise ValidationError(unknown("schema", name, PRESETS))
    data = yaml.safe_load((files(__package__) / "presets" / f"{name}.yaml").read_text(encoding="utf-8"))
    since = validate.moment("since", data.pop("since"))
    return from_config(name, data, id=f"dom_{name}", created_at=since)
