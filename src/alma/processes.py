"""Read the processes above this one, and the home folder that the system records for the user.

Hooks load this module, so it imports nothing but `os` and `time` until it needs more. Nothing here reads an environment
variable of the caller: a repository may set any.
"""

from __future__ import annotations

import os
import sys
import time

_MOST_ANCESTORS = 64
_PS = "/bin/ps"
_PS_COLUMNS = "pid=,ppid=,lstart=,command="

AGENTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "claude": ("Claude Code", ("claude",), ("CLAUDECODE",)),
    "codex": ("Codex", ("codex",), ("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI", "CODEX_THREAD_ID")),
    "copilot": ("Copilot CLI", ("copilot",), ("COPILOT_CLI", "COPILOT_AGENT_SESSION_ID")),
    "qwen": ("Qwen Code", ("qwen", "qwen-code"), ("QWEN_CODE",)),
    "gemini": ("Gemini CLI", ("gemini", "gemini-cli"), ("GEMINI_CLI",)),
    "opencode": ("OpenCode", ("opencode",), ("OPENCODE", "OPENCODE_SESSION_ID")),
    "kimi": ("Kimi Code", ("kimi", "kimi-code", "kimi-cli"), ("KIMI_PLUGIN_ROOT",)),
    "cline": ("Cline CLI", ("cline",), ("CLINE_ACTIVE",)),
    "goose": ("goose", ("goose", "goosed"), ("GOOSE_TERMINAL", "AGENT_SESSION_ID")),
    "aider": ("aider", ("aider",), ()),
    "cursor": ("Cursor", ("cursor-agent",), ("CURSOR_AGENT",)),
    "amp": ("Amp", ("amp",), ("AMP_CURRENT_THREAD_ID", "AGENT_THREAD_ID")),
    "crush": ("Crush", ("crush",), ("CRUSH",)),
}
"""The coding agents: what people call them, their programs, and the variables that they set for commands they run.

An editor is not listed, nor is a variable that an editor sets in a person's own terminal.
"""
LAUNCHERS = frozenset(
    "sh bash dash ash ksh zsh fish busybox env timeout nice uv uvx npx cmd powershell pwsh conhost py".split()
)
"""Programs that a host starts a hook with. A program that can forge an event, such as `python`, is not among them."""
_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/snap/", "/nix/store/", "/gnu/store/", "/app/")
_SHORT_OPTIONS = frozenset("cdhprv")
"""The options of Claude Code that are one letter."""


class Process:
    """A running process: its id, its parent's id, its name, when it started, and its arguments."""

    __slots__ = ("_arguments", "began", "name", "parent", "pid", "started", "terminal")

    def __init__(
        self,
        pid: int,
        parent: int,
        started: str,
        arguments: tuple[str, ...] | None = None,
        name: str = "",
        began: float = 0.0,
        terminal: int = 0,
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.started = started
        """Together with the id, it tells a process from a later one with the same id. Empty if unknown."""
        self._arguments = arguments
        self.name = name or (get_base_name(arguments[0]) if arguments else "")
        """The name of the program; Linux keeps its first 15 characters."""
        self.began = began
        """When it started, in seconds since 1970; 0 if unknown."""
        self.terminal = terminal
        """The device number of the terminal that controls it; 0 if it has none, and where only Linux tells."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments as far as they are known; they are read when they are needed first."""
        if self._arguments is None:
            text = read_process_file(self.pid, "cmdline").decode("utf-8", "replace")
            self._arguments = tuple(text.rstrip("\0").split("\0"))
        return self._arguments

    @property
    def identity(self) -> str:
        """Return a text that no other process of this machine has while it runs."""
        return f"{self.pid}:{self.started}"


def get_base_name(path: str) -> str:
    """Return the name of a program without its folder and the ending of Windows."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return name[:-4] if name[-4:].lower() == ".exe" else name


def find_system_home() -> str:
    """Return the home folder in the system's user database; empty if the system does not know one."""
    if os.name == "nt":
        return os.path.expanduser("~")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def find_namespace() -> str:
    """Return the namespaces in which numbers and start times of processes are valid; empty if the system has none."""
    names = []
    for kind in ("pid", "time"):
        try:
            names.append(os.readlink(f"/proc/self/ns/{kind}"))
        except OSError:
            # Linux has the second one since 5.6.
            continue
    return " ".join(names)


def read_process_file(pid: int, name: str) -> bytes:
    """Return a file of a process below `/proc`; empty if it cannot be read."""
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    try:
        pieces = []
        while piece := os.read(file, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(file)


def read_process(pid: int) -> Process | None:
    """Return a process; None if it does not run or cannot be read."""
    return _read_linux(pid) if sys.platform == "linux" else _read_table().get(pid)


def list_lineage(pid: int = 0) -> list[Process]:
    """Return a process (by default this one) and those above it, nearest first; empty if the system does not tell."""
    table = None if sys.platform == "linux" else _read_table()
    lineage: list[Process] = []
    number = pid or os.getpid()
    while number > 0 and len(lineage) <= _MOST_ANCESTORS:
        process = _read_linux(number) if table is None else table.get(number)
        if process is None or any(number == known.pid for known in lineage):
            break
        lineage.append(process)
        number = process.parent
    return lineage


def list_processes() -> list[Process]:
    """Return the processes of this user; where the system does not tell whose they are, all processes."""
    if sys.platform != "linux":
        return list(_read_table().values())
    processes: list[Process] = []
    for name in os.listdir("/proc"):
        try:
            is_own = name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid()
        except OSError:
            continue
        process = _read_linux(int(name)) if is_own else None
        if process is not None:
            processes.append(process)
    return processes


def find_caller() -> tuple[Process | None, float, list[Process]]:
    """Return the nearest process above this one that is not a launcher, an age, and the launchers below it.

    The age in seconds is that of the oldest launcher or of this process: a host starts a hook for each event, whereas a
    shell in which an agent forges an event may have run for long. The process is None if the system does not tell.
    """
    oldest = 0.0
    launchers: list[Process] = []
    now = time.time()
    table = None if sys.platform == "linux" else _read_table()
    number = os.getpid()
    for depth in range(_MOST_ANCESTORS):
        process = _read_linux(number) if table is None else table.get(number)
        if process is None:
            break
        if depth and process.name.lower() not in LAUNCHERS:
            return process, oldest, launchers
        launchers += [process] if depth else []
        if process.began:
            oldest = max(oldest, now - process.began)
        number = process.parent
    return None, oldest, launchers


def name_system_program(process: Process) -> str:
    """Return the name of the program that a process runs, if it is in a folder of the system; otherwise empty.

    A process can choose the name that it shows, and a copy of a program can have any name. The name that a process of
    another user shows counts, because this user cannot look at its program.
    """
    if sys.platform != "linux":
        return process.name
    try:
        path = os.readlink(f"/proc/{process.pid}/exe")
    except OSError:
        # A process of this user can forbid to look at it.
        return "" if _read_user(process.pid) == os.getuid() else process.name
    is_from_system = path.startswith(_SYSTEM_FOLDERS) and not path.endswith(" (deleted)")
    return get_base_name(path) if is_from_system else ""


def is_own_process(process: Process) -> bool:
    """Return whether this user runs a process on Linux."""
    return _read_user(process.pid) == os.getuid()


def _read_user(pid: int) -> int:
    """Return the id of the user who runs a process on Linux; -1 if it is not known."""
    user = read_process_file(pid, "status").partition(b"\nUid:")[2].split(None, 1)[:1]
    return int(user[0]) if user else -1


def is_headless_claude(process: Process | None) -> bool:
    """Return whether a process is Claude Code in a run without a person, by its own command line: `claude -p`.

    Some installations hide the arguments; then it is not known, and the answer is no.
    """
    if process is None:
        return False
    arguments = process.arguments
    program = get_base_name(arguments[0]) if arguments else ""
    is_package = any("claude-code" in word for word in arguments[1:2])
    if "claude" not in (program.lower(), process.name.lower()) and not is_package:
        return False
    for word in arguments[1:]:
        # Short options may be written together, such as `-cp`.
        letters = word[1:] if word[:1] == "-" else ""
        if word == "--print" or ("p" in letters and _SHORT_OPTIONS.issuperset(letters)):
            return True
    return False


def is_running(identity: str) -> bool:
    """Return whether the process with this identity still runs."""
    pid = identity.partition(":")[0]
    process = read_process(int(pid)) if pid.isdecimal() else None
    return process is not None and process.identity == identity


# -- Linux


def _read_linux(pid: int) -> Process | None:
    # The name in parentheses may contain spaces and parentheses.
    start, _, end = read_process_file(pid, "stat").rpartition(b")")
    fields = end.split()
    if len(fields) < 20:
        return None
    name = start.partition(b"(")[2].decode("utf-8", "replace")
    ticks = int(fields[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return Process(pid, int(fields[1]), str(ticks), name=name, began=time.time() - age, terminal=int(fields[4]))


# -- macOS, other systems with `ps`, and Windows


def _read_table() -> dict[int, Process]:
    """Return all processes by id; empty if the system does not tell."""
    try:
        return _read_windows_table() if os.name == "nt" else _parse_ps(_run_ps())
    except (OSError, ValueError, AttributeError, ImportError):
        return {}


def _run_ps() -> str:
    """Return what `ps` reports about all processes. It is named by its path: a repository may set PATH."""
    reading, writing = os.pipe()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)]
        arguments = [_PS, "-axww", "-o", _PS_COLUMNS]
        # The names of days and months must be English.
        pid = os.posix_spawn(_PS, arguments, {"LC_ALL": "C"}, file_actions=actions)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    with open(reading, "rb") as output:
        content = output.read()
    os.waitpid(pid, 0)
    return content.decode("utf-8", "replace")


def _parse_ps(text: str) -> dict[int, Process]:
    table = {}
    for line in text.splitlines():
        fields = line.split(None, 7)
        if len(fields) < 7 or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        started = " ".join(fields[2:7])
        try:
            began = time.mktime(time.strptime(started, "%a %b %d %H:%M:%S %Y"))
        except (ValueError, OverflowError):
            began = 0.0
        arguments = tuple(fields[7].split()) if len(fields) > 7 else ()
        # A login shell is named `-zsh`.
        name = get_base_name(arguments[0]).lstrip("-") if arguments else ""
        table[int(fields[0])] = Process(int(fields[0]), int(fields[1]), started, arguments, name, began)
    return table


def _read_windows_table() -> dict[int, Process]:
    """Return all processes with the times at which they were created, without their arguments."""
    import ctypes.wintypes

    wintypes = ctypes.wintypes

    class ProcessEntry(ctypes.Structure):
        _fields_ = (
            ("dwSize", wintypes.DWORD),
            ("cntUsage", wintypes.DWORD),
            ("th32ProcessID", wintypes.DWORD),
            ("th32DefaultHeapID", ctypes.c_size_t),
            ("th32ModuleID", wintypes.DWORD),
            ("cntThreads", wintypes.DWORD),
            ("th32ParentProcessID", wintypes.DWORD),
            ("pcPriClassBase", wintypes.LONG),
            ("dwFlags", wintypes.DWORD),
            ("szExeFile", wintypes.WCHAR * 260),
        )

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined,unused-ignore]
    kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
    kernel.OpenProcess.restype = wintypes.HANDLE

    def read_creation(pid: int) -> int:
        """Return when a process was created; 0 if it cannot be asked."""
        handle = wintypes.HANDLE(kernel.OpenProcess(0x1000, False, pid))
        if not handle.value:
            return 0
        times = [wintypes.FILETIME() for _ in range(4)]
        is_read = kernel.GetProcessTimes(handle, *map(ctypes.byref, times))
        kernel.CloseHandle(handle)
        return int(times[0].dwHighDateTime << 32 | times[0].dwLowDateTime) if is_read else 0

    snapshot = wintypes.HANDLE(kernel.CreateToolhelp32Snapshot(2, 0))
    entry = ProcessEntry(dwSize=ctypes.sizeof(ProcessEntry))
    table: dict[int, Process] = {}
    more = kernel.Process32FirstW(snapshot, ctypes.byref(entry))
    while more:
        created = read_creation(entry.th32ProcessID)
        # Windows counts tenths of microseconds since 1601.
        began = created / 1e7 - 11_644_473_600 if created else 0.0
        number, parent = int(entry.th32ProcessID), int(entry.th32ParentProcessID)
        table[number] = Process(number, parent, str(created or ""), (entry.szExeFile,), began=began)
        more = kernel.Process32NextW(snapshot, ctypes.byref(entry))
    kernel.CloseHandle(snapshot)
    for process in table.values():
        above = table.get(process.parent)
        # The id of a parent that has ended may belong to a newer process.
        if above is not None and process.began and above.began > process.began:
            process.parent = 0
    return table
