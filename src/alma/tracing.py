"""OpenTelemetry traces of a server: a span for each request, store call and embedding in it.

This module is loaded only if traces are asked for; the standard `OTEL_*` variables then say where they are sent. Spans
have names, counts, statuses and types of errors: no text of a memory or a user, no project, token or error message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

from .errors import MissingExtraError

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, use_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtraError("opentelemetry-sdk", "tracing", "--traces") from error

if TYPE_CHECKING:
    from .memory import ALMA

_STORE_METHODS = ("put", "get", "delete", "scan", "nearest", "match", "count")
_EMBEDDER_METHODS = ("embed", "read_pairs", "score_relevance")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class TracedRequest(Protocol):
    """What is known about a request, at the latest when it has been answered."""

    method: str
    path: str
    status: int
    trace_id: str


class Tracer:
    """Makes spans for the requests of a server."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("alma")

    def trace_memory(self, alma: ALMA) -> None:
        """Trace what a memory calls of its store and its embedder."""
        self._trace_methods(alma.engine.store, "store", _STORE_METHODS)
        if alma.engine.encoder is not None:
            self._trace_methods(alma.engine.encoder.embedder, "embedder", _EMBEDDER_METHODS)

    @contextmanager
    def trace_request(self, call: TracedRequest, traceparent: str) -> Iterator[None]:
        """Open the span of a request, which continues the caller's trace if there is a `traceparent` header."""
        # Not `tracestate` or `baggage`, which may hold any text.
        context = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
        method = call.method if call.method in _METHODS else "_OTHER"
        options: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(method, context, kind=SpanKind.SERVER, **options) as span:
            call.trace_id = format(span.get_span_context().trace_id, "032x")
            try:
                yield
            finally:
                span.update_name(f"{method} {call.path}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", call.path)
                span.set_attribute("http.response.status_code", call.status)
                if not 0 < call.status < 500:
                    span.set_status(StatusCode.ERROR)

    def _trace_methods(self, target: Any, layer: str, names: tuple[str, ...]) -> None:
        """Replace methods of an object by traced ones, so that it stays an instance of its class and protocols."""
        for name in names:
            if (method := getattr(target, name, None)) is not None:
                setattr(target, name, self._trace_method(f"{layer}.{name}", method))

    def _trace_method(self, label: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not get_current_span().is_recording():
                return method(*args, **kwargs)
            span = self._tracer.start_span(label)
            is_open = False
            try:
                with use_span(span, record_exception=False, set_status_on_exception=False):
                    result = method(*args, **kwargs)
                if is_open := isinstance(result, Iterator):
                    return _count_items(span, result)
                sizes = [len(one) for one in (result, *args) if isinstance(one, Sized) and not isinstance(one, str)]
                if sizes:
                    span.set_attribute("alma.count", sizes[0])
                return result
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                if not is_open:
                    span.end()

        return call


def _count_items(span: Span, items: Iterator[Any]) -> Iterator[Any]:
    """Yield the items; the span ends with them."""
    count = 0
    try:
        for item in items:
            count += 1
            yield item
    finally:
        span.set_attribute("alma.count", count)
        span.end()


@contextmanager
def open_tracer() -> Iterator[Tracer]:
    """Yield a tracer that sends its spans by OTLP over HTTP. Spans that wait are sent at the end."""
    name = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "alma"}
    provider = TracerProvider(resource=Resource.create(name), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracer(provider)
    finally:
        provider.shutdown()
