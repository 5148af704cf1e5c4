"""Tell at the start of a session whether a person can be behind it: who runs the host, and whether a command runs.

A hook loads this module only when a session starts.
"""

from __future__ import annotations

import time

from .. import people
from ..processes import AGENTS, Process, list_lineage
from .origin import FRESH_SECONDS, is_joined
from .paths import DataDir


def find_driver(data_dir: DataDir, host: str, caller: Process) -> str:
    """Return which other agent runs the host of a session; empty if none does."""
    lineage = list_lineage(caller.pid)
    variable = people.find_variable(people.read_environ(caller.pid))
    own = AGENTS.get(host, ("",))[0]
    if variable and (variable[1] != own or host == "claude"):
        return f"{variable[1]} runs this host (it has the variable {variable[0]})"
    above = 1
    # A host may be started by a program of its own, such as `node codex`.
    while above < len(lineage) and own and people.name_program(lineage[above]) == own:
        above += 1
    records = people.read_records(people.find_data_folders((data_dir.home,)))
    return people.find_agent_among(lineage[above:], records)


def is_in_command(data_dir: DataDir, caller: Process) -> bool:
    """Return whether a command may have forged an event: one of the same host, or one that left the host behind."""
    records = list(people.read_records(people.find_data_folders((data_dir.home,))))
    for record in records:
        if record.process == caller.identity:
            if record.joined and not is_joined(caller):
                return True
            calls = people.read_shell_calls(record.journal)
            if any(find_running(calls, record.transcript, caller.began)):
                return True
    return bool(people.find_left_behind(list_lineage(caller.pid), records))


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
    own = [call for call in recent if not call.agent]
    running = [call for call in own if call.id not in results]
    # The results of a subagent are in a transcript of its own.
    below = [call for call in recent if call.agent and call.is_open_at(people.OPEN, now)]
    late = [call for call in own if call.id in results and call.is_background]
    return running + below + [call for call in late if now - call.ended < FRESH_SECONDS]
