"""Schemas as plain data: what a person writes in Python or YAML, what a file of this package holds, what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, TypeVar

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from ..types.ids import new_id
from .schema import DomainSchema, EntityType, RelationshipType

PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")

T = TypeVar("T")

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
    plain = asdict(replace(schema, metadata={})) | {"metadata": dict(schema.metadata)}
    decoded: dict[str, Any] = json.loads(json.dumps(plain, default=times.to_iso))
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
