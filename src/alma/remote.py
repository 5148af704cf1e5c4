"""A client for a memory on a server, with the methods of `ALMA`.

Requests that could not be sent are retried, and so are idempotent ones. If the connection breaks during any other
request, it may or may not have been processed, and the error says so.
"""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from inspect import BoundArguments
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from . import errors
from .engine.calls import Progress, ignore_progress
from .engine.erase import UserErasure
from .engine.history import Change
from .engine.retention import Forgotten
from .engine.view import render_slice
from .errors import ALMAError, BusyError, ConfigError, MissingExtraError, StorageError, ValidationError
from .listening import is_local
from .memory import ALMA
from .operations import RENAMED, Operation, describe_unknown, operations
from .schema import RESULT, TYPES, decode, plain
from .types.query import visible_users
from .types.slice import MemorySlice
from .words import Deleted, ErasedUser, ForgottenMemories, RetrievedMemories, Text, copy_fields

if TYPE_CHECKING:
    import httpx

_IDLE = 30.0
_TRIES = 4
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_NOT_BEGUN = ("RateLimited", "Overloaded")
"""Requests that were refused before they were processed."""
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
_PLACES = {
    get_args(hint)[0]: name
    for name, hint in get_type_hints(MemorySlice).items()
    if get_origin(hint) is list and name != "standing_rules"
}
"""The field of a slice for each memory class."""


def connect(
    url: str,
    token: str,
    project_id: str | None = None,
    *,
    timeout: float = 60.0,
    insecure: bool = False,
    ca_file: str | None = None,
    max_bytes: int | None = None,
    transport: httpx.BaseTransport | None = None,
    environ: Mapping[str, str] | None = None,
) -> RemoteALMA:
    """Return a client for the memory that is served at a URL. No request is sent until it is used.

    Without TLS, only this machine is allowed unless `insecure` is set. `ca_file` is the certificate of the authority
    that signed the server's. With `max_bytes`, a larger answer is an error, and so is one that takes longer than
    `timeout` seconds to arrive. `transport` is an httpx transport, for tests. `environ`
    replaces the process's own variables for proxies and certificates.
    """
    try:
        parts = urlsplit(str(url))
        is_valid = str(url).isprintable() and parts.port != 0 and not parts.username
        host = parts.hostname if is_valid and parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    if not host:
        raise ConfigError(f"url must be a URL such as https://memory.example.org, not {url!r}")
    if parts.scheme == "http" and not is_local(host) and not insecure:
        raise ConfigError(f"the token would be sent unencrypted to {host}: use https, or pass insecure=True")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigError(
            "token must be the secret printed by `alma token add`, or in the http-token file of `alma serve`"
        )
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise MissingExtraError("httpx", "http", "A remote memory") from error
    certificates: ssl.SSLContext | bool = True
    if ca_file is not None:
        try:
            certificates = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise ConfigError(f"cannot load certificates from {ca_file}: {error}") from error
    options: dict[str, Any] = {"trust_env": not is_local(host)}  # No proxy for connections to this machine.
    if environ is not None:
        options = {"trust_env": False, "proxy": _find_proxy(parts.scheme, host, environ)}
        certificates = _load_certificates(environ) if certificates is True else certificates
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    if project_id is not None:
        headers["alma-project"] = quote(project_id, safe="")
    client = httpx.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        verify=certificates,
        limits=httpx.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=_IDLE),
        transport=transport,
        **options,
    )
    return RemoteALMA(client, project_id, max_bytes)


def _find_proxy(scheme: str, host: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that these variables choose for a host; None for none, as for this machine."""
    variables = {name.lower(): value for name, value in environ.items()}
    is_direct = is_local(host) or proxy_bypass_environment(host, {"no": variables.get("no_proxy", "")})
    return None if is_direct else variables.get(f"{scheme}_proxy") or variables.get("all_proxy") or None


def _load_certificates(environ: Mapping[str, str]) -> ssl.SSLContext | bool:
    """Return the certificates that these variables name; True for the usual ones."""
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return True
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:
        raise ConfigError(f"cannot load certificates from {file or folder}: {error}") from error


class RemoteALMA(ALMA):
    """The methods of `ALMA`, and all other operations by name, over HTTP. Created by `ALMA.connect`."""

    def __init__(self, http: httpx.Client, project_id: str | None = None, max_bytes: int | None = None) -> None:
        self._http = http
        self._project = project_id
        self._max_bytes = max_bytes

    @property
    def project_id(self) -> str:
        """The project this memory belongs to."""
        if self._project is None:
            self._project = str(self.call("health").project_id)
        return self._project

    def close(self) -> None:
        """Close the connections. The server keeps running."""
        self._http.close()

    def reindex(self, progress: Progress = ignore_progress) -> int:
        """Raise ConfigError: only the server can reindex its store."""
        raise ConfigError("a remote memory cannot be reindexed from here; run `alma reindex` on the server")

    def vacuum(self) -> None:
        """Raise ConfigError: only the server can vacuum its store."""
        raise ConfigError("a remote memory cannot be vacuumed from here; run `alma vacuum` on the server")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or RENAMED.get(name, name) not in operations():
            hint = describe_unknown(name, operations())
            raise AttributeError(f"a remote memory has no {name!r}: {hint} Or open a local one with ALMA.from_config.")
        return functools.partial(self.call, name)

    def call(self, operation: str, /, *values: Any, **arguments: Any) -> Any:
        """Call any operation by name and return its result."""
        operation = RENAMED.get(operation, operation)
        listed = operations()
        if operation not in listed:
            raise ValidationError(describe_unknown(operation, listed))
        names = list(listed[operation].own_parameters)[: len(values)]
        if len(names) < len(values) or not arguments.keys().isdisjoint(names):
            raise ValidationError(f"{operation}: too many arguments, or one was passed twice; pass them by name")
        arguments |= zip(names, values, strict=True)
        answer = self.post(operation, _to_json(arguments), may_repeat=listed[operation].idempotent)
        return decode(listed[operation].returns, answer[RESULT] if answer.keys() == {RESULT} else answer)

    def call_elsewhere(self, operation: Operation, bound: BoundArguments) -> Any:
        """Return what a method of `ALMA` returns, from the server's answer."""
        bound.apply_defaults()
        values = bound.arguments
        if more_fields := values.get("field_values"):
            values["fields"] = {**(values["fields"] or {}), **more_fields}
        arguments = {
            one.name: values[one.name]
            for one in operation.parameters
            if one.name in values and (one.needed or values[one.name] != one.default)
        }
        answer = self.call(operation.name, **arguments)
        match answer:
            case RetrievedMemories():
                places: dict[str, list[Any]] = {name: [] for name in _PLACES.values()}
                for one in answer.memories:
                    places[_PLACES[type(one)]].append(one)
                explanations = tuple(answer.explanations)
                more = {"progressive": values["progressive"], "renderer": render_slice, "explanations": explanations}
                others = {one.user_id for one in answer.memories} - visible_users(values["user_id"])
                more |= {"owners": {user: user for user in others}, "opposed": ()}
                return copy_fields(MemorySlice, answer, **more, **places)
            case ForgottenMemories():
                return Forgotten(answer.ids)
            case Deleted():
                return None
            case ErasedUser():
                return UserErasure(answer.counts, answer.proof)
            case Text():
                return answer.text
            case [Change(), *_]:
                return list(map(asdict, answer))
        if operation.name == "get" and not isinstance(answer, values["memory_type"]):
            raise ValidationError(
                f"{answer.id} is of type {type(answer).__name__}, not {values['memory_type'].__name__}"
            )
        return answer

    def post(self, name: str, arguments: dict[str, Any], *, may_repeat: bool = False) -> dict[str, Any]:
        """Return the server's answer to a request as JSON. Raise ALMAError if it refuses or cannot be reached."""
        import httpx

        if self._http.is_closed:
            raise StorageError("this memory is closed; connect again with ALMA.connect")
        try:
            body = json.dumps(arguments, allow_nan=False).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(f"the arguments must be JSON values: {error}") from None
        calls = arguments.get("outcomes", [arguments])
        has_keys = isinstance(calls, list) and all(
            isinstance(one, dict) and one.get("idempotency_key") for one in calls
        )
        may_repeat = may_repeat or has_keys
        for left in reversed(range(_TRIES)):
            pause = _PAUSE * (_TRIES - left)
            try:
                with self._http.stream("POST", f"/v1/{name}", content=body) as response:
                    answer, kind = self._read_answer(response)
            except httpx.TransportError as error:
                was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if not left or (was_sent and not may_repeat):
                    unsure = f"did not answer ({type(error).__name__}); the request may or may not have been processed"
                    trouble = unsure if was_sent else f"cannot be reached: {error}"
                    raise StorageError(f"{self._http.base_url} {trouble}") from error
            else:
                if response.status_code == 200:
                    return answer
                if not left or not (kind in _NOT_BEGUN or (may_repeat and response.status_code == 503)):
                    message = answer.get("detail") or f"{response.url} answered {response.status_code}"
                    refusal = find_error(kind, response.status_code)(message)
                    if isinstance(refusal, errors.StaleVersionError):
                        refusal.present = answer.get("present")
                    raise refusal
                seconds = response.headers.get("retry-after", "")
                pause = min(_LONGEST_PAUSE, float(seconds)) if seconds.isdecimal() else pause
            time.sleep(pause)
        raise AssertionError("the last try ends the loop")

    def _read_answer(self, response: httpx.Response) -> tuple[dict[str, Any], str]:
        """Return the answer and the type of error that it reports. Raise StorageError if it is not an alma server's."""
        content, deadline = bytearray(), time.monotonic() + (self._http.timeout.read or _IDLE)
        for piece in response.iter_bytes():
            content += piece
            if self._max_bytes is not None and (len(content) > self._max_bytes or time.monotonic() > deadline):
                raise StorageError(f"{response.url} sends too large an answer, or too slowly; is the URL correct?")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise StorageError(
                f"{response.url} answered {response.status_code}, but not like an alma server; is the URL correct?"
            )
        return answer, str(answer.get("type", "")).removeprefix("urn:alma:error:")


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, type):
        return str(TYPES.get(value, value.__name__))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
        return [_to_json(item) for item in value]
    return plain(value)


def find_error(kind: str, status: int) -> Callable[[str], ALMAError]:
    """Return the exception class that the server raised."""
    error = getattr(errors, kind, None)
    if isinstance(error, type) and issubclass(error, ALMAError) and not issubclass(error, MissingExtraError):
        return error
    return _BY_STATUS.get(status, ALMAError)
