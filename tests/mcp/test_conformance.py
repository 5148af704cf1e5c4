"""The official conformance suite against our server. What fails is what the suite needs tools of its own for.

The suite's scenarios call fixtures by name (`test_simple_text`, `test://static-text` …) that a server built for it has
and ours does not. Each scenario that is expected to fail is named here with its reason; one that fails besides, or
that passes although it is named, fails the test.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.types import Receive, Scope, Send

from alma import ALMA
from alma.mcp.server import build
from alma.mcp.server import build_app as app

from .conftest import TOKEN, Lent
from .node import CONFORMANCE, CONFORMANCE_NEXT, node, package

pytestmark = pytest.mark.system

_TOOL = "calls a tool of the suite's own, which a memory does not have"
_RESOURCE = "reads a resource of the suite's own"
_PROMPT = "asks for a prompt of the suite's own"
_NO_LOGGING = "we do not log to clients: the protocol has given that up, and logs are on standard error"
_NO_ASKING = "our tools never ask the client back, neither a model (sampling) nor the person (elicitation)"
_NO_SUBSCRIBING = "resources cannot be subscribed to; they are read when wanted"

BOTH: Mapping[str, str] = {
    "tools-call-simple-text": _TOOL,
    "tools-call-image": _TOOL,
    "tools-call-audio": _TOOL,
    "tools-call-embedded-resource": _TOOL,
    "tools-call-mixed-content": _TOOL,
    "tools-call-error": f"{_TOOL}; our own errors are tested in test_server.py",
    "tools-call-with-progress": f"{_TOOL}; our own progress is tested in test_server.py",
    "json-schema-2020-12": _TOOL,
    "resources-read-text": _RESOURCE,
    "resources-read-binary": _RESOURCE,
    "resources-templates-read": _RESOURCE,
    "prompts-get-simple": _PROMPT,
    "prompts-get-with-args": _PROMPT,
    "prompts-get-embedded-resource": _PROMPT,
    "prompts-get-with-image": _PROMPT,
}
HANDSHAKE: Mapping[str, str] = {
    **BOTH,
    "logging-set-level": _NO_LOGGING,
    "tools-call-with-logging": _NO_LOGGING,
    "tools-call-sampling": _NO_ASKING,
    "tools-call-elicitation": _NO_ASKING,
    "elicitation-sep1034-defaults": _NO_ASKING,
    "elicitation-sep1330-enums": _NO_ASKING,
    "server-sse-polling": "needs a tool of the suite's own that closes the stream while it works",
    "resources-subscribe": _NO_SUBSCRIBING,
    "resources-unsubscribe": _NO_SUBSCRIBING,
}
MODERN: Mapping[str, str] = {
    **BOTH,
    "server-stateless": "21 of its checks hold; the other 4 need diagnostic tools of the suite's own",
    "http-custom-header-server-validation": "no argument of our tools is sent as a header",
    "input-required-result-basic-elicitation": _NO_ASKING,
    "input-required-result-basic-sampling": _NO_ASKING,
    "input-required-result-basic-list-roots": _NO_ASKING,
    "input-required-result-request-state": _NO_ASKING,
    "input-required-result-multiple-input-requests": _NO_ASKING,
    "input-required-result-multi-round": _NO_ASKING,
    "input-required-result-non-tool-request": _NO_ASKING,
    "input-required-result-result-type": _NO_ASKING,
    "input-required-result-tampered-state": _NO_ASKING,
    "input-required-result-capability-check": _NO_ASKING,
    "input-required-result-missing-input-response": _NO_ASKING,
    "input-required-result-ignore-extra-params": _NO_ASKING,
}
NEXT = ("--spec-version", "2026-07-28")


@pytest.fixture
def url(alma: ALMA) -> Iterator[str]:
    """Our application as it is served. The suite has no token to send, so each of its requests is given ours."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    served = app(build(Lent(lambda: alma)), TOKEN, [f"localhost:{port}", f"127.0.0.1:{port}"], ["http://localhost:*"])

    async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]
        await served(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(with_token, http="h11", log_config=None, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://localhost:{port}/mcp"
    server.should_exit = True
    thread.join(30)
    bound.close()


def run_suite(spec: str, url: str, folder: Path, *options: str) -> str:
    program = package(spec) / "dist" / "index.js"
    command: list[Any] = [node(), program, "server", "--url", url, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout[done.stdout.find("=== SUMMARY ===") :] + done.stderr


def write_baseline(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """Write which scenarios fail, and return the options that name the file and let all scenarios run."""
    baseline = folder / "expected.yml"
    baseline.write_text(yaml.safe_dump({"server": list(expected)}))
    return ["--suite", "all", "--expected-failures", str(baseline)]


def test_a_scenario_of_each_era_holds(url: str, tmp_path: Path) -> None:
    run_suite(CONFORMANCE, url, tmp_path, "--scenario", "tools-list")
    run_suite(CONFORMANCE_NEXT, url, tmp_path, "--scenario", "tools-list", *NEXT)


@pytest.mark.quality
def test_with_a_handshake(url: str, tmp_path: Path) -> None:
    told = run_suite(CONFORMANCE, url, tmp_path, *write_baseline(tmp_path, HANDSHAKE))
    for scenario in (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "completion-complete",
    ):
        assert f"✓ {scenario}" in told
    assert "✓ dns-rebinding-protection" in told


@pytest.mark.quality
def test_without_a_handshake(url: str, tmp_path: Path) -> None:
    told = run_suite(CONFORMANCE_NEXT, url, tmp_path, *write_baseline(tmp_path, MODERN), *NEXT)
    for scenario in ("caching", "http-header-validation", "sep-2164-resource-not-found", "tools-list"):
        assert f"✓ {scenario}" in told
