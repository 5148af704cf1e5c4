"""A PostgreSQL server of the tests' own, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _tool(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((str(one / name) for one in places if (one / name).exists()), None)


def _as() -> dict[str, Any]:
    """The server refuses to run as root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    for user in ("postgres", "nobody"):
        try:
            pwd.getpwnam(user)
        except KeyError:
            continue
        return {"user": user}
    return {}


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, **_as())
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr or done.stdout}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Where it can be reached. It listens on a socket in a folder of its own and ends with the tests."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the graph in PostgreSQL is not tested")
    initdb, control = _tool("initdb"), _tool("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("no PostgreSQL server is installed: the graph in PostgreSQL is not tested")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if "user" in _as():
            shutil.chown(folder, _as()["user"])
        data = folder / "data"
        _run(initdb, "-D", str(data), "-U", "alma", "-A", "trust", "-E", "UTF8", "--no-sync", folder=folder)
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        _run(control, "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start", folder=folder)
        try:
            yield f"host={folder} user=alma dbname=postgres"
        finally:
            _run(control, "-D", str(data), "-m", "immediate", "stop", folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
