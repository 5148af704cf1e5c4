"""The service: a FastAPI application with one route for each operation, run in a thread.

FastAPI describes the operations from their parameters and results (`/openapi.json`); arguments are checked by the
operation itself, as in every other face.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import Any, TypeVar, get_type_hints
from urllib.parse import unquote

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, Field, create_model
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse

from alma import __version__

from ..app import open_memory, read_config
from ..errors import (
    ALMAError,
    BusyError,
    ConfigError,
    ConflictError,
    NotFoundError,
    OverBudgetError,
    ScopeError,
    ValidationError,
)
from ..listening import list_local_names
from ..operations import DEEPEST, Effect, Operation, operations
from ..projects import LazyMemory, Projects, limit_call
from ..schema import RESULT, is_object, plain
from . import HttpOptions, tokens
from .tokens import NEEDED, Token, Tokens, TokenScope

T = TypeVar("T")
Handler = Callable[["HttpService", Request], Coroutine[Any, Any, Response]]

_LOG = logging.getLogger("alma.http")
_AT_ONCE = 16
"""The number of operations that run at the same time; others wait for their turn."""
_AT_ONCE_PER_TOKEN = 4
"""The number of operations of one token that run at the same time, so that slow calls leave room for other clients."""
_PREFIX = "/v1/"
_MAX_DIGITS = 300
"""Of a whole number, so that it is a finite number elsewhere, too."""
_OPEN = ("/health", "/ready")
"""For load balancers, which have no token. The answers say nothing of what is remembered or where."""
_STATUSES = {
    ValidationError: 400,
    ScopeError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    OverBudgetError: 429,
    BusyError: 503,
}
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PROJECT_NAME = r"(?:[A-Za-z0-9._~@:+-]|%[0-9A-Fa-f]{2}){1,600}"
_DESCRIPTION = """Memory that learns from what worked. Every operation is a POST of its arguments.

A refusal is a problem (RFC 9457) whose `detail` says why. 400: an argument or the request is not valid; 401: the token
is missing, unknown or expired; 403: the token may not do this, or not in this project, or the calling page is foreign;
404: not found; 408: the body did not arrive in time; 409: changed by somebody else meanwhile; 413: too large; 415: not
application/json; 421: another host was asked for; 429: too many requests, or a budget is used up; 500: it failed
inside; 503: the store is busy, try again."""


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str = Field(examples=["urn:alma:error:ValidationError"])
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["unknown argument 'agnet'. Valid: agent, task"])
    request_id: str


_REFUSED: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "Refused; `detail` says why."}
}


def build(projects: Projects, tokens: Tokens, rules: GateRules, watchers: Iterable[Watcher] = ()) -> App:
    """Return the ASGI application, behind its gate. The memories are closed when it is shut down."""
    service = HttpService(projects, rules.body_seconds)
    return RequestGate(service.app, rules, tokens, service.find_route, (service.metrics.count_call, *watchers))


def open_service(options: HttpOptions, port: int, watchers: Iterable[Watcher]) -> App:
    """Return the application over the configured memory, which is opened by the first call."""
    path, config = read_config(options.config)
    file = tokens.find_file(path)
    readable = file.with_name(tokens.FIRST_FILE)
    lines = ["made a token that may do everything"] if tokens.ensure_token(file) is not None else []
    lines.append(f"a token is in {readable}" if readable.exists() else f"the tokens are those of {file}")
    for line in lines:
        print(f"alma serve: {line}", file=sys.stderr, flush=True)
    local = [f"{name}:{port}" for name in list_local_names(options.host)]
    rules = GateRules(
        hosts=frozenset(name.lower() for name in (*local, *options.allowed_hosts)),
        origins=frozenset(one.lower().rstrip("/") for one in options.allowed_origins),
        scheme=options.scheme,
        max_bytes=round(options.max_megabytes * 2**20),
        body_seconds=options.timeout,
        rate=options.rate,
        burst=max(1, round(2 * options.rate)),
    )
    projects = Projects(LazyMemory(lambda: open_memory(config)), config.settings)
    return build(projects, Tokens(file), rules, watchers)


@cache
def list_offered() -> dict[str, Operation]:
    """Return what can be called over the network: all operations but those on files of this machine."""
    return {name: one for name, one in operations().items() if not one.on_files}


class Metrics:
    """Figures for Prometheus. Names of operations and statuses are the only labels: no token, no text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        info = Gauge("alma_info", "the version that runs", ["version"], registry=self.registry)
        info.labels(__version__).set(1)
        self._requests = Counter(
            "alma_http_requests", "requests by operation and status", ["operation", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "alma_http_request_seconds", "duration", ["operation"], buckets=_BUCKETS, registry=self.registry
        )
        self.running = Gauge("alma_http_requests_in_flight", "requests that run now", registry=self.registry)

    def count_call(self, call: RequestInfo) -> None:
        name = call.operation or call.path or "unknown"
        self._requests.labels(name, call.status).inc()
        self._seconds.labels(name).observe(call.seconds)

    def render(self, project: str, memories: Mapping[str, int]) -> bytes:
        """`memories`: how many the project holds, by type."""
        counted = CollectorRegistry()
        gauge = Gauge("alma_memories", "memories in use, by type", ["project", "type"], registry=counted)
        for kind, count in memories.items():
            gauge.labels(project, kind).set(count)
        return generate_latest(self.registry) + generate_latest(counted)


class _Application(FastAPI):
    """Describes refusals under their own media type, and pairs as lists."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path in document["paths"].values():
            for described in path.values():
                refusal = described["responses"]["default"]
                refusal["content"] = {PROBLEM: next(iter(refusal["content"].values()))}
        for model in document["components"]["schemas"].values():
            for member in model.get("properties", {}).values():
                # Many clients know no positions: a pair of numbers is described as two numbers.
                positions = member.get("prefixItems", ())
                if positions and all(one == positions[0] for one in positions):
                    member["items"] = member.pop("prefixItems")[0]
        return document


class HttpService:
    """The application behind the gate."""

    def __init__(self, projects: Projects, body_seconds: float) -> None:
        self._projects = projects
        self._body_seconds = body_seconds
        self.metrics = Metrics()
        self._limiters: dict[str, anyio.CapacityLimiter] = {}

        @asynccontextmanager
        async def close_memories(app: FastAPI) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await anyio.to_thread.run_sync(self._projects.close)

        self.app = _Application(
            title="ALMA memory",
            version=__version__,
            description=_DESCRIPTION,
            # Its pages would load scripts from elsewhere.
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=close_memories,
            exception_handlers={HTTPException: answer_error},
        )
        self.app.state.service = self
        self.app.router.routes += list_routes()

    def find_route(self, path: str) -> Route:
        operation = list_offered().get(path.removeprefix(_PREFIX)) if path.startswith(_PREFIX) else None
        if operation is not None:
            return path, operation.name, NEEDED[operation.effect]
        known = (*_OPEN, "/metrics", "/openapi.json", "/v1/operations")
        return (path if path in known else "(unknown)"), "", None if path in _OPEN else TokenScope.READ

    async def answer_call(self, request: Request, operation: Operation) -> Response:
        call: RequestInfo = request.scope[CALL]
        arguments = limit_call(operation, operation.check(await self._read_body(request)), None, call.may_approve)
        project = _read_project(request)

        def run() -> bytes:
            alma = self._open_project(call, project)
            result = plain(operation.run(alma, **arguments))
            if operation.group == "domains" and operation.effect is not Effect.READS:
                self._projects.renew(alma.project_id)
            return _write_json(result if is_object(operation.returns) else {RESULT: result})

        assert call.token is not None
        async with self._limit(call.token.name, _AT_ONCE_PER_TOKEN):
            return Response(await self._run_in_thread(run), media_type="application/json")

    async def _read_body(self, request: Request) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await request.body()
        except TimeoutError:
            message = f"the body did not arrive within {self._body_seconds:g} s"
            raise Refusal(408, "TooSlow", message, {"connection": "close"}) from None
        if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "UnsupportedMediaType", "the body must be application/json")
        return decode_body(body)

    def _open_project(self, call: RequestInfo, project: str | None) -> Any:
        """Open the named project, else the token's only one, else the one that is configured."""
        assert call.token is not None
        bounds = call.token.projects
        if project is None and bounds is not None and (len(bounds) == 1 or self._projects.configured not in bounds):
            if len(bounds) > 1:
                raise ValidationError(f"name a project in the header Alma-Project: {', '.join(sorted(bounds))}")
            [project] = bounds
        return self._projects.get(project, bounds, may_approve=call.may_approve)

    async def answer_operations(self, request: Request) -> Response:
        names = ("name", "summary", "group", "effect", "idempotent")
        entries = [
            {name: getattr(one, name) for name in names} | {"scope": NEEDED[one.effect]}
            for one in list_offered().values()
        ]
        return JSONResponse({"operations": entries})

    async def answer_health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def answer_ready(self, request: Request) -> Response:
        def is_ready() -> bool:
            try:
                return bool(list_offered()["health"].run(self._projects.get()).ok)
            except ALMAError as error:
                _LOG.warning("the memory is not ready: %s", str(error), exc_info=error)
                return False

        if not await self._run_in_thread(is_ready):
            message = "the memory has a problem; POST /v1/health says which"
            raise Refusal(503, "NotReady", message, {"retry-after": "5"})
        return JSONResponse({"ready": True})

    async def answer_metrics(self, request: Request) -> Response:
        project = _read_project(request)

        def render() -> bytes:
            alma = self._open_project(request.scope[CALL], project)
            return self.metrics.render(alma.project_id, alma.get_stats()["by_type"])

        return Response(await self._run_in_thread(render), media_type=CONTENT_TYPE_LATEST)

    def _limit(self, name: str, most: int) -> anyio.CapacityLimiter:
        if name not in self._limiters:
            self._limiters[name] = anyio.CapacityLimiter(most)
        return self._limiters[name]

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Let others be served meanwhile. What has begun is finished, whether or not the caller still waits."""
        return await anyio.to_thread.run_sync(work, limiter=self._limit("", _AT_ONCE))


# -- descriptions

_PROJECT_HEADER = {
    "name": "Alma-Project",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": f"^{_PROJECT_NAME}$"},
    "description": "The project, percent-encoded. Default: the token's only one, else the configured one.",
}


@cache
def list_routes() -> list[APIRoute]:
    """Return the routes of every service: described once, because that takes a while."""
    token = [Security(HTTPBearer(auto_error=False, scheme_name="token"))]
    routes = [
        APIRoute(
            path,
            partial(_answer, handle),
            operation_id="health_check" if path == "/health" else path.rpartition("/")[2],
            summary=summary,
            description=summary,
            response_model=result,
            response_class=PlainTextResponse if result is None else JSONResponse,
            dependencies=[] if path in _OPEN else token,
            responses=_REFUSED,
            openapi_extra={"parameters": [_PROJECT_HEADER]} if result is None else {},
        )
        for path, handle, result, summary in (
            ("/health", HttpService.answer_health, dict[str, str], "Whether the service runs. Needs no token."),
            ("/ready", HttpService.answer_ready, dict[str, bool], "Whether the memory can be read. Needs no token."),
            ("/metrics", HttpService.answer_metrics, None, "Figures for Prometheus."),
            ("/v1/operations", HttpService.answer_operations, dict[str, list[dict[str, Any]]], "All operations."),
        )
    ]
    routes += [
        APIRoute(
            _PREFIX + one.name,
            partial(_answer, partial(HttpService.answer_call, operation=one)),
            methods=["POST"],
            operation_id=one.name,
            tags=[one.group],
            summary=one.summary,
            description=f"{one.description}\n\nNeeds a token that may {NEEDED[one.effect]}.",
            response_model=describe_result(one),
            response_description="Done.",
            dependencies=token,
            responses=_REFUSED,
            openapi_extra={
                "x-effect": str(one.effect),
                "x-idempotent": one.idempotent,
                "parameters": [_PROJECT_HEADER],
                "requestBody": {
                    "required": any(parameter.needed for parameter in one.parameters),
                    "content": {"application/json": {"schema": describe_arguments(one)}},
                },
            },
        )
        for one in list_offered().values()
    ]
    return routes


def describe_arguments(operation: Operation) -> dict[str, Any]:
    """Return the schema of a request's body. What has a default may be null as well, which means the default."""
    schema = operation.input_schema()
    for one in operation.parameters:
        about, member = one.about, schema["properties"][one.name]
        member.pop("description", None)
        outer = {"description": about.text, **({} if about.example is None else {"examples": [about.example]})}
        if "default" in member and not about.local:
            outer["default"] = member.pop("default")
        if about.local:
            member = {"type": "string", "pattern": r"^(https?|s3|gs)://[!-~]+$"} if about.uri else {"type": "null"}
        if member.get("type") in ("integer", "number"):
            limits = {"minimum": about.least, "maximum": about.most}
            member |= {name: limit for name, limit in limits.items() if limit is not None}
        schema["properties"][one.name] = (member if one.needed else {"anyOf": [member, {"type": "null"}]}) | outer
    return schema


def describe_result(operation: Operation) -> Any:
    """Return the model of an answer: what is not an object is in one."""
    if is_dataclass(operation.returns):
        return operation.returns
    # pydantic does not read the TypedDict of Python 3.11.
    members = get_type_hints(operation.returns) if is_object(operation.returns) else {RESULT: operation.returns}
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in members.items()}
    return create_model(f"{operation.name.title().replace('_', '')}Result", **fields)


# -- requests and answers


async def _answer(handle: Handler, request: Request) -> Response:
    """Answer a request. Whatever goes wrong is an answer too, and reveals nothing of what is inside."""
    service: HttpService = request.app.state.service
    try:
        with service.metrics.running.track_inprogress():
            return await handle(service, request)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong, the client gets an answer
        return await answer_error(request, error)


async def answer_error(request: Request, error: Exception) -> Response:
    call: RequestInfo = request.scope[CALL]
    name, headers = call.operation or call.path, {}
    if isinstance(error, Refusal):
        return error.respond(call.id)
    if isinstance(error, HTTPException):
        status, kind, message = error.status_code, error.detail.replace(" ", ""), error.detail.lower()
        headers = {name.lower(): one for name, one in (error.headers or {}).items()}
        if status == 404 and request.url.path.startswith(_PREFIX):
            message = "there is no such operation; GET /v1/operations lists them"
    elif isinstance(error, ALMAError):
        status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
        kind, message = type(error).__name__, error.neutral or str(error)
        if error.neutral:
            # For the owner of the server; the caller gets a neutral sentence that names no files.
            _LOG.error("request %s to %s failed: %s", call.id, name, str(error))
        if status == 503:
            headers = {"retry-after": "1"}
    else:
        _LOG.error("request %s to %s failed inside alma", call.id, name, exc_info=error)
        status, kind = 500, "InternalError"
        message = f"it failed inside alma; the log says more under the request id {call.id}"
    return Refusal(status, kind, message, headers).respond(call.id)


def _read_project(request: Request) -> str | None:
    names = request.headers.getlist(PROJECT)
    if not names:
        return None
    with suppress(UnicodeDecodeError):
        if len(names) == 1 and re.fullmatch(_PROJECT_NAME, names[0]):
            return unquote(names[0], errors="strict")
    raise ValidationError("the header Alma-Project must name one project, percent-encoded in UTF-8")


def _read_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def decode_body(body: bytes) -> dict[str, Any]:
    """Return the arguments in a request's body; no body means none."""
    try:
        value = json.loads(body.decode("utf-8") or "{}", parse_int=_read_integer)
        # Half a character, NaN and numbers without end cannot be written.
        _write_json(value)
    except RecursionError:
        raise ValidationError(f"the body is nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise ValidationError(f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise ValidationError('the body must be a JSON object of arguments, such as {"agent": "dev"}')
    return value


def _write_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


# -- the gate
# What every request passes before anything is done for it, in this order: a request id, the size, the host name, the
# origin of the page, the token, the scope of the token, and its rate limit. A browser runs on the same machine, so a
# local connection proves nothing: a page that rebinds its own name to 127.0.0.1 fails at the host name, any other page
# at its origin, and neither has a token. Health checks need no token.


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Route = tuple[str, str, TokenScope | None]
"""The route's path, its operation (or empty) and the scope it needs; None: no token."""

CALL = "alma.call"
"""The key of the ASGI scope under which a route finds its `RequestInfo`."""
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
class GateRules:
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
class RequestInfo:
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
        return self.token is not None and self.token.scope.holds(TokenScope.APPROVE)


Watcher = Callable[[RequestInfo], None]
"""Is called when a request has ended."""


class RequestGate:
    """The ASGI application that lets requests through to the service."""

    def __init__(
        self,
        app: App,
        rules: GateRules,
        tokens: Tokens,
        find_route: Callable[[str], Route],
        watchers: Iterable[Watcher] = (),
    ) -> None:
        self._app = app
        self._rules = rules
        self._tokens = tokens
        self._find_route = find_route
        self._watchers = tuple(watchers)
        self._limits = RateLimits(rules.rate, rules.burst)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            request_id = get_single(Headers(scope=scope), REQUEST_ID)
            call = RequestInfo(request_id if _GOOD_ID.fullmatch(request_id) else secrets.token_hex(8), scope["method"])
            try:
                await self._pass(scope, call, receive, send)
            finally:
                for watch in self._watchers:
                    watch(call)

    async def _pass(self, scope: MutableMapping[str, Any], call: RequestInfo, receive: Receive, send: Send) -> None:
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

    def _authorize(self, headers: Headers, call: RequestInfo, needed: TokenScope | None) -> None:
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


class RateLimits:
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
