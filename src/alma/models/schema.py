"""Checks a value against the part of JSON Schema that prompts use. Small, so that it needs no package.

What is wrong may end up in a log, so it is told without quoting the value: a model repeats what people said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ModelOutputError, ValidationError, unknown

KEYWORDS = (
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "maxLength",
    "maxItems",
    "additionalProperties",
    "title",
    "description",
)
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


def check(value: Any, schema: Mapping[str, Any]) -> None:
    """Raises ModelOutputError that names the first few places where the value does not fit."""
    found = problems(value, schema)
    if found:
        more = f"; and {len(found) - _MOST_PROBLEMS} more" if len(found) > _MOST_PROBLEMS else ""
        raise ModelOutputError("the model's answer has the wrong shape: " + "; ".join(found[:_MOST_PROBLEMS]) + more)


def problems(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Every place where the value does not fit, such as `$.rules[0].reach: must be one of "once", "always"`."""
    return list(_problems(value, schema, "$"))


def _problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    _known(schema)
    if not _is_typed(value, schema):
        yield f"{path}: must be {' or '.join(_types(schema))}, not {_type_of(value)}"
        return
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{path}: must be one of {', '.join(map(json.dumps, schema['enum']))}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: must have at most {schema['maxLength']} characters, not {len(value)}"
    if isinstance(value, list):
        yield from _of_list(value, schema, path)
    if isinstance(value, dict):
        yield from _of_object(value, schema, path)


def _of_list(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path}: must have at most {schema['maxItems']} items, not {len(value)}"
        return
    if "items" in schema:
        for index, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{path}[{index}]")


def _of_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    named = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: {name!r} is missing"
    more = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in named:
            yield from _problems(item, named[name], f"{path}.{name}")
        elif isinstance(more, Mapping):
            yield from _problems(item, more, f"{path}.{name}")
        elif not more:
            shown = repr(name) if name.isidentifier() and len(name) <= 30 else "something"
            yield f"{path}: has {shown}, which nobody asked for"


def _known(schema: Mapping[str, Any]) -> None:
    for keyword in schema:
        if keyword not in KEYWORDS:
            raise ValidationError(unknown("keyword in a schema", keyword, KEYWORDS))
    for name in _types(schema):
        if name not in _TYPES:
            raise ValidationError(unknown("type in a schema", name, _TYPES))


def _types(schema: Mapping[str, Any]) -> list[str]:
    wanted = schema.get("type", [])
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _is_typed(value: Any, schema: Mapping[str, Any]) -> bool:
    names = _types(schema)
    return not names or any(_is(value, name) for name in names)


def _is(value: Any, name: str) -> bool:
    # To Python True is a number; to JSON it is not.
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(value: Any, one: Any) -> bool:
    return isinstance(value, bool) == isinstance(one, bool) and bool(value == one)


def _type_of(value: Any) -> str:
    return next(name for name in _TYPES if _is(value, name))
