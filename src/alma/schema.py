"""Values as JSON: how they are written, how they are read back, and the JSON Schemas of both.

Everything follows from annotations: dataclasses and typed dictionaries become objects, enumerations their values,
times ISO 8601, and a memory also says its type.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence, Set
from dataclasses import Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from .types import kinds
from .types.kinds import Memory, MemoryType
from .types.times import to_iso

Schema = dict[str, Any]
Definitions = dict[type, Schema]
"""The classes that a schema refers to."""

RESULT = "result"
"""An answer is always an object: a value that is none is sent under this name."""
TYPES: Mapping[type[Memory], str] = {
    getattr(kinds, name.title().replace("_", "")): name for name in (*MemoryType, "turn")
}
"""The type of each memory class: `UserPreference` is a user_preference. A turn is a part of an episode and no memory
type, but it has a name."""

CLASSES = {str(name): kind for kind, name in TYPES.items()}
_SIMPLE: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SHORTENED = ("prompt", "memories", "explanations")


def type_of(memory: Memory) -> str:
    """Return the name of a memory's type."""
    return str(TYPES[type(memory)])


# -- writing and reading values


def plain(value: object) -> Any:
    """Return a value as JSON values with stable keys."""
    if is_dataclass(value) and not isinstance(value, type):
        members = {field.name: plain(getattr(value, field.name)) for field in fields(value) if _is_shown(field)}
        return {"type": str(TYPES[type(value)]), **members} if isinstance(value, Memory) else members
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime):
        return to_iso(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(item) for item in value]
    return value


def decode(kind: Any, value: Any) -> Any:
    """Return the value of a type that `plain` wrote as `value`."""
    options = [one for one in list_options(kind) if one is not type(None)]
    if value is None or Any in options or object in options:
        return value
    kind = next((one for one in options if type(value) is (get_origin(one) or one)), options[0])
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if not isinstance(origin, type):
        return value
    if issubclass(origin, Memory):
        origin = CLASSES[value["type"]]
    if is_object(origin):
        hints = _hints(origin)
        return origin(**{name: decode(hints[name], value[name]) for name in hints if name in value})
    if issubclass(origin, datetime):
        return datetime.fromisoformat(value)
    if issubclass(origin, Enum | Path):
        return origin(value)
    if isinstance(value, dict):
        return {name: decode(arguments[1] if arguments else Any, item) for name, item in value.items()}
    if isinstance(value, list):
        is_fixed = origin is tuple and arguments[-1:] not in ((), (Ellipsis,))
        kinds = arguments if is_fixed else repeat(arguments[0] if arguments else Any, len(value))
        items = [decode(one, item) for one, item in zip(kinds, value, strict=True)]
        return origin(items) if origin in (tuple, set, frozenset) else items
    return value


_hints = cache(get_type_hints)


def _is_shown(field: Field[Any]) -> bool:
    """Return whether a field is part of the JSON form of its dataclass."""
    return not field.metadata.get("internal")


def list_options(kind: Any) -> list[Any]:
    """Return the members of a union, or the one type there is, without aliases and notes."""
    if isinstance(kind, TypeVar):
        kind = kind.__bound__ or Any
    if get_origin(kind) is Annotated:
        return list_options(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [option for one in get_args(kind) for option in list_options(one)]
    return [kind]


# -- schemas


@cache
def is_object(kind: Any) -> bool:
    """Return whether a value of this type is written as an object whose members are known."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_typeddict(kind))


def describe_type(kind: Any, definitions: Definitions, choices: Sequence[str] = ()) -> Schema:
    """Return the schema of a type. TypeError where no operation may take or return it.

    Dataclasses are described once, in `definitions`. `choices` are the only valid texts.
    """
    options = list_options(kind)
    if len(options) > 1:
        # Not `type` with several names: clients that know one type each drop such a tool.
        return {"anyOf": [describe_type(one, definitions, choices) for one in options]}
    [kind] = options
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    is_type = isinstance(origin, type)
    if origin is Literal:
        return {"enum": list(arguments)}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]} | ({"enum": list(choices)} if choices and kind is str else {})
    if kind is Any or kind is object:
        return {}
    if is_object(origin):
        if origin not in definitions:
            # It may occur in itself.
            definitions[origin] = {}
            definitions[origin] = object_schema(origin, definitions)
        return {"$ref": f"#/$defs/{name_definition(origin, definitions)}"}
    if is_type and issubclass(origin, Enum):
        return {"type": "string", "enum": [one.value for one in origin]}
    if is_type and issubclass(origin, datetime | Path):
        return {"type": "string"} | ({"format": "date-time"} if issubclass(origin, datetime) else {})
    if is_type and issubclass(origin, Mapping):
        values = describe_type(arguments[1], definitions) if len(arguments) == 2 else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    if is_type and issubclass(origin, Sequence | Set):
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            places = [describe_type(one, definitions) for one in arguments]
            return {"type": "array", "prefixItems": places, "minItems": len(places), "maxItems": len(places)}
        items = describe_type(arguments[0], definitions, choices) if arguments else {}
        return {"type": "array"} | ({"items": items} if items else {})
    raise TypeError(f"{kind!r} has no JSON Schema: an operation may not take or return it")


def name_definition(kind: type, definitions: Definitions) -> str:
    """Return the name of a class among the definitions; a second one of that name is named with its module."""
    first = next(one for one in definitions if one.__name__ == kind.__name__)
    return kind.__name__ if first is kind else f"{kind.__module__}.{kind.__name__}"


def object_schema(kind: Any, definitions: Definitions, leave_out: Sequence[str] = ()) -> Schema:
    """Return the schema of a dataclass or typed dictionary, without the members to leave out."""
    hints = _hints(kind)
    names = list(hints) if is_typeddict(kind) else [field.name for field in fields(kind) if _is_shown(field)]
    members = {name: describe_type(hints[name], definitions) for name in names if name not in leave_out}
    if not issubclass(kind, Memory):
        return strict_object(members)
    types = [str(one) for one in (TYPES.values() if kind is Memory else [TYPES[kind]])]
    schema = strict_object({"type": {"type": "string", "enum": types}, **members})
    # A memory of any type has more than what all of them have.
    return schema if kind is not Memory else {**schema, "additionalProperties": True}


def strict_object(members: Mapping[str, Schema], required: Sequence[str] | None = None) -> Schema:
    """Return the schema of an object with these members and no others; all of them are required by default."""
    needed = list(members) if required is None else list(required)
    schema: Schema = {"type": "object", "properties": dict(members), "additionalProperties": False}
    return {**schema, "required": needed} if needed else schema


# -- answers


@cache
def has_prompt(kind: Any) -> bool:
    """Return whether values of this type have memories and a prompt that contains all of them."""
    return is_dataclass(kind) and {"prompt", "memories"} <= {field.name for field in fields(kind)}


def shape_answer(kind: Any, value: Any) -> Schema:
    """Return a value of a type as a JSON object for models.

    One that `has_prompt` has its prompt first and the memories by id and type only. Clients show a model
    this and not the text beside it, and memories with all their members and scores take ten times the room. `get` and
    `explain` tell the rest.
    """
    answer: Schema = plain(value) if is_object(kind) else {RESULT: plain(value)}
    if not has_prompt(kind):
        return answer
    memories = [{"id": one["id"], "type": one["type"]} for one in answer["memories"]]
    rest = {name: answer[name] for name in answer if name not in _SHORTENED}
    return {"prompt": answer["prompt"], "memories": memories, **rest}


def describe_answer(kind: Any) -> Schema:
    """Return the schema of what `shape_answer` gives for values of a type."""
    definitions: Definitions = {}
    if not is_object(kind):
        schema = strict_object({RESULT: describe_type(kind, definitions)})
    elif not has_prompt(kind):
        schema = object_schema(kind, definitions)
    else:
        names: Schema = {"type": "string", "enum": [str(one) for one in TYPES.values()]}
        items = strict_object({"id": {"type": "string"}, "type": names})
        members: Schema = {"prompt": {"type": "string"}, "memories": {"type": "array", "items": items}}
        rest = object_schema(kind, definitions, leave_out=_SHORTENED)
        schema = strict_object({**members, **rest["properties"]})
    classes = {name_definition(one, definitions): its for one, its in definitions.items()}
    return {**schema, "$defs": classes} if classes else schema
