"""JSON Schemas, derived from what the operations are annotated with and never written by hand.

What goes in is described for models, which choose by it: short, with the valid values, and without a null that means
the same as leaving the argument out. What comes out is described as `alma.api.plain` writes it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from ..types.kinds import Memory
from .operation import Operation, Parameter
from .plain import TYPES

Schema = dict[str, Any]

RESULT = "result"
"""A tool's answer is always an object: one that is not has its value under this name."""

_SIMPLE: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


# -- what goes in


def input_schema(operation: Operation, given: Mapping[str, Any] | None = None) -> Schema:
    """`given`: arguments that have a value already and need not be named."""
    known = given or {}
    needed = [one.name for one in operation.parameters if one.needed and one.name not in known]
    schema: Schema = {
        "type": "object",
        "properties": {one.name: _property(one, known) for one in operation.parameters},
        "additionalProperties": False,
    }
    return {**schema, "required": needed} if needed else schema


def _property(parameter: Parameter, given: Mapping[str, Any]) -> Schema:
    default = given.get(parameter.name) if parameter.needed else parameter.default
    schema = limit_choices(_asked(parameter.type, nullable=default is not None), parameter.about.choices)
    if parameter.about.text:
        schema["description"] = parameter.about.text
    if default is not None:
        schema["default"] = default.value if isinstance(default, Enum) else default
    return schema


def _asked(kind: Any, *, nullable: bool) -> Schema:
    """Where null is the default it is left out: whoever means it says nothing."""
    options = [one for one in list_options(kind) if nullable or one is not type(None)]
    return described(Union[tuple(options)], Definitions())  # noqa: UP007 - made from a list


def limit_choices(schema: Schema, choices: Sequence[str]) -> Schema:
    """Return a schema that allows only these choices, or nothing where it allowed nothing."""
    if not choices or schema.get("type") == "null":
        return schema
    if "anyOf" in schema:
        return {"anyOf": [limit_choices(one, choices) for one in schema["anyOf"]]}
    if schema.get("type") == "array":
        return {**schema, "items": limit_choices(schema["items"], choices)}
    return {**schema, "enum": [str(one) for one in choices]}


# -- what comes out


class Definitions:
    """Dataclasses by name, each described once, however often and wherever it occurs."""

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


_TOLD = ("prompt", "memories", "explanations")
_TYPES_OF_MEMORIES = {"type": "string", "enum": [str(one) for one in TYPES.values()]}
_NAMED: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "type": _TYPES_OF_MEMORIES},
    "required": ["id", "type"],
    "additionalProperties": False,
}


def output_schema(operation: Operation) -> Schema:
    definitions = Definitions()
    returned = operation.returns
    if is_told(returned):
        schema = _told_schema(returned, definitions)
    elif is_object(returned):
        schema = object_schema(returned, definitions)
    else:
        schema = _object({RESULT: described(returned, definitions)}, [RESULT])
    return {**schema, "$defs": definitions.made} if definitions.made else schema


def is_object(kind: Any) -> bool:
    """Whether a value of this kind is written as an object whose members are known."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_typeddict(kind))


def is_told(kind: Any) -> bool:
    """Whether it says all that it found in a text for a prompt."""
    return is_dataclass(kind) and {"prompt", "memories"} <= {field.name for field in fields(kind)}


def told_once(made: Mapping[str, Any]) -> Schema:
    """What `is_told`, with its text first and the memories named only.

    Clients show a model this and not the text beside it, and memories with all their members and scores take ten times
    the room. `get` and `explain` tell the rest.
    """
    named = [{"id": one["id"], "type": one["type"]} for one in made["memories"]]
    return {"prompt": made["prompt"], "memories": named, **{name: made[name] for name in made if name not in _TOLD}}


def _told_schema(kind: Any, definitions: Definitions) -> Schema:
    hints = get_type_hints(kind)
    rest = {field.name: hints[field.name] for field in fields(kind) if field.name not in _TOLD}
    members = {"prompt": described(str, definitions), "memories": {"type": "array", "items": _NAMED}}
    members |= {name: described(one, definitions) for name, one in rest.items()}
    return _object(members, list(members))


def object_schema(kind: Any, definitions: Definitions) -> Schema:
    hints = get_type_hints(kind)
    names = list(hints) if is_typeddict(kind) else [field.name for field in fields(kind)]
    members = {name: described(hints[name], definitions) for name in names}
    if not issubclass(kind, Memory):
        return _object(members, names)
    kinds = list(TYPES.values()) if kind is Memory else [TYPES[kind]]
    made = _object({"type": {"type": "string", "enum": [str(one) for one in kinds]}, **members}, ["type", *names])
    # A memory of any type has more than what all of them have.
    return made if kind is not Memory else {**made, "additionalProperties": True}


def _object(members: Schema, needed: list[str]) -> Schema:
    return {"type": "object", "properties": members, "required": needed, "additionalProperties": False}


def described(kind: Any, definitions: Definitions) -> Schema:
    """The schema of any annotation that an operation uses."""
    options = list_options(kind)
    if len(options) > 1:
        # Not `type` with several names: clients that know one type each drop such a tool.
        return {"anyOf": [described(one, definitions) for one in options]}
    [kind] = options
    origin = get_origin(kind)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(get_args(kind), definitions)
    if isinstance(origin, type) and issubclass(origin, Sequence | Set):
        return _array(origin, get_args(kind), definitions)
    return _plain(kind, definitions)


def _plain(kind: Any, definitions: Definitions) -> Schema:
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if kind is Any or kind is object:
        return {}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [one.value for one in kind]}
    if kind is datetime:
        return {"type": "string", "format": "date-time"}
    if isinstance(kind, type) and issubclass(kind, Path):
        return {"type": "string"}
    if isinstance(kind, type) and issubclass(kind, Mapping) and not is_typeddict(kind):
        return {"type": "object"}
    if isinstance(kind, type) and issubclass(kind, list | tuple):
        return {"type": "array"}
    if is_object(kind):
        return definitions.reference(kind)
    raise TypeError(f"{kind!r} has no JSON Schema: an operation may not take or return it")


def list_options(kind: Any) -> list[Any]:
    """The members of a union, or the one there is, without aliases and notes."""
    if isinstance(kind, TypeVar):
        kind = kind.__bound__ or Any
    if get_origin(kind) is Annotated:
        return list_options(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [option for one in get_args(kind) for option in list_options(one)]
    return [kind]


def _mapping(arguments: tuple[Any, ...], definitions: Definitions) -> Schema:
    values = described(arguments[1], definitions) if len(arguments) == 2 else {}
    return {"type": "object", "additionalProperties": values} if values else {"type": "object"}


def _array(origin: type, arguments: tuple[Any, ...], definitions: Definitions) -> Schema:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        places = [described(one, definitions) for one in arguments]
        return {"type": "array", "prefixItems": places, "minItems": len(places), "maxItems": len(places)}
    items = described(arguments[0], definitions) if arguments else {}
    return {"type": "array", "items": items} if items else {"type": "array"}
