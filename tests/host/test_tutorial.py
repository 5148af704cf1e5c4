"""The tutorial, done as it says, in the real Claude Code."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from claude_smart import cli

pytestmark = pytest.mark.system

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "claude-smart.md"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def steps() -> list[tuple[str, str]]:
    """Each command, and what it prints."""
    found: list[tuple[str, str]] = []
    for block in _BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def fits(printed: str, expected: str) -> bool:
    """`…` stands for anything within a line, and alone for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", "[^\n]*?") + r"\s*\n"
        for line in expected.strip().splitlines()
    )
    return re.fullmatch(pattern + r"\s*", printed.strip() + "\n") is not None


def test_the_comparison_notices_a_difference() -> None:
    assert fits("took 3 ms\nall is well", "took … ms\nall is well")
    assert fits("a\nb\nc", "…\nc")
    assert not fits("took 3 ms\nall is lost", "took … ms\nall is well")


def test_the_tutorial_shows_what_happens(person: Any) -> None:
    person.plugin = None
    shutil.rmtree(person.smart_home)
    shop = person.project("shop")
    (person.home / "bin" / "claude").symlink_to(person.binary)
    person.model.will_say(
        {"when": "install the packages", "bash": "echo installed"},
        {"text": "I ran npm install."},
        {"when": "no, use pnpm", "text": "Understood, pnpm from now on."},
        {"when": "add lodash", "text": "I ran pnpm add lodash."},
    )
    for command, expected in steps():
        program, *arguments = shlex.split(command)
        if program == "claude-smart":
            assert cli.build_parser().parse_args(arguments)
            done = person.smart(*arguments, cwd=shop)
            # What a session said is taken in after it, in the background.
            deadline = time.monotonic() + 30
            while arguments == ["status"] and not fits(done.stdout, expected) and time.monotonic() < deadline:
                time.sleep(0.5)
                done = person.smart(*arguments, cwd=shop)
        else:
            done = person.claude(*arguments, cwd=shop)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        assert fits(done.stdout, expected), f"{command} printed:\n{done.stdout}"
        if program == "claude-smart" and arguments[0] == "doctor":
            assert person.smart("config", "programs", "on").returncode == 0
    told = person.model.requests[-1]
    assert "Use pnpm instead of npm" in str(told), "the next session was not told"
