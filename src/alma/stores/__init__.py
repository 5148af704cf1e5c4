"""Where records are kept: SQLite, a file, or memory. Stores are made here, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from ..errors import ConfigError, unknown
from ..ports import Store

PLANNED = ("postgres", "qdrant", "pinecone", "chroma", "azure")  # Known names that this version does not bring.


# The class of each store, in the module of its name; loaded when it is asked for.
STORES = {"sqlite": "SQLiteStore", "memory": "MemoryStore", "file": "FileStore"}


def check_name(name: str) -> None:
    """Raise ConfigError if this version has no store of that name."""
    if name in PLANNED:
        raise ConfigError(f"storage {name!r} is not available in this version. Available: {', '.join(STORES)}.")
    if name not in STORES:
        raise ConfigError(f"{unknown('storage', name, STORES)} Not in this version: {', '.join(PLANNED)}.")


def create(name: str, *, path: Path, options: Mapping[str, object]) -> Store:
    """Return the store of that name. `path` is its file; the in-memory store needs none."""
    check_name(name)
    make: Callable[..., Store] = getattr(import_module(f"{__package__}.{name}"), STORES[name])
    try:
        return make(**options) if name == "memory" else make(path, **options)
    except TypeError as error:
        raise ConfigError(f"storage {name!r} does not take these options: {error}") from error
