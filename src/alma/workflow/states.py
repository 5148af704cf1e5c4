"""The state of a run: JSON that comes back exactly as it was given, or is refused; and the files that it leaves.

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
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown

MAX_STATE_BYTES = 1_048_576
UNLIMITED = 2**62
_DEEPEST = 100
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
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
        name = repr(value) if isinstance(value, float) else f"a {type(value).__name__}"
        if not isinstance(value, _JSON) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValidationError(f"{path[:200]} is {name}; a state holds only what JSON can express")
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):
                raise ValidationError(f"{path[:200]} has the key {key!r}, a {type(key).__name__}; JSON keys are text")
    try:
        data = to_canonical_json(state).encode()
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


def to_canonical_json(value: object) -> str:
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


# -- what a run made, kept elsewhere


def read_content(location: str | os.PathLike[str], digest: str | None, size: int | None) -> dict[str, Any]:
    """Read a file for its digest; what a URI names is taken at the caller's word and never fetched."""
    place = validate.text("location", os.fspath(location), 4_000).strip()
    if clean(place) != place:
        raise ValidationError("location looks like a secret and would not be kept as it is; link it without one")
    if digest:
        digest = f"sha256:{digest.lower().removeprefix('sha256:')}"
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise ValidationError(f"digest must be the 64 hexadecimal digits of a SHA-256, not {digest!r}")
    if _URI.match(place):
        name = place.rstrip("/").rpartition("/")[2] or place
        return {"name": name, "path": place, "size": size, "digest": digest or None}
    path = Path(place).expanduser()
    try:
        with path.open("rb") as file:
            actual = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            length = file.tell()
    except OSError as error:
        raise ValidationError(
            f"location {str(path)!r} is not a file that can be read ({error.strerror}); pass a file or a URI"
        ) from None
    if (digest or actual, length if size is None else size) != (actual, length):
        raise ValidationError(
            f"{str(path)!r} has {length:,} bytes and the digest {actual}: it is not the file that was meant"
        )
    return {"name": path.name, "path": str(path.resolve()), "size": length, "digest": actual}


# -- merging

Values = Sequence[Any]
Reduce = Callable[[Values], Any]
_ABSENT = object()
_NUMBERS = (int, float)


def _extend(values: Values) -> list[Any]:
    _require(values, list)
    return [item for value in values for item in value]


def _union(values: Values) -> list[Any]:
    items = {to_canonical_json(item): item for item in _extend(values)}
    return [items[text] for text in sorted(items, key=lambda text: (len(text), text))]


def _sum(values: Values) -> int | float:
    _require(values, *_NUMBERS)
    # Exactly, and rounded once: floats added one by one depend on their order.
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


def _pick(choose: Callable[..., Any]) -> Reduce:
    # 1 and 1.0 are equal; which of them it is must not depend on the order.
    return lambda values: choose(values, key=lambda value: (value, to_canonical_json(value)))


def _merge_dict(values: Values) -> dict[str, Any]:
    _require(values, dict)
    out: dict[str, Any] = {}
    for name, item in (pair for value in values for pair in value.items()):
        both = isinstance(item, dict) and isinstance(out.get(name), dict)
        out[name] = _merge_dict([out[name], item]) if both else item
    return out


def _require(values: Values, *kinds: type) -> None:
    for value in values:
        if type(value) not in kinds:
            raise TypeError(f"it takes {' and '.join(kind.__name__ for kind in kinds)}, not {_show_value(value)}")


# append: a list with each branch's value; extend: the branches' lists one after the other; union: what is in any of
# the lists, once; merge_dict: dicts within dicts, the later branch winning.
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
    pairs: Iterable[tuple[Any, Any]] = states.items() if isinstance(states, Mapping) else enumerate(states)
    branches = {
        f"branch {name!r}" if is_named else f"states[{name}]": read_state(one, UNLIMITED).value for name, one in pairs
    }
    chosen = {key: _find_reducer(f"reducer of {key!r}", one) for key, one in (reducers or {}).items()}
    fallback = None if default is None else _find_reducer("default reducer", default)
    began = {} if base is None else read_state(dict(base), UNLIMITED).value
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for state in (*branches.values(), began) for key in state):
        values = {label: state[key] for label, state in branches.items() if key in state}
        reduce = chosen.get(key, fallback)
        if reduce is not None and values:
            try:
                merged[key] = reduce(list(values.values()))
            except (TypeError, ValueError, OverflowError) as error:
                raise ValidationError(
                    f"the reducer for the key {key!r} does not fit its values: {error}; nothing was merged"
                ) from None
        if reduce is not None:
            continue
        if base is not None:
            # What those who changed it made of it.
            before = began.get(key, _ABSENT)
            now = {label: state.get(key, _ABSENT) for label, state in branches.items()}
            values = {label: value for label, value in now.items() if not _is_same(value, before)} or {"base": before}
        (first, merged[key]), *others = values.items()
        for label, value in others:
            if not _is_same(value, merged[key]):
                raise ValidationError(
                    f"the key {key!r} is {_show_value(merged[key])} in {first} and {_show_value(value)} in {label}, "
                    f"and has no reducer; nothing was merged. Name one for it ({', '.join(REDUCERS)} or a function), "
                    "or a default"
                )
    return read_state({key: value for key, value in merged.items() if value is not _ABSENT}, UNLIMITED).value


def _find_reducer(label: str, reducer: Reducer) -> Reduce:
    if callable(reducer):
        return reducer
    if reducer not in REDUCERS:
        raise ValidationError(unknown(label, reducer, [*REDUCERS, "a function of the list of values"]))
    return REDUCERS[reducer]


def _is_same(a: object, b: object) -> bool:
    return a is b or (a is not _ABSENT and b is not _ABSENT and to_canonical_json(a) == to_canonical_json(b))


def _show_value(value: object) -> str:
    text = "removed" if value is _ABSENT else f"{to_canonical_json(value)} ({type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:79]}…"
