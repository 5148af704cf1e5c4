"""Let a test act as a person at a terminal, whatever runs the tests."""

from __future__ import annotations

import sys

import pytest

_CODE = """\
import sys
from alma import people
people.find_agent = lambda **options: ""
people.find_missing_terminal = lambda: ""
from {module} import main
sys.exit(main())
"""
_MODULES = {"alma": "alma.cli", "claude-smart": "claude_smart.cli"}


def person_command(program: str) -> list[str]:
    """Return the start of a command line that runs `alma` or `claude-smart` as a person would at a terminal."""
    return [sys.executable, "-c", _CODE.format(module=_MODULES[program])]


def act_as_person(patch: pytest.MonkeyPatch) -> None:
    """Make this process count as a person at a terminal."""
    patch.setattr("alma.people.find_agent", lambda **options: "")
    patch.setattr("alma.people.find_missing_terminal", lambda: "")
    patch.setattr("alma.hooks.origin.find_origin", lambda data_dir, call: "" if "Tool" in call.name else "host")
