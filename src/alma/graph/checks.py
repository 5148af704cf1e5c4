"""What comes from outside, checked: what is not usable is refused with a sentence that says what would be."""

from __future__ import annotations

import re
from dataclasses import replace

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError
from ..types.graph import Entity, Relationship, relationship_id

MAX_DEPTH = 10
MAX_LIMIT = 10_000
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_JOINT = re.compile(r"[\s-]+")


def type_name(label: str, value: object) -> str:
    """`Works At`, `WORKS-AT` and `works_at` are one; anything but letters, digits and underscores is refused."""
    name = _JOINT.sub("_", validate.name(label, value)).lower()
    if not _TYPE.fullmatch(name):
        raise ValidationError(
            f"{label} must be a letter followed by letters, digits or underscores, at most 64 in all, such as "
            f"works_at, not {value!r}"
        )
    return name


def limit(value: object) -> int:
    return validate.whole("limit", value, 1, MAX_LIMIT)


def depth(value: object) -> int:
    return validate.whole("depth", value, 1, MAX_DEPTH)


def entity(value: object) -> Entity:
    if not isinstance(value, Entity):
        raise ValidationError(f"an entity must be an alma.graph.Entity, not {type(value).__name__}")
    name = clean(validate.name("name", value.name))
    own = validate.name("id", value.id)
    derived = Entity(value.name).id == value.id
    return replace(
        value,
        name=name,
        id=Entity(name).id if derived else clean(own),
        type=type_name("type", value.type),
        aliases=tuple(clean(one) for one in validate.names("aliases", value.aliases)),
        attributes=clean(validate.metadata(value.attributes)),
        sources=validate.names("sources", value.sources),
        absorbed=validate.names("absorbed", value.absorbed),
        confidence=validate.number("confidence", value.confidence, 0.0, 1.0),
        spans=(),
    )


def relationship(value: object) -> Relationship:
    if not isinstance(value, Relationship):
        raise ValidationError(f"a relationship must be an alma.graph.Relationship, not {type(value).__name__}")
    start = validate.moment("valid_from", value.valid_from)
    end = validate.moment("valid_to", value.valid_to)
    if start is not None and end is not None and end < start:
        raise ValidationError(f"valid_to ({end.isoformat()}) must not lie before valid_from ({start.isoformat()})")
    ends = (value.subject, value.type, value.object)
    is_nameless = all(isinstance(one, str) for one in ends) and value.id == relationship_id(*ends, value.valid_from)
    return replace(
        value,
        subject=validate.name("subject", value.subject),
        object=validate.name("object", value.object),
        type=type_name("type", value.type),
        # One without an id of its own gets it when its ends are known.
        id="" if is_nameless else validate.name("id", value.id),
        valid_from=start,
        valid_to=end,
        attributes=clean(validate.metadata(value.attributes)),
        sources=validate.names("sources", value.sources),
        confidence=validate.number("confidence", value.confidence, 0.0, 1.0),
        span=None,
    )
