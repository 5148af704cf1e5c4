"""The HTTP service: a FastAPI application with one route for each operation.

FastAPI describes the operations in `/openapi.json`; each operation checks its own arguments, as in every other
interface.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import multiprocessing
import os
import re
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints
from urllib.parse import unquote

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as MetricCounter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field, create_model
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp as App
from starlette.types import Message, Receive, Scope, Send

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
    StaleVersionError,
    StorageError,
    UnavailableError,
    ValidationError,
    unknown,
)
from ..events import deliver_in_background
from ..inspection import ChangeFeed
from ..listening import list_local_names
from ..memory import ALMA
from ..operations import DEEPEST, RENAMED, Operation, act_as, collect_changes, describe_unknown, operations
from ..projects import LazyMemory, Projects, limit_call
from ..schema import RESULT, is_object, plain
from ..words import Health
from . import HttpOptions, proof, shell, tokens
from .admission import OVERLOADED, Admission, AdmissionRules, OverloadedError
from .shell import DashboardSessions
from .tokens import NEEDED, Token, Tokens, TokenScope, describe_token

if TYPE_CHECKING:
    from ..tracing import Tracer

T = TypeVar("T")
Handler = Callable[["HttpService", Request], Coroutine[Any, Any, Response]]

_LOG = logging.getLogger("alma.http")
_HEALTH = "health"
"""The operation that is never refused: it must answer when the server is busy, as `/metrics` must."""
_READY_SECONDS = 5.0
_PREFIX = "/v1/"
_MAX_DIGITS = 300
"""Of a whole number, so that it stays finite as a float."""
_OPEN = ("/health", "/ready")
"""For load balancers, which have no token. The responses reveal nothing about the memory."""
_STATUSES = {
    ValidationError: 400,
    ScopeError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    OverBudgetError: 429,
    BusyError: 503,
    UnavailableError: 503,
}
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which `prometheus_client` adds up the figures of several processes."""
_ENTRY = ("/ui/session", proof.PATH)
"""The login. It counts wrong tries itself and lets right ones through, so that nobody can lock others out."""
_TO_DASHBOARD = ("/", "/ui")
"""The addresses that people type into a browser."""
_UNLIMITED = ("/health", *_ENTRY)
"""Without a token and without a limit. `/ready` reads the store, so it is limited like files, but apart from them."""
_ACCESS = ("/v1/session/code", "/v1/session/end", "/v1/sessions", "/v1/tokens", "/v1/events")
_MAX_CODE = 200
_MAX_ENTRY_BYTES = 20_000
"""Of the body of a login: anybody may send one."""
_MAX_STREAMS = 8
_STREAM_SECONDS, _ALIVE_SECONDS, _POLL_SECONDS = 600.0, 10.0, 0.5
_COMMANDS = {"ingest": "alma ingest", "export_rules": "alma rules export", "import_rules": "alma rules import"}
"""What to run on the server instead of the operations that are not offered."""
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PROJECT_NAME = r"(?:[A-Za-z0-9._~@:+-]|%[0-9A-Fa-f]{2}){1,600}"
_DESCRIPTION = """Memory that learns from outcomes. To call an operation, POST its arguments as a JSON object.

`GET /v1/operations` lists all operations. Errors are problem documents (RFC 9457); `detail` explains the error.

| status | meaning |
|---|---|
| 400 | the request or an argument is invalid |
| 401 | the token is missing, unknown or expired |
| 403 | the token lacks the scope or the project, or the origin is not allowed |
| 404 | no such memory, item or operation |
| 405 | wrong method: operations are called with POST |
| 408 | the body did not arrive in time |
| 409 | somebody else changed it in the meantime: read it and retry |
| 413 | the request is too large |
| 415 | the body is not application/json |
| 421 | the host name is not allowed |
| 429 | too many requests, the server is busy, or a budget is used up: retry after the time in `Retry-After` |
| 500 | internal error |
| 503 | the store is busy or unavailable, or the server is about to stop: retry after the time in `Retry-After` |"""


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str = Field(examples=["urn:alma:error:ValidationError"])
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["unknown argument 'agnet'. Valid: agent, task"])
    request_id: str


_REFUSED: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "An error; `detail` explains it."}
}


def build(
    projects: Projects,
    tokens: Tokens,
    rules: GateRules,
    watchers: Iterable[Watcher] = (),
    is_stopping: threading.Event | None = None,
    tracer: Tracer | None = None,
    sessions: DashboardSessions | None = None,
) -> App:
    """Return the ASGI application behind its gate. The memories are closed at shutdown.

    It is not ready once `is_stopping` is set. `sessions` are those of the dashboard, shared by several processes.
    """
    sessions = sessions or DashboardSessions(tokens)
    service = HttpService(projects, rules, sessions, is_stopping)
    calls = (service.metrics.count_call, *watchers)
    return RequestGate(service.app, rules, sessions.find, service.find_route, calls, service.is_stopping, tracer)


def open_projects(options: HttpOptions, tracer: Tracer | None) -> tuple[Path, Projects]:
    """Return the configuration file and its memory, which is opened by the first call."""
    path, config = read_config(options.config)
    has_siblings = options.workers > 1 or config.storage not in ("sqlite", "file")

    def open_traced() -> ALMA:
        alma = open_memory(config, is_shared=options.workers > 1)
        if tracer is not None:
            tracer.trace_memory(alma)
        return deliver_in_background(alma)

    return path, Projects(LazyMemory(open_traced, has_siblings=has_siblings), config.settings)


def find_token_file(options: HttpOptions, path: Path) -> Path:
    """Return the file of the tokens, for a configuration file."""
    return Path(options.tokens).resolve() if options.tokens else tokens.find_file(path)


def announce_tokens(options: HttpOptions, path: Path) -> None:
    """Create the first token if there is none, and print where the tokens are."""
    file = find_token_file(options, path)
    readable = file.with_name(tokens.FIRST_FILE)
    lines = ["created a token with the scope admin"] if tokens.ensure_token(file) is not None else []
    lines.append(f"the token is in {readable}" if readable.exists() else f"tokens are read from {file}")
    if tokens.read_environment() is not None:
        lines.append(f"the token in {tokens.SECRET_VARIABLE} has the scope admin")
    for line in lines:
        print(f"alma serve: {line}", file=sys.stderr, flush=True)


def read_rules(options: HttpOptions, port: int) -> GateRules:
    """Return the rules of the gate that the options and the server's port describe."""
    local = [f"{name}:{port}" for name in list_local_names(options.host)]
    return GateRules(
        hosts=frozenset(name.lower() for name in (*local, *options.allowed_hosts)),
        origins=frozenset(one.lower().rstrip("/") for one in options.allowed_origins),
        scheme=options.scheme,
        max_bytes=round(options.max_megabytes * 2**20),
        body_seconds=options.timeout,
        rate=options.rate,
        burst=max(1, round(2 * options.rate)),
        admission=AdmissionRules(
            at_once=options.at_once,
            at_once_per_token=options.at_once_per_token,
            queue=options.queue,
            max_wait=options.max_wait,
        ),
    )


@cache
def list_offered() -> dict[str, Operation]:
    """Return the operations that can be called over the network: all except those on local files."""
    return {name: one for name, one in operations().items() if not one.on_files}


class Metrics:
    """Prometheus metrics, labelled by operation and status only."""

    def __init__(self, admission: Admission) -> None:
        self.registry = CollectorRegistry()
        version = Gauge(
            "alma_info", "version of the server", ["version"], registry=self.registry, multiprocess_mode="livemax"
        )
        version.labels(__version__).set(1)
        self._requests = MetricCounter(
            "alma_http_requests", "requests by operation and status", ["operation", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "alma_http_request_seconds", "duration of requests", ["operation"], buckets=_BUCKETS, registry=self.registry
        )
        self.running = Gauge(
            "alma_http_requests_in_flight", "requests in progress", registry=self.registry, multiprocess_mode="livesum"
        )
        self._refused = MetricCounter(
            "alma_http_requests_refused", "requests refused with 429, by reason", ["reason"], registry=self.registry
        )
        waiting = Gauge(
            "alma_http_requests_waiting", "operations that wait", registry=self.registry, multiprocess_mode="livesum"
        )
        admission.count_waiting = waiting.set

    def count_call(self, call: RequestInfo) -> None:
        """Count a finished request."""
        name = call.operation or call.path or "unknown"
        self._requests.labels(name, call.status).inc()
        self._seconds.labels(name).observe(call.seconds)
        if call.refused:
            self._refused.labels(call.refused).inc()

    def render(self, project: str, memories: Mapping[str, int], *, has_requests: bool = True) -> bytes:
        """Return the metrics as text. `memories` is the number of memories in the project, by type.

        The figures about requests are those of all projects, so a token for some of them gets none.
        """
        served = self.registry
        if METRICS_FOLDER in os.environ:
            # The figures of all processes of this server, whichever of them answers.
            served = CollectorRegistry()
            MultiProcessCollector(served)  # type: ignore[no-untyped-call]
        gauge = GaugeMetricFamily("alma_memories", "active memories by type", labels=["project", "type"])
        for kind, count in memories.items():
            gauge.add_metric([project, kind], count)
        requests = generate_latest(served) if has_requests else b""
        return requests + generate_latest(_Collected(gauge))


class _Collected(Collector):
    """A figure of the moment of the request, which no process adds to those of others."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


class _Application(FastAPI):
    """Describes refusals under their own media type, and pairs of numbers as lists."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path in document["paths"].values():
            for described in path.values():
                refusal = described["responses"]["default"]
                refusal["content"] = {PROBLEM: next(iter(refusal["content"].values()))}
        for model in document["components"]["schemas"].values():
            for member in model.get("properties", {}).values():
                # Many clients do not support prefixItems: describe a pair of numbers as a list.
                positions = member.get("prefixItems", ())
                if positions and all(one == positions[0] for one in positions):
                    member["items"] = member.pop("prefixItems")[0]
        return document


class HttpService:
    """The application behind the gate."""

    def __init__(
        self,
        projects: Projects,
        rules: GateRules,
        sessions: DashboardSessions,
        is_stopping: threading.Event | None = None,
    ) -> None:
        self._projects = projects
        self._sessions = sessions
        self._tries = RateLimits(shell.TRIES_PER_MINUTE / 60, shell.TRIES_PER_MINUTE)
        self._streams: Counter[str] = Counter()
        self.is_stopping = is_stopping or threading.Event()
        self._body_seconds = rules.body_seconds
        self._admission = Admission(rules.admission)
        self.metrics = Metrics(self._admission)
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
            # The documentation pages would load scripts from other sites.
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=close_memories,
            exception_handlers={HTTPException: answer_error},
        )
        self.app.state.service = self
        self.app.router.routes += list_routes()

    def find_route(self, path: str) -> Route:
        """Return the route of a path, with its operation and the scope it needs."""
        name = path.removeprefix(_PREFIX)
        operation = list_offered().get(RENAMED.get(name, name)) if path.startswith(_PREFIX) else None
        if operation is not None:
            return path, operation.name, NEEDED[operation.effect]
        if path in _TO_DASHBOARD or path.startswith("/ui/"):
            is_known = path in (*_TO_DASHBOARD, *_ENTRY) or path in shell.list_files()
            return (path if is_known else _UNKNOWN), "", None
        fixed = (*_OPEN, "/metrics", "/openapi.json", "/v1/operations", *_ACCESS)
        scope = TokenScope.ADMIN if path == "/v1/tokens" else TokenScope.READ
        return (path if path in fixed else _UNKNOWN), "", None if path in _OPEN else scope

    async def answer_call(self, request: Request, operation: Operation) -> Response:
        """Run an operation with the arguments in the request's body."""
        call: RequestInfo = request.scope[CALL]
        token: Token = request.scope[CALL].token
        if request.url.query:
            raise ValidationError(f"send the arguments of {operation.name} in the body as JSON, not in the query")
        checked = operation.check(await self._read_body(request))
        arguments = limit_call(operation, checked, None, call.may_approve, token.name)
        project = _read_project(request)

        def run() -> bytes:
            try:
                alma = self._open_project(call, project)
            except (ConfigError, StorageError) as error:
                if operation.name != "health":
                    raise
                _LOG.warning("request %s: the memory cannot be opened: %s", call.id, str(error))
                # File names are for the log only.
                problem = f"{error.neutral or error}; see the server's log for request id {call.id}"
                place = {"version": __version__, "project_id": project or "", "embedder": ""}
                return _write_json(plain(Health(ok=False, memories=0, problems=[problem], **place)))
            with act_as(token.name):
                result = plain(operation.run(alma, **arguments))
            return _write_json(result if is_object(operation.returns) else {RESULT: result})

        async with self._admit(operation, token):
            with collect_changes() as changes:
                content = await self._run_in_thread(run)
            headers = {"alma-change": changes[0]} if len(changes) == 1 else None
            return Response(content, media_type="application/json", headers=headers)

    @asynccontextmanager
    async def _admit(self, operation: Operation, token: Token) -> AsyncIterator[None]:
        if operation.name == _HEALTH:
            async with self._limit(_HEALTH, 2):
                yield
            return
        try:
            async with self._admission.admit(token.name):
                yield
        except OverloadedError as error:
            headers = {"retry-after": str(error.retry_seconds)}
            raise Refusal(429, OVERLOADED, str(error), headers) from None

    async def _read_body(self, request: Request) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await request.body()
        except TimeoutError:
            message = f"the body did not arrive within {self._body_seconds:g} s"
            raise Refusal(408, "TooSlow", message, {"connection": "close"}) from None
        if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(
                415, "UnsupportedMediaType", "the body must be JSON: set the header Content-Type: application/json"
            )
        return decode_body(body)

    def _open_project(self, call: RequestInfo, project: str | None) -> Any:
        """Open the named project, or the token's only project, or the configured one."""
        assert call.token is not None
        bounds = call.token.projects
        if project is None and bounds is not None and (len(bounds) == 1 or self._projects.configured not in bounds):
            if len(bounds) > 1:
                raise ValidationError(f"set the header Alma-Project to one of: {', '.join(sorted(bounds))}")
            [project] = bounds
        return self._projects.get(project, bounds, may_approve=call.may_approve)

    async def answer_operations(self, request: Request) -> Response:
        """List the operations."""
        names = ("name", "summary", "group", "effect", "idempotent")
        entries = [
            {name: getattr(one, name) for name in names} | {"scope": NEEDED[one.effect]}
            for one in list_offered().values()
        ]
        return JSONResponse({"operations": entries})

    async def answer_health(self, request: Request) -> Response:
        """Report that the server is running. Needs no token."""
        return JSONResponse({"status": "ok"})

    async def answer_ready(self, request: Request) -> Response:
        """Report whether the memory can be read. Needs no token."""
        # It also reports that the server is about to stop.
        call: RequestInfo = request.scope[CALL]

        def is_ready() -> bool:
            try:
                health = self._projects.get().health()
                for problem in health.problems:
                    _LOG.warning("request %s: the memory is not ready: %s", call.id, problem)
                return bool(health.ok)
            except ALMAError as error:
                _LOG.warning("request %s: the memory is not ready: %s", call.id, str(error), exc_info=error)
                return False

        message = f"the memory is not ready; see the server's log for request id {call.id}, or POST /v1/health"
        if self.is_stopping.is_set():
            message = "the server is about to stop"
        else:
            # A database that is away may answer late. Checks have threads of their own, so that slow calls delay none.
            with anyio.move_on_after(_READY_SECONDS):
                check = anyio.to_thread.run_sync(is_ready, limiter=self._limit(_OPEN[1], 2), abandon_on_cancel=True)
                if await check:
                    return JSONResponse({"ready": True})
        raise Refusal(503, "NotReady", message, {"retry-after": "5"})

    async def answer_metrics(self, request: Request) -> Response:
        """Return metrics for Prometheus."""
        project = _read_project(request)

        def render() -> bytes:
            alma = self._open_project(request.scope[CALL], project)
            is_bound = request.scope[CALL].token.projects is not None
            return self.metrics.render(alma.project_id, alma.get_stats()["by_type"], has_requests=not is_bound)

        async with self._limit("/metrics", 2):
            return Response(await self._run_in_thread(render), media_type=CONTENT_TYPE_LATEST)

    # -- the dashboard

    async def answer_file(self, request: Request) -> Response:
        """Return a fixed file of the dashboard."""
        target, site = (request.headers.get(f"sec-fetch-{one}", "") for one in ("dest", "site"))
        # A service worker that an earlier program left at this port asks for the page itself, from the same origin.
        if request.url.path == "/ui/enter" and target not in ("", "document") and site != "same-origin":
            raise Refusal(403, "CrossSite", "the link can only be opened as a page")
        with suppress(KeyError):
            return shell.answer_file(request.url.path, request.headers.get("if-none-match", ""))
        raise Refusal(404, "NotFound", "there is no such file; the dashboard is at /ui/")

    async def answer_entry(self, request: Request) -> Response:
        """Trade a one-time code for a session."""
        code = (await self._read_entry(request)).get("code")
        opened = self._sessions.open_session(code) if isinstance(code, str) and len(code) <= _MAX_CODE else None
        if opened is None:
            # Only wrong codes count, so that nobody can lock others out.
            self._tries.take("")
            message = "this link has expired or was used before; run `alma dashboard` to get a new one"
            raise Refusal(401, "InvalidCode", message)
        secret, session = opened
        return JSONResponse({"token": secret, **session.describe()})

    async def answer_proof(self, request: Request) -> Response:
        """Prove to a caller who signed with a token that this server knows the token, too."""
        body = await self._read_entry(request)
        nonce, signature = body.get("nonce"), body.get("signature")
        ends = proof.ConnectionEnds(*(proof.format_end(request.scope.get(end)) for end in ("server", "client")))
        try:
            digests = [token.sha256 for token in self._sessions.tokens.list_all()]
        except ConfigError as error:
            raise refuse_unreadable(error) from error
        signer = proof.find_signer(digests, nonce, signature, ends)
        if signer is None:
            self._tries.take(proof.PATH)
            raise Refusal(401, "InvalidProof", "no token of this server signed this request on this connection")
        pid = _find_main_process()
        return JSONResponse({"signature": proof.sign_answer(signer, str(nonce), ends, pid), "pid": pid})

    async def _read_entry(self, request: Request) -> dict[str, Any]:
        """Return the body of a login, which no page of another site may send."""
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refusal(403, "CrossSite", "only the dashboard's own page may open a session")
        return await self._read_body(request)

    async def answer_code(self, request: Request) -> Response:
        """Return a one-time code that opens the dashboard with at most the rights of the caller's token."""
        token: Token = request.scope[CALL].token
        if self._sessions.get_own(token) is not None:
            raise Refusal(403, "Forbidden", "a session cannot open others; run `alma dashboard`")
        body = await self._read_body(request)
        scope, project = body.get("scope", TokenScope.APPROVE), body.get("project")
        if scope not in list(TokenScope):
            raise ValidationError(unknown("scope", scope, list(TokenScope)))
        if project is not None and (not isinstance(project, str) or not 0 < len(project) <= 200):
            raise ValidationError("project must be the name of a project")
        if project is not None and token.projects is not None and project not in token.projects:
            allowed = ", ".join(sorted(token.projects))
            raise ScopeError(f"the token may not use project {project!r}. Allowed: {allowed}.")
        code = self._sessions.make_code(token, TokenScope(scope), project)
        return JSONResponse({"code": code})

    async def answer_sessions(self, request: Request) -> Response:
        """List the sessions: for an administrator those in its projects, otherwise the own one."""
        token: Token = request.scope[CALL].token
        own = self._sessions.get_own(token)
        visible = self._sessions.list_sessions(token)
        return JSONResponse({"sessions": [{**session.describe(), "is_own": session == own} for session in visible]})

    async def answer_end(self, request: Request) -> Response:
        """End the own session, or as an administrator any in its projects."""
        token: Token = request.scope[CALL].token
        own = self._sessions.get_own(token)
        id = (await self._read_body(request)).get("id") or (own.id if own else None)
        if not isinstance(id, str) or (token.scope is not TokenScope.ADMIN and (own is None or own.id != id)):
            raise Refusal(403, "Forbidden", "only an administrator may end the session of somebody else")
        # A session of another project is answered like one that does not exist.
        if not self._sessions.end_session(id, token):
            raise Refusal(404, "NotFound", f"there is no session {id!r}; GET /v1/sessions lists them")
        return JSONResponse({"ended": True})

    async def answer_tokens(self, request: Request) -> Response:
        """List the tokens that the caller manages, without secrets."""
        token: Token = request.scope[CALL].token
        visible = [other for other in self._sessions.tokens.list_all() if token.may_manage(other)]
        return JSONResponse({"tokens": [describe_token(other) for other in visible]})

    async def answer_events(self, request: Request) -> Response:
        """Stream the changes of a project: ids and kinds, no text."""
        call: RequestInfo = request.scope[CALL]
        assert call.token is not None
        after, name = request.query_params.get("after"), call.token.sha256
        # A browser that connects again by itself names the last event that it got.
        after = request.headers.get("last-event-id", "") if after is None else after
        if after and not re.fullmatch(r"\d{1,17}", after):
            raise ValidationError("after must be the `position` of an earlier event")
        if self._streams[name] >= _MAX_STREAMS:
            message = f"more than {_MAX_STREAMS} streams are open; close one"
            raise Refusal(429, RATE_LIMITED, message, {"retry-after": "10"})
        project = _read_project(request)
        position = int(after) if after else None
        feed = await self._run_in_thread(lambda: ChangeFeed(self._open_project(call, project), position))
        return StreamingResponse(self._stream_changes(feed, name), media_type="text/event-stream")

    async def _stream_changes(self, feed: ChangeFeed, name: str) -> AsyncIterator[bytes]:
        began = last = time.monotonic()
        sequence = 0
        self._streams[name] += 1
        try:
            yield _write_event("hello", {"seq": 0, "position": str(feed.position)})
            while not self.is_stopping.is_set() and time.monotonic() - began < _STREAM_SECONDS:
                notices = await anyio.to_thread.run_sync(feed.read_notices, limiter=self._limit("/v1/events", 4))
                for kind, notice in notices:
                    sequence += 1
                    yield _write_event(kind, {"seq": sequence, "position": str(feed.position), **notice})
                now = time.monotonic()
                if notices or now - last >= _ALIVE_SECONDS:
                    last = now
                    yield b": keep-alive\n\n"
                await asyncio.sleep(_POLL_SECONDS)
        except StorageError as error:
            # The client reconnects, and that request reports the error.
            _LOG.warning("a stream of changes ended: %s", error.neutral or error)
        finally:
            self._streams[name] -= 1

    def _limit(self, name: str, most: float) -> anyio.CapacityLimiter:
        return self._limiters.setdefault(name, anyio.CapacityLimiter(most))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread, of which there are enough for all that is admitted. It is finished in any case."""
        return await anyio.to_thread.run_sync(work, limiter=self._limit("", math.inf))


# -- OpenAPI descriptions

_OPERATIONS = """

Each has `name`, `summary`, `group`, `effect` (reads, adds, changes or erases), `idempotent`, and `scope`: what a token
needs to call it. Call one with `POST /v1/NAME`; its arguments are in `/openapi.json`."""
_PROJECT_HEADER = {
    "name": "Alma-Project",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": f"^{_PROJECT_NAME}$"},
    "description": "The project, percent-encoded. Default: the token's only project, or the configured one.",
}


@cache
def list_routes() -> list[APIRoute]:
    """Return the routes of every service. They are cached because describing them takes a while."""
    token = [Security(HTTPBearer(auto_error=False, scheme_name="token"))]
    routes = [
        APIRoute(
            path,
            partial(_answer, handle),
            operation_id="health_check" if path == "/health" else path.rpartition("/")[2],
            summary=handle.__doc__,
            description=f"{handle.__doc__}{more}",
            response_model=result,
            response_class=PlainTextResponse if result is None else JSONResponse,
            dependencies=[] if path in _OPEN else token,
            responses=_REFUSED,
            openapi_extra={"parameters": [_PROJECT_HEADER]} if result is None else {},
        )
        for path, handle, result, more in (
            ("/health", HttpService.answer_health, dict[str, str], ""),
            ("/ready", HttpService.answer_ready, dict[str, bool], ""),
            ("/metrics", HttpService.answer_metrics, None, ""),
            ("/v1/operations", HttpService.answer_operations, dict[str, list[dict[str, Any]]], _OPERATIONS),
        )
    ]
    undescribed = {
        "/ui/session": (HttpService.answer_entry, "POST"),
        proof.PATH: (HttpService.answer_proof, "POST"),
        "/v1/session/code": (HttpService.answer_code, "POST"),
        "/v1/session/end": (HttpService.answer_end, "POST"),
        "/v1/sessions": (HttpService.answer_sessions, "GET"),
        "/v1/tokens": (HttpService.answer_tokens, "GET"),
        "/v1/events": (HttpService.answer_events, "GET"),
        # What people type into a browser.
        "/": (HttpService.answer_file, "GET"),
        "/ui": (HttpService.answer_file, "GET"),
        "/ui/{path:path}": (HttpService.answer_file, "GET"),
        # Load balancers may send HEAD.
        "/health": (HttpService.answer_health, "HEAD"),
        "/ready": (HttpService.answer_ready, "HEAD"),
    }
    routes += [
        APIRoute(path, partial(_answer, handle), methods=[method], include_in_schema=False, response_model=None)
        for path, (handle, method) in undescribed.items()
    ]
    for name, present_name in RENAMED.items():
        call = partial(HttpService.answer_call, operation=list_offered()[present_name])
        routes.append(
            APIRoute(
                _PREFIX + name, partial(_answer, call), methods=["POST"], include_in_schema=False, response_model=None
            )
        )
    routes += [
        APIRoute(
            _PREFIX + one.name,
            partial(_answer, partial(HttpService.answer_call, operation=one)),
            methods=["POST"],
            operation_id=one.name,
            tags=[one.group],
            summary=one.summary,
            description=f"{one.description}\n\nRequires a token with the scope `{NEEDED[one.effect]}`.",
            response_model=describe_result(one),
            response_description="Success.",
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
    """Return the schema of a request's body. An argument with a default may be null, which means the default."""
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
    """Return the model of an answer. A result that is not an object is wrapped in one."""
    if is_dataclass(operation.returns):
        return operation.returns
    # pydantic does not read the TypedDict of Python 3.11.
    members = get_type_hints(operation.returns) if is_object(operation.returns) else {RESULT: operation.returns}
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in members.items()}
    return create_model(f"{operation.name.title().replace('_', '')}Result", **fields)


# -- requests and answers


async def _answer(handle: Handler, request: Request) -> Response:
    """Answer a request. Unexpected errors are answered too, without internal details."""
    service: HttpService = request.app.state.service
    try:
        with service.metrics.running.track_inprogress():
            return await handle(service, request)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong, the client gets an answer
        return await answer_error(request, error)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response for an error."""
    call: RequestInfo = request.scope[CALL]
    name, headers = call.operation or call.path, {}
    if isinstance(error, Refusal):
        return error.respond(call)
    if isinstance(error, HTTPException):
        status, kind, message = error.status_code, error.detail.replace(" ", ""), error.detail.lower()
        headers = {name.lower(): one for name, one in (error.headers or {}).items()}
        name_in_path = request.url.path.removeprefix(_PREFIX)
        if status == 404 and request.url.path.startswith(_PREFIX):
            message = f"{describe_unknown(name_in_path, list_offered())} GET /v1/operations lists all operations."
            if name_in_path in operations():
                message = (
                    f"the operation {name_in_path!r} uses files of the server, so it is not offered over HTTP; "
                    f"on the server, run `{_COMMANDS.get(name_in_path, 'alma')}`"
                )
        elif status == 405 and name_in_path in list_offered():
            message = f"call {name_in_path} with POST and its arguments as a JSON object, not with {request.method}"
    elif isinstance(error, ALMAError):
        status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
        kind, message = type(error).__name__, error.neutral or str(error)
        if error.neutral:
            # For the server's owner; the caller gets a message without file names.
            _LOG.error("request %s to %s failed: %s", call.id, name, str(error))
        if status == 503:
            headers = {"retry-after": "1"}
    else:
        _LOG.error("request %s to %s failed inside alma", call.id, name, exc_info=error)
        status, kind = 500, "InternalError"
        message = f"internal error; see the server's log for request id {call.id}"
    refusal = Refusal(status, kind, message, headers)
    if isinstance(error, StaleVersionError):
        refusal.more = {"present": plain(error.present)}
    return refusal.respond(call)


def _find_main_process() -> int:
    """Return the id of the process that the server was started as; one of several workers has a parent."""
    parent = multiprocessing.parent_process()
    return os.getpid() if parent is None else int(parent.pid or 0)


def _write_event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), data["position"].encode(), _write_json(data))


def _read_project(request: Request) -> str | None:
    names = request.headers.getlist(PROJECT)
    if not names:
        return None
    with suppress(UnicodeDecodeError):
        if len(names) == 1 and re.fullmatch(_PROJECT_NAME, names[0]):
            return unquote(names[0], errors="strict")
    raise ValidationError("the header Alma-Project must be one project name, percent-encoded as UTF-8")


def _read_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def decode_body(body: bytes) -> dict[str, Any]:
    """Return the arguments in a request's body. An empty body means no arguments."""
    try:
        value = json.loads(body.decode("utf-8") or "{}", parse_int=_read_integer)
        # Lone surrogates, NaN and infinity are refused.
        _write_json(value)
    except RecursionError:
        raise ValidationError(f"the body is nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise ValidationError(f"the body is not valid JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise ValidationError('the body must be a JSON object of arguments, such as {"agent": "dev"}')
    return value


def _write_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


# -- the gate
# Checks that every request passes, in this order: request id, size, host name, origin, token, scope and rate limit. A
# local connection proves nothing, because browsers run on the same machine: a page that rebinds its name to 127.0.0.1
# fails at the host name, any other page at its origin, and neither has a token. Health checks need no token.


Route = tuple[str, str, TokenScope | None]
"""The route's path, its operation (or empty) and the scope it needs; None: no token."""

CALL = "alma.call"
"""The key of the ASGI scope under which a route finds its `RequestInfo`."""
PROJECT = "alma-project"
REQUEST_ID = "x-request-id"
PROBLEM = "application/problem+json"
RATE_LIMITED = "RateLimited"
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d{1,5}\Z")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]{0,32}")
_MAX_FORWARDED = 100
_UNKNOWN = "(unknown)"
_REALM = 'Bearer realm="alma"'
_MOST_BUCKETS = 10_000
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": f"authorization, content-type, {PROJECT}, {REQUEST_ID}",
    "access-control-max-age": "600",
}


class Refusal(Exception):
    """A refused request: a status, an error type and a message (RFC 9457)."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})
        self.more: Mapping[str, Any] = {}

    def respond(self, call: RequestInfo) -> Response:
        """Return the refusal of a request as a response."""
        call.refused = self.kind if self.status == HTTPStatus.TOO_MANY_REQUESTS else ""
        problem = {
            "type": f"urn:alma:error:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": str(self),
            "request_id": call.id,
            **self.more,
        }
        body = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
        return Response(body, self.status, self.headers, media_type=PROBLEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What the gate lets through."""

    hosts: frozenset[str]
    """Allowed host names in lower case; a name with a port is allowed at that port only."""
    origins: frozenset[str] = frozenset()
    """Other allowed origins, such as https://app.example.org."""
    scheme: str = "http"
    max_bytes: int = 4 * 2**20
    body_seconds: float = 30.0
    """A body must arrive within this time."""
    rate: float = 200.0
    """Requests per second for each token; 0 for no limit."""
    burst: int = 400
    admission: AdmissionRules = field(default_factory=AdmissionRules)


@dataclass(slots=True)
class RequestInfo:
    """One request: who sent it, and its result."""

    id: str
    method: str
    path: str = ""
    """The route, not the requested path, which may contain anything."""
    requested: str = ""
    """The requested path, shortened for the log."""
    client: str = ""
    """The address of the caller or of its proxy."""
    forwarded_for: str | None = None
    """The end of the X-Forwarded-For header, which anybody can set. A proxy appends the address it knows."""
    operation: str = ""
    token: Token | None = None
    status: int = 0
    received: int = 0
    sent: int = 0
    refused: str = ""
    """The error type, if it was refused because there are too many requests."""
    trace_id: str = ""
    """Of its OpenTelemetry trace, if there is one."""
    began: float = field(default_factory=time.perf_counter)

    @property
    def is_known_path(self) -> bool:
        """Whether the requested path is a route of the server."""
        return self.path != _UNKNOWN

    @property
    def seconds(self) -> float:
        """The seconds since the request began."""
        return time.perf_counter() - self.began

    @property
    def may_approve(self) -> bool:
        """Whether the token may accept memories from outside content."""
        return self.token is not None and self.token.scope.holds(TokenScope.APPROVE)


Watcher = Callable[[RequestInfo], None]
"""Called with each finished request."""


@dataclass(eq=False)
class RequestGate:
    """The ASGI application that checks requests before they reach the service."""

    app: App
    rules: GateRules
    find_token: Callable[[str], Token | None]
    find_route: Callable[[str], Route]
    watchers: tuple[Watcher, ...]
    is_stopping: threading.Event
    tracer: Tracer | None

    def __post_init__(self) -> None:
        self._limits = RateLimits(self.rules.rate, self.rules.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = Headers(scope=scope)
            request_id = get_single(headers, REQUEST_ID)
            call = RequestInfo(request_id if _GOOD_ID.fullmatch(request_id) else secrets.token_hex(8), scope["method"])
            call.client = (scope.get("client") or ("",))[0]
            if forwarded := ", ".join(headers.getlist("x-forwarded-for")):
                call.forwarded_for = forwarded[-_MAX_FORWARDED:]
            call.requested = shorten_path(scope["path"])
            try:
                traceparent = get_single(headers, "traceparent")
                with self.tracer.trace_request(call, traceparent) if self.tracer else nullcontext():
                    await self._pass(scope, call, receive, send)
            finally:
                for watch in self.watchers:
                    watch(call)

    async def _pass(self, scope: Scope, call: RequestInfo, receive: Receive, send: Send) -> None:
        headers, most = Headers(scope=scope), self.rules.max_bytes
        most = min(most, _MAX_ENTRY_BYTES) if scope["path"] in _ENTRY else most
        origin = get_single(headers, "origin")
        added = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        added.append((REQUEST_ID.encode(), call.id.encode()))
        if scope["path"] in _TO_DASHBOARD or scope["path"].startswith("/ui/"):
            added += [(name.encode(), value.encode()) for name, value in shell.HEADERS.items()]
        if origin.lower() in self.rules.origins:
            added += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
        if self.is_stopping.is_set():
            # The client's next request should go to another process.
            added.append((b"connection", b"close"))
        too_large = Refusal(413, "TooLarge", f"the request is too large; the limit is {most:,} bytes")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                own = message.get("headers", ())
                message["headers"] = [*own, *(one for one in added if one[0] not in dict(own))]
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
            call.path, call.operation, needed = self.find_route(scope["path"])
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers and "content-length" in headers:
                # A proxy may disagree about where the request ends (request smuggling).
                message = "the request has both Content-Length and Transfer-Encoding; send one of them"
                raise Refusal(400, "AmbiguousLength", message, {"connection": "close"})
            if not length.isdecimal() or int(length[:20]) > most:
                raise too_large
            self._check_origin(headers, origin)
            if not is_preflight:
                self._authorize(headers, call, needed)
        except Refusal as refusal:
            await refusal.respond(call)(scope, receive, answer)
        else:
            scope[CALL] = call
            app = Response(status_code=204, headers=_PREFLIGHT) if is_preflight else self.app
            await app(scope, count_received, answer)

    def _check_origin(self, headers: Headers, origin: str) -> None:
        host = get_single(headers, "host").lower()
        if not host or (host not in self.rules.hosts and _PORT.sub("", host) not in self.rules.hosts):
            raise Refusal(
                421,
                "ForeignHost",
                "this host name is not allowed; start the server with --allowed-host NAME to allow it",
            )
        if "origin" in headers and origin.lower() not in {f"{self.rules.scheme}://{host}", *self.rules.origins}:
            raise Refusal(
                403,
                "ForeignOrigin",
                "this origin is not allowed; start the server with --allowed-origin ORIGIN to allow it",
            )

    def _authorize(self, headers: Headers, call: RequestInfo, needed: TokenScope | None) -> None:
        if needed is None:
            if call.path not in _UNLIMITED:
                group = "ready" if call.path in _OPEN else "files"
                self._limits.take(f"\0{group} {call.client}")
            return
        kind, _, secret = get_single(headers, "authorization").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            message = "missing bearer token; send the header Authorization: Bearer TOKEN"
            raise Refusal(401, "Unauthorized", message, {"www-authenticate": _REALM})
        try:
            token = self.find_token(secret.strip())
        except ConfigError as error:
            raise refuse_unreadable(error) from error
        if token is None or token.is_expired:
            message = "the bearer token is unknown or revoked"
            if token is not None:
                message = f"the bearer token {token.name!r} expired on {token.expires_at:%Y-%m-%d %H:%M} UTC"
            hint = "create a token with `alma token add`"
            if secret.startswith(shell.PREFIX):
                message, hint = "this session of the dashboard is over", "run `alma dashboard` to open another"
            invalid = {"www-authenticate": f'{_REALM}, error="invalid_token"'}
            raise Refusal(401, "Unauthorized", f"{message}; {hint}", invalid)
        call.token = token
        if not token.scope.holds(needed):
            message = f"the token {token.name!r} has the scope {token.scope}, but this needs {needed}"
            insufficient = {"www-authenticate": f'{_REALM}, error="insufficient_scope", scope="{needed}"'}
            raise Refusal(403, "Forbidden", message, insufficient)
        self._limits.take(token.name)


def refuse_unreadable(error: ConfigError) -> Refusal:
    """Return the refusal if the tokens cannot be read. Callers without a token must not learn about the file."""
    _LOG.error("%s", error)
    return Refusal(503, "NotReady", "cannot read the tokens; see the server's log", {"retry-after": "5"})


def shorten_path(path: str) -> str:
    """Return a path for the log. Segments that are long or no plain names may hold text or secrets: they become `…`."""
    first, *segments = path[:1000].split("/")
    names = [one if _SEGMENT.fullmatch(one) else "…" for one in segments[:6]]
    return "/".join(["…" if first else "", *names, *(["…"] if len(segments) > 6 else [])])


def get_single(headers: Headers, name: str) -> str:
    """Return a header, or '' if it is missing or repeated."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


class RateLimits:
    """A token bucket for each caller: it refills at a steady rate, and each request takes one token.

    A caller is the name of a token, or an address after a NUL, which no name contains.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Count a request. Raise Refusal if the caller is over the limit."""
        if self._rate <= 0:
            return
        now = self._clock()
        left, at = self._buckets.get(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            wait = max(1, math.ceil((1 - left) / self._rate))
            message = f"more than {self._rate:.3g} requests per second; retry in {wait} s"
            raise Refusal(429, RATE_LIMITED, message, {"retry-after": str(wait)})
        if name not in self._buckets and len(self._buckets) >= _MOST_BUCKETS:
            self._drop_full(now)
        self._buckets[name] = (left - 1, now)

    def _drop_full(self, now: float) -> None:
        """Forget the callers who have not asked for so long that their buckets are full again."""
        self._buckets = {
            name: (left, then)
            for name, (left, then) in self._buckets.items()
            if left + (now - then) * self._rate < self._burst
        }
