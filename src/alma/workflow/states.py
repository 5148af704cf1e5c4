"""The state of a run: JSON that comes back exactly as it was given, or is refused.

A state is data that a program goes on with. Where other texts have their secrets replaced, a state with a replaced
value would go on wrongly, so a state that holds a secret is refused unless the caller asks for it to be kept without.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ValidationError

MAX_STATE_BYTES = 1_048_576
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class State:
    value: dict[str, Any]
    """A copy: what the caller does to the original afterwards changes nothing here."""
    digest: str
    size: int


def read(state: object, most: int = MAX_STATE_BYTES) -> State:
    """A state that can be kept, or an error that says where it cannot and why."""
    if not isinstance(state, dict):
        raise ValidationError(f"state must be a dict of JSON values, not {type(state).__name__}")
    if not _comes_back(state, 0):
        _explain("state", state, 0)
    try:
        text = json.dumps(state, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        data = text.encode()
    except ValueError as error:
        raise ValidationError(f"state cannot be written as JSON: {error}") from None
    if len(data) > most:
        raise ValidationError(
            f"the state takes {len(data):,} bytes as JSON; at most {most:,} are kept in one checkpoint. Put large "
            "data into files and link them with link_artifact"
        )
    # Read back in the order it was given in; the digest does not depend on that order.
    return State(json.loads(json.dumps(state)), digest_of(data), len(data))


def digest_of(data: bytes) -> str:
    return f"blake2b:{hashlib.blake2b(data, digest_size=32).hexdigest()}"


def canonical(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _comes_back(value: object, depth: int) -> bool:
    """Whether JSON gives back the same value. Large states are looked at often, so where it does not is left open."""
    if value is None or isinstance(value, str | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth > _DEEPEST:
        return False
    if isinstance(value, list):
        return all(_comes_back(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return all(isinstance(name, str) and _comes_back(item, depth + 1) for name, item in value.items())
    return False


def _explain(path: str, value: object, depth: int) -> None:
    """Raises where JSON would not give back the same value."""
    if depth > _DEEPEST:
        raise ValidationError(f"state is nested more than {_DEEPEST} levels deep at {path[:200]}")
    match value:
        case None | bool() | str() | int():
            return
        case float():
            if not math.isfinite(value):
                raise ValidationError(f"{path} is {value!r}; JSON has no such number")
        case list():
            for at, item in enumerate(value):
                _explain(f"{path}[{at}]", item, depth + 1)
        case dict():
            for name, item in value.items():
                if not isinstance(name, str):
                    raise ValidationError(f"{path} has the key {name!r}, a {type(name).__name__}; JSON keys are text")
                _explain(f"{path}.{name}", item, depth + 1)
        case tuple():
            raise ValidationError(f"{path} is a tuple and would come back as a list: pass a list")
        case _:
            raise ValidationError(
                f"{path} is a {type(value).__name__}; a state holds only dict, list, str, int, float, bool and None"
            )


def differences(before: object, after: object, path: str = "state") -> Iterator[str]:
    """Where two states differ, without saying what is there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(before) != list(after):
            yield f"a key of {path}"
        for name in before:
            if name in after:
                yield from differences(before[name], after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{at}]")
    elif before != after:
        yield path


def refused(places: list[str]) -> ValidationError:
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    return ValidationError(
        f"what looks like a secret is at {shown}. A state must come back exactly, so it is not kept: leave the secret "
        "out (read it from the environment when the run goes on), or pass redact=True to keep the state without it"
    )
