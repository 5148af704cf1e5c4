"""The service: each operation under `/v1`, done in a thread, and what is around them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..api.elsewhere import from_elsewhere, relay_sources
from ..api.projects import Projects
from ..api.vouching import refuse_vouching
from ..errors import ALMAError, ValidationError
from ..operations import Effect, Operation, operations
from ..schema import RESULT, is_object, plain
from . import logs
from .arguments import decoded, project
from .gate import CALL, PROJECT, App, Call, Finder, Gate, Rules, Watcher
from .gate import Route as Known
from .metrics import CONTENT_TYPE, Metrics
from .openapi import document
from .refusal import Refusal, because, plainly
from .tokens import NEEDED, Scope

T = TypeVar("T")

_AT_ONCE = 16
"""So many operations run at the same time; others wait for their turn."""
_AT_ONCE_PER_TOKEN = 4
"""So many operations of one token run at the same time, so that its slow calls leave room for other clients."""
_JSON = "application/json"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]
_PREFIX = "/v1/"
_UNKNOWN = "(unknown)"
_OPEN = ("/health", "/ready")
"""What a load balancer asks, which has no token. The answers say nothing of what is remembered or where."""


def build(projects: Projects, tokens: Finder, rules: Rules, watchers: Iterable[Watcher] = ()) -> App:
    """The ASGI application, behind its gate. The memories are closed when it is shut down."""
    service = Service(projects, rules.body_seconds)
    return Gate(service.app, rules, tokens, service.route, (service.metrics, *watchers))


def offered() -> dict[str, Operation]:
    """What can be asked from elsewhere: all but what works on files of this machine."""
    return {name: one for name, one in operations().items() if not one.on_files}


class Service:
    def __init__(self, projects: Projects, body_seconds: float) -> None:
        self._projects = projects
        self._body_seconds = body_seconds
        self._operations = offered()
        self.metrics = Metrics()
        self._token_limiters: dict[str, anyio.CapacityLimiter] = {}
        self._around: Mapping[str, Callable[[Request], Any]] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            "/v1/operations": self._listed,
        }

    @cached_property
    def app(self) -> FastAPI:
        around = [Route(path, _answering(work, "GET"), methods=_METHODS) for path, work in self._around.items()]
        every = Route(_PREFIX + "{operation}", _answering(self._call, "POST"), methods=_METHODS)
        # Its own pages load scripts from elsewhere, and its own document would know no operation.
        return FastAPI(
            routes=[*around, every],
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=self._open,
            exception_handlers={HTTPException: _not_routed},
        )

    @asynccontextmanager
    async def _open(self, app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(self._projects.close)

    def route(self, path: str) -> Known:
        name = path.removeprefix(_PREFIX)
        operation = self._operations.get(name) if path.startswith(_PREFIX) else None
        if operation is not None:
            return path, name, NEEDED[operation.effect]
        return (path if path in self._around else _UNKNOWN), "", None if path in _OPEN else Scope.READ

    # -- operations

    async def _call(self, request: Request) -> Response:
        operation = self._operations.get(request.path_params["operation"])
        if operation is None:
            raise Refusal(404, "NotFound", "there is no such operation; GET /v1/operations lists them")
        if request.method != "POST":
            raise plainly(405, {"allow": "POST"})
        arguments = from_elsewhere(operation, operation.check(decoded(await self._body(request))))
        call: Call = request.scope[CALL]
        if not _may_approve(call):
            arguments = refuse_vouching(operation, relay_sources(operation, arguments))
        async with self._limit_token(call):
            return _json(await self._aside(partial(self._done, call, _wanted(request), operation, arguments)))

    async def _body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await request.body()
        except TimeoutError:
            told = f"the body did not arrive within {self._body_seconds:g} s"
            raise Refusal(408, "TooSlow", told, {"connection": "close"}) from None
        if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise Refusal(415, "UnsupportedMediaType", f"the body must be {_JSON}")
        return body

    def _done(self, call: Call, project: str | None, operation: Operation, arguments: Mapping[str, Any]) -> bytes:
        assert call.token is not None
        bounds = call.token.projects
        alma = self._projects.get(self._chosen(project, bounds), bounds, may_approve=_may_approve(call))
        made = plain(operation.run(alma, **arguments))
        if operation.group == "domains" and operation.effect is not Effect.READS:
            self._projects.renew(alma.project_id)
        return _written(made if is_object(operation.returns) else {RESULT: made})

    def _chosen(self, wanted: str | None, bounds: frozenset[str] | None) -> str | None:
        """The one that was named, else the only one there is for the token, else the one that is configured."""
        if wanted is not None or bounds is None:
            return wanted
        if len(bounds) == 1:
            return next(iter(bounds))
        if self._projects.configured in bounds:
            return None
        raise ValidationError(f"name a project in the header Alma-Project: {', '.join(sorted(bounds))}")

    async def _listed(self, request: Request) -> Response:
        listed = [
            {
                "name": one.name,
                "summary": one.summary,
                "group": one.group,
                "effect": str(one.effect),
                "idempotent": one.idempotent,
                "scope": str(NEEDED[one.effect]),
            }
            for one in self._operations.values()
        ]
        return _json(_written({"operations": listed}))

    # -- around them

    async def _health(self, request: Request) -> Response:
        return _json(_written({"status": "ok"}))

    async def _ready(self, request: Request) -> Response:
        """The memory is opened and read."""
        if not await self._aside(self._is_well):
            raise Refusal(503, "NotReady", "the memory is not well; POST /v1/health says why", {"retry-after": "5"})
        return _json(_written({"ready": True}))

    def _is_well(self) -> bool:
        try:
            return bool(self._operations["health"].run(self._projects.get()).ok)
        except ALMAError as error:
            logs.not_ready(error)
            return False

    async def _metrics(self, request: Request) -> Response:
        call: Call = request.scope[CALL]
        text = await self._aside(partial(self._figures, call, _wanted(request)))
        return Response(text, headers={"content-type": CONTENT_TYPE})

    def _figures(self, call: Call, project: str | None) -> str:
        assert call.token is not None
        alma = self._projects.get(self._chosen(project, call.token.projects), call.token.projects)
        return self.metrics.text(alma.project_id, alma.get_stats()["by_type"])

    async def _openapi(self, request: Request) -> Response:
        return _json(self._document)

    @cached_property
    def _document(self) -> bytes:
        return _written(document(self._operations))

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(_AT_ONCE)

    def _limit_token(self, call: Call) -> anyio.CapacityLimiter:
        assert call.token is not None
        name = call.token.name
        if name not in self._token_limiters:
            self._token_limiters[name] = anyio.CapacityLimiter(_AT_ONCE_PER_TOKEN)
        return self._token_limiters[name]

    async def _aside(self, work: Callable[[], T]) -> T:
        """In a thread, so that others are served meanwhile. What has begun is finished, whoever waits for it."""
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)


# -- requests and answers


def _may_approve(call: Call) -> bool:
    return call.token is not None and call.token.scope.holds(Scope.APPROVE)


def _answering(work: Callable[[Request], Any], method: str) -> Callable[[Request], Any]:
    """Whatever goes wrong is an answer too, and tells nothing of what is inside."""

    async def answering(request: Request) -> Response:
        call: Call = request.scope[CALL]
        try:
            if method == "GET" and request.method != method:
                raise plainly(405, {"allow": method})
            answer: Response = await work(request)
            return answer
        except Refusal as refusal:
            return _refused(call, refusal)
        except ALMAError as error:
            if error.neutral:
                logs.failed(call, error)
            return _refused(call, because(error))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong, the client gets an answer
            logs.unexpected(call, error)
            told = f"it failed inside alma; the log says more under the request id {call.id}"
            return _refused(call, Refusal(500, "InternalError", told))

    return answering


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _refused(request.scope[CALL], plainly(status))


def _refused(call: Call, refusal: Refusal) -> Response:
    return Response(refusal.body(call.id), refusal.status, refusal.headers, media_type=_JSON)


def _wanted(request: Request) -> str | None:
    given = request.headers.getlist(PROJECT)
    if len(given) > 1:
        raise ValidationError("the header Alma-Project is there twice; name one project")
    return project(given[0]) if given else None


def _written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _json(body: bytes) -> Response:
    return Response(body, media_type=_JSON)
