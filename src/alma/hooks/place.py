"""Where everything is kept. Paths are plain strings: a hook has no time to load more."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 100
# Windows opens a device by these names, whatever the folder and the ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


class NoPlace(Exception):
    """There is no home folder to keep anything in; set CLAUDE_SMART_HOME to a folder."""


class Place:
    """The folders and files of one person."""

    __slots__ = ("home", "sessions")

    def __init__(self, home: str, sessions: str = "") -> None:
        self.home = home
        self.sessions = sessions or os.path.join(home, "sessions")

    def journal(self, session: str) -> str:
        return os.path.join(self.sessions, f"{file_name(session)}.jsonl")

    def shown(self, session: str) -> str:
        """The ids of the rules shown since the context was last empty, one a line."""
        return os.path.join(self.sessions, f"{file_name(session)}.shown")

    @property
    def db(self) -> str:
        return os.path.join(self.home, "memory.db")

    @property
    def log(self) -> str:
        return os.path.join(self.home, "hooks.log")

    @property
    def config(self) -> str:
        return os.path.join(self.home, "config.json")

    @property
    def model_notice(self) -> str:
        """Exists once the person was shown how to let Claude read sessions."""
        return os.path.join(self.home, "model-notice")

    @property
    def paused(self) -> str:
        return os.path.join(self.home, "paused.json")

    @property
    def worker(self) -> str:
        return os.path.join(self.home, "worker.json")

    @property
    def worker_lock(self) -> str:
        return os.path.join(self.home, "worker.lock")

    @property
    def drain_lock(self) -> str:
        return os.path.join(self.home, "drain.lock")

    @property
    def cleared(self) -> str:
        return os.path.join(self.home, "cleared.json")

    @property
    def projects(self) -> str:
        """The working copies that were seen, one file each."""
        return os.path.join(self.home, "projects")

    @property
    def runtime(self) -> str:
        return os.path.join(self.home, "runtime.json")

    def make(self) -> None:
        """The folders, for their owner alone."""
        for folder in (self.home, self.sessions):
            if not os.path.isdir(folder):
                os.makedirs(folder, 0o700, exist_ok=True)


def find(environ: Mapping[str, str]) -> Place:
    home = environ.get("CLAUDE_SMART_HOME") or os.path.join(_person(environ), ".claude-smart")
    sessions = environ.get("CLAUDE_SMART_STATE_DIR") or ""
    return Place(_absolute(home, environ), _absolute(sessions, environ) if sessions else "")


def _absolute(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith(("~/", "~\\")):
        path = _person(environ) + path[1:]
    return os.path.abspath(path)


def _person(environ: Mapping[str, str]) -> str:
    """The person's home folder; a service may have none in its environment, but the system knows it."""
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise NoPlace("no home folder is known; set CLAUDE_SMART_HOME to a folder")
    return home


def own_files(place: Place, *endings: str) -> list[str]:
    """The files of ours among the journals, or those with these endings. The folder may be one that others use too."""
    try:
        names = sorted(os.listdir(place.sessions))
    except FileNotFoundError:
        return []
    wanted = [name for name in names if (name.endswith(endings) if endings else _is_own(name))]
    return [os.path.join(place.sessions, name) for name in wanted]


def _is_own(name: str) -> bool:
    """A hook that was killed may have left a journal's beginning behind, with its number at the end."""
    stem, _, ending = name.rpartition(".")
    return name == "wanted" or ending in ("jsonl", "shown", "done") or (ending.isdigit() and stem.endswith(".jsonl"))


def file_name(session: str) -> str:
    """A session's id as a file name. One that could mean another folder or a device is replaced by its digest."""
    plain = 0 < len(session) <= _LONGEST and session[0].isalnum() and _SAFE.issuperset(session)
    if plain and session.split(".")[0].lower() not in _DEVICES:
        return session
    return f"x-{digest(session)}"


def digest(*parts: str) -> str:
    """32 hex digits that stand for these texts."""
    return _sha256("\x1f".join(parts).encode("utf-8", "replace"))[:32]


def _sha256(data: bytes) -> str:
    # `hashlib` loads OpenSSL; the interpreter has the same digest built in, under a name that changed with 3.12.
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return str(sha256(data).hexdigest())
