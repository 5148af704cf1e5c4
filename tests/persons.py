"""Let a test act as a person at a terminal, whatever runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alma import people
from alma.hooks import origin

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


_HOOK_ALONE = """\
import os, sys
TOP, HOOK = {top!r}, {hook!r}
sys.argv[0] = HOOK
sys.path.append(os.path.dirname(os.path.dirname(HOOK)))
from alma import processes
read_process, read_file = processes._read_linux, processes.read_process_file

def read_below_top(pid):
    process = read_process(pid)
    if process is not None and pid == TOP:
        process.parent = 0
    return process

processes._read_linux = read_below_top
processes.read_process_file = lambda pid, name: b"" if (pid, name) == (TOP, "environ") else read_file(pid, name)
processes.find_system_home = lambda: ""
exec(compile(open(HOOK).read(), HOOK, "exec"), {{"__name__": "__main__", "__file__": HOOK}})
"""


def write_hook(folder: str, hook: str) -> str:
    """Write a program that runs the hook as if nothing ran the tests, and return its path.

    The hook then sees this process as a host without processes above it and without variables, and no records of the
    person who runs the tests. The hook itself has no such switch: the program replaces functions before it runs it.
    """
    path = Path(folder, "hook.py")
    path.write_text(_HOOK_ALONE.format(top=os.getpid(), hook=hook))
    return str(path)


not_below_an_agent = pytest.mark.skipif(
    bool(people.find_variable(people.read_environ(os.getpid()))),
    reason="an agent runs the tests, which an installed hook sees in the environment of this process",
)


def hide_agents(patch: pytest.MonkeyPatch) -> None:
    """Remove the variables of an agent that runs the tests."""
    names = [name for name in os.environ if name.startswith("CLAUDE_CODE_")]
    for name in (*people.AGENT_VARIABLES, "AGENT", *names):
        patch.delenv(name, raising=False)


def person_command(program: str) -> list[str]:
    """Return the start of a command line that runs `alma` or `claude-smart` as a person would at a terminal."""
    return [sys.executable, "-c", _CODE.format(module=_MODULES[program])]


def act_as_person(patch: pytest.MonkeyPatch) -> None:
    """Make this process count as a person at a terminal."""
    patch.setattr(people, "find_agent", lambda **options: "")
    patch.setattr(people, "find_missing_terminal", lambda: "")
    patch.setattr(origin, "find_origin", lambda data_dir, call: "" if "Tool" in call.name else "host")
