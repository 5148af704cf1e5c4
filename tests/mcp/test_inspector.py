"""The official inspector's command line lists and calls our tools over both transports."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.api.samples import SAMPLES

from alma.mcp.tools import CORE_NAMES, select_tools
from alma.operations import operations

from .conftest import TOKEN, Place, Site
from .node import INSPECTOR, node, package
from .test_every_tool import order

pytestmark = pytest.mark.system

EVERY = "ALMA_TEST_INSPECTOR"
"""Each call is a process of its own: `make gate` calls the small set, and all tools where this is `every`."""


@dataclass(frozen=True)
class Inspector:
    home: Path
    daemon: str

    def run(self, client: str, *words: str) -> subprocess.CompletedProcess[str]:
        program = {"cli": ("launcher", "index.js"), "mcpdo": ("mcpdo", "mcp-bin.js")}[client]
        script = package(INSPECTOR).joinpath("clients", program[0], "build", program[1])
        environ = {
            **os.environ,
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "MCP_INSPECTOR_DAEMON_DIR": self.daemon,
            "MCP_INSPECTOR_DAEMON_TOKEN": "for-these-tests",
        }
        command = [node(), str(script), *(["--cli"] if client == "cli" else []), *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)

    def connected(self, *target: str) -> None:
        done = self.run("mcpdo", "connect", "--connection", "alma", *target)
        assert done.returncode == 0, done.stdout + done.stderr

    def called(self, tool: str, arguments: Any) -> dict[str, Any]:
        words = ["--format", "json", "--connection", "alma", "tools/call", tool, "--tool-args-json"]
        done = self.run("mcpdo", *words, json.dumps(arguments))
        assert done.returncode == 0, (tool, done.stdout + done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture
def inspector(tmp_path: Path) -> Iterator[Inspector]:
    home = tmp_path / "inspector-home"
    home.mkdir()
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory() as daemon:
        made = Inspector(home, daemon)
        yield made
        made.run("mcpdo", "daemon", "stop")


def listed(inspector: Inspector, names: Sequence[str], *target: str) -> None:
    done = inspector.run("cli", "--method", "tools/list", "--strict", *target)
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == names
    assert "Warning:" not in done.stderr, "a schema that some clients do not understand"


def chosen() -> Sequence[str]:
    names = order(files=False)
    return names if os.environ.get(EVERY) == "every" else [name for name in names if name in CORE_NAMES]


def call_tools(inspector: Inspector, place: Place, names: Sequence[str]) -> None:
    reading = [name for name in names if operations()[name].effect == "reads"]
    for name in (name for name in names if name not in reading):
        _well(name, inspector.called(f"alma_{name}", SAMPLES[name](place.world)))
    with ThreadPoolExecutor(4) as pool:
        calls = {name: pool.submit(inspector.called, f"alma_{name}", SAMPLES[name](place.world)) for name in reading}
        for name, call in calls.items():
            _well(name, call.result())


def _well(name: str, answer: dict[str, Any]) -> None:
    assert not answer.get("isError"), (name, answer)
    assert isinstance(answer["structuredContent"], dict), name


def test_over_stdio(inspector: Inspector, place: Place) -> None:
    listed(inspector, list(select_tools("all")), "--", *place.forked_command, "--tools", "all")
    inspector.connected("--", *place.forked_command, "--tools", "all")
    call_tools(inspector, place, ["learn"])


def test_over_http(site: Site, inspector: Inspector) -> None:
    header = ["--header", f"Authorization: Bearer {TOKEN}"]
    listed(inspector, list(select_tools("all", roots=None)), "--transport", "http", "--server-url", site.url, *header)
    inspector.connected("--transport", "http", "--server-url", site.url, *header)
    call_tools(inspector, site.place, ["retrieve"])
    refused = inspector.run("cli", "--stored-auth-only", "--method", "tools/list", "--server-url", site.url)
    assert refused.returncode != 0
    assert "alma_retrieve" not in refused.stdout


@pytest.mark.quality
def test_tools_over_stdio(inspector: Inspector, place: Place) -> None:
    listed(inspector, list(select_tools()), "--", *place.forked_command)
    inspector.connected("--", *place.forked_command, "--tools", "all")
    call_tools(inspector, place, chosen())


@pytest.mark.quality
def test_tools_over_http(site: Site, inspector: Inspector) -> None:
    header = ["--header", f"Authorization: Bearer {TOKEN}"]
    inspector.connected("--transport", "http", "--server-url", site.url, *header)
    call_tools(inspector, site.place, chosen())
