"""Install the programs that tests run, so that the tests need not wait for it: `python -m tests.programs`.

They are kept in `~/.cache/alma-tests`. The tests of a program that cannot be installed are skipped, and say why.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import partial

import pytest
from tests.hosts.agents import AGENTS, NotInstalledError, install_agent, install_package
from tests.mcp import node
from tools.browser import BrowserMissingError, find_small_browser

CLAUDE_CODE = "2.1.325"
_SYSTEMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}
_MACHINES = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def find_claude_code() -> str:
    """Return the path of the real Claude Code, which is installed once into the cache.

    `CLAUDE_SMART_TEST_CLAUDE` names a binary to use instead. Raise NotInstalledError where it cannot be installed.
    """
    named = os.environ.get("CLAUDE_SMART_TEST_CLAUDE")
    if named:
        return named
    system, machine = _SYSTEMS.get(platform.system()), _MACHINES.get(platform.machine())
    package = f"@anthropic-ai/claude-code-{system}-{machine}"
    folder = install_package("claude-code", CLAUDE_CODE, package)
    return str(next((folder / "node_modules" / package).glob("claude*")))


def list_programs() -> dict[str, Callable[[], object]]:
    """Return what installs each program, by a name for people."""
    programs: dict[str, Callable[[], object]] = {"Chromium": find_small_browser, "Claude Code": find_claude_code}
    for name, agent in AGENTS.items():
        if agent.is_small and platform.system() == "Linux":
            programs[agent.title] = partial(install_agent, name)
    programs["Node"] = node.node
    for spec in (node.INSPECTOR, node.CONFORMANCE, node.CONFORMANCE_NEXT):
        programs[spec] = partial(node.package, spec)
    return programs


def main() -> None:
    """Install each program, and say which one could not be installed."""
    for name, install in list_programs().items():
        print(f"Installing {name} for the tests ...", flush=True)
        try:
            install()
        except (BrowserMissingError, NotInstalledError, pytest.skip.Exception) as error:
            print(f"{name} could not be installed, and its tests will be skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
