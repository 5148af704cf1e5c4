"""Tell whether a person runs this command: at a terminal, in a process tree without a coding agent.

Acts that only a person may decide on call `require_person`. The hooks of claude-smart record the process of each agent
in the folder `agents` of their data folder, and the commands that an agent runs in journals; both are read here.
"""

from __future__ import annotations

import json
import os
import sys
import time

from . import processes
from .processes import (
    AGENTS,
    Process,
    find_namespace,
    get_base_name,
    is_running,
    list_lineage,
    list_processes,
    name_system_program,
    read_process_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

_OTHER_VARIABLES = {
    "AUGMENT_AGENT": "Augment",
    "ANTIGRAVITY_AGENT": "Antigravity",
    "ROO_ACTIVE": "Roo Code",
    "ROO_CLI_RUNTIME": "Roo Code",
    "IFLOW_CLI": "iFlow",
    "PI_CODING_AGENT": "Pi",
    "TRAE_AI_SHELL_ID": "Trae",
    "WINDSURF_CASCADE_TERMINAL": "Windsurf",
    "OPENCLAW_SHELL": "OpenClaw",
    "AI_AGENT": "an agent",
}
AGENT_VARIABLES = {
    **{variable: title for title, _, variables in AGENTS.values() for variable in variables},
    **_OTHER_VARIABLES,
}
"""The variables that coding agents set for the commands that they run."""
_SHARED_VARIABLE = "AGENT"
"""goose and Amp set it to their name; other programs use it for something else."""
_PROGRAMS = {program: title for title, programs, _ in AGENTS.values() for program in programs}
_PACKAGES = {**_PROGRAMS, "claude-code": "Claude Code", "aider-chat": "aider"}
_INTERPRETERS = ("node", "nodejs", "python", "bun", "deno")
_ROOTS = frozenset("systemd init launchd".split())
"""Programs that adopt a process whose parent has ended."""
_TERMINALS = frozenset(
    """sshd sshd-session dropbear mosh-server login getty agetty SessionLeader kitty alacritty ghostty foot wezterm
    wezterm-gui konsole yakuake xterm rxvt urxvt urxvtd rxvt-unicode st gnome-terminal-server gnome-terminal- kgx ptyxis
    ptyxis-agent tilix tilda terminology xfce4-terminal lxterminal mate-terminal qterminal rio contour Terminal iTerm2
    WindowsTerminal warp warp-terminal hyper tabby code code-insiders codium cursor windsurf zed zed-editor idea
    pycharm emacs emacs-gtk emacs-lucid emacs-nox emacs-pgtk""".split()
)
"""Programs in which a person opens a terminal. They may start at any time, also while an agent works.

Linux shows the first 15 characters of the name of another user's program. `SessionLeader` is that of WSL.
"""
_DETACHABLE = frozenset(
    """sh bash dash zsh fish ksh script setsid nohup env timeout expect unbuffer socat perl ruby node alma
    claude-smart""".split()
)
"""Programs that a person's terminal is not, and that an agent can leave running."""
DOORS = "run it in a terminal that no agent started, use the agent's slash command, or open the dashboard"
_PSEUDO_TERMINALS = range(136, 144)
"""The major numbers of their devices on Linux."""
_DAY = 86_400.0
_JUST_NOW = 30.0
_RECENT = 600.0
_JOURNAL_BYTES = 32 * 1024 * 1024
_SLACK = 1.0


def require_person(act: str, door: str = DOORS, *, folders: Iterable[str] = ()) -> None:
    """Raise PersonRequiredError unless a person at a terminal runs this process.

    `act` names what is refused, such as "`claude-smart review --accept`"; `door` says what to do instead.
    """
    reason = find_agent(folders=folders) or find_missing_terminal()
    if reason:
        # A hook loads this module at the start of a session, and `errors` takes longer to load than all the rest.
        from .errors import PersonRequiredError

        raise PersonRequiredError(f"{act} is for a person to decide: {reason}. {door[:1].upper()}{door[1:]}.")


def find_missing_terminal() -> str:
    """Return why this process cannot be asked by a person; empty if its input is the terminal that controls it."""
    try:
        is_terminal = os.isatty(0)
    except OSError:
        is_terminal = False
    if not is_terminal:
        return "its input is not a terminal"
    if os.name == "nt":
        return ""
    try:
        # It fails for a terminal that does not control this process.
        group = os.tcgetpgrp(0)
    except OSError:
        return "its input is a terminal that does not control it"
    return "" if group == os.getpgrp() else "it does not run in the foreground of its terminal"


def find_agent(*, folders: Iterable[str] = ()) -> str:
    """Return which coding agent runs this process and how that shows; empty if none does.

    `folders` are data folders of claude-smart in which hooks recorded the processes of agents; those below the home
    folder are always read.
    """
    if variable := find_variable(os.environ):
        return f"{variable[1]} runs this command (it sets {variable[0]})"
    lineage = list_lineage()
    if not lineage and os.name != "nt":
        return "the system does not tell which programs run this command"
    places = find_data_folders(folders)
    records = list(read_records(places))
    return (
        find_agent_among(lineage[1:], records)
        or _find_player(lineage[1:], places)
        or find_left_behind(lineage, records)
        or _find_detached(lineage)
        or find_waiting_script(lineage, records)
        or _find_waiting_program(lineage, records)
        or _find_announced(records)
    )


def find_variable(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable of an agent in an environment, and what the agent is called."""
    for name, title in AGENT_VARIABLES.items():
        if environ.get(name):
            return name, title
    title = AGENTS.get(environ.get(_SHARED_VARIABLE, "").lower(), ("",))[0]
    return (_SHARED_VARIABLE, title) if title else None


def find_agent_among(processes: Sequence[Process], records: Iterable[AgentRecord]) -> str:
    """Return which of these processes belongs to a coding agent, and how that shows; empty if none does."""
    recorded = {record.process: record for record in records}
    for process in processes:
        if record := recorded.get(process.identity):
            title = AGENTS.get(record.host, ("An agent",))[0]
            return f"{title} runs this command (process {process.pid} is its session {record.session})"
        if title := name_program(process):
            return f"{title} runs this command (process {process.pid})"
        if variable := find_variable(read_environ(process.pid)):
            return f"{variable[1]} runs this command (process {process.pid} has the variable {variable[0]})"
    return ""


def _find_player(processes: Sequence[Process], folders: Iterable[str]) -> str:
    """Return which of these processes is a program that the setting `host_program` names as a coding agent."""
    named = [_read_object(os.path.join(folder, "config.json")).get("host_program") for folder in folders]
    players = {os.path.realpath(path) for path in named if isinstance(path, str) and os.path.isabs(path)}
    for process in processes:
        # An interpreter is followed by the script that it runs.
        if any(os.path.realpath(word) in players for word in process.arguments[:2] if os.path.isabs(word)):
            return f"process {process.pid} runs this command, and your settings name its program as a coding agent"
    return ""


def name_program(process: Process) -> str:
    """Return what people call the coding agent that a process is; empty if it is none that is known."""
    arguments = process.arguments
    program = get_base_name(arguments[0]) if arguments else ""
    if title := _PROGRAMS.get(process.name) or _PROGRAMS.get(program):
        return title
    if not any(name.startswith(_INTERPRETERS) for name in (program, process.name)):
        return ""
    words = [word for word in arguments[1:4] if not word.startswith("-")]
    script = words[0] if words else ""
    parts = script.replace("\\", "/").split("/")
    # Below a folder of packages, the folder of the package tells; elsewhere, a folder may have any name.
    is_package = not {"node_modules", "site-packages"}.isdisjoint(parts)
    named = parts if is_package else parts[-1:]
    return next((_PACKAGES[part] for part in named if part in _PACKAGES), "")


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty where the system does not tell."""
    if sys.platform != "linux":
        return {}
    text = read_process_file(pid, "environ").decode("utf-8", "replace")
    return dict(entry.partition("=")[::2] for entry in text.split("\0"))


# -- what the hooks recorded


class AgentRecord:
    """The process of an agent's session, as a hook recorded it."""

    __slots__ = ("host", "joined", "journal", "namespace", "process", "session", "transcript", "written")

    def __init__(self, fields: Mapping[str, Any], written: float = 0.0) -> None:
        self.process = str(fields.get("process") or "")
        self.host = str(fields.get("host") or "")
        self.session = str(fields.get("session") or "")
        self.journal = str(fields.get("journal") or "")
        """The path of the journal with the commands that the agent ran."""
        self.transcript = str(fields.get("transcript") or "")
        """The path of the host's transcript, if it contains the results of commands."""
        self.joined = str(fields.get("joined") or "")
        """Not empty if the host starts hooks in its own process session."""
        self.namespace = str(fields.get("namespace") or "")
        """In which namespace its number is valid; empty if the system has none."""
        self.written = written
        """When the hook wrote it."""


def find_data_folders(folders: Iterable[str] = ()) -> list[str]:
    """Return the data folders to read: those given, those below the home folder, and those that these name."""
    homes = (processes.find_system_home(), os.environ.get("HOME", ""))
    found = [*folders, *(os.path.join(home, ".claude-smart") for home in homes if home)]
    for folder in list(found):
        named = _read_object(os.path.join(folder, "config.json")).get("home")
        if isinstance(named, str) and os.path.isabs(named):
            found.append(named)
    return list(dict.fromkeys(os.path.abspath(folder) for folder in found))


def read_records(folders: Iterable[str]) -> Iterator[AgentRecord]:
    """Yield the recorded processes of agents in these data folders. Files of other users are ignored."""
    for folder in folders:
        place = os.path.join(folder, "agents")
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            if name.endswith(".json"):
                path = os.path.join(place, name)
                record = AgentRecord(_read_object(path), _get_change_time(path))
                if record.process:
                    yield record


def is_own_file(path: str) -> bool:
    """Return whether a path is a regular file of the user who runs this process."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    is_regular = status.st_mode & 0o170000 == 0o100000
    return is_regular and (os.name == "nt" or status.st_uid == os.getuid())


def _read_object(path: str) -> dict[str, Any]:
    """Return the object in a small JSON file of this user; empty if there is none."""
    if not is_own_file(path):
        return {}
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(65536))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# -- commands that an agent ran

_SHELLS = frozenset("bash powershell pwsh shell terminal cmd zsh".split())
_SHELL_WORDS = ("mcp__", "shell", "exec", "command", "terminal")
_ENDS = frozenset(("PostToolUse", "PostToolUseFailure", "PermissionDenied", "Stop", "SubagentStop", "SessionEnd"))
_SIGNS = tuple(f'"event":"{name}"'.encode() for name in ("PreToolUse", "SessionStart", *sorted(_ENDS)))
_BACKGROUND = ("run_in_background", "is_background", "background", "detach")
"""What the shell tools of the hosts call an argument that lets a command run on."""
OPEN = float("inf")
BACKGROUND_SECONDS = 3.0
"""A program in the background that is older than this shows by its age."""


class ShellCall:
    """A command that an agent ran, or a tool that may run one: when and where in the journal it began and ended."""

    __slots__ = ("agent", "began", "ended", "id", "is_background", "is_reported", "names_us", "start", "stop", "tool")

    def __init__(self, fields: Mapping[str, Any], data: Mapping[str, Any], offset: int) -> None:
        self.id = str(data.get("tool_use_id") or "")
        self.tool = str(data.get("tool_name") or "")
        self.agent = str(fields.get("agent_id") or "")
        self.began = _get_time(fields)
        self.ended = OPEN
        self.is_reported = False
        """Whether the host reported its end, not only that of the turn or the session."""
        self.start = offset
        self.stop = OPEN
        self.names_us = data.get("names_us") is True
        """Whether the command names a program or a folder of ours."""
        arguments = data.get("tool_input")
        values = arguments if isinstance(arguments, dict) else {}
        self.is_background = any(values.get(name) is True for name in _BACKGROUND) or values.get("mode") == "async"

    def is_open_at(self, offset: float, moment: float) -> bool:
        """Return whether it may still run at a position of the journal and a time.

        What runs in the background has only begun when the host reports its end.
        """
        if not self.start < offset:
            return False
        return offset <= self.stop or (self.is_background and moment - self.ended < BACKGROUND_SECONDS)


def is_shell(tool: str) -> bool:
    """Return whether a tool runs commands, or may do so."""
    name = tool.lower()
    return name in _SHELLS or any(word in name for word in _SHELL_WORDS)


def list_shell_calls(journal: bytes) -> list[ShellCall]:
    """Return the commands in a journal, in order. A line that another process than the host brought ends none."""
    calls: list[ShellCall] = []
    offset = 0
    for line in journal.split(b"\n"):
        offset += len(line) + 1
        if not any(sign in line for sign in _SIGNS):
            continue
        try:
            fields = json.loads(line)
            data = fields["data"]
            name = fields["event"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if not isinstance(data, dict):
            continue
        if name == "PreToolUse":
            if is_shell(str(data.get("tool_name") or "")):
                calls.append(ShellCall(fields, data, offset))
        elif fields.get("origin", "host") == "host":
            _end_calls(calls, fields, data, offset)
    return calls


def _end_calls(calls: list[ShellCall], fields: Mapping[str, Any], data: Mapping[str, Any], offset: int) -> None:
    name = fields["event"]
    identity = str(data.get("tool_use_id") or "")
    agent = str(fields.get("agent_id") or data.get("agent_id") or "")
    for call in calls:
        if name in ("SessionStart", "SessionEnd"):
            is_meant = True
        elif name in ("Stop", "SubagentStop"):
            is_meant = call.agent == agent
        else:
            is_meant = call.id == identity and (bool(identity) or call.tool == data.get("tool_name"))
        # A later report of the same call is the one that counts.
        if is_meant and (call.stop == OPEN or (identity and call.id == identity)):
            call.ended = _get_time(fields)
            call.stop = offset
            call.is_reported = bool(identity) and call.id == identity


def _get_time(fields: Mapping[str, Any]) -> float:
    value = fields.get("at")
    return float(value) if isinstance(value, int | float) else 0.0


def read_shell_calls(path: str) -> list[ShellCall]:
    """Return the commands in a journal of this user that changed in the last day."""
    try:
        if not is_own_file(path) or time.time() - os.stat(path).st_mtime > _DAY:
            return []
        with open(path, "rb") as file:
            return list_shell_calls(file.read(_JOURNAL_BYTES))
    except OSError:
        return []


def find_left_behind(lineage: Sequence[Process], records: Iterable[AgentRecord]) -> str:
    """Return which agent left the process behind that this command runs in, such as `setsid -f` or a tmux server.

    Its parent has ended, so the process tree does not show the agent; when it started does.
    """
    tops = [process for process in lineage if _is_adopted(process, lineage)]
    began = [process.began for process in tops if process.began and not _is_terminal_program(process)]
    for record in records if began else ():
        if max(began) + _SLACK < _read_start(record.journal):
            continue
        calls = read_shell_calls(record.journal)
        last = OPEN if is_running(record.process) else _get_change_time(record.journal)
        # What runs in another container, or above it, does not show.
        last += _RECENT if record.namespace not in ("", find_namespace()) else 0.0
        for call in calls:
            if any(call.began - _SLACK <= moment <= min(call.ended, last) + _SLACK for moment in began):
                title = AGENTS.get(record.host, ("an agent",))[0]
                return f"the program it runs in was started while {title} ran a command"
    return ""


def _is_terminal_program(process: Process) -> bool:
    """Return whether a process is a terminal emulator, an editor or a login, by the program that it runs."""
    return name_system_program(process) in _TERMINALS


def _find_detached(lineage: Sequence[Process]) -> str:
    """Return which running agent may have left a shell or a script behind, where no hook recorded its commands."""
    adopted = [process for process in lineage if _is_adopted(process, lineage)]
    tops = [process for process in adopted if process.began and _is_detachable(process)]
    if not tops:
        return ""
    agents = [process for process in list_processes() if process.began and name_program(process)]
    for top in tops:
        for agent in agents:
            if agent.began <= top.began:
                title = name_program(agent)
                return f"the program it runs in has lost its parent and was started while {title} was running"
    return ""


def find_waiting_script(lineage: Sequence[Process], records: Iterable[AgentRecord]) -> str:
    """Return which agent's session may have left the script behind that runs a process; empty if none may.

    The script may have waited until no command and no agent ran, so all sessions of the last day count.
    """
    script = _find_outermost(lineage) if sys.platform == "linux" else None
    if script is None or not _is_script(script):
        return ""
    title = _find_earlier_session(script, records)
    deed = "opened its terminal" if lineage[0].terminal else "runs it, was detached and started"
    return f"a script ({script.name}) {deed} after a session of {title} had begun" if title else ""


def _find_waiting_program(lineage: Sequence[Process], records: Iterable[AgentRecord]) -> str:
    """Return which agent's session may have left the program behind that runs a command without a terminal.

    Nobody sees what such a command asks, so any program of this user counts, whatever is between it and the command.
    """
    if sys.platform != "linux" or lineage[0].terminal:
        return ""
    for process in lineage:
        if not _is_adopted(process, lineage):
            continue
        if _is_terminal_program(process) or not processes.is_own_process(process):
            return ""
        title = _find_earlier_session(process, records)
        deed = "runs it, has lost its parent and started"
        return f"a program ({process.name}) {deed} after a session of {title} had begun" if title else ""
    return ""


def _find_earlier_session(process: Process, records: Iterable[AgentRecord]) -> str:
    """Return what agent had a session in the last day that began before a process; empty if none had."""
    for record in records if process.began else ():
        changed = max(record.written, _get_change_time(record.journal))
        started = _read_start(record.journal) or record.written
        if time.time() - changed < _DAY and started <= process.began:
            return AGENTS.get(record.host, ("an agent",))[0]
    return ""


def _find_outermost(lineage: Sequence[Process]) -> Process | None:
    """Return the program that opened the outermost terminal of a command, or its first process if that lost its parent.

    Return None for a console and for a terminal from outside of a container. Without a terminal, it is the first of the
    scripts that run the command; None if another program does, such as an editor.
    """
    inner = lineage[0]
    if not inner.terminal:
        return _find_first_script(lineage)
    for process in lineage[1:]:
        if process.pid == 1 or process.name in _ROOTS:
            break
        if not process.terminal:
            return process
        inner = process
    is_pseudo = inner.terminal >> 8 & 0xFFF in _PSEUDO_TERMINALS
    return inner if is_pseudo and _is_adopted(inner, lineage) else None


def _find_first_script(lineage: Sequence[Process]) -> Process | None:
    for process in lineage:
        if not _is_script(process):
            return None
        if _is_adopted(process, lineage):
            return process
    return None


def _is_detachable(process: Process) -> bool:
    """Return whether a process whose parent has ended may be one that an agent detached.

    In a container, a terminal of a person has no parent at all.
    """
    return process.parent > 0 and (process.name in _DETACHABLE or process.name.startswith("python"))


def _is_script(process: Process) -> bool:
    # A terminal in the browser or in an editor on another machine is opened by `node`.
    return _is_detachable(process) and process.name != "node"


def _is_adopted(process: Process, lineage: Sequence[Process]) -> bool:
    if process.parent == 0 and process.pid > 1:
        # It came into a container from outside, as with `docker exec`.
        return False
    above = next((other for other in lineage if other.pid == process.parent), None)
    if process.parent == 1 and above is not None and above.terminal:
        # The first process of a container may be a person's shell, as with `docker run -it`.
        return above.terminal != process.terminal
    return process.parent <= 1 or above is None or above.name in _ROOTS


def _read_start(path: str) -> float:
    """Return when a journal of this user began; 0 if its first line does not tell."""
    if not is_own_file(path):
        return 0.0
    try:
        with open(path, "rb") as file:
            return _get_time(json.loads(file.readline(4096)))
    except (OSError, ValueError, AttributeError, RecursionError):
        return 0.0


def _get_change_time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _find_announced(records: Iterable[AgentRecord]) -> str:
    """Return which agent has just announced a command that names our programs; it may type into a person's terminal."""
    now = time.time()
    for record in records:
        for call in read_shell_calls(record.journal):
            is_hidden = record.namespace not in ("", find_namespace())
            is_open = call.ended == OPEN and now - call.began < _RECENT and (is_hidden or is_running(record.process))
            if call.names_us and (is_open or now - call.ended < _JUST_NOW):
                title = AGENTS.get(record.host, ("An agent",))[0]
                return f"{title} announced a command of this program a moment ago; try again in a minute"
    return ""
