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
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def check(value: Any, schema: Schema) -> None:
    """Raise ModelOutputError that names the first few places where the value does not fit."""
    places = problems(value, schema)
    if places:
        more = f"; and {len(places) - _MOST_PROBLEMS} more" if len(places) > _MOST_PROBLEMS else ""
        raise ModelOutputError("the model's answer has the wrong shape: " + "; ".join(places[:_MOST_PROBLEMS]) + more)


def problems(value: Any, schema: Schema) -> list[str]:
    """Return every place where the value does not fit, such as `$.rules[0].reach: must be one of "once", "always"`."""
    return list(_find_problems(value, schema, "$"))


def _find_problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    for keyword in schema:
        if keyword not in KEYWORDS:
            raise ValidationError(unknown("keyword in a schema", keyword, KEYWORDS))
    types = _list_types(schema)
    for name in types:
        if name not in _TYPES:
            raise ValidationError(unknown("type in a schema", name, _TYPES))
    if types and not any(_has_type(value, name) for name in types):
        actual = next(name for name in _TYPES if _has_type(value, name))
        yield f"{path}: must be {' or '.join(types)}, not {actual}"
        return
    # To Python True equals 1; to JSON it does not.
    if "enum" in schema and not any(
        isinstance(value, bool) == isinstance(one, bool) and value == one for one in schema["enum"]
    ):
        yield f"{path}: must be one of {', '.join(map(json.dumps, schema['enum']))}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: must have at most {schema['maxLength']} characters, not {len(value)}"
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{path}: must have at most {schema['maxItems']} items, not {len(value)}"
        elif "items" in schema:
            for index, item in enumerate(value):
                yield from _find_problems(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        yield from _find_object_problems(value, schema, path)


def _find_object_problems(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: {name!r} is missing"
    more = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties or isinstance(more, Mapping):
            yield from _find_problems(item, properties.get(name, more), f"{path}.{name}")
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
    if schema.get("type") != "object":
        return None
    try:
        return _restrict(schema, bounds)
    except _InexpressibleError:
        return None


class _InexpressibleError(Exception):
    pass


def _restrict(schema: Schema, bounds: bool) -> dict[str, Any]:
    dropped = ("maxLength",) if bounds else ("maxLength", "maxItems")
    strict = {name: value for name, value in schema.items() if name not in dropped}
    if "items" in schema:
        strict["items"] = _restrict(schema["items"], bounds)
    if "object" in _list_types(schema):
        if not schema.get("properties") or isinstance(schema.get("additionalProperties"), Mapping):
            raise _InexpressibleError
        strict["properties"] = {name: _restrict(inner, bounds) for name, inner in schema["properties"].items()}
        strict["required"] = list(schema["properties"])
        strict["additionalProperties"] = False
        for name in strict["properties"].keys() - set(schema.get("required", ())):
            _allow_null(strict["properties"][name])
    elif not _list_types(schema) and "enum" not in schema:
        raise _InexpressibleError
    return strict


def _allow_null(strict: dict[str, Any]) -> None:
    types = _list_types(strict)
    if "enum" in strict:
        strict["enum"] = [*strict["enum"], None]
    if types and "null" not in types:
        strict["type"] = [*types, "null"]


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
        if item is not None or name in required or name not in properties or _is_nullable(properties[name])
    }


def _is_nullable(schema: Schema) -> bool:
    return "null" in _list_types(schema) or None in schema.get("enum", ()) or not (schema.keys() & {"type", "enum"})
