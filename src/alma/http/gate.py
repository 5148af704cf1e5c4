"""What every request passes before anything is done for it, whichever route it wants.

In this order: an id, the size, the name it calls us by, the page it comes from, the token, what the token may do, and
how much of it lately. A browser runs on the same machine, so being local proves nothing: a page that rebinds its own
name to 127.0.0.1 fails at the name, any other at its origin, and both have no token. Open routes, such as a health
check, need no token.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError
from .refusal import Refusal
from .tokens import Scope, Token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CALL = "alma.call"
"""Where a route finds what is known about its request."""
PROJECT = "alma-project"
REQUEST_ID = "x-request-id"
_SENT_ALONG = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d{1,5}\Z")
_LOG = logging.getLogger("alma.http")
_LATER = {"retry-after": "5"}
_AND_NO_MORE = {"connection": "close"}
_REALM = 'Bearer realm="alma"'
_INVALID = {"www-authenticate": f'{_REALM}, error="invalid_token"'}
_NOBODY = "\0nobody"
"""Who calls open routes without a token share one rate limit. No token can have this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    hosts: frozenset[str]
    """Names that are ours, lower case; with a port only at that port, without one at any."""
    origins: frozenset[str] = frozenset()
    """Foreign pages that may call us nevertheless, such as https://app.example.org."""
    scheme: str = "http"
    max_bytes: int = 4 * 2**20
    body_seconds: float = 30.0
    """So long may a body take to arrive."""
    rate: float = 200.0
    """Requests a second for each token; 0: as many as it likes."""
    burst: int = 400


class Call:
    """One request, and what becomes of it."""

    __slots__ = ("began", "id", "method", "operation", "path", "received", "sent", "status", "token")

    def __init__(self, request_id: str, method: str) -> None:
        self.id = request_id
        self.method = method
        self.path = ""
        """The route; what was asked for may hold anything."""
        self.operation = ""
        self.token: Token | None = None
        self.status = 0
        self.received = 0
        self.sent = 0
        self.began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


class Finder(Protocol):
    def find(self, secret: str) -> Token | None: ...


class Watcher(Protocol):
    """Sees every request begin and end."""

    def begun(self, call: Call) -> None: ...

    def ended(self, call: Call) -> None: ...


Route = tuple[str, str, Scope | None]
"""The path as it is known to us, the operation (or empty) and what is needed for it; None: no token."""


class Gate:
    def __init__(
        self,
        app: App,
        rules: Rules,
        tokens: Finder,
        route: Callable[[str], Route],
        watchers: Iterable[Watcher] = (),
    ) -> None:
        self._app = app
        self._rules = rules
        self._tokens = tokens
        self._route = route
        self._watchers = tuple(watchers)
        self._limits = Limits(rules.rate, rules.burst)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope["headers"])
        call = Call(_request_id(headers), scope["method"])
        for one in self._watchers:
            one.begun(call)
        try:
            await self._passed(scope, headers, call, receive, send)
        finally:
            for one in self._watchers:
                one.ended(call)

    async def _passed(
        self, scope: MutableMapping[str, Any], headers: Headers, call: Call, receive: Receive, send: Send
    ) -> None:
        origin = headers.one("origin")
        answering = self._answering(call, origin, send)
        is_preflight = (
            call.method == "OPTIONS" and origin is not None and headers.one("access-control-request-method") is not None
        )
        try:
            call.path, call.operation, needed = self._route(scope["path"])
            self._fits(headers)
            self._is_us(headers)
            self._is_welcome(headers, origin)
            if not is_preflight:
                self._authorize(headers, call, needed)
        except Refusal as refusal:
            await respond(answering, refusal.status, refusal.body(call.id), refusal.headers)
            return
        if is_preflight:
            await respond(answering, 204, b"", _PREFLIGHT)
            return
        scope[CALL] = call
        await self._app(scope, self._counted(call, receive), answering)

    def _authorize(self, headers: Headers, call: Call, needed: Scope | None) -> None:
        if needed is None:
            self._limits.take(_NOBODY)
            return
        token = call.token = self._known(headers)
        if not token.scope.holds(needed):
            raise Refusal(
                403,
                "Forbidden",
                f"the token {token.name!r} may {token.scope}, and this needs {needed}",
                {"www-authenticate": f'{_REALM}, error="insufficient_scope", scope="{needed}"'},
            )
        self._limits.take(token.name)

    def _fits(self, headers: Headers) -> None:
        if headers.count("transfer-encoding") and headers.count("content-length"):
            # Whoever passed it on may have read another end of it, and what follows would be somebody else's request.
            raise Refusal(400, "AmbiguousLength", "a request has a length or is chunked, not both", _AND_NO_MORE)
        length = headers.one("content-length")
        if length is not None and (not length.isdecimal() or int(length[:20]) > self._rules.max_bytes):
            raise self._too_large()

    def _too_large(self) -> Refusal:
        return Refusal(413, "TooLarge", f"a request may have at most {self._rules.max_bytes:,} bytes")

    def _is_us(self, headers: Headers) -> None:
        given = (headers.one("host") or "").lower()
        name = _PORT.sub("", given)
        if not given or (given not in self._rules.hosts and name not in self._rules.hosts):
            raise Refusal(421, "ForeignHost", "this is not the host that was asked for; --allowed-host names another")

    def _is_welcome(self, headers: Headers, origin: str | None) -> None:
        if origin is None and headers.count("origin") == 0:
            return
        ours = f"{self._rules.scheme}://{(headers.one('host') or '').lower()}"
        if origin is None or (origin.lower() != ours and origin.lower() not in self._rules.origins):
            raise Refusal(403, "ForeignOrigin", "a page of another site may not call; --allowed-origin lets one in")

    def _known(self, headers: Headers) -> Token:
        kind, _, secret = (headers.one("authorization") or "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise Refusal(
                401, "Unauthorized", "a bearer token is needed: Authorization: Bearer …", {"www-authenticate": _REALM}
            )
        try:
            token = self._tokens.find(secret.strip())
        except ConfigError as error:
            # Where the file is and what is wrong with it is nothing for those who have no token.
            _LOG.error("%s", error)
            raise Refusal(503, "NotReady", "the tokens cannot be read; the log says more", _LATER) from error
        if token is None:
            raise Refusal(401, "Unauthorized", "the bearer token is not known, or was revoked", _INVALID)
        if token.expires_at is not None and token.is_expired:
            told = f"the bearer token {token.name!r} expired on {token.expires_at:%Y-%m-%d %H:%M} UTC"
            raise Refusal(401, "Unauthorized", f"{told}; `alma token add` makes another", _INVALID)
        return token

    def _counted(self, call: Call, receive: Receive) -> Receive:
        async def counting() -> Message:
            message = await receive()
            call.received += len(message.get("body", b""))
            if call.received > self._rules.max_bytes:
                raise self._too_large()
            return message

        return counting

    def _answering(self, call: Call, origin: str | None, send: Send) -> Send:
        along = [(REQUEST_ID.encode(), call.id.encode()), *_SENT_ALONG]
        if origin is not None and origin.lower() in self._rules.origins:
            along += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]

        async def answering(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *along]
            else:
                call.sent += len(message.get("body", b""))
            await send(message)

        return answering


_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": f"authorization, content-type, {PROJECT}, {REQUEST_ID}",
    "access-control-max-age": "600",
}


async def respond(
    send: Send, status: int, body: bytes, headers: Mapping[str, str], kind: str = "application/json"
) -> None:
    told = {**({"content-type": kind} if body else {}), "content-length": str(len(body)), **headers}
    pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _request_id(headers: Headers) -> str:
    given = headers.one(REQUEST_ID)
    return given if given and _GOOD_ID.fullmatch(given) else secrets.token_hex(8)


class Headers:
    """Of one request, by lower-case name. What is said twice counts as not said."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = tuple(pairs)

    def one(self, name: str) -> str | None:
        wanted = name.encode("latin-1")
        found = [value for held, value in self._pairs if held == wanted]
        return found[0].decode("latin-1") if len(found) == 1 else None

    def count(self, name: str) -> int:
        wanted = name.encode("latin-1")
        return sum(held == wanted for held, _ in self._pairs)


class Limits:
    """A bucket for each token, which fills at a steady rate; each request takes one out."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        if self._rate <= 0:
            return
        now = self._clock()
        left, at = self._buckets.get(name, (float(self._burst), now))
        left = min(float(self._burst), left + (now - at) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise Refusal(
                429,
                "RateLimited",
                f"more than {self._rate:g} requests a second; try again in {wait:.1f} s",
                {"retry-after": str(max(1, round(wait)))},
            )
        self._buckets[name] = (left - 1, now)
