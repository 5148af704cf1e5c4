"""One request over HTTP that always comes back in time, with no more than was bargained for.

No redirect is followed, so that neither the key nor the question goes anywhere else. The limits that httpx has are for
one silence each; a service that drips a byte now and then is ended by closing its connection at the deadline.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError, ModelError, ModelOutputError, ModelTimeoutError, ModelUnavailableError
from .endpoint import Endpoint
from .patience import NOTHING, TransientError

if TYPE_CHECKING:
    import httpx

EXTRA = "models"
TIMEOUT, CONNECT_TIMEOUT = 60.0, 10.0
MOST_BYTES = 4 * 1024 * 1024
_MOST_ERROR_BYTES = 64 * 1024
_BUSY = frozenset({429, *range(500, 600)})
_NOT_SERVED = frozenset({429, 503, 529})
"""Whoever answers this did no work; after another failure nobody knows what it took."""


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds: for a connection, for one silence, and for all of it."""

    connect: float = CONNECT_TIMEOUT
    read: float = TIMEOUT
    total: float = TIMEOUT


class RefusedError(ModelUnavailableError):
    """A question that the service will not have in this form; `said` is what it said about it."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message, NOTHING)
        self.said = said


def need_httpx(kind: str) -> None:
    if importlib.util.find_spec("httpx") is None:
        raise MissingExtraError("httpx", EXTRA, f"The model {kind!r}")


def post(endpoint: Endpoint, body: Mapping[str, Any], patience: Patience) -> dict[str, Any]:
    """The JSON object that the service answers; a ModelError for anything else."""
    import httpx

    watch = _Watch(patience.total)
    try:
        with watch, _client(endpoint, patience) as client:
            status, headers, data = _exchange(client, endpoint, body, watch)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ModelUnavailableError(f"{endpoint.url} is no address that can be asked", NOTHING) from error
    except httpx.HTTPError as error:
        raise _broken(error, endpoint, patience, watch) from error
    if watch.fired:
        # An answer that does not say how long it is seems to be whole when its connection is closed.
        raise _late(endpoint, patience.total)
    if 200 <= status < 300:
        return _object(endpoint, data)
    raise _refusal(endpoint, status, headers, data)


def _client(endpoint: Endpoint, patience: Patience) -> httpx.Client:
    import httpx

    # What is asked of a model on this machine goes through no proxy.
    return httpx.Client(
        headers={**endpoint.headers, "content-type": "application/json", "accept-encoding": "identity"},
        timeout=httpx.Timeout(patience.read, connect=min(patience.connect, patience.total)),
        follow_redirects=False,
        trust_env=not endpoint.is_local,
        verify=_context(),
    )


@functools.cache
def _context() -> ssl.SSLContext:
    """Made once: it takes longer than the rest of a request to a model on this machine."""
    import httpx

    return httpx.create_ssl_context()


def _exchange(
    client: httpx.Client, endpoint: Endpoint, body: Mapping[str, Any], watch: _Watch
) -> tuple[int, Mapping[str, str], bytes]:
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    # It tells when there is a connection, which is the one thing that httpx does not show.
    with client.stream("POST", endpoint.url, content=content, extensions={"trace": watch.trace}) as response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ModelOutputError(f"{endpoint.kind} answered in an encoding that nobody asked for")
        most = MOST_BYTES if response.is_success else _MOST_ERROR_BYTES
        data = bytearray()
        for piece in response.iter_raw():
            data += piece
            if len(data) > most and response.is_success:
                raise ModelOutputError(f"{endpoint.kind} answered more than {most // 1024 // 1024} MB and was ended")
            if len(data) > most:
                break
        return response.status_code, response.headers, bytes(data)


class _Watch:
    """Closes the connection at the deadline, whatever is being waited for."""

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._line: socket.socket | None = None

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *ended: object) -> None:
        self._timer.cancel()
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.close()

    def trace(self, event: str, told: Mapping[str, Any]) -> None:
        if event.endswith(".connect_tcp.complete"):
            # A second handle: once there is encryption the first belongs to it.
            line = told["return_value"].get_extra_info("socket").dup()
            with self._lock:
                self._line = line
                late = self.fired
            if late:
                self._fire()

    def _fire(self) -> None:
        with self._lock:
            self.fired = True
            line = self._line
            if line is not None:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)


def _broken(error: httpx.HTTPError, endpoint: Endpoint, patience: Patience, watch: _Watch) -> ModelError:
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and not watch.fired:
        said = endpoint.discreet(str(error)) or type(error).__name__
        return TransientError(f"{endpoint.kind} cannot be reached at {endpoint.url}: {said}", NOTHING)
    if watch.fired or isinstance(error, httpx.TimeoutException):
        return _late(endpoint, patience.total if watch.fired else patience.read)
    return TransientError(f"the connection to {endpoint.kind} broke: {type(error).__name__}")


def _late(endpoint: Endpoint, seconds: float) -> ModelTimeoutError:
    return ModelTimeoutError(f"{endpoint.kind} gave no answer in {seconds:g} s and was ended")


def _object(endpoint: Endpoint, data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelOutputError(f"{endpoint.kind} answered {len(data)} bytes that are not JSON") from error
    if not isinstance(told, dict):
        raise ModelOutputError(f"{endpoint.kind} answered something else than an object")
    return told


def _refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], data: bytes) -> ModelError:
    said = _said(data)
    detail = endpoint.discreet(said)
    more = f"; it said: {detail}" if detail else ""
    if 300 <= status < 400:
        return ModelUnavailableError(
            f"{endpoint.kind} sends us elsewhere ({status}), where nothing is sent: correct `base_url`", NOTHING
        )
    if status in (401, 403):
        where = f"the key in {endpoint.key_from}" if endpoint.key_from else "us without a key: set `api_key_env`"
        return ModelUnavailableError(f"{endpoint.kind} refused {where} ({status})", NOTHING)
    if status == 404:
        return ModelUnavailableError(
            f"{endpoint.kind} found nothing (404): check `model` ({endpoint.model}) and `base_url`{more}", NOTHING
        )
    if status in _BUSY:
        spent = NOTHING if status in _NOT_SERVED else None
        return TransientError(f"{endpoint.kind} answered with {status}{more}", spent, _retry_after(headers))
    return RefusedError(f"{endpoint.kind} refused the question ({status}){more}", said)


def _said(data: bytes) -> str:
    """The message in an error of either API, or what there is instead."""
    try:
        told = json.loads(data)
        error = told.get("error", told)
        said = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, RecursionError, AttributeError):
        said = data.decode("utf-8", "replace")
    return said if isinstance(said, str) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None
