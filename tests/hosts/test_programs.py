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

pytestmark = pytest.mark.system

TERMINAL = Path(__file__).parent / "terminal.py"

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
    # A person at a terminal. It is the last of its agent: it teaches.
    ("goose", f"{sys.executable} {TERMINAL} ~/.claude-smart/sessions '{PROMPT}' PROGRAM session", "cli"),
]


@pytest.mark.parametrize("name", HOOKED)
def test_a_headless_run_is_recorded_and_teaches_nothing(name: str, open_desk: Callable[[str], Desk]) -> None:
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    assert desk.smart("config", "programs", "off")[0] == 0
    seen: set[Path] = set()
    for command, entry in [(command, entry) for agent, command, entry in FORMS if agent == name]:
        desk.run_session(PROMPT, shop, {"text": "ok", "seconds": 1}, command=("sh", "-c", command) if command else ())
        journals = {*Path(desk.data_dir.sessions).glob("*.jsonl")} - seen
        seen |= journals
        lines = [json.loads(line) for journal in journals for line in journal.read_text().splitlines()]
        prompts = [line for line in lines if line["event"] == "UserPromptSubmit"]
        recorded = [(line["host"], line["entry"], line["data"]["prompt"].strip()) for line in prompts]
        assert recorded == [(name, entry, PROMPT)], command
        drain(desk.data_dir, wait=20.0)
        code, output = desk.smart("show", "--all", folder=shop)
        assert (code, "pnpm" in output) == (0, entry == "cli"), command


@pytest.mark.parametrize("name", HOOKED)
def test_an_agent_works_on_without_the_hook_or_its_interpreter(name: str, open_desk: Callable[[str], Desk]) -> None:
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    python = find_setup(desk.environ).base_python
    paths = [path for path in desk.home.rglob("*") if path.is_file() and ".claude-smart" not in path.parts]
    texts = {path: path.read_text() for path in paths if python.encode() in path.read_bytes()}
    assert texts
    for path, text in texts.items():
        path.write_text(text.replace(python, f"{python}-gone"))
    work_on(desk, shop, "without-interpreter.txt")
    for path, text in texts.items():
        path.write_text(text)
    shutil.rmtree(desk.home / ".claude-smart")
    work_on(desk, shop, "without-hook.txt")


def work_on(desk: Desk, shop: Path, file: str) -> None:
    """Run a session in which the agent writes a file."""
    desk.run_session("run the tests please", shop, {"shell": f"echo hi > {file}"}, {"text": "done.", "seconds": 1})
    assert (shop / file).read_text() == "hi\n"
