"""`python -m alma.mcp`: what it refuses, what it says where, and how it ends."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import alma.mcp as command
from alma.mcp import clients
from mcp import Client

from .conftest import CONFIG, SECONDS, Place

pytestmark = pytest.mark.system

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def call(name: str, number: int, **arguments: Any) -> str:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def test_only_the_protocol_is_on_standard_output(place: Place) -> None:
    """Also when something is logged: feedback on a memory that is not held is warned of."""
    initialized = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    feedback = call("alma_record_feedback", 2, memory_id="kno_nothing")
    server = subprocess.Popen(
        place.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        lines = []
        for line, answered in ((json.dumps(HELLO), True), (initialized, False), (feedback, True)):
            server.stdin.write(f"{line}\n")
            server.stdin.flush()
            if answered:
                lines.append(server.stdout.readline())
        out, errors = server.communicate(timeout=SECONDS)
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert out == ""
    assert server.returncode == 0
    assert "kno_nothing" in errors


def test_a_request_that_is_nested_too_deep_is_answered(place: Place) -> None:
    initialized = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    plain = {"agent": "dev", "domain": "x", "fact": "y z", "metadata": {"a": "DEEP", "b": '"]}'}}
    depths = {2: 70, 3: 200, 4: 5000}
    requests = []
    for number, depth in depths.items():
        request = call("alma_add_knowledge", number, **plain)
        requests.append(request.replace('"DEEP"', '{"a":' * depth + "1" + "}" * depth))
    with subprocess.Popen(
        place.forked_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        lines = [json.dumps(HELLO), initialized, *requests, call("alma_stats", 5)]
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(5)]
        server.communicate(timeout=SECONDS)
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id.keys() == {1, 2, 3, 4, 5}
    for number, depth in depths.items():
        assert "nested" in str(by_id[number]), depth
        assert "error" in by_id[number] or by_id[number]["result"]["isError"], depth
    assert not by_id[5]["result"].get("isError")


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_interrupted(place: Place, number: signal.Signals) -> None:
    with subprocess.Popen(place.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO) + "\n")
        server.stdin.flush()
        server.stdout.readline()
        server.send_signal(number)
        assert server.wait(SECONDS) == -number


def test_what_cannot_begin_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALMA_MCP_TOKEN", "")
    cases = {
        "--tools banana": "unknown tool 'banana'",
        "--config missing.yaml": "no configuration file missing.yaml",
        "--transport http --host 0.0.0.0": "--tls-cert",
        "--transport http --port 0 --token-file no/such/folder/token": "pass another --token-file",
    }
    for words, problem in cases.items():
        assert command.main(["--config", str(config), *words.split()]) == 2, words
        printed = capsys.readouterr()
        assert printed.out == "", words
        assert problem in printed.err
        assert "Traceback" not in printed.err, words


def test_without_the_package_the_extra_is_named(place: Place) -> None:
    code = "import sys; sys.modules['mcp_types'] = None; from alma.mcp import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    assert "pip install '.[mcp]'" in done.stderr


def test_a_small_set_and_an_agent(place: Place) -> None:
    async def work(client: Client) -> tuple[int, Any]:
        listed = (await client.list_tools()).tools
        learned = {"task": "Deploy", "outcome": "success", "strategy_used": "Blue-green"}
        return len(listed), await client.call_tool("alma_learn", learned)

    count, result = place.over_stdio(work, "--tools", "core", "--agent", "ops")
    assert count == 8
    assert result.structured_content["agent"] == "ops"


def test_little_is_loaded_before_the_client_is_answered() -> None:
    code = "import sys, alma.mcp, alma.mcp.server; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "onnxruntime", "yaml", "rich", "alma.memory", "alma.api", "alma.engine"}


def commands() -> list[list[str]]:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "mcp.md"
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def test_what_the_page_says_is_understood() -> None:
    assert commands()
    for words in commands():
        parser = argparse.ArgumentParser(exit_on_error=False)
        match words:
            case ["alma", "mcp", "install" | "uninstall" as action, *rest]:
                clients.add_arguments(parser, action)
                parser.parse_args(rest)
            case ["python", "-P", "-m", "alma.mcp", *rest]:
                parser.add_argument("--config")
                command.add_arguments(parser)
                command.McpOptions.read(parser.parse_args(rest), None)
            case _:
                assert words[:2] == ["pip", "install"]
