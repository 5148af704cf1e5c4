"""The way back from `plain`: JSON values become the values they were, by the annotations of what an operation gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ..engine.view import render_slice
from ..types.kinds import (
    AntiPattern,
    DomainKnowledge,
    Episode,
    Heuristic,
    Memory,
    Outcome,
    Rule,
    Turn,
    UserPreference,
)
from ..types.slice import MemorySlice
from .memories import Found
from .plain import TYPES
from .schema import list_options

_MEMORIES = {str(name): kind for kind, name in TYPES.items()}
_PLACES: Mapping[type[Memory], str] = {
    UserPreference: "preferences",
    Rule: "rules",
    Heuristic: "heuristics",
    AntiPattern: "anti_patterns",
    DomainKnowledge: "domain_knowledge",
    Outcome: "outcomes",
    Episode: "episodes",
    Turn: "turns",
}


def decoded(kind: Any, value: Any) -> Any:
    """The value of this kind that `plain` wrote as `value`."""
    options = list_options(kind)
    if value is None or Any in options or object in options:
        return value
    kind = _chosen([one for one in options if one is not type(None)], value)
    origin = get_origin(kind) or kind
    if not isinstance(origin, type):
        return value
    if issubclass(origin, Memory):
        return _object(_MEMORIES[value["type"]], value)
    if is_dataclass(origin):
        return _object(origin, value)
    if issubclass(origin, datetime):
        return datetime.fromisoformat(value)
    if issubclass(origin, Enum | Path):
        return origin(value)
    return _collected(origin, get_args(kind), value)


def _collected(origin: type, arguments: tuple[Any, ...], value: Any) -> Any:
    if isinstance(value, dict) and issubclass(origin, Mapping):
        inner = arguments[1] if len(arguments) == 2 else Any
        return {name: decoded(inner, item) for name, item in value.items()}
    if not isinstance(value, list) or not issubclass(origin, Sequence | Set):
        return value
    made = [decoded(inner, item) for inner, item in zip(_inner(origin, arguments, len(value)), value, strict=True)]
    return {tuple: tuple, set: set, frozenset: frozenset}.get(origin, list)(made)


def _inner(origin: type, arguments: tuple[Any, ...], count: int) -> Sequence[Any]:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return arguments
    return [arguments[0] if arguments else Any] * count


def _chosen(options: list[Any], value: Any) -> Any:
    """The one that the value was written from: JSON's own types speak for themselves."""
    if len(options) == 1:
        return options[0]
    return next((one for one in options if type(value) is (get_origin(one) or one)), options[0])


def _object(kind: type, value: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    return kind(**{name: decoded(hints[name], value[name]) for name in _names(kind) if name in value})


@lru_cache(maxsize=256)
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


@lru_cache(maxsize=256)
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def slice_of(found: Found, *, progressive: bool = False) -> MemorySlice:
    """What a retrieval gave, as the library gives it; its prompt is written here."""
    places: dict[str, list[Any]] = {name: [] for name in _PLACES.values()}
    for one in found.memories:
        places[_PLACES[type(one)]].append(one)
    return MemorySlice(
        query=found.query,
        agent=found.agent,
        progressive=progressive,
        retrieval_id=found.retrieval_id,
        retrieval_time_ms=found.retrieval_time_ms,
        explanations=tuple(found.explanations),
        standing_rules=found.standing_rules,
        renderer=render_slice,
        **places,
    )
