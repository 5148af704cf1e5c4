"""Read the processes above this one, and the home folder that the system records for the user.

Hooks load this module, so it imports nothing but `os` until it needs more. Nothing here reads an environment variable
of the caller: a repository may set any.
"""

from __future__ import annotations

import os

_MOST_ANCESTORS = 64


class Process:
    """A running process: its id, its parent's id, when it started, and its arguments as far as they are known."""

    __slots__ = ("arguments", "parent", "pid", "started")

    def __init__(self, pid: int, parent: int, started: str, arguments: tuple[str, ...]) -> None:
        self.pid = pid
        self.parent = parent
        self.started = started
        """Together with the id, it tells a process from a later one with the same id. Empty if unknown."""
        self.arguments = arguments

    @property
    def identity(self) -> str:
        """Return a text that no other process of this machine has while it runs."""
        return f"{self.pid}:{self.started}"


def find_system_home() -> str:
    """Return the home folder in the system's user database; empty if the system does not know one."""
    if os.name == "nt":
        return os.path.expanduser("~")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def read_process(pid: int) -> Process | None:
    """Return a process; None if it does not run or cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may contain spaces and parentheses.
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[19].decode(), tuple(arguments))


def list_ancestors(pid: int = 0) -> list[Process]:
    """Return the processes above a process (by default this one), nearest first."""
    process = read_process(pid or os.getpid())
    ancestors: list[Process] = []
    while process is not None and process.parent > 0 and len(ancestors) < _MOST_ANCESTORS:
        process = read_process(process.parent)
        if process is not None:
            ancestors.append(process)
    return ancestors
