"""Tell at the start of a session whether a person can be behind it: who runs the host, and whether a command runs.

A hook loads this module only when a session starts.
"""

from __future__ import annotations

import time

from .. import people
from ..processes import AGENTS, Process, list_lineage
from .origin import FRESH_SECONDS, is_joined
from .paths import DataDir

SETTLED_SECONDS = FRESH_SECONDS + 2.0
"""After this time, an event of the host cannot come from a command: its process would be too old for a hook."""


class Surroundings:
    """What a session starts in: the host with the processes above it, and the agents that hooks recorded."""

    def __init__(self, data_dir: DataDir, caller: Process) -> None:
        self._caller = caller
        self._lineage = list_lineage(caller.pid)
        self._records = list(people.read_records(people.find_data_folders((data_dir.home,))))

    def is_in_command(self) -> bool:
        """Return whether a command may have forged the event: one of the same host, or one that left it behind.

        A script that a command left behind may also have waited until the agent had ended.
        """
        for record in self._records:
            if record.process == self._caller.identity:
                if record.joined and not is_joined(self._caller):
                    return True
                calls = people.read_shell_calls(record.journal)
                if any(find_running(calls, record.transcript, self._caller.began)):
                    return True
        if people.find_left_behind(self._lineage, self._records):
            return True
        return bool(people.find_waiting_script(self._lineage, self._records))

    def find_driver(self, host: str) -> str:
        """Return which other agent runs the host; empty if none does."""
        variable = people.find_variable(people.read_environ(self._caller.pid))
        own = AGENTS.get(host, ("",))[0]
        if variable and (variable[1] != own or host == "claude"):
            return f"{variable[1]} runs this host (it has the variable {variable[0]})"
        above = 1
        # A host may be started by a program of its own, such as `node codex`.
        while above < len(self._lineage) and own and people.name_program(self._lineage[above]) == own:
            above += 1
        return people.find_agent_among(self._lineage[above:], self._records)


def find_running(calls: list[people.ShellCall], transcript: str, since: float) -> list[people.ShellCall]:
    """Return the commands that may be running now, of those that began after their host started.

    Where the host's transcript has the results of commands, one without a result is running: an agent that runs the
    hook in its shell can report the end of its own command. It can also write a result of it.
    """
    now = time.time()
    recent = [call for call in calls if call.began >= since - 1]
    if not people.is_own_file(transcript):
        return [call for call in recent if call.is_open_at(people.OPEN, now)]
    from ..coding.transcript import find_results, read_lines

    with open(transcript, "rb") as file:
        results = find_results(read_lines(file))
    own = [call for call in recent if not call.agent]
    running = [call for call in own if call.id not in results or may_write_result(call, now)]
    # The results of a subagent are in a transcript of its own.
    below = [call for call in recent if call.agent and call.is_open_at(people.OPEN, now)]
    late = [call for call in own if call.id in results and call.is_background]
    return running + below + [call for call in late if now - call.ended < FRESH_SECONDS]


def may_write_result(call: people.ShellCall, moment: float) -> bool:
    """Return whether a result of a command may be its own: the host has not reported its end, and it began just now."""
    return not call.is_reported and moment - call.began < SETTLED_SECONDS
