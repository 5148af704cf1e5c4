"""Graphs by name."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, unknown
from ..ports import Clock
from ..types import times
from .graph import Graph

if TYPE_CHECKING:
    from ..core import ALMA

_ROWS = {
    "memory": (".memory", "MemoryRows", {}),
    "sqlite": (".records", "RecordRows", {}),
    "postgres": (".postgres", "PostgresRows", {}),
    "neo4j": (".bolt", "BoltRows", {"flavour": "neo4j"}),
    "memgraph": (".bolt", "BoltRows", {"flavour": "memgraph"}),
    "kuzu": (".kuzu", "KuzuRows", {}),
}


def create_graph_store(
    backend: str = "sqlite", *, project_id: str | None = None, clock: Clock | None = None, **options: Any
) -> Graph:
    """The graph of a project.

    `sqlite` lives in the memory that is configured here, or in the one given as `alma`; `memory` as long as the
    process; `kuzu` takes `path`; `postgres` takes `dsn`; `neo4j` and `memgraph` take `uri`, `username`, `password` and
    `database`.
    """
    if backend not in _ROWS:
        raise ConfigError(unknown("graph backend", backend, _ROWS))
    project = project_id or "default"
    module, name, own = _ROWS[backend]
    try:
        if backend == "sqlite":
            return _open_in_memory(project_id, clock, **options)
        if backend != "memory":
            own = {**own, "project": project}
        rows = getattr(import_module(module, __package__), name)(**own, **options)
    except TypeError as error:
        raise ConfigError(f"graph backend {backend!r} does not take these options: {error}") from error
    return Graph(rows, project, clock=clock or times.now)


def _open_in_memory(project_id: str | None, clock: Clock | None, *, alma: ALMA | None = None) -> Graph:
    """Open the graph in the memory that is given, or in the one that is configured here."""
    from .records import RecordRows

    opened = alma
    if opened is None:
        from ..app import open_default

        opened = open_default(project_id)
    engine = opened.engine if project_id in (None, opened.project_id) else replace(opened.engine, project=project_id)
    rows = RecordRows(engine, opened.close if alma is None else None)
    return Graph(rows, engine.project, clock=clock or engine.clock)
