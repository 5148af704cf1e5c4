"""Values as JSON: how they are written, how they are read back, and the JSON Schemas of both.

Everything follows from annotations: dataclasses and typed dictionaries become objects, enumerations their values,
times ISO 8601, and a memory also says its type.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from .types.kinds import (
    AntiPattern,
    DomainKnowledge,
    Episode,
    Heuristic,
    Memory,
    MemoryType,
    Outcome,
    Rule,
    Turn,
    UserPreference,
)
from .types.times import to_iso

Schema = dict[str, Any]

RESULT = "result"
"""An answer is always an object: a value that is none is sent under this name."""
TYPES: Mapping[type[Memory], str] = {
    Heuristic: MemoryType.HEURISTIC,
    Outcome: MemoryType.OUTCOME,
    UserPreference: MemoryType.USER_PREFERENCE,
    DomainKnowledge: MemoryType.DOMAIN_KNOWLEDGE,
    AntiPattern: MemoryType.ANTI_PATTERN,
    Episode: MemoryType.EPISODE,
    Rule: MemoryType.RULE,
    Turn: "turn",
}
"""The type of each memory class. A turn is a part of an episode and no memory type, but it has a name."""

_CLASSES = {str(name): kind for kind, name in TYPES.items()}
_SIMPLE: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def type_of(memory: Memory) -> str:
    """Return the name of a memory's type."""
    return str(TYPES[type(memory)])


# -- writing and reading values


def plain(value: object) -> Any:
    """Return a value as JSON values with stable keys."""
    if is_dataclass(value) and not isinstance(value, type):
        members = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type_of(value), **members} if isinstance(value, Memory) else members
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
        origin = _CLASSES[value["type"]]
    if is_dataclass(origin) or is_typeddict(origin):
        hints = _hints(origin)
        names = hints if is_typeddict(origin) else [field.name for field in fields(origin) if field.init]
        return origin(**{name: decode(hints[name], value[name]) for name in names if name in value})
    if issubclass(origin, datetime):
        return datetime.fromisoformat(value)
    if issubclass(origin, Enum | Path):
        return origin(value)
    if isinstance(value, dict) and issubclass(origin, Mapping):
        return {name: decode(arguments[1] if len(arguments) == 2 else Any, item) for name, item in value.items()}
    if isinstance(value, list) and issubclass(origin, Sequence | Set):
        is_fixed = origin is tuple and arguments and arguments[-1] is not Ellipsis
        inner = arguments if is_fixed else [arguments[0] if arguments else Any] * len(value)
        items = [decode(one, item) for one, item in zip(inner, value, strict=True)]
        return {tuple: tuple, set: set, frozenset: frozenset}.get(origin, list)(items)
    return value


_hints = cache(get_type_hints)


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


class Definitions:
    """Schemas of dataclasses by name, each described once however often it occurs."""

    def __init__(self) -> None:
        self.made: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def reference(self, kind: type) -> Schema:
        if kind not in self._names:
            taken = kind.__name__ in self.made
            name = self._names[kind] = f"{kind.__module__}.{kind.__name__}" if taken else kind.__name__
            # It may occur in itself.
            self.made[name] = {}
            self.made[name] = object_schema(kind, self)
        return {"$ref": f"#/$defs/{self._names[kind]}"}


def described(kind: Any, definitions: Definitions) -> Schema:
    """Return the schema of a type. TypeError where no operation may take or return it."""
    options = list_options(kind)
    if len(options) > 1:
        # Not `type` with several names: clients that know one type each drop such a tool.
        return {"anyOf": [described(one, definitions) for one in options]}
    [kind] = options
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    outer = origin or kind
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if kind is Any or kind is object:
        return {}
    if not isinstance(outer, type):
        raise TypeError(f"{kind!r} has no JSON Schema: an operation may not take or return it")
    if is_object(outer):
        return definitions.reference(outer)
    if issubclass(outer, Enum):
        return {"type": "string", "enum": [one.value for one in outer]}
    if issubclass(outer, datetime):
        return {"type": "string", "format": "date-time"}
    if issubclass(outer, Path):
        return {"type": "string"}
    if issubclass(outer, Mapping):
        values = described(arguments[1], definitions) if len(arguments) == 2 else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if issubclass(outer, Sequence | Set):
        if outer is tuple and arguments and arguments[-1] is not Ellipsis:
            places = [described(one, definitions) for one in arguments]
            return {"type": "array", "prefixItems": places, "minItems": len(places), "maxItems": len(places)}
        items = described(arguments[0], definitions) if arguments else {}
        return {"type": "array", "items": items} if items else {"type": "array"}
    raise TypeError(f"{kind!r} has no JSON Schema: an operation may not take or return it")


@cache
def is_object(kind: Any) -> bool:
    """Whether a value of this type is written as an object whose members are known."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_typeddict(kind))


def object_schema(kind: Any, definitions: Definitions) -> Schema:
    hints = get_type_hints(kind)
    names = list(hints) if is_typeddict(kind) else [field.name for field in fields(kind)]
    members = {name: described(hints[name], definitions) for name in names}
    if not issubclass(kind, Memory):
        return strict_object(members)
    kinds = [str(one) for one in (TYPES.values() if kind is Memory else [TYPES[kind]])]
    schema = strict_object({"type": {"type": "string", "enum": kinds}, **members})
    # A memory of any type has more than what all of them have.
    return schema if kind is not Memory else {**schema, "additionalProperties": True}


def strict_object(members: Mapping[str, Schema], required: Sequence[str] | None = None) -> Schema:
    """Return the schema of an object with these members and no others; all of them are required by default."""
    needed = list(members) if required is None else list(required)
    schema: Schema = {"type": "object", "properties": dict(members), "additionalProperties": False}
    return {**schema, "required": needed} if needed else schema


def limit_choices(schema: Schema, choices: Sequence[str]) -> Schema:
    """Return a schema that allows only these choices, or null where it allowed null."""
    if not choices or schema.get("type") == "null":
        return schema
    if "anyOf" in schema:
        return {"anyOf": [limit_choices(one, choices) for one in schema["anyOf"]]}
    if schema.get("type") == "array":
        return {**schema, "items": limit_choices(schema["items"], choices)}
    return {**schema, "enum": [str(one) for one in choices]}


# -- answers with a prompt, shortened for a model

_SHORTENED = ("prompt", "memories", "explanations")


@cache
def has_prompt(kind: Any) -> bool:
    """Whether a value of this type holds memories and a text for a prompt that tells all of them."""
    return is_dataclass(kind) and {"prompt", "memories"} <= {field.name for field in fields(kind)}


def shorten_answer(answer: Mapping[str, Any]) -> Schema:
    """Return an answer that `has_prompt` with its prompt first and the memories by id and type only.

    Clients show a model this and not the text beside it, and memories with all their members and scores take ten times
    the room. `get` and `explain` tell the rest.
    """
    memories = [{"id": one["id"], "type": one["type"]} for one in answer["memories"]]
    rest = {name: answer[name] for name in answer if name not in _SHORTENED}
    return {"prompt": answer["prompt"], "memories": memories, **rest}


def shortened_schema(kind: Any, definitions: Definitions) -> Schema:
    """Return the schema of what `shorten_answer` gives."""
    hints = get_type_hints(kind)
    names = {"type": "string", "enum": [str(one) for one in TYPES.values()]}
    items = strict_object({"id": {"type": "string"}, "type": names})
    members = {"prompt": described(str, definitions), "memories": {"type": "array", "items": items}}
    members |= {one.name: described(hints[one.name], definitions) for one in fields(kind) if one.name not in _SHORTENED}
    return strict_object(members)
