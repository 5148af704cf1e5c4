"""Schemas as plain data: what a person writes in Python or YAML, what a file of this package holds, what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from ..types.ids import new_id
from .schema import DomainSchema, EntityType, RelationshipType

PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")

_MAX_NAMES = 1000


def _text(label: str, value: object) -> str:
    return validate.optional_text(label, value) or ""


def _names(label: str, value: Any) -> tuple[str, ...]:
    given = _each(label, value)
    found = validate.names(label, given)
    if len(found) > _MAX_NAMES or len(found) < len(given):
        raise ValidationError(f"{label} must be at most {_MAX_NAMES} names, each there once")
    return found


def _each(label: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ValidationError(f"{label} must be a list, not {value!r}")
    return list(value)


def _entity_types(label: str, value: Any) -> tuple[EntityType, ...]:
    return tuple(_entity_type(f"{label}[{at}]", one) for at, one in enumerate(_each(label, value)))


def _entity_type(label: str, value: Any) -> EntityType:
    """`{"name": "lead", "attributes": [...]}`, `{"lead": {"attributes": [...]}}`, or only a name."""
    if isinstance(value, EntityType):
        return value
    if isinstance(value, str):
        return EntityType(validate.name(label, value))
    if isinstance(value, Mapping) and len(value) == 1 and "name" not in value:
        [(name, rest)] = value.items()
        value = {"name": name, **_section(label, rest, ("description", "attributes"))}
    given = _section(label, value, ("name", "description", "attributes"))
    return EntityType(
        validate.name(f"{label}.name", given.get("name")),
        _text(f"{label}.description", given.get("description")),
        _names(f"{label}.attributes", given.get("attributes")),
    )


def _relationship_types(label: str, value: Any) -> tuple[RelationshipType, ...]:
    return tuple(_relationship_type(f"{label}[{at}]", one) for at, one in enumerate(_each(label, value)))


def _relationship_type(label: str, value: Any) -> RelationshipType:
    if isinstance(value, RelationshipType):
        return value
    valid = ("name", "source_type", "target_type")
    given = _section(label, value, valid)
    return RelationshipType(*(validate.name(f"{label}.{part}", given.get(part)) for part in valid))


def _section(label: str, value: Any, valid: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValidationError(f"{label} must be a mapping with some of: {', '.join(valid)}; not {value!r}")
    for name in value:
        if name not in valid:
            raise ValidationError(unknown(f"key in {label}", name, valid))
    return dict(value)


_PARTS: Mapping[str, Callable[[str, Any], Any]] = {
    "description": _text,
    "entity_types": _entity_types,
    "relationship_types": _relationship_types,
    "learning_categories": _names,
    "excluded_categories": _names,
    "min_occurrences_for_heuristic": lambda label, value: validate.whole(label, value, 1, 1000),
    "confidence_decay_days": lambda label, value: validate.number(label, value, 0.01),
    "metadata": lambda label, value: validate.metadata(value),
}
CONFIG = tuple(_PARTS)
"""What a schema is written with."""


def from_config(name: str, config: Mapping[str, Any], **fields: Any) -> DomainSchema:
    """A schema from what a person wrote, without secrets; a part that is not known is an error that lists what is."""
    given = _section(f"schema {name!r}", config, ("name", *CONFIG))
    told = validate.name("name", name)
    if given.pop("name", told) != told:
        raise ValidationError(f"the schema is called {told!r} here and {config['name']!r} in its config")
    parts = {part: _PARTS[part](part, clean(value)) for part, value in given.items()}
    return DomainSchema(**({"id": new_id("dom"), "name": told} | parts | fields))


def to_json(schema: DomainSchema) -> dict[str, Any]:
    """Everything, as `from_json` reads it."""
    return {
        "id": schema.id,
        "name": schema.name,
        "description": schema.description,
        "entity_types": [
            {"name": one.name, "description": one.description, "attributes": list(one.attributes)}
            for one in schema.entity_types
        ],
        "relationship_types": [
            {"name": one.name, "source_type": one.source_type, "target_type": one.target_type}
            for one in schema.relationship_types
        ],
        "learning_categories": list(schema.learning_categories),
        "excluded_categories": list(schema.excluded_categories),
        "min_occurrences_for_heuristic": schema.min_occurrences_for_heuristic,
        "confidence_decay_days": schema.confidence_decay_days,
        "created_at": times.to_iso(schema.created_at),
        "metadata": dict(schema.metadata),
    }


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
