"""A headless run of each agent, which nobody declared to be a person's: recorded as such, and nothing is learned."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.agents import AGENTS
from tests.hosts.conftest import Desk

from alma.hooks.drain import drain
from claude_smart.install import find_setup

TERMINAL = f"{sys.executable} -c 'import pty, sys; pty.spawn(sys.argv[1:])'"

HOOKED = [name for name in AGENTS if name != "aider"]
PROMPT = "No, never use npm here. Always use pnpm."
BYPASS = "--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust"
FORMS = [
    *((name, "", "headless") for name in HOOKED),
    ("codex", f"PROGRAM exec --ephemeral {BYPASS} '{PROMPT}'", "headless"),
    ("gemini", f"echo '{PROMPT}' | PROGRAM --yolo -o json -m gemini-2.5-flash", "headless"),
    ("gemini", f"PROGRAM '{PROMPT}' --yolo -o json -m gemini-2.5-flash </dev/null", "headless"),
    ("qwen", f"echo '{PROMPT}' | PROGRAM --yolo -o json", "headless"),
    ("copilot", f"echo '{PROMPT}' | PROGRAM --allow-all", "headless"),
    ("kimi", f"PROGRAM '-p{PROMPT}' --output-format stream-json", "headless"),
    ("goose", f"echo '{PROMPT}' | PROGRAM run -i -", "headless"),
    ("goose", f"echo '{PROMPT}' | PROGRAM session", "headless"),
    # A person at a terminal.
    ("goose", f"(sleep 4; echo '{PROMPT}'; sleep 6; echo /exit; sleep 2) | {TERMINAL} PROGRAM session", "cli"),
]


@pytest.mark.parametrize(("name", "command", "entry"), FORMS)
def test_a_headless_run_is_recorded_and_teaches_nothing(
    name: str, command: str, entry: str, open_desk: Callable[[str], Desk]
) -> None:
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    assert desk.smart("config", "programs", "off")[0] == 0
    desk.run_session(PROMPT, shop, {"text": "ok", "seconds": 1}, command=("sh", "-c", command) if command else ())
    journals = [path.read_text().splitlines() for path in Path(desk.data_dir.sessions).glob("*.jsonl")]
    lines = [json.loads(line) for journal in journals for line in journal]
    prompts = [line for line in lines if line["event"] == "UserPromptSubmit"]
    assert [(line["host"], line["entry"], line["data"]["prompt"].strip()) for line in prompts] == [
        (name, entry, PROMPT)
    ]
    drain(desk.data_dir, wait=20.0)
    code, output = desk.smart("show", "--all", folder=shop)
    assert (code, "pnpm" in output) == (0, entry == "cli")


@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("missing", ["hook", "interpreter"])
def test_an_agent_works_on_without_the_hook_or_its_interpreter(
    name: str, missing: str, open_desk: Callable[[str], Desk]
) -> None:
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    if missing == "hook":
        shutil.rmtree(desk.home / ".claude-smart")
    else:
        python = find_setup(desk.environ).base_python
        paths = [path for path in desk.home.rglob("*") if path.is_file() and ".claude-smart" not in path.parts]
        files = [path for path in paths if python.encode() in path.read_bytes()]
        assert files
        for path in files:
            path.write_text(path.read_text().replace(python, f"{python}-gone"))
    desk.run_session("run the tests please", shop, {"shell": "echo hi > made.txt"}, {"text": "done.", "seconds": 1})
    assert (shop / "made.txt").read_text() == "hi\n"
