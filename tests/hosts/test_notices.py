"""The line about what was learned, as a person sees it at the terminal of each agent that can show one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from tests.hosts.conftest import Desk

pytestmark = pytest.mark.system

TERMINAL = Path(__file__).parent / "terminal.py"
PROMPT = "list the files in this folder"
NOTE = "run make check before you commit"
BYPASS = "--dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust"
COMMANDS = {
    "codex": f"PROGRAM {BYPASS}",
    "gemini": "PROGRAM --yolo -m gemini-2.5-flash --skip-trust",
    "qwen": "PROGRAM --yolo",
    "opencode": "PROGRAM",
}
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_ALIKE = 0.8


@pytest.mark.parametrize("name", COMMANDS)
def test_a_person_sees_at_the_terminal_what_was_learned(name: str, open_desk: Callable[[str], Desk]) -> None:
    desk = open_desk(name)
    shop = desk.make_repository("shop")
    assert desk.smart("install", "--host", name, "--yes", folder=shop)[0] == 0
    assert desk.smart("config", "programs", "on")[0] == 0
    desk.run_session("No, never use npm here. Always use pnpm.", shop)
    desk.learn(shop)
    rules = json.loads(desk.smart("show", "--json", folder=shop)[1])["rules"]
    [rule] = rules
    for journal in Path(desk.data_dir.sessions).glob("*.jsonl"):
        journal.unlink()
    typed = f"{sys.executable} {TERMINAL} ~/.claude-smart/sessions '{PROMPT}' {COMMANDS[name]} > ~/screen.txt"
    command = ("sh", "-c", f"export TERM=xterm-256color COLUMNS=200 LINES=50; {typed}")
    requests = desk.run_session(PROMPT, shop, {"text": "ok", "seconds": 1}, command=command)
    screen = _ESCAPE.sub("", (desk.home / "screen.txt").read_text(errors="replace"))
    screen = "".join(sign for sign in screen if sign.isprintable() and sign not in " │┃")
    line = f"claude-smart: learned '{rule['rule']}' · undo: ".replace(" ", "")
    starts = [match.start() for match in re.finditer(line[:8], screen)]
    windows = [screen[start : start + len(line)] for start in starts]
    assert any(SequenceMatcher(None, line, window, autojunk=False).ratio() > _ALIKE for window in windows), screen
    assert "claude-smart: learned" not in json.dumps(requests)
