"""Record the process of a session's host, and tell whether an event comes from it.

A hook runs below its host. An agent can run the same hook in its own shell with an event that it made up: such a hook
runs below another program, or below a shell that has run for longer than a hook, or while a command of the agent is
open. The journal keeps what is found; who spoke is decided when the journal is imported.
"""

from __future__ import annotations

import json
import os
import sys

from ..processes import find_namespace, is_running
from .journal import EVENTS
from .paths import DataDir, digest, read_object, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..processes import Process
    from .journal import HookCall

HOST = "host"
"""The host started the hook, and the host is the one that the session was recorded with."""
OTHER = "other"
"""Another program started the hook."""
COMMAND = "command"
"""The session began while an agent's command ran below the same host."""
AGENT = "agent"
"""Another agent runs the host."""
UNKNOWN = "unknown"
"""The system does not tell."""
TRANSCRIPT = "transcript"
"""The event was read from the host's transcript."""
FRESH_SECONDS = 3.0
"""A host starts a hook for each event. The shell of a command may be older than this."""
RESULT_HOSTS = ("claude", "codex")
"""Their transcripts contain the results of commands, also of those that a person interrupted."""
PROMPTS = frozenset(("UserPromptSubmit", "UserPromptExpansion"))
_NAMED = PROMPTS | {"SessionStart"}


def find_origin(data_dir: DataDir, call: HookCall) -> str:
    """Return which program brought an event, and record the host at the start of a session.

    Of other events than starts and prompts, only those are looked at that end a command; they are silent about a host.
    """
    if call.name == "PreToolUse" or (call.name not in _NAMED and sys.platform != "linux"):
        # Reading the processes takes too long there to do it for each tool call.
        return ""
    caller, age, launchers = call.find_caller()
    if caller is None:
        return UNKNOWN
    record = read_object(data_dir.agent_file(call.session))
    is_same = record.get("process") == caller.identity
    is_fresh = age < FRESH_SECONDS
    shells = _describe_launchers(launchers)
    if not is_same and is_fresh and (call.name == "SessionStart" or not is_running(str(record.get("process", "")))):
        from .starts import Surroundings

        surroundings = Surroundings(data_dir, caller)
        if surroundings.is_in_command():
            return COMMAND
        record = _record_host(data_dir, call, caller, launchers, surroundings.find_driver(call.host))
        is_same = True
    # A host starts the hook in the same way for each event; our slash commands have a program of their own.
    is_alike = record.get("launchers") == shells
    if call.name == "UserPromptExpansion":
        depth = str(len(launchers))
        is_alike = record.get("depth", depth) == depth
    is_same = is_same and is_alike
    # A host starts the shell of a command in a process session of its own; nothing in there can join the host's again.
    is_outside = bool(record.get("joined")) and not is_joined(caller)
    if not (is_same and is_fresh) or is_outside:
        return OTHER
    if record.get("driver"):
        return AGENT
    return HOST if call.name in _NAMED else ""


def _describe_launchers(launchers: list[Process]) -> str:
    """Return the command lines between a hook and its host, without the name of the event that they may pass on."""
    text = "\n".join(" ".join(process.arguments) for process in launchers)
    for name in EVENTS if text else ():
        text = text.replace(name, "")
    return digest(text)[:16] if text else ""


def is_joined(caller: Process) -> bool:
    """Return whether this process is in the process session of the host; true where the system does not tell."""
    try:
        return os.getsid(0) == os.getsid(caller.pid)
    except (AttributeError, OSError):
        return True


def _record_host(
    data_dir: DataDir, call: HookCall, caller: Process, launchers: list[Process], driver: str
) -> dict[str, str]:
    record = {
        "process": caller.identity,
        "host": call.host,
        "session": call.session,
        "journal": data_dir.journal_file(call.session),
        "transcript": call.text("transcript_path") if call.host in RESULT_HOSTS else "",
        "launchers": _describe_launchers(launchers),
        "depth": str(len(launchers)),
        "namespace": find_namespace(),
        "joined": "1" if is_joined(caller) else "",
        "driver": driver,
    }
    if not os.path.isdir(data_dir.agents):
        data_dir.create_folders()
        os.makedirs(data_dir.agents, 0o700, exist_ok=True)
    write_private(data_dir.agent_file(call.session), json.dumps(record).encode())
    return record


def remove_dead_records(data_dir: DataDir, before: float) -> None:
    """Remove the records of hosts that have ended and that did not change after a time."""
    try:
        names = os.listdir(data_dir.agents)
    except OSError:
        return
    for name in names:
        path = os.path.join(data_dir.agents, name)
        process = str(read_object(path).get("process", ""))
        if os.stat(path).st_mtime < before and not is_running(process):
            os.unlink(path)
