"""How the states of branches become one: for each key a reducer that takes the branches' values, in their order.

`sum`, `max`, `min` and `union` give the same whatever the order of the branches; `append`, `extend`, `last`, `first`
and `merge_dict` follow it. A key without a reducer must not be contested: nothing is dropped silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ValidationError, unknown
from . import states as state_of

Values = Sequence[Any]
Reduce = Callable[[Values], Any]
State = Mapping[str, Any]

_ABSENT = object()


class Misfit(Exception):
    """A reducer met a value it is not made for."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.value = value


def _all(values: Values, wanted: str, *kinds: type) -> None:
    for value in values:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Misfit(wanted, value)


def _append(values: Values) -> list[Any]:
    return list(values)


def _extend(values: Values) -> list[Any]:
    _all(values, "lists", list)
    return [item for value in values for item in value]


def _union(values: Values) -> list[Any]:
    _all(values, "lists", list)
    items = {state_of.canonical(item): item for value in values for item in value}
    return [items[text] for text in sorted(items, key=lambda text: _rank(items[text], text))]


def _rank(item: object, text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts, then the rest by how they are written."""
    if isinstance(item, int | float) and not isinstance(item, bool):
        return (0, _size(item), text)
    return (1 if isinstance(item, str) else 2, 0.0, text)


def _size(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _sum(values: Values) -> int | float:
    _all(values, "numbers", int, float)
    if all(isinstance(value, int) for value in values):
        return sum(values)
    # Exactly, and rounded once: floats added one by one depend on their order.
    from fractions import Fraction

    try:
        return float(sum(map(Fraction, values), Fraction(0)))
    except OverflowError:
        raise Misfit("numbers whose sum is one too", max(values, key=abs)) from None


def _pick(choose: Callable[..., Any]) -> Reduce:
    def reduce(values: Values) -> Any:
        first = values[0]
        kinds: tuple[type, ...] = (
            (bool,) if isinstance(first, bool) else (str,) if isinstance(first, str) else (int, float)
        )
        _all(values, "only numbers, only texts or only booleans", *kinds)
        # 1 and 1.0 are equal; which of them it is must not depend on the order.
        return choose(values, key=lambda value: (value, state_of.canonical(value)))

    return reduce


def _last(values: Values) -> Any:
    return values[-1]


def _first(values: Values) -> Any:
    return values[0]


def _merge_dict(values: Values) -> dict[str, Any]:
    _all(values, "dicts", dict)
    out: dict[str, Any] = {}
    for value in values:
        for name, item in value.items():
            both = isinstance(item, dict) and isinstance(out.get(name), dict)
            out[name] = _merge_dict([out[name], item]) if both else item
    return out


REDUCERS: Mapping[str, Reduce] = {
    "append": _append,
    "extend": _extend,
    "union": _union,
    "sum": _sum,
    "max": _pick(max),
    "min": _pick(min),
    "last": _last,
    "first": _first,
    "merge_dict": _merge_dict,
}
"""append: a list with each branch's value; extend: the branches' lists one after the other; union: what is in any of
the lists, once, in order of size; merge_dict: dicts within dicts, the later branch winning."""

Reducer = str | Reduce
"""The name of one, or a function from the list of the branches' values to one value, such as `len` or `any`."""


def merge_states(
    states: Sequence[State] | Mapping[str, State],
    reducers: Mapping[str, Reducer] | None = None,
    *,
    base: State | None = None,
    default: Reducer | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """One state from those of several branches; the states given are left as they are.

    Each key is reduced over the branches that have it, by its reducer or by `default`. Without either it must not be
    contested: all branches that have it agree or, when the `base` they began from is given, at most one value differs
    from the base's.
    """
    labelled = _labelled(states, names)
    chosen = {str(key): _reducer(f"reducer of {key!r}", one) for key, one in _mapping(reducers).items()}
    fallback = None if default is None else _reducer("default reducer", default)
    began = None if base is None else state_of.read(dict(base), _UNLIMITED).value
    keys = dict.fromkeys(key for _, state in labelled for key in state)
    if began is not None:
        keys |= dict.fromkeys(began)
    out = {}
    for key in keys:
        reduce = chosen.get(key, fallback)
        found = [(name, state[key]) for name, state in labelled if key in state]
        value = _uncontested(key, labelled, began) if reduce is None else _reduced(key, found, reduce)
        if value is not _ABSENT:
            out[key] = value
    return state_of.read(out, _UNLIMITED).value


_UNLIMITED = 2**62
_Labelled = list[tuple[str, dict[str, Any]]]


def _labelled(states: object, names: Sequence[str] | None) -> _Labelled:
    if isinstance(states, Mapping):
        pairs = [(f"branch {name!r}", state) for name, state in states.items()]
    elif isinstance(states, list | tuple):
        labels = [f"branch {name!r}" for name in names] if names else [f"states[{at}]" for at in range(len(states))]
        pairs = list(zip(labels, states, strict=True))
    else:
        raise ValidationError(f"states must be a list of states or a dict of them, not {type(states).__name__}")
    if not pairs:
        raise ValidationError("states is empty; pass at least one state")
    return [(label, state_of.read(state, _UNLIMITED).value) for label, state in pairs]


def _mapping(reducers: object) -> Mapping[str, Reducer]:
    if reducers is None:
        return {}
    if not isinstance(reducers, Mapping):
        raise ValidationError(f"reducers must be a dict from key to reducer, not {type(reducers).__name__}")
    return reducers


def _reducer(label: str, given: object) -> Reduce:
    if callable(given):
        return given
    if given not in REDUCERS:
        raise ValidationError(unknown(label, given, [*REDUCERS, "a function of the list of values"]))
    return REDUCERS[str(given)]


def _reduced(key: str, found: list[tuple[str, Any]], reduce: Reduce) -> Any:
    values = [value for _, value in found]
    if not values:
        return _ABSENT
    try:
        return reduce(values)
    except Misfit as misfit:
        label = next(label for label, value in found if value is misfit.value)
        name = next((name for name, one in REDUCERS.items() if one is reduce), "default")
        raise ValidationError(
            f"the reducer {name!r} for the key {key!r} needs {misfit.wanted}, but {label} has "
            f"{_shown(misfit.value)}; nothing was merged"
        ) from None


def _uncontested(key: str, labelled: _Labelled, base: State | None) -> Any:
    """What the branches agree on: for a known beginning, what those who changed it made of it."""
    if base is None:
        held = [(label, state[key]) for label, state in labelled if key in state]
    else:
        began = base.get(key, _ABSENT)
        now = [(label, state.get(key, _ABSENT)) for label, state in labelled]
        held = [(label, value) for label, value in now if not _same(value, began)] or [("base", began)]
    for label, value in held[1:]:
        if not _same(value, held[0][1]):
            raise ValidationError(
                f"the key {key!r} is {_shown(held[0][1])} in {held[0][0]} and {_shown(value)} in {label}, and has no "
                f"reducer; nothing was merged. Name one for it ({', '.join(REDUCERS)} or a function), or a default"
            )
    return held[0][1]


def _same(a: object, b: object) -> bool:
    if a is _ABSENT or b is _ABSENT:
        return a is b
    return state_of.canonical(a) == state_of.canonical(b)


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "removed"
    text = state_of.canonical(value)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"
