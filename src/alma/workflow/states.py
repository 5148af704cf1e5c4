"""The state of a run, which is stored and returned exactly or refused; the files a run produced; and merging states.

A program resumes from its state. Other texts have their secrets replaced, but a program that resumes from a replaced
value would do the wrong thing. A state that contains a secret is therefore refused, unless the caller asks for it to be
redacted.

States of branches are merged key by key: a reducer receives the branches' values in order. `sum`, `max`, `min` and
`union` do not depend on the order of the branches; `append`, `extend`, `last`, `first` and `merge_dict` do. Different
values of a key without a reducer are a conflict: no value is dropped silently.
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
from ..errors import ValidationError, describe_type, unknown

MAX_STATE_BYTES = 1_048_576
UNLIMITED = 2**62
_DEEPEST = 100
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_JSON = (dict, list, str, int, float, type(None))


class State(NamedTuple):
    """A valid state with its digest and size."""

    value: dict[str, Any]  # A copy, so that later changes to the caller's object have no effect.
    digest: str
    size: int


def read_state(state: object, most: int = MAX_STATE_BYTES) -> State:
    """Return a state that can be stored; raise ValidationError with the place and reason if it cannot be."""
    if not isinstance(state, dict):
        raise ValidationError(f"state must be a JSON object, not {describe_type(state)}")
    for path, value in _walk_values(state):
        name = repr(value) if isinstance(value, float) else f"a {type(value).__name__}"
        if not isinstance(value, _JSON) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValidationError(f"{path[:200]} is {name}; a state can hold only JSON values")
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):
                raise ValidationError(f"{path[:200]} has the key {key!r}, which is not a string; keys must be strings")
    try:
        data = to_canonical_json(state).encode()
    except ValueError as error:
        raise ValidationError(f"state cannot be written as JSON: {error}") from None
    if len(data) > most:
        raise ValidationError(
            f"the state has {len(data):,} bytes as JSON, but a checkpoint holds at most {most:,}. Store large data in "
            "files and link them to the run as artifacts"
        )
    digest = f"blake2b:{hashlib.blake2b(data, digest_size=32).hexdigest()}"
    # The order of keys is preserved; the digest does not depend on it.
    return State(json.loads(json.dumps(state)), digest, len(data))


def to_canonical_json(value: object) -> str:
    """Return a value as JSON with sorted keys and without spaces; equal values give equal texts."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _walk_values(value: object, path: str = "state", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield every value within a JSON value, with its path."""
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
    """Return the paths at which a state and its redacted copy differ, as they are in the copy."""
    both = zip(_walk_values(before), _walk_values(after), strict=False)
    inner = (dict, list)
    return [left for (path, old), (left, new) in both if path != left or (old != new and not isinstance(new, inner))]


def refuse_secrets(places: list[str]) -> ValidationError:
    """Return the error for a state that contains secrets at these places."""
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    return ValidationError(
        f"the state contains what looks like a secret at {shown}, so it was not stored. Remove the secret and read it "
        "from the environment when the run resumes, or use `redact` to store the state without it"
    )


# -- files that a run produced


def read_content(location: str | os.PathLike[str], digest: str | None, size: int | None) -> dict[str, Any]:
    """Return the name, path, size and digest of a file. For a URI, which is never fetched, they are the caller's."""
    place = validate.text("location", os.fspath(location), 4_000).strip()
    if clean(place) != place:
        raise ValidationError("location contains what looks like a secret; pass a path or URI without it")
    if digest:
        digest = f"sha256:{digest.lower().removeprefix('sha256:')}"
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise ValidationError(f"digest must be a SHA-256 of 64 hexadecimal digits, not {digest!r}")
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
            f"location {str(path)!r} cannot be read as a file ({error.strerror}); pass an existing file, or a URI"
        ) from None
    if (digest or actual, length if size is None else size) != (actual, length):
        raise ValidationError(
            f"the file {str(path)!r} does not match: it has {length:,} bytes and the digest {actual}; "
            "pass its own size and digest, or omit them"
        )
    return {"name": path.name, "path": str(path.resolve()), "size": length, "digest": actual}


# -- merging

Values = Sequence[Any]
Reduce = Callable[[Values], Any]
_ABSENT = object()
_NUMBERS = (int, float)
# JSON's names for the types of values, which callers of every interface know.
_TYPE_NAMES: dict[type, str] = {
    dict: "object", list: "list", str: "text", int: "number", float: "number", bool: "boolean", type(None): "null"
}  # fmt: skip


def _extend(values: Values) -> list[Any]:
    _require(values, list)
    return [item for value in values for item in value]


def _union(values: Values) -> list[Any]:
    items = {to_canonical_json(item): item for item in _extend(values)}
    return [items[text] for text in sorted(items, key=lambda text: (len(text), text))]


def _sum(values: Values) -> int | float:
    _require(values, *_NUMBERS)
    # Rounded only once at the end: adding floats one by one depends on their order.
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


def _pick(choose: Callable[..., Any]) -> Reduce:
    def pick(values: Values) -> Any:
        try:
            # 1 and 1.0 are equal; which of them wins must not depend on the order.
            return choose(values, key=lambda value: (value, to_canonical_json(value)))
        except TypeError:
            raise TypeError(f"{' and '.join(map(_show_value, values))} cannot be compared") from None

    return pick


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
            names = " or ".join(dict.fromkeys(_TYPE_NAMES[kind] for kind in kinds))
            raise TypeError(f"expected {names}, but one value is {_show_value(value)}")


# append: a list of the branches' values; extend: the branches' lists concatenated; union: the distinct elements of the
# lists; merge_dict: objects merged recursively, the later branch winning.
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
# A reducer's name, or a function from the list of the branches' values to one value, such as `len` or `any`.
Reducer = str | Reduce


def merge_states(
    states: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    reducers: Mapping[str, Reducer] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    default: Reducer | None = None,
) -> dict[str, Any]:
    """Merge the states of several branches into one, key by key, and return it. The arguments are not changed.

    A reducer is append, extend, union, sum, max, min, last, first, merge_dict, or a function of the list of values.
    Each key is reduced over the branches that have it, by its reducer or by `default`. Without either, all branches
    that have the key must agree or, if `base` (the state that they were forked from) is passed, at most one value may
    differ from the base. Anything else raises ValidationError.
    """
    if not isinstance(states, Mapping | list | tuple) or not states:
        raise ValidationError("states must be a list of at least one state, or an object from branch to state")
    if reducers is not None and not isinstance(reducers, Mapping):
        raise ValidationError(f"reducers must be an object from key to reducer, not {describe_type(reducers)}")
    is_named = isinstance(states, Mapping)
    pairs: Iterable[tuple[Any, Any]] = states.items() if isinstance(states, Mapping) else enumerate(states)
    branches = {
        f"branch {name!r}" if is_named else f"state {name + 1}": read_state(one, UNLIMITED).value for name, one in pairs
    }
    chosen = {key: _find_reducer(f"reducer for key {key!r}", one) for key, one in (reducers or {}).items()}
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
                    f"the reducer of key {key!r} does not fit its values: {error}; nothing was merged"
                ) from None
        if reduce is not None:
            continue
        if base is not None:
            # Only the branches that changed the key count.
            before = began.get(key, _ABSENT)
            now = {label: state.get(key, _ABSENT) for label, state in branches.items()}
            values = {label: value for label, value in now.items() if not _is_same(value, before)} or {"base": before}
        (first, merged[key]), *others = values.items()
        for label, value in others:
            if not _is_same(value, merged[key]):
                raise ValidationError(
                    f"the key {key!r} is {_show_value(merged[key])} in {first} and {_show_value(value)} in {label}, "
                    f"and it has no reducer; nothing was merged. Choose one of {', '.join(REDUCERS)} for this key, or "
                    "as the default"
                )
    return read_state({key: value for key, value in merged.items() if value is not _ABSENT}, UNLIMITED).value


def _find_reducer(label: str, reducer: Reducer) -> Reduce:
    if callable(reducer):
        return reducer
    if reducer not in REDUCERS:
        raise ValidationError(unknown(label, reducer, REDUCERS))
    return REDUCERS[reducer]


def _is_same(a: object, b: object) -> bool:
    return a is b or (a is not _ABSENT and b is not _ABSENT and to_canonical_json(a) == to_canonical_json(b))


def _show_value(value: object) -> str:
    text = "removed" if value is _ABSENT else f"{to_canonical_json(value)} ({_TYPE_NAMES[type(value)]})"
    return text if len(text) <= 80 else f"{text[:79]}…"
