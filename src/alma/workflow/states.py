"""The state of a run: JSON that comes back exactly as it was given, or is refused.

A state is data that a program goes on with. Where other texts have their secrets replaced, a state with a replaced
value would go on wrongly, so a state that holds a secret is refused unless the caller asks for it to be kept without.

The states of branches become one by a reducer for each key, which takes the branches' values in their order. `sum`,
`max`, `min` and `union` give the same whatever the order of the branches; `append`, `extend`, `last`, `first` and
`merge_dict` follow it. A key without a reducer must not be contested: nothing is dropped silently.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ValidationError, unknown

MAX_STATE_BYTES = 1_048_576
UNLIMITED = 2**62
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class State:
    value: dict[str, Any]
    """A copy: what the caller does to the original afterwards changes nothing here."""
    digest: str
    size: int


def read_state(state: object, most: int = MAX_STATE_BYTES) -> State:
    """Return a state that can be kept, or raise an error that says where it cannot and why."""
    if not isinstance(state, dict):
        raise ValidationError(f"state must be a dict of JSON values, not {type(state).__name__}")
    if flaw := _find_flaw(state, 0):
        path, reason = flaw
        raise ValidationError(f"state{path[:200]} {reason}")
    try:
        data = canonical(state).encode()
    except ValueError as error:
        raise ValidationError(f"state cannot be written as JSON: {error}") from None
    if len(data) > most:
        raise ValidationError(
            f"the state takes {len(data):,} bytes as JSON; at most {most:,} are kept in one checkpoint. Put large "
            "data into files and link them with link_artifact"
        )
    digest = f"blake2b:{hashlib.blake2b(data, digest_size=32).hexdigest()}"
    # Read back in the order it was given in; the digest does not depend on that order.
    return State(json.loads(json.dumps(state)), digest, len(data))


def canonical(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _find_flaw(value: object, depth: int) -> tuple[str, str] | None:
    """Return where JSON would not give back the same value and why; None if it would everywhere."""
    if value is None or isinstance(value, str | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value!r}; JSON has no such number")
    if depth > _DEEPEST:
        return "", f"is nested more than {_DEEPEST} levels deep"
    if isinstance(value, list):
        for at, item in enumerate(value):
            if flaw := _find_flaw(item, depth + 1):
                return f"[{at}]{flaw[0]}", flaw[1]
        return None
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                return "", f"has the key {name!r}, a {type(name).__name__}; JSON keys are text"
            if flaw := _find_flaw(item, depth + 1):
                return f".{name}{flaw[0]}", flaw[1]
        return None
    if isinstance(value, tuple):
        return "", "is a tuple and would come back as a list: pass a list"
    return "", f"is a {type(value).__name__}; a state holds only dict, list, str, int, float, bool and None"


def find_differences(before: object, after: object, path: str = "state") -> Iterator[str]:
    """Yield where two states differ, without saying what is there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(before) != list(after):
            yield f"a key of {path}"
        for name in before:
            if name in after:
                yield from find_differences(before[name], after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from find_differences(old, new, f"{path}[{at}]")
    elif before != after:
        yield path


def refuse_secrets(places: list[str]) -> ValidationError:
    """Return the error for a state that would not come back exactly."""
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    return ValidationError(
        f"what looks like a secret is at {shown}. A state must come back exactly, so it is not kept: leave the secret "
        "out (read it from the environment when the run goes on), or pass redact=True to keep the state without it"
    )


# -- merging

Values = Sequence[Any]
Reduce = Callable[[Values], Any]
_Labelled = list[tuple[str, dict[str, Any]]]

_ABSENT = object()


class Misfit(Exception):
    """A reducer met a value it is not made for."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.value = value


def _check_values(values: Values, wanted: str, *kinds: type) -> None:
    for value in values:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Misfit(wanted, value)


def _extend(values: Values) -> list[Any]:
    _check_values(values, "lists", list)
    return [item for value in values for item in value]


def _union(values: Values) -> list[Any]:
    _check_values(values, "lists", list)
    items = {canonical(item): item for value in values for item in value}

    def rank(text: str) -> tuple[int, float, str]:
        """Numbers by size, then texts, then the rest by how they are written."""
        item = items[text]
        if isinstance(item, bool) or not isinstance(item, int | float):
            return (1 if isinstance(item, str) else 2, 0.0, text)
        try:
            return (0, float(item), text)
        except OverflowError:
            return (0, math.inf if item > 0 else -math.inf, text)

    return [items[text] for text in sorted(items, key=rank)]


def _sum(values: Values) -> int | float:
    _check_values(values, "numbers", int, float)
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
        kinds = next((kind for kind in (bool, str) if isinstance(values[0], kind)), None)
        _check_values(values, "only numbers, only texts or only booleans", *((kinds,) if kinds else (int, float)))
        # 1 and 1.0 are equal; which of them it is must not depend on the order.
        return choose(values, key=lambda value: (value, canonical(value)))

    return reduce


def _merge_dict(values: Values) -> dict[str, Any]:
    _check_values(values, "dicts", dict)
    out: dict[str, Any] = {}
    for value in values:
        for name, item in value.items():
            both = isinstance(item, dict) and isinstance(out.get(name), dict)
            out[name] = _merge_dict([out[name], item]) if both else item
    return out


REDUCERS: Mapping[str, Reduce] = {
    "append": list,
    "extend": _extend,
    "union": _union,
    "sum": _sum,
    "max": _pick(max),
    "min": _pick(min),
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "merge_dict": _merge_dict,
}
"""append: a list with each branch's value; extend: the branches' lists one after the other; union: what is in any of
the lists, once, in order of size; merge_dict: dicts within dicts, the later branch winning."""

Reducer = str | Reduce
"""The name of one, or a function from the list of the branches' values to one value, such as `len` or `any`."""


def merge_states(
    states: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    reducers: Mapping[str, Reducer] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    default: Reducer | None = None,
) -> dict[str, Any]:
    """Merge the states of several branches into one, key by key: append, extend, union, sum, max, min, last, first,
    merge_dict or a function of the list of values. The states given are left as they are.

    Each key is reduced over the branches that have it, by its reducer or by `default`. Without either it must not be
    contested: all branches that have it agree or, when the `base` they began from is given, at most one value differs
    from the base's.
    """
    labelled = _label_states(states)
    if reducers is not None and not isinstance(reducers, Mapping):
        raise ValidationError(f"reducers must be a dict from key to reducer, not {type(reducers).__name__}")
    chosen = {str(key): _find_reducer(f"reducer of {key!r}", one) for key, one in (reducers or {}).items()}
    fallback = None if default is None else _find_reducer("default reducer", default)
    began = None if base is None else read_state(dict(base), UNLIMITED).value
    merged = {}
    for key in dict.fromkeys(key for state in (*(state for _, state in labelled), began or {}) for key in state):
        reduce = chosen.get(key, fallback)
        value = _agree_value(key, labelled, began) if reduce is None else _reduce_values(key, labelled, reduce)
        if value is not _ABSENT:
            merged[key] = value
    return read_state(merged, UNLIMITED).value


def _label_states(states: object) -> _Labelled:
    if isinstance(states, Mapping):
        pairs = [(f"branch {name!r}", state) for name, state in states.items()]
    elif isinstance(states, list | tuple):
        pairs = [(f"states[{at}]", state) for at, state in enumerate(states)]
    else:
        raise ValidationError(f"states must be a list of states or a dict of them, not {type(states).__name__}")
    if not pairs:
        raise ValidationError("states is empty; pass at least one state")
    return [(label, read_state(state, UNLIMITED).value) for label, state in pairs]


def _find_reducer(label: str, reducer: object) -> Reduce:
    if callable(reducer):
        return reducer
    if reducer not in REDUCERS:
        raise ValidationError(unknown(label, reducer, [*REDUCERS, "a function of the list of values"]))
    return REDUCERS[str(reducer)]


def _reduce_values(key: str, labelled: _Labelled, reduce: Reduce) -> Any:
    values = [state[key] for _, state in labelled if key in state]
    if not values:
        return _ABSENT
    try:
        return reduce(values)
    except Misfit as misfit:
        label = next(label for label, state in labelled if state.get(key, _ABSENT) is misfit.value)
        name = next((name for name, one in REDUCERS.items() if one is reduce), "default")
        raise ValidationError(
            f"the reducer {name!r} for the key {key!r} needs {misfit.wanted}, but {label} has "
            f"{_show_value(misfit.value)}; nothing was merged"
        ) from None


def _agree_value(key: str, labelled: _Labelled, base: Mapping[str, Any] | None) -> Any:
    """Return what the branches agree on: for a known beginning, what those who changed it made of it."""
    if base is None:
        values = [(label, state[key]) for label, state in labelled if key in state]
    else:
        began = base.get(key, _ABSENT)
        now = [(label, state.get(key, _ABSENT)) for label, state in labelled]
        values = [(label, value) for label, value in now if not _is_same(value, began)] or [("base", began)]
    (first, agreed), *others = values
    for label, value in others:
        if not _is_same(value, agreed):
            raise ValidationError(
                f"the key {key!r} is {_show_value(agreed)} in {first} and {_show_value(value)} in {label}, and has no "
                f"reducer; nothing was merged. Name one for it ({', '.join(REDUCERS)} or a function), or a default"
            )
    return agreed


def _is_same(a: object, b: object) -> bool:
    return a is b or (a is not _ABSENT and b is not _ABSENT and canonical(a) == canonical(b))


def _show_value(value: object) -> str:
    if value is _ABSENT:
        return "removed"
    text = canonical(value)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"
