"""One HTTP request that always ends in time and sends nothing anywhere else.

No redirect is followed, so that neither the key nor the prompt goes to another address. httpx limits only one silence
at a time; a service that sends a byte now and then is ended by shutting its connection down at the deadline.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..engine.redact import redact
from ..errors import ConfigError, ModelError, ModelOutputError, ModelTimeoutError, ModelUnavailableError
from ..retry import read_retry_after
from .budget import NOTHING
from .client import TransientError

if TYPE_CHECKING:
    import httpx

TIMEOUT, CONNECT_TIMEOUT = 60.0, 10.0
MOST_BYTES = 4 * 1024 * 1024
_MOST_ERROR_BYTES = 64 * 1024
NOT_SERVED = frozenset({429, 503, 529})  # These did no work; what another failure took is not known.


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service: its address, its key, and how many seconds to wait for a connection, in silence, and in all."""

    kind: str
    url: str
    model: str
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)
    key_from: str = ""
    """The environment variable that the key is in."""
    connect_timeout: float = CONNECT_TIMEOUT
    read_timeout: float = TIMEOUT
    timeout: float = TIMEOUT

    def shorten(self, text: str) -> str:
        """Return what a service wrote as one short line without the key or any other secret."""
        hidden = text.replace(self.secret, "***") if self.secret else text
        return " ".join(redact(hidden[:16_000]).split())[:200]


class RefusedError(ModelUnavailableError):
    """The service does not accept the prompt in this form; `reason` is its own message."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, NOTHING)
        self.reason = reason


def check_url(url: str, *, allow_http: bool) -> str:
    """Return the address without a slash at its end; ConfigError when nothing may be sent there."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the model's `base_url` must be an address such as https://example.org/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not quoted: there may be a key in it.
        raise ConfigError("the model's `base_url` must hold no name, password, query or fragment")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise ConfigError(
            f"the model's `base_url` sends what is asked to {host} unencrypted: use https, "
            "or set `allow_http: true` if that is your own network"
        )
    return url.strip().rstrip("/")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(environ: Mapping[str, str], variable: str) -> str:
    """Return the key in that variable; the empty text for no variable."""
    if not variable:
        return ""
    key = environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"the environment variable {variable} is not set; it must hold the model's key")
    # A header that cannot be sent would be quoted in an error.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the environment variable {variable} holds characters that no key has")
    return key


def post(endpoint: Endpoint, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object that the service answers; a ModelError for anything else."""
    import httpx

    deadline = threading.Event()
    try:
        with (
            _shut_down_at(deadline, endpoint.timeout) as extensions,
            _open_client(endpoint) as client,
            client.stream(
                "POST",
                endpoint.url,
                content=json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
                extensions=extensions,
            ) as response,
        ):
            data = _read_body(endpoint, response)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ModelUnavailableError(f"{endpoint.url} is no address that can be asked", NOTHING) from error
    except httpx.HTTPError as error:
        is_connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if deadline.is_set() or (is_connected and isinstance(error, httpx.TimeoutException)):
            raise _late(endpoint, endpoint.timeout if deadline.is_set() else endpoint.read_timeout) from error
        if is_connected:
            raise TransientError(f"the connection to {endpoint.kind} broke: {type(error).__name__}") from error
        reason = endpoint.shorten(str(error)) or type(error).__name__
        raise TransientError(f"{endpoint.kind} cannot be reached at {endpoint.url}: {reason}", NOTHING) from error
    if deadline.is_set():
        # A body without a length looks complete when its connection is shut down.
        raise _late(endpoint, endpoint.timeout)
    if not response.is_success:
        raise _explain_refusal(endpoint, response.status_code, response.headers, data)
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelOutputError(f"{endpoint.kind} answered {len(data)} bytes that are not JSON") from error
    if not isinstance(reply, dict):
        raise ModelOutputError(f"{endpoint.kind} answered something else than an object")
    return reply


def _late(endpoint: Endpoint, seconds: float) -> ModelTimeoutError:
    return ModelTimeoutError(f"{endpoint.kind} gave no answer in {seconds:g} s and was ended")


def _open_client(endpoint: Endpoint) -> httpx.Client:
    import httpx

    return httpx.Client(
        headers={**endpoint.headers, "content-type": "application/json", "accept-encoding": "identity"},
        timeout=httpx.Timeout(endpoint.read_timeout, connect=min(endpoint.connect_timeout, endpoint.timeout)),
        follow_redirects=False,
        # A prompt to a model on this machine goes through no proxy.
        trust_env=not is_loopback(urlsplit(endpoint.url).hostname or ""),
        verify=_create_ssl_context(),
    )


@functools.cache
def _create_ssl_context() -> ssl.SSLContext:
    """Cached: it takes longer than the rest of a request to a model on this machine."""
    import httpx

    return httpx.create_ssl_context()


@contextmanager
def _shut_down_at(deadline: threading.Event, seconds: float) -> Iterator[dict[str, Any]]:
    """Shut the connection down after so many seconds. Yields the extensions for a request, which watch it connect."""
    lock = threading.Lock()
    lines: list[socket.socket] = []

    def shut_down() -> None:
        with lock:
            deadline.set()
            for line in lines:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def watch(event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(".connect_tcp.complete"):
            with lock:
                # A second handle: with TLS the first one is detached.
                lines.append(info["return_value"].get_extra_info("socket").dup())
            if deadline.is_set():
                shut_down()

    timer = threading.Timer(seconds, shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield {"trace": watch}
    finally:
        timer.cancel()
        with lock:
            for line in lines:
                line.close()


def _read_body(endpoint: Endpoint, response: httpx.Response) -> bytes:
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
    return bytes(data)


def _explain_refusal(endpoint: Endpoint, status: int, headers: Mapping[str, str], data: bytes) -> ModelError:
    kind, reason = endpoint.kind, _read_reason(data)
    detail = endpoint.shorten(reason)
    more = f"; it said: {detail}" if detail else ""
    if status == 429 or status >= 500:
        spent = NOTHING if status in NOT_SERVED else None
        return TransientError(f"{kind} answered with {status}{more}", spent, read_retry_after(headers))
    if 300 <= status < 400:
        message = f"{kind} sends us elsewhere ({status}), where nothing is sent: correct `base_url`"
    elif status in (401, 403):
        key = f"the key in {endpoint.key_from}" if endpoint.key_from else "us without a key: set `api_key_env`"
        message = f"{kind} refused {key} ({status})"
    elif status == 404:
        message = f"{kind} found nothing (404): check `model` ({endpoint.model}) and `base_url`{more}"
    else:
        return RefusedError(f"{kind} refused the question ({status}){more}", reason)
    return ModelUnavailableError(message, NOTHING)


def _read_reason(data: bytes) -> str:
    """Return the message in an error of either API, or the error as it is."""
    try:
        reply = json.loads(data)
        error = reply.get("error", reply)
        reason = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, RecursionError, AttributeError):
        reason = data.decode("utf-8", "replace")
    return reason if isinstance(reason, str) else ""
