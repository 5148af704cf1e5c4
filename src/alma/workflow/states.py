"""The state of a run: JSON that comes back exactly as it was given, or is refused.

A state is data that a program goes on with. Where other texts have their secrets replaced, a state with a replaced
value would go on wrongly, so a state that holds a secret is refused unless the caller asks for it to be kept without.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ValidationError

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
    if depth > _DEEPEST:
        return "", f"is nested more than {_DEEPEST} levels deep"
    items: Iterable[tuple[str, object]] = ()
    match value:
        case float():
            return None if math.isfinite(value) else ("", f"is {value!r}; JSON has no such number")
        case list():
            items = ((f"[{at}]", item) for at, item in enumerate(value))
        case dict():
            for name in value:
                if not isinstance(name, str):
                    return "", f"has the key {name!r}, a {type(name).__name__}; JSON keys are text"
            items = ((f".{name}", item) for name, item in value.items())
        case tuple():
            return "", "is a tuple and would come back as a list: pass a list"
        case _:
            kind = type(value).__name__
            return "", f"is a {kind}; a state holds only dict, list, str, int, float, bool and None"
    flaws = ((step, _find_flaw(item, depth + 1)) for step, item in items)
    return next(((step + flaw[0], flaw[1]) for step, flaw in flaws if flaw), None)


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
