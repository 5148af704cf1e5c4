"""Where everything is kept, what a person set, and the log. Paths are plain strings: a hook has no time to load more.

`alma.files` takes 10 ms to load, as much as a hook does altogether, so the hot path has its own writer here.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 100
MOST_CHARS = 256 * 1024
# Windows opens a device by these names, whatever the folder and the ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


class NoHomeError(Exception):
    """There is no home folder to keep anything in; set CLAUDE_SMART_HOME to a folder."""


class DataDir:
    """The folders and files of one person."""

    def __init__(self, home: str, sessions: str = "") -> None:
        self.home = home
        self.sessions = sessions or os.path.join(home, "sessions")
        self.db = os.path.join(home, "memory.db")
        self.log = os.path.join(home, "hooks.log")
        self.config = os.path.join(home, "config.json")
        self.model_notice = os.path.join(home, "model-notice")
        """Exists once the person was shown how to let Claude read sessions."""
        self.paused = os.path.join(home, "paused.json")
        self.worker = os.path.join(home, "worker.json")
        self.worker_lock = os.path.join(home, "worker.lock")
        self.drain_lock = os.path.join(home, "drain.lock")
        self.cleared = os.path.join(home, "cleared.json")
        self.projects = os.path.join(home, "projects")
        """The working copies that were seen, one file each."""
        self.runtime = os.path.join(home, "runtime.json")

    def journal(self, session: str) -> str:
        return os.path.join(self.sessions, f"{file_name(session)}.jsonl")

    def shown(self, session: str) -> str:
        """Return the file of the rules shown since the context was last empty."""
        return os.path.join(self.sessions, f"{file_name(session)}.shown")

    def make(self) -> None:
        """Make the folders, for their owner alone."""
        for folder in (self.home, self.sessions):
            if not os.path.isdir(folder):
                os.makedirs(folder, 0o700, exist_ok=True)


def find_data_dir(environ: Mapping[str, str]) -> DataDir:
    """Return the folders that the environment names; raises NoHomeError."""
    # A service may have no home in its environment, but the system knows it.
    person = environ.get("USERPROFILE" if os.name == "nt" else "HOME") or os.path.expanduser("~")
    paths = []
    for path in (environ.get("CLAUDE_SMART_HOME") or "~/.claude-smart", environ.get("CLAUDE_SMART_STATE_DIR") or ""):
        if path == "~" or path.startswith(("~/", "~\\")):
            if not os.path.isabs(person):
                raise NoHomeError("no home folder is known; set CLAUDE_SMART_HOME to a folder")
            path = person + path[1:]
        paths.append(os.path.abspath(path) if path else "")
    return DataDir(*paths)


def list_own_files(data_dir: DataDir, *endings: str) -> list[str]:
    """Return our files among the journals, or those with these endings. Others may use the folder, too."""
    names = sorted(os.listdir(data_dir.sessions)) if os.path.isdir(data_dir.sessions) else []
    own = [name for name in names if name.endswith(endings or (".jsonl", ".shown", ".done"))]
    if not endings:
        # A hook that was killed may have left a journal's beginning behind, with its number at the end.
        own += [name for name in names if name == "wanted" or name.rstrip("0123456789").endswith(".jsonl.")]
    return [os.path.join(data_dir.sessions, name) for name in own]


def file_name(session: str) -> str:
    """Return a session's id as a file name; the digest of one that could mean another folder or a device."""
    is_plain = 0 < len(session) <= _LONGEST and session[0].isalnum() and _SAFE.issuperset(session)
    return session if is_plain and session.split(".")[0].lower() not in _DEVICES else f"x-{digest(session)}"


def digest(*parts: str) -> str:
    """Return 32 hex digits that stand for these texts."""
    # `hashlib` loads OpenSSL; the interpreter has the same digest built in, under a name that changed with 3.12.
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return str(sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest())[:32]


def redact_text(text: str) -> str:
    if not text:
        return text
    from ..engine.redact import redact

    return redact(text)


def write_private(path: str, data: bytes) -> None:
    """Replace a file by this content as a whole; only its owner can read it. Raises OSError."""
    part = f"{path}.{os.getpid()}"
    if os.path.lexists(part):
        # Left by a process that was killed; or a link, which is not followed.
        os.unlink(part)
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)
    os.replace(part, path)


def read_text(path: str) -> str:
    """Return the beginning of a text file; empty when there is none, or what could hold us up: no plain file."""
    try:
        if os.stat(path).st_mode & 0o170000 != 0o100000:
            return ""
        with open(path, "rb") as file:
            return file.read(MOST_CHARS).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def read_object(path: str, most: int = 65536) -> dict[str, Any]:
    """Return the object in a small JSON file; empty when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(most))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# -- the log: what went wrong, for `doctor` and for a curious person: one line each, and never what was said

MOST_LOG_BYTES = 1_000_000
_LINE = 500


def log_problem(data_dir: DataDir, event: str, message: str) -> None:
    """Add a line to the log. Where not even that can be written, there is nobody to tell."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A path or a message of the system may hold a secret too.
    line = redact_text(f"{moment} {event or '-'} {message}"[: 8 * _LINE])
    try:
        data_dir.make()
        rest = b""
        with open(os.open(data_dir.log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0) as log:
            log.write((" ".join(line.split())[:_LINE] + "\n").encode("utf-8", "replace"))
            if log.tell() > MOST_LOG_BYTES:
                log.seek(-MOST_LOG_BYTES // 2, os.SEEK_END)
                rest = log.read().partition(b"\n")[2]
        if rest:
            # The newer half. Two at once keep a little more or less, and do no harm.
            write_private(data_dir.log, rest)
    except OSError:
        return


def describe_error(error: BaseException) -> str:
    """Return the kind of an unexpected error and where it arose, without its message, which may quote what was said."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" in {os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}" if frame else ""
    return f"{type(error).__name__}{where}"


# -- settings: what a person may set in `config.json`; what is missing or wrong there takes its default

DEFAULTS: dict[str, str | int] = {
    "model": "ask",
    "model_name": "haiku",
    "daily_calls": 20,
    "playbook_tokens": 1500,
    "prompt_tokens": 400,
    "worker_idle_seconds": 600,
    "journal_mb": 8,
    "journal_days": 30,
    "episode_days": 365,
}
CHOICES = {"model": ("on", "off")}
"""`ask`, the default of `model`, means off until its person answers."""
_OLD_LEAVE = "claude"
"""With this value an earlier version let a model reword notes. Reading sessions needs an answer of its own."""
_MOST = 1_000_000


def read_settings(data_dir: DataDir, event: str = "") -> dict[str, Any]:
    """Return the settings in force. What is wrong with the file is logged, if the name of an event is given."""
    settings, problems = check_settings(data_dir)
    for problem in problems if event else ():
        log_problem(data_dir, event, problem)
    return settings


def check_settings(data_dir: DataDir) -> tuple[dict[str, Any], list[str]]:
    """Return the settings in force, and what is wrong with the file."""
    try:
        with open(data_dir.config, "rb") as file:
            given = json.loads(file.read(_MOST))
    except FileNotFoundError:
        return dict(DEFAULTS), []
    except (OSError, ValueError, RecursionError) as error:
        return dict(DEFAULTS), [f"config.json cannot be read ({type(error).__name__}): defaults are used"]
    if not isinstance(given, dict):
        return dict(DEFAULTS), ["config.json is not a JSON object: defaults are used"]
    if given.get("model") == _OLD_LEAVE:
        del given["model"]
    problems = {name: problem for name, value in given.items() if (problem := check_setting(name, value))}
    return {**DEFAULTS, **{name: given[name] for name in given if name not in problems}}, [
        f"config.json: {problem} (not used)" for problem in problems.values()
    ]


def check_setting(name: str, value: object) -> str:
    """Return what is wrong with a setting; empty when nothing is."""
    if name not in DEFAULTS:
        return f"unknown setting {name!r}; the settings are {', '.join(DEFAULTS)}"
    if isinstance(DEFAULTS[name], int):
        wanted = f"a whole number from 0 to {_MOST}"
        is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    elif name in CHOICES:
        wanted, is_valid = f"one of {', '.join(CHOICES[name])}", value in (*CHOICES[name], DEFAULTS[name])
    else:
        wanted, is_valid = "a text", isinstance(value, str) and bool(value)
    return "" if is_valid else f"{name} must be {wanted}"


def is_model_allowed(data_dir: DataDir) -> bool:
    """Return whether a model may read sessions: by the settings, unless the environment says otherwise."""
    override = os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI", "")
    return override == "1" if override in ("0", "1") else read_settings(data_dir)["model"] == "on"
