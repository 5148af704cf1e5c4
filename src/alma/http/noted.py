"""The note of a running server: its address and process, in a file beside its tokens.

The file lies in a folder that may come with a repository, so a note counts only if this user's own server wrote it. It
names a process and an address of this machine; that the server there knows the token is proved later (`proof`).
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import UntrustedConfigError
from ..files import PRIVATE, write_atomic
from ..listening import format_host
from ..trust_register import find_foreign_files, find_tracked_files, find_unexpected_files, record_created_files

STATE_FILE = "http-server.json"
_LOG = logging.getLogger("alma.http")
_MOST_BYTES = 4096
_LARGEST_PID = 2**31 - 1
_LOCAL_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True, slots=True)
class NotedServer:
    """A server on this machine, as it noted itself."""

    scheme: str
    host: str
    """A loopback address, or localhost."""
    port: int
    pid: int
    """0 if it has ended."""

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"{self.scheme}://{format_host(self.host)}:{self.port}"


@contextmanager
def note_server(token_file: Path, url: str, *, keeps_port: bool) -> Iterator[None]:
    """Note the address of this process beside the tokens while it serves; with `keeps_port`, for the next one, too.

    A file that git tracks is left alone: nobody would believe it.
    """
    file, own = token_file.with_name(STATE_FILE), {"url": url, "pid": os.getpid()}
    if find_tracked_files([file]):
        _LOG.warning("git tracks %s, so `alma dashboard` will not find this server; %s", file, _advise(file))
        yield
        return
    # A server in a folder that cannot be written is not found, but works.
    with suppress(OSError):
        if file.is_symlink():
            # Otherwise the register would list the file that somebody linked it to.
            file.unlink()
        record_created_files(file)
        write_atomic(file, json.dumps(own))
    try:
        yield
    finally:
        with suppress(OSError, UntrustedConfigError):
            if _read_note(file) == own:
                write_atomic(file, json.dumps({"url": url})) if keeps_port else file.unlink()


def find_server(token_file: Path) -> NotedServer | None:
    """Return the server that uses these tokens; None if none is running.

    Raise UntrustedConfigError if the file with its address seems to be somebody else's.
    """
    server = read_server(token_file)
    return server if server is not None and is_own_process(server.pid) else None


def read_server(token_file: Path, *, must_be_recorded: bool = True) -> NotedServer | None:
    """Return the server that noted itself last, even if it has ended.

    Only where the caller started it may the file be missing in the register, which perhaps cannot be written.
    """
    file = token_file.with_name(STATE_FILE)
    note = _read_note(file)
    if note is None or (must_be_recorded and find_foreign_files([file])):
        return None
    return _parse_note(note)


# -- the file


def _read_note(file: Path) -> object:
    """Return the content of the file; None if there is none. Raise UntrustedConfigError if it is not this user's."""
    if not os.path.lexists(file):
        return None
    if find_tracked_files([file]):
        # It does not count as created here any more, even if git stops tracking it.
        find_unexpected_files([file])
        raise UntrustedConfigError(f"git tracks {file}, so it may name the server of somebody else; {_advise(file)}")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        problem = _find_problem(os.lstat(file))
        if problem:
            raise UntrustedConfigError(f"{file} {problem}, so this user's server did not write it; {_advise(file)}")
        with open(os.open(file, flags), "rb") as stream:
            # The file may have been replaced since it was looked at.
            if _find_problem(os.fstat(stream.fileno())):
                return None
            content = stream.read(_MOST_BYTES + 1)
        return json.loads(content) if len(content) <= _MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def _find_problem(about: os.stat_result) -> str:
    """Return why a file cannot be one that this user's server wrote; empty if it can."""
    if not stat.S_ISREG(about.st_mode):
        return "is a link" if stat.S_ISLNK(about.st_mode) else "is no regular file"
    if sys.platform == "win32":
        return ""
    if about.st_uid != os.getuid():
        return "belongs to another user"
    return "" if stat.S_IMODE(about.st_mode) == PRIVATE else f"does not have the permissions {PRIVATE:o}"


def _advise(file: Path) -> str:
    name = shlex.quote(str(file))
    return f"delete it (`rm {name}`, or `git rm {name}` if git tracks it) and try again"


def _parse_note(note: object) -> NotedServer | None:
    """Return the server that a note names; None if it is not one on this machine."""
    url, pid = (note.get("url"), note.get("pid", 0)) if isinstance(note, dict) else (None, None)
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or type(pid) is not int:
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return None
    is_plain = parts.scheme in ("http", "https") and parts.path in ("", "/") and not set("@?#\\") & set(url)
    if not is_plain or not port or not is_loopback(host):
        return None
    return NotedServer(parts.scheme, host, port, pid)


def is_loopback(host: str) -> bool:
    """Return whether a host is in 127.0.0.0/8, or ::1, or localhost."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host and any(address in network for network in _LOCAL_NETWORKS)


# -- the process


def is_own_process(pid: int) -> bool:
    """Return whether a process is running that may be this user's server.

    On every system an id up to 1 is refused: to `kill`, 0 and -1 mean many processes, which always "exist".

    Linux: it can be signalled, and its folder in /proc belongs to this user. Root can signal everybody's.
    macOS, and other systems without /proc: it can be signalled, which only root can do to processes of others; for root
    `ps` tells whose it is.
    Windows: `os.kill(pid, 0)` would press Ctrl+C in it, so `tasklist` is asked instead: it is a process of a user with
    the name of this one, and its program is a Python. A user of another domain may have the same name, so what counts
    is the proof that the server gives.
    """
    if not 1 < pid <= _LARGEST_PID:
        return False
    if sys.platform == "win32":
        return _find_program(pid).lower().startswith("python")
    try:
        os.kill(pid, 0)
        if os.path.isdir("/proc/self"):
            return os.stat(f"/proc/{pid}").st_uid == os.getuid()
        return os.getuid() != 0 or _ask_owner(pid) == 0
    except OSError:
        return False


def _ask_owner(pid: int) -> int | None:
    """Return the user id of a process as `ps` tells it; None if it does not."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["/bin/ps", "-o", "uid=", "-p", str(pid)]
        return int(subprocess.run(command, capture_output=True, timeout=5, check=True).stdout)
    return None


def _find_program(pid: int) -> str:
    """Return the file name of the program that a process of this user runs on Windows; empty if there is none."""
    folder = os.environ.get("SYSTEMROOT", r"C:\Windows")
    command = [os.path.join(folder, "System32", "tasklist.exe"), "/FO", "CSV", "/NH"]
    command += ["/FI", f"PID eq {pid}", "/FI", f"USERNAME eq {os.environ.get('USERNAME', '')}"]
    with suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(command, capture_output=True, timeout=10, check=True).stdout
        # A line such as "python.exe","4711","Console"; without such a process, a sentence.
        name, _, rest = listed.decode("ascii", "replace").strip().strip('"').partition('","')
        return name if rest.startswith(f'{pid}"') else ""
    return ""
