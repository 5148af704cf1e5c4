"""OpenTelemetry traces: which spans there are, what they reveal, and where they go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.http import tokens
from alma.http.app import GateRules, RequestInfo, build
from alma.projects import LazyMemory, Projects
from alma.stores.sqlite import SQLiteStore
from alma.tracing import Tracer

from .conftest import HOST, start

SECRET = "The launch code is q7319z"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class TracedSite:
    """A service in this process whose spans are kept in memory."""

    def __init__(self, folder: Path) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        tracer = Tracer(provider)
        self.alma = ALMA(SQLiteStore(folder / "alma.db"), HashEmbedder(), project_id="app")
        tracer.trace_memory(self.alma)
        self.calls: list[RequestInfo] = []
        file = folder / tokens.FILE
        self.token = tokens.add(file, "admin", "admin")
        rules = GateRules(hosts=frozenset({HOST}), rate=0)
        projects = Projects(LazyMemory(lambda: self.alma))
        app = build(projects, tokens.Tokens(file), rules, (self.calls.append,), tracer=tracer)
        headers = {"authorization": f"Bearer {self.token}", "host": HOST}
        self.client = TestClient(app, base_url=f"http://{HOST}", headers=headers)

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TracedSite]:
    made = TracedSite(tmp_path)
    yield made
    made.alma.close()


def test_a_request_has_a_span_with_one_for_each_step_in_it(site: TracedSite) -> None:
    fact = {"agent": "dev", "domain": "launch", "fact": SECRET}
    assert site.client.post("/v1/add_knowledge", json=fact).status_code == 200
    site.exporter.clear()
    assert site.client.post("/v1/retrieve", json={"task": "launch it", "agent": "dev"}).status_code == 200
    *steps, request = site.spans()
    assert (request.name, request.parent) == ("POST /v1/retrieve", None)
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/retrieve",
        "http.response.status_code": 200,
    }
    assert {"embedder.embed", "store.nearest", "store.match", "store.scan", "store.put"} <= {one.name for one in steps}
    assert request.context is not None
    assert {one.context.trace_id for one in steps if one.context} == {request.context.trace_id}
    assert all(one.parent is not None for one in steps)
    puts = [dict(one.attributes or {}) for one in steps if one.name == "store.put"]
    assert puts == [{"alma.count": 1}]


def test_spans_contain_no_texts_tokens_or_messages(site: TracedSite) -> None:
    headers = {"traceparent": TRACEPARENT, "tracestate": f"vendor={SECRET}", "baggage": f"user={SECRET}"}
    for operation, arguments in (
        ("add_knowledge", {"agent": "dev", "domain": "launch", "fact": SECRET}),
        ("retrieve", {"task": SECRET, "agent": "dev"}),
        ("get", {"memory_id": SECRET}),
        ("learn", {"agent": SECRET, "task": SECRET, "outcome": SECRET}),
        (SECRET, {}),
    ):
        site.client.post(f"/v1/{operation}", json=arguments, headers={**headers, "alma-project": "q7319z"})
    site.client.request("LAUNCH7319", "/health")
    text = "".join(one.to_json() for one in site.spans())
    assert len(site.spans()) > 10
    for secret in ("7319z", "launch", SECRET, site.token, "LAUNCH"):
        assert secret not in text


def test_a_trace_of_the_caller_is_continued_and_logged(site: TracedSite) -> None:
    site.client.post("/v1/stats", json={}, headers={"traceparent": TRACEPARENT})
    site.client.post("/v1/stats", json={}, headers={"traceparent": "nonsense"})
    first, second = (one for one in site.spans() if one.name == "POST /v1/stats")
    assert first.context is not None
    assert format(first.context.trace_id, "032x") == TRACE
    assert [one.trace_id == TRACE for one in site.calls] == [True, False]
    assert second.parent is None


def test_a_caller_that_is_not_sampled_leaves_no_spans(site: TracedSite) -> None:
    site.client.post("/v1/stats", json={}, headers={"traceparent": TRACEPARENT.removesuffix("01") + "00"})
    assert site.spans() == []


def test_an_error_is_marked_by_its_type(site: TracedSite) -> None:
    site.alma.engine.store.close()
    assert site.client.post("/v1/stats", json={}).status_code >= 500
    failed = [one for one in site.spans() if not one.status.is_ok]
    assert {"POST /v1/stats"} < {one.name for one in failed}
    assert all(one.status.description is None and not one.events for one in failed)
    assert "StorageError" in {(one.attributes or {}).get("error.type") for one in failed}


# -- over the network


class Collector(ThreadingHTTPServer):
    """A loopback receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        self.received: list[ExportTraceServiceRequest] = []
        super().__init__(("127.0.0.1", 0), CollectorHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def list_spans(self) -> list[tuple[str, str, str]]:
        """Return the service, the name and the trace id of every span."""
        return [
            (resource.resource.attributes[0].value.string_value, span.name, span.trace_id.hex())
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class CollectorHandler(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces"
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.system
@pytest.mark.parametrize("options", [(), ("--traces",), ("--traces", "--workers", "2")])
def test_traces_are_sent_only_if_they_are_asked_for(
    tmp_path: Path, collector: Collector, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "")
    served = start(tmp_path, *options)
    try:
        with served.connect() as alma:
            alma.add_domain_knowledge("dev", "launch", SECRET)
    finally:
        status = served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()
    assert status == 0
    # What waits is sent before the process ends.
    names = {name for _, name, _ in collector.list_spans()}
    assert ("POST /v1/add_knowledge" in names) == ("store.put" in names) == bool(options)
    [line] = [json.loads(line) for line in served.log.read_text().splitlines() if "add_knowledge" in line]
    traces = {trace for _, name, trace in collector.list_spans() if name == "POST /v1/add_knowledge"}
    assert ({line["trace_id"]} if options else set()) == traces
    assert ("trace_id" in line) == bool(options)
    assert SECRET.encode() not in b"".join(one.SerializeToString() for one in collector.received)
