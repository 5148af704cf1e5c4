"""Graphs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, unknown
from ..ports import Clock
from ..types import times
from .graph import Graph

if TYPE_CHECKING:
    from ..core import ALMA


def _memory(project_id: str | None, clock: Clock | None) -> Graph:
    from .memory import MemoryRows

    return Graph(MemoryRows(), project_id or "default", clock=clock or times.now)


def _sqlite(project_id: str | None, clock: Clock | None, *, alma: ALMA | None = None) -> Graph:
    """In the memory that is given, or in the one that is configured here."""
    from .records import RecordRows

    opened = alma
    if opened is None:
        from ..app import open_default

        opened = open_default(project_id)
    engine = opened.engine if project_id in (None, opened.project_id) else replace(opened.engine, project=project_id)
    rows = RecordRows(engine, opened.close if alma is None else None)
    return Graph(rows, engine.project, clock=clock or engine.clock)


def _postgres(project_id: str | None, clock: Clock | None, *, dsn: str, schema: str = "public") -> Graph:
    from .postgres import PostgresRows

    project = project_id or "default"
    return Graph(PostgresRows(dsn, project, schema), project, clock=clock or times.now)


def _bolt(flavour: str) -> Callable[..., Graph]:
    def made(
        project_id: str | None,
        clock: Clock | None,
        *,
        uri: str,
        username: str = "",
        password: str = "",
        database: str | None = None,
    ) -> Graph:
        from .bolt import BoltRows

        project = project_id or "default"
        rows = BoltRows(flavour, uri, project, username=username, password=password, database=database)
        return Graph(rows, project, clock=clock or times.now)

    return made


def _kuzu(project_id: str | None, clock: Clock | None, *, path: str) -> Graph:
    from .kuzu import KuzuRows

    project = project_id or "default"
    return Graph(KuzuRows(path, project), project, clock=clock or times.now)


GRAPHS: Mapping[str, Callable[..., Graph]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "neo4j": _bolt("neo4j"),
    "memgraph": _bolt("memgraph"),
    "kuzu": _kuzu,
}


def create_graph_store(
    backend: str = "sqlite", *, project_id: str | None = None, clock: Clock | None = None, **options: Any
) -> Graph:
    """The graph of a project.

    `sqlite` lives in the memory that is configured here, or in the one given as `alma`; `memory` as long as the
    process; `kuzu` takes `path`; `postgres` takes `dsn`; `neo4j` and `memgraph` take `uri`, `username`, `password` and
    `database`.
    """
    if backend not in GRAPHS:
        raise ConfigError(unknown("graph backend", backend, GRAPHS))
    try:
        return GRAPHS[backend](project_id, clock, **options)
    except TypeError as error:
        raise ConfigError(f"graph backend {backend!r} does not take these options: {error}") from error
