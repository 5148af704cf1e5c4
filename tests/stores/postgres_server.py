"""Databases for tests on the server of the fixture `postgres_server`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from alma.stores.postgres.server import LocalServer


def create_database(dsn: str, options: str = "") -> str:
    """Create a database on the server of `dsn` and return its connection string."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}")
    return make_conninfo(dsn, dbname=name)


def kill_server(server: LocalServer) -> None:
    """Kill a server and wait until it and its processes have ended: until then, one may still answer a query."""
    processes = [server.pid, *list_children(server.pid)]
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(is_running, processes)):
        assert time.monotonic() < deadline, "the killed server does not end"
        time.sleep(0.01)


def list_children(pid: int) -> list[int]:
    """Return the children of a process; none where the system does not list them."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_running(pid: int) -> bool:
    """Return whether a process has not ended. One that waits for its parent to notice its end has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
