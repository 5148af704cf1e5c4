"""Stores by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError, unknown
from ..ports import Store

PLANNED = ("postgres", "qdrant", "pinecone", "chroma", "azure")
"""Known names that this version does not bring."""


def _memory(path: Path, **options: Any) -> Store:
    from .memory import MemoryStore

    return MemoryStore(**options)


def _sqlite(path: Path, **options: Any) -> Store:
    from .sqlite import SQLiteStore

    return SQLiteStore(path, **options)


def _file(path: Path, **options: Any) -> Store:
    from .file import FileStore

    return FileStore(path, **options)


STORES: Mapping[str, Callable[..., Store]] = {"sqlite": _sqlite, "memory": _memory, "file": _file}


def create(name: str, *, path: Path, options: Mapping[str, object]) -> Store:
    """The store of that name. `path` is its file; the in-memory store needs none."""
    if name in PLANNED:
        raise ConfigError(f"storage {name!r} is not available in this version. Available: {', '.join(STORES)}.")
    if name not in STORES:
        valid = [*STORES, *PLANNED]
        raise ConfigError(f"{unknown('storage', name, valid)} Not in this version: {', '.join(PLANNED)}.")
    try:
        return STORES[name](path, **options)
    except TypeError as error:
        raise ConfigError(f"storage {name!r} does not take these options: {error}") from error
