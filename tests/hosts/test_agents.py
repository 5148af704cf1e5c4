"""Each coding agent, as it is released: installed in, corrected once, reminded in the next session, and removed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
from tests.hosts.agents import AGENTS, PORT
from tests.hosts.conftest import Desk, take_snapshot
from tests.hosts.sealed import run_sealed

from alma.hooks.hosts import HOSTS

pytestmark = pytest.mark.system

TRUSTED = "--dangerously-bypass-hook-trust"
CORRECTION = "No, never use npm here. Always use pnpm."
RULE = "Always use pnpm"
FAILURE: tuple[dict[str, object], ...] = (
    {"shell": "./suite"},
    {"shell": "./suite --run"},
    {"text": "12 tests pass.", "seconds": 1},
)
OBSERVATION = r"`./suite` failed (once|twice), `./suite --run` worked (once|twice)"


def write_suite(folder: Path) -> None:
    """Write a program that fails unless it is given an option."""
    suite = folder / "suite"
    suite.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = "--run" ]; then echo "12 passed"; exit 0; fi\n'
        'echo "error: watch mode needs a terminal; pass --run" >&2\nexit 1\n'
    )
    suite.chmod(0o755)


@pytest.mark.parametrize("name", AGENTS)
def test_a_correction_is_shown_in_the_next_session_and_nowhere_else(
    name: str, open_desk: Callable[[str], Desk]
) -> None:
    desk = open_desk(name)
    shop, other = desk.make_repository("shop"), desk.make_repository("other")
    write_suite(shop)
    before = take_snapshot(desk.home)
    for folder in (shop, other) if name == "aider" else (shop,):
        code, output = desk.smart("install", "--host", name, "--yes", folder=folder)
        assert code == 0, output
        assert HOSTS[name] in output

    asked = desk.run_session(CORRECTION, shop, *FAILURE)
    assert RULE in json.dumps(asked)
    if name == "goose":
        # goose reports no output, so that one repair alone shows nothing.
        desk.run_session("run the tests", shop, *FAILURE)
    desk.learn(shop)

    # aider looks for the files in its settings from the folder that it is started in.
    (shop / "src").mkdir()
    place = shop / "src" if name == "aider" else shop
    shown = json.dumps(desk.run_session("install the dependencies", place), ensure_ascii=False)
    assert RULE in shown, "the rule is not in the request"
    if name != "aider":
        # aider has no tool calls.
        assert re.search(OBSERVATION, shown)
    asked = json.dumps(desk.run_session("install the dependencies", other))
    assert RULE not in asked, "a rule of another project"
    state = json.loads(desk.smart("status", "--json", folder=shop)[1])["hosts"][name]
    assert (state["installed"], state["silent"]) == (True, False)

    rewritten = take_snapshot(desk.home)
    code, output = desk.smart("uninstall", "--host", name, "--yes")
    assert code == 0, output
    after = take_snapshot(desk.home)
    # The ids of working copies belong to the learned rules, which stay.
    assert not [path for path in after if "claude-smart" in path and not path.endswith(".git/claude-smart-id")]
    for path, content in before.items():
        # What the agent itself wrote meanwhile is the agent's, except what it recorded about our files.
        if after[path] != content:
            assert rewritten[path] != content
            assert b"claude-smart" not in after[path], path
            assert set(after[path].splitlines()) <= set(rewritten[path].splitlines())
    assert RULE not in json.dumps(desk.run_session("install the dependencies", shop)), "it is still loaded"


def test_a_rule_learned_in_one_agent_is_shown_in_another(open_desk: Callable[[str], Desk]) -> None:
    codex, goose = open_desk("codex"), open_desk("goose")
    codex.wakes_workers = True
    shop = codex.make_repository("shop")
    assert codex.smart("install", "--host", "codex,goose", "--yes")[0] == 0
    codex.run_session(CORRECTION, shop)
    codex.learn(shop)
    assert RULE in json.dumps(goose.run_session("install the dependencies", shop))
    hosts = json.loads(codex.smart("status", "--json", folder=shop)[1])["hosts"]
    assert [state["silent"] for state in hosts.values()] == [False, False]


def list_codex_hooks(desk: Desk) -> list[dict[str, Any]]:
    """Return what Codex knows about the hooks in its file."""
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(desk.home)]}},
    )
    command = [str(desk.installed.program), "app-server"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, env=desk.environ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(request) + "\n" for request in requests))
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        (listed,) = next(answer for answer in answers if answer.get("id") == 2)["result"]["data"]
        server.kill()
    assert not listed["warnings"]
    hooks: list[dict[str, Any]] = listed["hooks"]
    return hooks


def test_codex_skips_hooks_that_are_not_trusted_and_doctor_says_so(open_desk: Callable[[str], Desk]) -> None:
    codex = open_desk("codex")
    shop = codex.make_repository("shop")
    assert codex.smart("install", "--host", "codex", "--yes")[0] == 0
    codex.run_session(CORRECTION, shop, without=TRUSTED)
    state = json.loads(codex.smart("status", "--json", folder=shop)[1])["hosts"]["codex"]
    assert state["last_capture"] is None
    code, output = codex.smart("doctor", folder=shop)
    assert code == 1
    assert "codex trust: Codex skips hooks that you did not trust" in output

    config = codex.home / ".codex" / "config.toml"
    before = config.read_text()
    hooks = list_codex_hooks(codex)
    assert [hook["trustStatus"] for hook in hooks] == ["untrusted"] * 8
    trust = (f'[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in hooks)
    config.write_text(f"{before}{''.join(trust)}[mine]\nx = 1\n")
    assert {hook["trustStatus"] for hook in list_codex_hooks(codex)} == {"trusted"}
    assert "codex trust" not in codex.smart("doctor", folder=shop)[1]
    codex.run_session(CORRECTION, shop, without=TRUSTED)
    state = json.loads(codex.smart("status", "--json", folder=shop)[1])["hosts"]["codex"]
    assert state["last_capture"] is not None

    path = codex.home / ".codex" / "hooks.json"
    text = path.read_text()
    path.write_text(text.replace("hook.py codex", "hook.py  codex"))
    assert {hook["trustStatus"] for hook in list_codex_hooks(codex)} == {"modified"}
    assert "Codex skips hooks that changed since you trusted them" in codex.smart("doctor", folder=shop)[1]
    path.write_text(text)
    assert codex.smart("uninstall", "--yes")[0] == 0
    assert config.read_text() == f"{before}[mine]\nx = 1\n"


def test_the_agents_reach_nothing_but_the_scripted_model(open_desk: Callable[[str], Desk]) -> None:
    desk = open_desk("goose")
    program = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
    job = {"command": [sys.executable, "-c", program], "cwd": str(desk.home), "env": {}, "replies": []}
    result = run_sealed({**job, "port": PORT, "seconds": 30})
    assert result["code"] != 0
    assert "Network is unreachable" in result["errors"]
