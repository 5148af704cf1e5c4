"""The service: a FastAPI application with one route for each operation, run in a thread.

FastAPI describes the operations from their parameters and results (`/openapi.json`); arguments are checked by the
operation itself, as in every other face.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import anyio
import anyio.to_thread
from fastapi import FastAPI, Header, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse

from alma import __version__

from ..callers import limit_call
from ..errors import (
    ALMAError,
    BusyError,
    ConflictError,
    NotFoundError,
    OverBudgetError,
    ScopeError,
    ValidationError,
)
from ..operations import DEEPEST, About, Effect, Operation, Parameter, operations
from ..projects import Projects
from ..schema import RESULT, is_object, plain
from .gate import CALL, PROBLEM, PROJECT, App, Call, Gate, Refusal, Rules, Watcher
from .gate import Route as KnownRoute
from .tokens import NEEDED, Scope, Tokens

T = TypeVar("T")
Handler = Callable[["Service", Request], Coroutine[Any, Any, Response]]

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


class Status(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    ready: bool


class OperationEntry(BaseModel):
    name: str
    summary: str
    group: str
    effect: Effect
    idempotent: bool
    scope: Scope


class OperationList(BaseModel):
    operations: list[OperationEntry]


def build(projects: Projects, tokens: Tokens, rules: Rules, watchers: Iterable[Watcher] = ()) -> App:
    """Return the ASGI application, behind its gate. The memories are closed when it is shut down."""
    service = Service(projects, rules.body_seconds)
    return Gate(service.app, rules, tokens, service.find_route, (service.metrics.watch, *watchers))


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
        self._running = Gauge("alma_http_requests_in_flight", "requests that run now", registry=self.registry)

    @contextmanager
    def watch(self, call: Call) -> Iterator[None]:
        with self._running.track_inprogress():
            try:
                yield
            finally:
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


class _Route(APIRoute):
    """A route that FastAPI describes by the signature of its endpoint; `endpoint.handle` answers the whole request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Handler = self.endpoint.handle  # type: ignore[attr-defined]
        return partial(_answer, handle)


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


class Service:
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

    def find_route(self, path: str) -> KnownRoute:
        operation = list_offered().get(path.removeprefix(_PREFIX)) if path.startswith(_PREFIX) else None
        if operation is not None:
            return path, operation.name, NEEDED[operation.effect]
        known = (*_OPEN, "/metrics", "/openapi.json", "/v1/operations")
        return (path if path in known else "(unknown)"), "", None if path in _OPEN else Scope.READ

    async def answer_call(self, request: Request, operation: Operation) -> Response:
        call: Call = request.scope[CALL]
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

    def _open_project(self, call: Call, project: str | None) -> Any:
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

Project = Annotated[
    str | None,
    Header(
        alias="Alma-Project",
        pattern=f"^{_PROJECT_NAME}$",
        description="The project, percent-encoded. Default: the token's only one, else the configured one.",
    ),
]


@cache
def list_routes() -> list[APIRoute]:
    """Return the routes of every service: described once, because that takes a while."""
    token = [Security(HTTPBearer(auto_error=False, scheme_name="token"))]

    def describe(path: str, handle: Handler, result: Any, parameters: Mapping[str, Any], **more: Any) -> APIRoute:
        async def endpoint() -> None: ...

        # FastAPI describes these parameters; requests are answered by `handle`.
        endpoint.handle = handle  # type: ignore[attr-defined]
        endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=kind,
                    default=None if kind is Project else inspect.Parameter.empty,
                )
                for name, kind in parameters.items()
            ]
        )
        dependencies = [] if path in _OPEN else token
        return _Route(path, endpoint, response_model=result, dependencies=dependencies, responses=_REFUSED, **more)

    routes = [
        describe(
            path,
            handle,
            result,
            {"project": Project} if result is None else {},
            operation_id="health_check" if path == "/health" else path.rpartition("/")[2],
            summary=summary,
            response_class=PlainTextResponse if result is None else JSONResponse,
        )
        for path, handle, result, summary in (
            ("/health", Service.answer_health, Status, "Whether the service runs. Needs no token."),
            ("/ready", Service.answer_ready, Ready, "Whether the memory can be read. Needs no token."),
            ("/metrics", Service.answer_metrics, None, "Figures for Prometheus."),
            ("/v1/operations", Service.answer_operations, OperationList, "All operations."),
        )
    ]
    routes += [
        describe(
            _PREFIX + one.name,
            partial(Service.answer_call, operation=one),
            describe_result(one),
            {"body": describe_arguments(one), "project": Project},
            methods=["POST"],
            operation_id=one.name,
            tags=[one.group],
            summary=one.summary,
            description=f"{one.description}\n\nNeeds a token that may {NEEDED[one.effect]}.",
            response_description="Done.",
            openapi_extra={
                "x-effect": str(one.effect),
                "x-idempotent": one.idempotent,
                "requestBody": {"required": any(parameter.needed for parameter in one.parameters)},
            },
        )
        for one in list_offered().values()
    ]
    return routes


def describe_arguments(operation: Operation) -> Any:
    """Return the model of a request's body, for the OpenAPI document."""
    fields: dict[str, Any] = {one.name: _describe_parameter(one) for one in operation.parameters}
    name = f"{operation.name.title().replace('_', '')}Arguments"
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _describe_parameter(parameter: Parameter) -> tuple[Any, Any]:
    about = parameter.about
    if about.local and not about.uri:
        return None, Field(None, description=f"{about.text}. Not over the network.")
    kind = _limit_type(parameter.type, about)
    pattern = r"^(https?|s3|gs)://[!-~]+$" if about.local else None
    examples = None if about.example is None else [about.example]
    if parameter.needed:
        return kind, Field(description=about.text, pattern=pattern, examples=examples)
    # What has a default may be null as well, which means the default.
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    return kind | None, Field(
        None if about.local else default, description=about.text, pattern=pattern, examples=examples
    )


def _limit_type(kind: Any, about: About) -> Any:
    """Return the type with its strings limited to the choices of a parameter, and its numbers to its limits."""
    if kind is str and about.choices:
        return Literal[tuple(str(one) for one in about.choices)]
    if kind in (int, float):
        return Annotated[kind, Field(ge=about.least, le=about.most)]
    if get_origin(kind) in (Union, types.UnionType):
        return Union[tuple(_limit_type(one, about) for one in get_args(kind))]  # noqa: UP007 - made from a list
    return list[_limit_type(get_args(kind)[0], about)] if get_origin(kind) is list else kind  # type: ignore[misc]


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
    try:
        return await handle(request.app.state.service, request)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong, the client gets an answer
        return await answer_error(request, error)


async def answer_error(request: Request, error: Exception) -> Response:
    call: Call = request.scope[CALL]
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


def decode_body(body: bytes) -> dict[str, Any]:
    """Return the arguments in a request's body; no body means none."""

    def read_integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise ValueError("a number is too large")
        return int(digits)

    try:
        value = json.loads(body.decode("utf-8") or "{}", parse_int=read_integer)
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
