"""One operation asked of a server: sent again where that can do no harm, and its errors raised as what they were."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import errors
from ..api import operations
from ..api.plain import plain
from ..errors import ALMAError, BusyError, ConfigError, MissingExtraError, StorageError, ValidationError

if TYPE_CHECKING:
    import httpx

_TRIES = 4
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_LIMITED = "RateLimited"
_BY_STATUS: Mapping[int, type[ALMAError]] = {
    400: ValidationError,
    401: ConfigError,
    403: errors.ScopeError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    413: ValidationError,
    421: ConfigError,
    429: BusyError,
    503: BusyError,
}


def ask(http: httpx.Client, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the server answers, as JSON. ALMAError when it refuses or cannot be reached."""
    import httpx

    body = _body(arguments)
    again = _may_be_done_twice(operation) or _has_keys(arguments)
    for left in reversed(range(_TRIES)):
        try:
            answer = http.post(f"/v1/{operation}", content=body)
        except httpx.TransportError as error:
            if not left or not (again or _was_not_sent(error)):
                raise _unreachable(http, error) from error
            time.sleep(_PAUSE * (_TRIES - left))
            continue
        told = _read(answer)
        if answer.status_code == 200:
            return told
        if not left or not _may_try_again(answer, told, again):
            raise _raised(answer, told)
        time.sleep(_pause(answer, _PAUSE * (_TRIES - left)))
    raise AssertionError("the last try ends the loop")


@cache
def _may_be_done_twice(operation: str) -> bool:
    return operations()[operation].idempotent


def _has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether the server recognises a repeated call by idempotency keys."""
    calls = arguments.get("outcomes", [arguments])
    return isinstance(calls, list) and all(isinstance(one, Mapping) and one.get("idempotency_key") for one in calls)


# -- what is sent


def said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is left to the server."""
    return {name: value for name, value in given.items() if name != "self" and value is not None}


def many(label: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValidationError(f"{label} must be a list of mappings, not {type(given).__name__}")
    return list(given)


def _body(arguments: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(_sendable(arguments), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"the arguments must hold JSON values only: {error}") from None


def _sendable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _sendable(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
        return [_sendable(item) for item in value]
    return plain(value)


# -- what comes back


def _read(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise StorageError(f"{answer.url} answered {answer.status_code}, and not as alma does; is it another service?")
    return told


def _may_try_again(answer: httpx.Response, told: Mapping[str, Any], idempotent: bool) -> bool:
    if _kind(told) == _LIMITED:
        # Refused at the door: nothing was done.
        return True
    return idempotent and answer.status_code == 503


def _pause(answer: httpx.Response, least: float) -> float:
    given = answer.headers.get("retry-after", "")
    return min(_LONGEST_PAUSE, float(given)) if given.isdecimal() else least


def _kind(told: Mapping[str, Any]) -> str:
    return str(told.get("type", "")).removeprefix("urn:alma:error:")


def _raised(answer: httpx.Response, told: Mapping[str, Any]) -> ALMAError:
    """The same kind of error that was raised on the other side."""
    message = str(told.get("detail") or f"{answer.url} answered {answer.status_code}")
    named = getattr(errors, _kind(told), None)
    if isinstance(named, type) and issubclass(named, ALMAError) and not issubclass(named, MissingExtraError):
        return named(message)
    return _BY_STATUS.get(answer.status_code, ALMAError)(message)


def _was_not_sent(error: Exception) -> bool:
    import httpx

    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _unreachable(http: httpx.Client, error: Exception) -> StorageError:
    if _was_not_sent(error):
        return StorageError(f"{http.base_url} cannot be reached: {error}")
    return StorageError(f"{http.base_url} did not answer ({type(error).__name__}); whether it was done is not known")
