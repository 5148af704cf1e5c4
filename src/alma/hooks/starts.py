"""Tell at the start of a session whether a person can be behind it: who runs the host, and whether a command runs.

A hook loads this module only when a session starts.
"""

from __future__ import annotations

import time

from .. import people
from ..processes import AGENTS, Process, list_lineage
from .origin import FRESH_SECONDS
from .paths import DataDir


def find_driver(data_dir: DataDir, host: str, caller: Process) -> str:
    """Return which other agent runs the host of a session; empty if none does."""
    lineage = list_lineage(caller.pid)
    own = AGENTS.get(host, ("",))[0]
    above = 1
    # A host may be started by a program of its own, such as `node codex`.
    while above < len(lineage) and own and people.name_program(lineage[above]) == own:
        above += 1
    records = people.read_records(people.find_data_folders((data_dir.home,)))
    return people.find_agent_among(lineage[above:], records)


def is_in_command(data_dir: DataDir, caller: Process) -> bool:
    """Return whether a session of the same host process is running a command, in which the event may be forged."""
    for record in people.read_records((data_dir.home,)):
        if record.process == caller.identity:
            calls = people.read_shell_calls(record.journal)
            if any(find_running(calls, record.transcript, caller.began)):
                return True
    return False


def find_running(calls: list[people.ShellCall], transcript: str, since: float) -> list[people.ShellCall]:
    """Return the commands that may be running now, of those that began after their host started.

    Where the host's transcript has the results of commands, only they show that one has ended: an agent that runs the
    hook in its shell can report the end of its own command.
    """
    now = time.time()
    recent = [call for call in calls if call.began >= since - 1]
    if not people.is_own_file(transcript):
        return [call for call in recent if call.is_open_at(people.OPEN, now)]
    from ..coding.transcript import find_results, read_lines

    with open(transcript, "rb") as file:
        results = find_results(read_lines(file))
    late = [call for call in recent if call.id in results and call.is_background]
    return [call for call in recent if call.id not in results] + [
        call for call in late if now - call.ended < FRESH_SECONDS
    ]
