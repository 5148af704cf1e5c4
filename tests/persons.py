"""Let a test act as a person at a terminal, whatever runs the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alma import people

_CODE = """\
import sys
from alma import people
people.find_agent = lambda **options: ""
people.find_missing_terminal = lambda: ""
from {module} import main
sys.exit(main())
"""
_MODULES = {"alma": "alma.cli", "claude-smart": "claude_smart.cli"}


_FIND_AGENT = people.find_agent


def act_as_agent(patch: pytest.MonkeyPatch) -> None:
    """Make this process one that Claude Code runs, also after `act_as_person`."""
    patch.setattr("alma.people.find_agent", _FIND_AGENT)
    patch.setenv("CLAUDECODE", "1")


_OUTSIDE = """\
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run_outside(command: list[str], environ: dict[str, str], folder: Path) -> str:
    """Run a command below no agent, whatever runs the tests: its parent has ended. Return what it prints."""
    # The output ends when the command does, not with its parent.
    done = subprocess.run(
        [sys.executable, "-c", _OUTSIDE, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environ,
        cwd=folder,
        timeout=300,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


def person_command(program: str) -> list[str]:
    """Return the start of a command line that runs `alma` or `claude-smart` as a person would at a terminal."""
    return [sys.executable, "-c", _CODE.format(module=_MODULES[program])]


def act_as_person(patch: pytest.MonkeyPatch) -> None:
    """Make this process count as a person at a terminal."""
    patch.setattr("alma.people.find_agent", lambda **options: "")
    patch.setattr("alma.people.find_missing_terminal", lambda: "")
    patch.setattr("alma.hooks.origin.find_origin", lambda data_dir, call: "" if "Tool" in call.name else "host")
