"""The data folder, the settings and the log of the hooks. Paths are plain strings: `pathlib` loads too slowly here.

`alma.files` takes 10 ms to load, as long as a whole hook runs, so the hot path has its own file writer here.
"""

from __future__ import annotations

import json
import os
import time

from .. import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

USUAL_FOLDER = ".claude-smart"
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 100
MOST_CHARS = 256 * 1024
# Windows opens a device by these names, whatever the folder and the ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


class NoHomeError(Exception):
    """Raised when no home folder is known, or when it comes with a repository."""


class DataDir:
    """The paths of one person's data: the store, the journals, the settings and the log."""

    def __init__(self, home: str, sessions: str = "") -> None:
        self.home = home
        self.sessions = sessions or os.path.join(home, "sessions")
        self.db = os.path.join(home, "memory.db")
        self.log = os.path.join(home, "hooks.log")
        self.config = os.path.join(home, "config.json")
        self.model_notice = os.path.join(home, "model-notice")
        """This file exists once the person has seen the notice about the model reader."""
        self.notices_lock = os.path.join(home, "notices.lock")
        self.paused = os.path.join(home, "paused.json")
        self.worker = os.path.join(home, "worker.json")
        self.worker_lock = os.path.join(home, "worker.lock")
        self.drain_lock = os.path.join(home, "drain.lock")
        self.cleared = os.path.join(home, "cleared.json")
        self.projects = os.path.join(home, "projects")
        """One file for each known working copy."""
        self.runtime = os.path.join(home, "runtime.json")
        self.goose_context = os.path.join(home, "goose-context.md")
        """What goose shows to the model; its hooks cannot answer."""
        self.aider = os.path.join(home, "aider.json")
        """How far the histories of aider were imported."""
        self.team = os.path.join(home, "team.json")
        """What was sent to a team's server, and since when it is away."""
        self.key = os.path.join(home, "journal.key")
        """What the lines of journals are sealed with."""
        self.unread = os.path.join(home, "unread.json")
        """How many turns of each project no reader has read."""
        self.offers = os.path.join(home, "offers.json")
        """When each project was last offered to let the agent read them."""
        self.agents = os.path.join(home, "agents")
        """One file for each session: the process of its host."""

    def agent_file(self, session: str) -> str:
        """Return the path of the file that names the process of a session's host."""
        return os.path.join(self.agents, f"{file_name(session)}.json")

    def journal_file(self, session: str) -> str:
        """Return the path of a session's journal."""
        return os.path.join(self.sessions, f"{file_name(session)}.jsonl")

    def shown_file(self, session: str) -> str:
        """Return the path of the file that lists the rules shown since the context was last empty."""
        return os.path.join(self.sessions, f"{file_name(session)}.shown")

    def notices_file(self, project: str) -> str:
        """Return the path of the file that lists what was learned in a project and not reported to the person yet."""
        return os.path.join(self.home, f"notices-{digest(project)}.json")

    def create_folders(self) -> None:
        """Create the folders, readable by their owner only."""
        for folder in (self.home, self.sessions):
            if not os.path.isdir(folder):
                os.makedirs(folder, 0o700, exist_ok=True)


# -- where the data folder is. A repository may set any variable, so none decides in a hook.


def find_hook_dir(home: str = "") -> DataDir:
    """Return the data folder of a hook: the one that the installer recorded, or that of the system's home folder."""
    return open_data_dir(home or find_home(find_user_home()))


def find_data_dir(environ: Mapping[str, str]) -> DataDir:
    """Return the data folder of a command. Raise NoHomeError if there is none, or if it comes with a repository."""
    name = "USERPROFILE" if os.name == "nt" else "HOME"
    user_home = environ.get(name) or find_user_home()
    if not os.path.isabs(user_home):
        raise NoHomeError(f"no home folder is known; set {name} to an absolute path")
    if reason := find_planted_home(user_home):
        raise NoHomeError(f"{reason}; unset {name} or set it to your own home folder")
    home = find_home(user_home)
    if reason := find_foreign_file(home):
        raise NoHomeError(f"{reason}; set {name} to your own home folder")
    return open_data_dir(home)


_PROJECT_MARKS = tuple(
    """.git .hg .envrc .env .devcontainer .devcontainer.json .vscode/settings.json .vscode/tasks.json mise.toml
    .mise.toml""".split()
)
"""Files of a project's own folder, some of which set variables in a person's terminal.

Not `.vscode` itself: a home folder has one too, with extensions.
"""


def find_planted_home(user_home: str) -> str:
    """Return why a home folder may come with the files of a project, such as an unpacked archive; empty if not.

    It is not the one that the system records, and it is the current project or lies below it. Below the current
    folder it counts as planted even if nothing marks that folder as a project.
    """
    home = os.path.realpath(user_home)
    system_home = os.path.realpath(processes.find_system_home() or os.sep)
    if home == system_home:
        return ""
    try:
        current = folder = os.path.realpath(os.getcwd())
    except OSError:
        return ""
    # Where the system records no home folder that exists, as in some containers, a person works in that of HOME.
    has_other = system_home != os.sep and os.path.isdir(system_home)
    while folder not in (system_home, os.path.dirname(folder)):
        is_below = home.startswith(folder + os.sep)
        is_project = any(os.path.lexists(os.path.join(folder, mark)) for mark in _PROJECT_MARKS)
        is_in_project = is_project and (is_below or (home == folder and has_other))
        if is_in_project or (is_below and folder == current):
            return f"the home folder {user_home} is in the current project {folder}, so it may have come with it"
        folder = os.path.dirname(folder)
    return ""


def open_data_dir(home: str) -> DataDir:
    """Return a data folder, with its journals where its settings say."""
    folder = read_object(os.path.join(home, "config.json"), LARGEST).get("state_dir")
    return DataDir(home, folder if isinstance(folder, str) and os.path.isabs(folder) else "")


def find_home(user_home: str) -> str:
    """Return the data folder for a home folder: `.claude-smart` in it, or the one that the settings there name."""
    usual = os.path.join(os.path.abspath(user_home), USUAL_FOLDER)
    other = read_object(os.path.join(usual, "config.json"), LARGEST).get("home")
    return other if isinstance(other, str) and os.path.isabs(other) else usual


def find_user_home() -> str:
    """Return the home folder that the system records; where it has none, as in some containers, that of HOME."""
    home = processes.find_system_home()
    if os.path.isdir(home):
        return home
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home) or find_foreign_file(os.path.join(home, USUAL_FOLDER)):
        raise NoHomeError("no home folder is known; run `claude-smart install`, which records it")
    return home


def find_foreign_file(home: str) -> str:
    """Return why a data folder is not the person's: git tracks a file in it, or it is another user's. Else empty."""
    from pathlib import Path

    from ..trust_register import find_tracked_files

    paths = [os.path.join(home, name) for name in ("config.json", "runtime.json", "memory.db")]
    for file in find_tracked_files(map(Path, paths)):
        return f"{file} is tracked by git, so it comes with a repository"
    for path in (home, *paths) if os.name == "posix" else ():
        if os.path.lexists(path) and os.lstat(path).st_uid != os.getuid():
            return f"{path} belongs to another user"
    return ""


def list_own_files(data_dir: DataDir, *endings: str) -> list[str]:
    """Return the paths of our own files in the journal folder, which other programs may share.

    Without `endings`, the list includes lock and leftover files.
    """
    names = sorted(os.listdir(data_dir.sessions)) if os.path.isdir(data_dir.sessions) else []
    own = [name for name in names if name.endswith(endings or (".jsonl", ".shown", ".done"))]
    if not endings:
        # A killed hook may leave the start of a journal behind, with its process id at the end of the name.
        own += [name for name in names if name == "wanted" or name.rstrip("0123456789").endswith(".jsonl.")]
    return [os.path.join(data_dir.sessions, name) for name in own]


def file_name(session: str) -> str:
    """Return a safe file name for a session id: the id itself, or a digest if it could name a folder or a device."""
    is_plain = 0 < len(session) <= _LONGEST and session[0].isalnum() and _SAFE.issuperset(session)
    return session if is_plain and session.split(".")[0].lower() not in _DEVICES else f"x-{digest(session)}"


def digest(*parts: str) -> str:
    """Return 32 hex digits of the SHA-256 digest of these texts."""
    return _hash("\x1f".join(parts).encode("utf-8", "replace")).hex()[:32]


def _hash(data: bytes) -> bytes:
    # `hashlib` loads OpenSSL. The interpreter has the same digest built in, under a name that changed in 3.12.
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return bytes(sha256(data).digest())


# -- the seal of a journal's lines: HMAC-SHA256. The module `hmac` loads OpenSSL, like `hashlib`.

KEY_BYTES = 32
_BLOCK = 64
_MASKS = (int.from_bytes(b"\x36" * _BLOCK, "big"), int.from_bytes(b"\x5c" * _BLOCK, "big"))


def compute_seal(key: bytes, *parts: bytes) -> str:
    """Return 32 hex digits of the keyed digest of these parts."""
    number = int.from_bytes(key.ljust(_BLOCK, b"\0"), "big")
    inner, outer = ((number ^ mask).to_bytes(_BLOCK, "big") for mask in _MASKS)
    return _hash(outer + _hash(inner + b"\0".join(parts))).hex()[:32]


def read_key(data_dir: DataDir) -> bytes:
    """Return the key of the seals; empty if there is none, or if its file is damaged."""
    try:
        key = read_regular_file(data_dir.key, KEY_BYTES + 1)
    except OSError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def create_key(data_dir: DataDir) -> bytes:
    """Return the key of the seals; the first process creates it, whole or not at all."""
    key = read_key(data_dir)
    if key:
        return key
    part = f"{data_dir.key}.{os.getpid()}"
    write_private(part, os.urandom(KEY_BYTES))
    try:
        # Unlike a renaming, it fails if another process was faster.
        os.link(part, data_dir.key)
    except FileExistsError:
        pass
    except OSError:
        # This file system has no links.
        if not os.path.exists(data_dir.key):
            os.replace(part, data_dir.key)
    if os.path.exists(part):
        os.unlink(part)
    return read_key(data_dir)


def redact_text(text: str) -> str:
    """Return the text with secrets replaced by `[REDACTED:…]`."""
    if not text:
        return text
    from ..engine.redact import redact

    return redact(text)


def write_private(path: str, data: bytes) -> None:
    """Replace a file atomically; only its owner can read it. Raise OSError if that fails."""
    part = f"{path}.{os.getpid()}"
    if os.path.lexists(part):
        # Left by a killed process, or a link, which must not be followed.
        os.unlink(part)
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)
    os.replace(part, path)


def read_regular_file(path: str, most: int) -> bytes:
    """Return the start of a file. Raise OSError if it cannot be read, also for a pipe, which could block the hook."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if os.fstat(file).st_mode & 0o170000 != 0o100000:
            raise OSError(f"{path} is not a regular file")
        return os.read(file, most)
    finally:
        os.close(file)


def read_text(path: str, most: int = MOST_CHARS) -> str:
    """Return the start of a text file; empty if it is missing or not a regular file."""
    try:
        return read_regular_file(path, most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def read_object(path: str, most: int = 65536) -> dict[str, Any]:
    """Return the object in a small JSON file; empty if the file is missing or damaged."""
    try:
        value = json.loads(read_regular_file(path, most))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# -- the log: one line per problem, for `doctor` and for people. It never contains text from a conversation.

MOST_LOG_BYTES = 1_000_000
_LINE = 500


def log_problem(data_dir: DataDir, event: str, message: str) -> None:
    """Add a line to the log. A log that cannot be written is ignored: a hook must not fail."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A path or a system message may contain a secret too.
    line = redact_text(f"{moment} {event or '-'} {message}"[: 8 * _LINE])
    try:
        data_dir.create_folders()
        rest = b""
        with open(os.open(data_dir.log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0) as log:
            log.write((" ".join(line.split())[:_LINE] + "\n").encode("utf-8", "replace"))
            if log.tell() > MOST_LOG_BYTES:
                log.seek(-MOST_LOG_BYTES // 2, os.SEEK_END)
                rest = log.read().partition(b"\n")[2]
        if rest:
            # Keep the newer half. Two processes doing this at once keep slightly more or less, which is harmless.
            write_private(data_dir.log, rest)
    except OSError:
        return


def describe_error(error: BaseException) -> str:
    """Return the type and location of an unexpected error, without its message, which may quote a conversation."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" in {os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}" if frame else ""
    return f"{type(error).__name__}{where}"


# -- settings: the values in `config.json`. Missing or invalid ones fall back to their defaults.

DEFAULTS: dict[str, Any] = {
    "model": "ask",
    "model_name": "haiku",
    "daily_calls": 20,
    "playbook_tokens": 1500,
    "prompt_tokens": 400,
    "worker_idle_seconds": 600,
    "journal_mb": 8,
    "journal_days": 30,
    "episode_days": 365,
    "upkeep_hours": 24,
    "programs": "off",
    "server": "off",
    "server_projects": "git:*",
    "server_insecure": "off",
    "home": "default",
    "state_dir": "default",
    "program": "none",
    "program_timeout": 120,
    "host_program": "none",
    "embedding": "auto",
    "dashboard_autostart": "off",
    "environment": {},
    "evidence": "on",
    "evidence_providers": "own",
    "notices": "on",
    "learn_offer": "on",
    "reader": "claude",
    "reader_provider": "none",
    "reader_url": "default",
    "reader_key": "none",
}
AGENT_READER = "agent"
"""The value of the setting `reader` for the agent in front of the person."""
CHOICES = {
    "model": ("on", "off"),
    "programs": ("on",),
    "server_insecure": ("on",),
    "embedding": ("off",),
    "dashboard_autostart": ("on",),
    "evidence": ("off",),
    "notices": ("off",),
    "learn_offer": ("off",),
    "reader": ("codex", "copilot", "gemini", "goose", "opencode", "qwen", "provider", AGENT_READER),
    "reader_provider": ("anthropic", "openai", "ollama"),
}
"""`ask`, the default of `model`, means off until the person decides."""
PATHS = ("home", "state_dir", "program", "host_program")
"""The settings that are an absolute path, or their default."""
SENT = (
    "your own turns, without pasted text",
    "what the agent did around them: its commands, the end of the output of those that failed, the lines that it wrote "
    "into files, and its messages",
    "the rules you already have",
    "commands that failed, with the end of their output, and the commands that worked instead",
)
"""What the model receives, with secrets redacted, if the person allows it. All texts about it name the same."""
_OLD_LEAVE = "claude"
"""An earlier version used this value to let a model reword notes. Reading sessions needs a separate permission."""
LARGEST = 1_000_000
"""The largest value of a setting that is a number."""


def read_settings(data_dir: DataDir, event: str = "") -> dict[str, Any]:
    """Return the effective settings. With the name of an `event`, problems in the file are logged under it."""
    settings, problems = check_settings(data_dir)
    for problem in problems if event else ():
        log_problem(data_dir, event, problem)
    return settings


def check_settings(data_dir: DataDir) -> tuple[dict[str, Any], list[str]]:
    """Return the effective settings and a list of problems in the file."""
    try:
        values = json.loads(read_regular_file(data_dir.config, LARGEST))
    except FileNotFoundError:
        return dict(DEFAULTS), []
    except (OSError, ValueError, RecursionError) as error:
        return dict(DEFAULTS), [f"config.json cannot be read ({type(error).__name__}); the defaults are used"]
    if not isinstance(values, dict):
        return dict(DEFAULTS), ["config.json is not a JSON object; the defaults are used"]
    if values.get("model") == _OLD_LEAVE:
        del values["model"]
    problems = {name: problem for name, value in values.items() if (problem := check_setting(name, value))}
    return {**DEFAULTS, **{name: values[name] for name in values if name not in problems}}, [
        f"config.json: {problem} (ignored)" for problem in problems.values()
    ]


def check_setting(name: str, value: object) -> str:
    """Return the problem with a setting; empty if it is valid."""
    if name not in DEFAULTS:
        return f"unknown setting {name!r}; the settings are {', '.join(DEFAULTS)}"
    if isinstance(DEFAULTS[name], int):
        expected = f"a whole number from 0 to {LARGEST:,}"
        is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
    elif name in CHOICES:
        expected = f"{', '.join(CHOICES[name])} or {DEFAULTS[name]}"
        is_valid = value in (*CHOICES[name], DEFAULTS[name])
    elif name in PATHS:
        expected = f"an absolute path or {DEFAULTS[name]}"
        is_path = isinstance(value, str) and os.path.isabs(value) and value.isprintable()
        is_valid = is_path or value == DEFAULTS[name]
    elif name == "environment":
        expected = "an object of texts"
        is_valid = isinstance(value, dict) and all(map(_is_variable, value.items()))
    elif name == "reader_key":
        expected = "the name of a variable such as OPENAI_API_KEY, or none"
        is_valid = value == "none" or (isinstance(value, str) and value.isidentifier() and value.isupper())
        # It may be the key itself, which no message repeats.
        value = value if is_valid else "***"
    elif name == "reader_url":
        expected = "default or a URL such as http://localhost:1234/v1, without a user or a password"
        is_valid = isinstance(value, str) and (value == "default" or _is_plain_url(value))
    elif name == "server":
        expected = "off or a URL such as https://memory.example.org, without a user or a password"
        is_valid = isinstance(value, str) and (value == "off" or _is_plain_url(value))
    else:
        expected, is_valid = "a non-empty text", isinstance(value, str) and bool(value)
    return "" if is_valid else f"{name} must be {expected}, not {str(value)[:40]!r}"


def _is_plain_url(value: str) -> bool:
    return value.startswith(("https://", "http://")) and value.isprintable() and "@" not in value


def _is_variable(pair: tuple[object, object]) -> bool:
    name, value = pair
    return isinstance(name, str) and name.isidentifier() and isinstance(value, str) and "\0" not in value


def is_model_allowed(data_dir: DataDir) -> bool:
    """Return whether a model may read sessions. CLAUDE_SMART_USE_LOCAL_CLI=0 forbids it; no variable allows it.

    With the reader `agent`, no model is called: the agent in front of the person reads when they type /learn.
    """
    if os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI") == "0":
        return False
    settings = read_settings(data_dir)
    return bool(settings["model"] == "on" and settings["reader"] != AGENT_READER)


# -- the environment of the worker, of the dashboard and of the program that reads. A hook has whatever the host and the
# repository set, so they get what a person's installation recorded, and of the hook's only what can do no harm.

NARROWING = {"CLAUDE_SMART_DISABLE": "1", "CLAUDE_SMART_USE_LOCAL_CLI": "0", "CLAUDE_SMART_DASHBOARD_AUTOSTART": "0"}
"""Variables that are passed on with this value, which switches something off."""
_LANGUAGE = frozenset(
    """LANG LANGUAGE LC_ALL LC_ADDRESS LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY
    LC_NAME LC_NUMERIC LC_PAPER LC_TELEPHONE LC_TIME""".split()
)
"""The variables that choose a language, by their exact names."""
_WINDOWS = frozenset(
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE".split()
)
_LANGUAGE_CHARS = _SAFE | frozenset("@:")
_LANGUAGE_LONGEST = 64
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


def build_environment(data_dir: DataDir) -> dict[str, str]:
    """Return the environment for a process that works for all projects."""
    environ = {name: value for name, value in os.environ.items() if _is_harmless(name, value)}
    recorded = read_settings(data_dir)["environment"]
    name = "USERPROFILE" if os.name == "nt" else "HOME"
    if name not in recorded:
        try:
            environ[name] = find_user_home()
        except NoHomeError:
            environ[name] = os.path.dirname(data_dir.home)
    if os.name != "nt":
        environ["PATH"] = _USUAL_PATH
    return {**environ, **recorded}


def _is_harmless(name: str, value: str) -> bool:
    if name in _LANGUAGE:
        # Such as `de_DE.UTF-8@euro` or `de:en`. A path could name a file of a repository.
        is_short = len(value) <= _LANGUAGE_LONGEST
        return is_short and value[:1].isalpha() and ".." not in value and _LANGUAGE_CHARS.issuperset(value)
    return NARROWING.get(name) == value or (os.name == "nt" and name.upper() in _WINDOWS)
