"""What every request passes before anything is done for it, whichever route it asks for.

In this order: a request id, the size, the host name, the origin of the page, the token, the scope of the token, and its
rate limit. A browser runs on the same machine, so a local connection proves nothing: a page that rebinds its own name
to 127.0.0.1 fails at the host name, any other page at its origin, and neither has a token. Health checks need no token.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from ..errors import ConfigError
from .tokens import Scope, Token, Tokens

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Route = tuple[str, str, Scope | None]
"""The route's path, its operation (or empty) and the scope it needs; None: no token."""

CALL = "alma.call"
"""The key of the ASGI scope under which a route finds its `Call`."""
PROJECT = "alma-project"
REQUEST_ID = "x-request-id"
PROBLEM = "application/problem+json"
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d{1,5}\Z")
_LOG = logging.getLogger("alma.http")
_REALM = 'Bearer realm="alma"'
_ANYBODY = "\0anybody"
"""The rate limit that callers of open routes share. No token can have this name."""
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": f"authorization, content-type, {PROJECT}, {REQUEST_ID}",
    "access-control-max-age": "600",
}


class Refusal(Exception):
    """Why a request is not done: a status, a name for programs and a sentence for people (RFC 9457)."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})

    def respond(self, request_id: str) -> Response:
        problem = {
            "type": f"urn:alma:error:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": str(self),
            "request_id": request_id,
        }
        body = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
        return Response(body, self.status, self.headers, media_type=PROBLEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    hosts: frozenset[str]
    """The server's own names, lower case; one with a port holds at that port only."""
    origins: frozenset[str] = frozenset()
    """Foreign pages that may call nevertheless, such as https://app.example.org."""
    scheme: str = "http"
    max_bytes: int = 4 * 2**20
    body_seconds: float = 30.0
    """A body must arrive within this time."""
    rate: float = 200.0
    """Requests a second for each token; 0: unlimited."""
    burst: int = 400


@dataclass(slots=True)
class Call:
    """One request, and what becomes of it."""

    id: str
    method: str
    path: str = ""
    """The route, not the requested path, which may hold anything."""
    operation: str = ""
    token: Token | None = None
    status: int = 0
    received: int = 0
    sent: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def may_approve(self) -> bool:
        return self.token is not None and self.token.scope.holds(Scope.APPROVE)


Watcher = Callable[[Call], AbstractContextManager[None]]
"""Is entered when a request begins, and left when it has ended."""


class Gate:
    """The ASGI application that lets requests through to the service."""

    def __init__(
        self,
        app: App,
        rules: Rules,
        tokens: Tokens,
        find_route: Callable[[str], Route],
        watchers: Iterable[Watcher] = (),
    ) -> None:
        self._app = app
        self._rules = rules
        self._tokens = tokens
        self._find_route = find_route
        self._watchers = tuple(watchers)
        self._limits = Limits(rules.rate, rules.burst)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            request_id = get_single(Headers(scope=scope), REQUEST_ID)
            call = Call(request_id if _GOOD_ID.fullmatch(request_id) else secrets.token_hex(8), scope["method"])
            with ExitStack() as stack:
                for watch in self._watchers:
                    stack.enter_context(watch(call))
                await self._pass(scope, call, receive, send)

    async def _pass(self, scope: MutableMapping[str, Any], call: Call, receive: Receive, send: Send) -> None:
        headers, most = Headers(scope=scope), self._rules.max_bytes
        origin = get_single(headers, "origin")
        added = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        added.append((REQUEST_ID.encode(), call.id.encode()))
        if origin.lower() in self._rules.origins:
            added += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
        too_large = Refusal(413, "TooLarge", f"a request may have at most {most:,} bytes")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *added]
            call.sent += len(message.get("body", b""))
            await send(message)

        async def count_received() -> Message:
            message = await receive()
            call.received += len(message.get("body", b""))
            if call.received > most:
                raise too_large
            return message

        is_preflight = call.method == "OPTIONS" and origin and "access-control-request-method" in headers
        try:
            call.path, call.operation, needed = self._find_route(scope["path"])
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers and "content-length" in headers:
                # A proxy may have seen another end of it, and what follows would be somebody else's request.
                message = "a request has a length or is chunked, not both"
                raise Refusal(400, "AmbiguousLength", message, {"connection": "close"})
            if not length.isdecimal() or int(length[:20]) > most:
                raise too_large
            self._check_origin(headers, origin)
            if not is_preflight:
                self._authorize(headers, call, needed)
        except Refusal as refusal:
            await refusal.respond(call.id)(scope, receive, answer)
        else:
            scope[CALL] = call
            app = Response(status_code=204, headers=_PREFLIGHT) if is_preflight else self._app
            await app(scope, count_received, answer)

    def _check_origin(self, headers: Headers, origin: str) -> None:
        host = get_single(headers, "host").lower()
        if not host or (host not in self._rules.hosts and _PORT.sub("", host) not in self._rules.hosts):
            raise Refusal(421, "ForeignHost", "this is not the host that was asked for; --allowed-host names another")
        if "origin" in headers and origin.lower() not in {f"{self._rules.scheme}://{host}", *self._rules.origins}:
            raise Refusal(403, "ForeignOrigin", "a page of another site may not call; --allowed-origin lets one in")

    def _authorize(self, headers: Headers, call: Call, needed: Scope | None) -> None:
        if needed is None:
            self._limits.take(_ANYBODY)
            return
        kind, _, secret = get_single(headers, "authorization").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            message = "a bearer token is needed: Authorization: Bearer …"
            raise Refusal(401, "Unauthorized", message, {"www-authenticate": _REALM})
        try:
            token = self._tokens.find(secret.strip())
        except ConfigError as error:
            # Where the file is and what is wrong with it is not for callers without a token.
            _LOG.error("%s", error)
            message = "the tokens cannot be read; the log says more"
            raise Refusal(503, "NotReady", message, {"retry-after": "5"}) from error
        if token is None or token.is_expired:
            message = "the bearer token is not known, or was revoked"
            if token is not None:
                message = f"the bearer token {token.name!r} expired on {token.expires_at:%Y-%m-%d %H:%M} UTC"
            invalid = {"www-authenticate": f'{_REALM}, error="invalid_token"'}
            raise Refusal(401, "Unauthorized", f"{message}; `alma token add` makes another", invalid)
        call.token = token
        if not token.scope.holds(needed):
            message = f"the token {token.name!r} may {token.scope}, and this needs {needed}"
            insufficient = {"www-authenticate": f'{_REALM}, error="insufficient_scope", scope="{needed}"'}
            raise Refusal(403, "Forbidden", message, insufficient)
        self._limits.take(token.name)


def get_single(headers: Headers, name: str) -> str:
    """Return a header, or "". One that is sent twice counts as missing."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


class Limits:
    """A token bucket for each caller: it fills at a steady rate, and each request takes one out."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        if self._rate <= 0:
            return
        now = self._clock()
        left, at = self._buckets.get(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            message = f"more than {self._rate:g} requests a second; try again in {wait:.1f} s"
            raise Refusal(429, "RateLimited", message, {"retry-after": str(max(1, round(wait)))})
        self._buckets[name] = (left - 1, now)
