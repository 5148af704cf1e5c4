"""The PostgreSQL server that alma starts by itself."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psycopg
import pytest
from tests.stores.postgres_server import kill_server

from alma.errors import ConfigError
from alma.stores.postgres.server import start_server


def test_it_has_pgvector_and_listens_on_no_network(postgres_server, postgres_dsn):
    with psycopg.connect(postgres_dsn) as connection:
        (version,) = connection.execute("SELECT '[1,2]'::halfvec <=> '[1,2]'::halfvec").fetchone()
        assert version == 0.0
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        query = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(query).fetchone() == (False,)
    assert stat.S_IMODE(postgres_server.folder.stat().st_mode) == 0o700


@pytest.mark.system
def test_starting_it_again_finds_it_running(postgres_server):
    assert start_server(postgres_server.folder) == postgres_server


@pytest.mark.system
def test_it_starts_again_after_a_kill_and_keeps_what_was_committed(short_folder):
    server = start_server(short_folder / "data")
    with psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    kill_server(server)
    server = start_server(short_folder / "data")
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)


def test_a_folder_that_cannot_be_used_is_refused(short_folder):
    with pytest.raises(ConfigError, match="choose a shorter"):
        start_server(short_folder / ("x" * 200))
    with pytest.raises(ConfigError, match="do not take"):
        start_server(short_folder / "it's")
    used = short_folder / "used"
    used.mkdir(mode=0o755)
    (used / "notes.txt").touch()
    with pytest.raises(ConfigError, match="other files"):
        start_server(used)
    assert used.stat().st_mode & 0o777 == 0o755
    if os.geteuid() == 0:
        (short_folder / "x").mkdir(mode=0o700)
        with pytest.raises(ConfigError, match="may not enter"):
            start_server(Path(short_folder, "x", "pg"))
