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
from typing import Any, NamedTuple

from ..errors import ValidationError, unknown

MAX_STATE_BYTES = 1_048_576
UNLIMITED = 2**62
_DEEPEST = 100
_JSON = (dict, list, str, int, float, type(None))


class State(NamedTuple):
    value: dict[str, Any]  # A copy: what the caller does to the original afterwards changes nothing here.
    digest: str
    size: int


def read_state(state: object, most: int = MAX_STATE_BYTES) -> State:
    """Return a state that can be kept, or raise an error that says where it cannot and why."""
    if not isinstance(state, dict):
        raise ValidationError(f"state must be a dict of JSON values, not {type(state).__name__}")
    for path, value in _walk_values(state):
        flaw = ""
        if not isinstance(value, _JSON):
            flaw = f"is a {type(value).__name__}; a state holds only dict, list, str, int, float, bool and None"
        elif isinstance(value, float) and not math.isfinite(value):
            flaw = f"is {value!r}; JSON has no such number"
        elif isinstance(value, dict):
            names = [name for name in value if not isinstance(name, str)]
            flaw = f"has the key {names[0]!r}, a {type(names[0]).__name__}; JSON keys are text" if names else ""
        if flaw:
            raise ValidationError(f"{path[:200]} {flaw}")
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


def _walk_values(value: object, path: str = "state", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield every value within a JSON value and where it is."""
    if depth > _DEEPEST + 1:
        raise ValidationError(f"{path[:200]} is nested more than {_DEEPEST} levels deep")
    yield path, value
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk_values(item, f"{path}.{name}", depth + 1)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _walk_values(item, f"{path}[{at}]", depth + 1)


def find_redacted(before: object, after: object) -> list[str]:
    """Return where a state differs from itself without secrets, by the names that are left."""
    both = zip(_walk_values(before), _walk_values(after), strict=False)
    inner = (dict, list)
    return [kept for (path, old), (kept, new) in both if path != kept or (old != new and not isinstance(new, inner))]


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
    items = {canonical(item): item for item in _extend(values)}

    def rank(text: str) -> tuple[int, float, str]:
        """Numbers by size, then the rest by how they are written."""
        item = items[text]
        is_number = isinstance(item, int | float) and not isinstance(item, bool)
        return (0, item, text) if is_number else (1, 0, text)

    return [items[text] for text in sorted(items, key=rank)]


def _sum(values: Values) -> int | float:
    _check_values(values, "numbers", int, float)
    try:
        # Exactly, and rounded once: floats added one by one depend on their order.
        return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)
    except OverflowError:
        raise Misfit("numbers whose sum is one too", max(values, key=abs)) from None


def _pick(choose: Callable[..., Any]) -> Reduce:
    def reduce(values: Values) -> Any:
        kinds = next(((kind,) for kind in (bool, str) if isinstance(values[0], kind)), (int, float))
        _check_values(values, "only numbers, only texts or only booleans", *kinds)
        # 1 and 1.0 are equal; which of them it is must not depend on the order.
        return choose(values, key=lambda value: (value, canonical(value)))

    return reduce


def _merge_dict(values: Values) -> dict[str, Any]:
    _check_values(values, "dicts", dict)
    out: dict[str, Any] = {}
    for name, item in (pair for value in values for pair in value.items()):
        both = isinstance(item, dict) and isinstance(out.get(name), dict)
        out[name] = _merge_dict([out[name], item]) if both else item
    return out


# append: a list with each branch's value; extend: the branches' lists one after the other; union: what is in any of
# the lists, once, in order of size; merge_dict: dicts within dicts, the later branch winning.
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
# The name of one, or a function from the list of the branches' values to one value, such as `len` or `any`.
Reducer = str | Reduce


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
    if not isinstance(states, Mapping | list | tuple) or not states:
        raise ValidationError("states must be a list or a dict of at least one state")
    if reducers is not None and not isinstance(reducers, Mapping):
        raise ValidationError(f"reducers must be a dict from key to reducer, not {type(reducers).__name__}")
    is_named = isinstance(states, Mapping)
    pairs = states.items() if isinstance(states, Mapping) else enumerate(states)
    labelled = {
        f"branch {name!r}" if is_named else f"states[{name}]": read_state(state, UNLIMITED).value
        for name, state in pairs
    }
    chosen = {str(key): _find_reducer(f"reducer of {key!r}", one) for key, one in (reducers or {}).items()}
    fallback = None if default is None else _find_reducer("default reducer", default)
    began = None if base is None else read_state(dict(base), UNLIMITED).value
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for state in (*labelled.values(), began or {}) for key in state):
        values = {label: state[key] for label, state in labelled.items() if key in state}
        reduce = chosen.get(key, fallback)
        if reduce is not None:
            merged |= {key: _reduce_values(key, values, reduce)} if values else {}
            continue
        if began is not None:
            # What those who changed it made of it.
            before = began.get(key, _ABSENT)
            now = {label: state.get(key, _ABSENT) for label, state in labelled.items()}
            values = {label: value for label, value in now.items() if not _is_same(value, before)} or {"base": before}
        merged[key] = _agree_value(key, values)
    return read_state({key: value for key, value in merged.items() if value is not _ABSENT}, UNLIMITED).value


def _find_reducer(label: str, reducer: object) -> Reduce:
    if callable(reducer):
        return reducer
    if reducer not in REDUCERS:
        raise ValidationError(unknown(label, reducer, [*REDUCERS, "a function of the list of values"]))
    return REDUCERS[str(reducer)]


def _reduce_values(key: str, values: Mapping[str, Any], reduce: Reduce) -> Any:
    try:
        return reduce(list(values.values()))
    except Misfit as misfit:
        label = next(label for label, value in values.items() if value is misfit.value)
        name = next((name for name, one in REDUCERS.items() if one is reduce), "default")
        raise ValidationError(
            f"the reducer {name!r} for the key {key!r} needs {misfit.wanted}, but {label} has "
            f"{_show_value(misfit.value)}; nothing was merged"
        ) from None


def _agree_value(key: str, values: Mapping[str, Any]) -> Any:
    (first, agreed), *others = values.items()
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
    text = "removed" if value is _ABSENT else f"{canonical(value)} ({type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:79]}…"
