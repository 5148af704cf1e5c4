"""The part of JSON Schema that prompts use: checking a value, and the strict form that services enforce.

Written by hand because the core has no validation package. Problems may end up in a log, so they never quote the
value: a model repeats what people wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ModelOutputError, ValidationError, unknown

Schema = Mapping[str, Any]

KEYWORDS = (
    "type", "properties", "required", "items", "enum", "maxLength", "maxItems", "additionalProperties", "title",
    "description",
)  # fmt: skip
_MOST_PROBLEMS = 3
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def check(value: Any, schema: Schema) -> None:
    """Raise ModelOutputError that names the first few places where the value does not fit."""
    if places := problems(value, schema):
        more = f"; and {len(places) - _MOST_PROBLEMS} more" if len(places) > _MOST_PROBLEMS else ""
        raise ModelOutputError("the model's answer has the wrong shape: " + "; ".join(places[:_MOST_PROBLEMS]) + more)


def problems(value: Any, schema: Schema, path: str = "$") -> list[str]:
    """Return every place where the value does not fit, such as `$.rules[0].reach: must be one of "once", "always"`."""
    types = _list_types(schema)
    for what, names, valid in (("keyword", schema, KEYWORDS), ("type", types, tuple(_TYPES))):
        for name in names:
            if name not in valid:
                raise ValidationError(unknown(f"{what} in a schema", name, valid))
    if types and not any(_has_type(value, name) for name in types):
        actual = next(name for name in _TYPES if _has_type(value, name))
        return [f"{path}: must be {' or '.join(types)}, not {actual}"]
    return list(_find_problems(value, schema, path))


def _find_problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    # To Python True equals 1; to JSON it does not.
    choices = [(isinstance(one, bool), one) for one in schema.get("enum", ())]
    if choices and (isinstance(value, bool), value) not in choices:
        yield f"{path}: must be one of {', '.join(map(json.dumps, schema['enum']))}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: must have at most {schema['maxLength']} characters, not {len(value)}"
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{path}: must have at most {schema['maxItems']} items, not {len(value)}"
            return
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{path}[{index}]")
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name!r} is missing"
        for name, item in value.items():
            if name in properties or isinstance(more, Mapping):
                yield from problems(item, properties.get(name, more), f"{path}.{name}")
            elif not more:
                shown = repr(name) if name.isidentifier() and len(name) <= 30 else "something"
                yield f"{path}: has {shown}, which nobody asked for"


def _list_types(schema: Schema) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _has_type(value: Any, name: str) -> bool:
    # To Python True is a number; to JSON it is not.
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def make_strict(schema: Schema, *, bounds: bool = False) -> dict[str, Any] | None:
    """Return the schema as services that enforce one want it; None when it cannot be expressed that way.

    Every property is required, an optional one may be null (`drop_nulls` removes the null again), and no other
    property is allowed. Lengths are left out unless `bounds`: not every service knows them, and `check` does.
    """
    try:
        return _restrict(schema, bounds) if schema.get("type") == "object" else None
    except _InexpressibleError:
        return None


class _InexpressibleError(Exception):
    pass


def _restrict(schema: Schema, bounds: bool) -> dict[str, Any]:
    dropped = ("maxLength",) if bounds else ("maxLength", "maxItems")
    strict = {name: value for name, value in schema.items() if name not in dropped}
    types = _list_types(schema)
    if "items" in schema:
        strict["items"] = _restrict(schema["items"], bounds)
    if "object" in types:
        properties = schema.get("properties")
        if not properties or isinstance(schema.get("additionalProperties"), Mapping):
            raise _InexpressibleError
        inner = {name: _restrict(one, bounds) for name, one in properties.items()}
        for name in inner.keys() - set(schema.get("required", ())):
            if "enum" in inner[name]:
                inner[name]["enum"] = [*inner[name]["enum"], None]
            if inner_types := _list_types(inner[name]):
                inner[name]["type"] = list(dict.fromkeys([*inner_types, "null"]))
        strict |= {"properties": inner, "required": list(properties), "additionalProperties": False}
    elif not types and "enum" not in schema:
        raise _InexpressibleError
    return strict


def drop_nulls(value: Any, schema: Schema) -> Any:
    """Return the value without the nulls that stand for an omitted property."""
    if isinstance(value, list) and "items" in schema:
        return [drop_nulls(item, schema["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    properties, required = schema["properties"], schema.get("required", ())
    return {
        name: drop_nulls(item, properties.get(name, {}))
        for name, item in value.items()
        if item is not None or name in required or name not in properties or not problems(None, properties[name])
    }
