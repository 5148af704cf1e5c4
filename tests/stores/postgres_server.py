"""Databases for tests on the server of the fixture `postgres_server`."""

from __future__ import annotations

from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo


def create_database(dsn: str, options: str = "") -> str:
    """Create a database on the server of `dsn` and return its connection string."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}")
    return make_conninfo(dsn, dbname=name)
