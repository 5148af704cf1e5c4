"""Tell whether a person runs this command: at a terminal, in a process tree without a coding agent.

Acts that only a person may decide on call `require_person`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from .errors import PersonRequiredError
from .processes import find_system_home, list_ancestors

AGENT_VARIABLES = {"CLAUDECODE": "Claude Code"}
"""The variables that coding agents set for the commands that they run."""
DOORS = "run it in a terminal that no agent started, use the agent's slash command, or open the dashboard"


def require_person(act: str, door: str = DOORS, *, folders: Iterable[str] = ()) -> None:
    """Raise PersonRequiredError unless a person at a terminal runs this process.

    `act` names what is refused, such as "`claude-smart review --accept`"; `door` says what to do instead.
    """
    reason = find_agent(folders=folders) or find_missing_terminal()
    if reason:
        raise PersonRequiredError(f"{act} is for a person to decide: {reason}. {door[:1].upper()}{door[1:]}.")


def find_missing_terminal() -> str:
    """Return why this process cannot be asked by a person; empty if its input is a terminal."""
    return "" if sys.stdin is not None and sys.stdin.isatty() else "its input is not a terminal"


def find_agent(*, folders: Iterable[str] = ()) -> str:
    """Return which coding agent runs this process and how that shows; empty if none does.

    `folders` are data folders of claude-smart in which hooks recorded the processes of agents; those below the home
    folder are always read.
    """
    for name, title in AGENT_VARIABLES.items():
        if os.environ.get(name):
            return f"{title} runs this command (it sets {name})"
    list_ancestors()
    find_system_home()
    return ""
