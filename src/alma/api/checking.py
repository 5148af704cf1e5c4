"""The arguments of a call, checked before anything is done: what is wrong is named, with what would be right.

What fits by any reasonable reading is taken: null for an argument that has a default, 5.0 for 5. The values themselves
are the operations' business.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from ..errors import ValidationError, unknown
from .operation import Operation, Parameter

_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_SHOWN = 60
DEEPEST = 64
"""So many levels the arguments of a call may be nested."""


def checked(
    operation: Operation, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments to call the operation with. ValidationError when they do not fit."""
    if _is_deeper(given, DEEPEST):
        raise ValidationError(f"the arguments are nested deeper than {DEEPEST} levels")
    known = {one.name: one for one in operation.parameters}
    wrong = [*_unknown(given, known), *_missing(given, known, defaults or {})]
    if wrong:
        raise ValidationError("\n".join(wrong))
    filled = {
        one.name: defaults[one.name] for one in known.values() if defaults and one.needed and one.name in defaults
    }
    return filled | {name: _value(known[name], value) for name, value in given.items() if _said(known[name], value)}


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested deeper than so many levels."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _unknown(given: Mapping[str, Any], known: Mapping[str, Parameter]) -> Iterator[str]:
    for name in given:
        if name not in known:
            yield unknown("argument", name, known) if known else f"unknown argument {name!r}. There are none."


def _missing(given: Mapping[str, Any], known: Mapping[str, Parameter], defaults: Mapping[str, Any]) -> Iterator[str]:
    for one in known.values():
        if one.needed and given.get(one.name) is None and one.name not in defaults:
            valid = f" Valid: {', '.join(one.about.choices)}." if one.about.choices else ""
            yield f"missing argument {one.name!r}: {one.about.text}.{valid}"


def _said(parameter: Parameter, value: Any) -> bool:
    """Null for what is not told to be null says nothing."""
    return value is not None or (not parameter.needed and type(None) in _options(parameter.type))


def _value(parameter: Parameter, value: Any) -> Any:
    fit = _fitted(parameter.type, value, parameter.name)
    choices = parameter.about.choices
    for one in fit if isinstance(fit, list) else [fit]:
        if choices and one is not None and one not in choices:
            raise ValidationError(unknown(parameter.name, one, choices))
    return fit


def _fitted(kind: Any, value: Any, where: str) -> Any:
    options = _options(kind)
    if Any in options or object in options:
        return value
    for one in options:
        outer = get_origin(one) or one
        if _is(value, outer):
            return _inside(one, value, where)
    if float in options and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if int in options and isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValidationError(f"{where} must be {_named(options)}, not {_shown(value)}")


def _is(value: Any, outer: Any) -> bool:
    if isinstance(value, bool):
        return outer is bool
    return isinstance(outer, type) and isinstance(value, outer)


def _inside(kind: Any, value: Any, where: str) -> Any:
    arguments = get_args(kind)
    if isinstance(value, list) and arguments:
        return [_fitted(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict) and len(arguments) == 2:
        return {name: _fitted(arguments[1], item, f"{where}[{name!r}]") for name, item in value.items()}
    return value


def _options(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _named(options: Sequence[Any]) -> str:
    return " or ".join(_NAMES.get(get_origin(one) or one, str(one)) for one in options)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
