"""Where records are kept: SQLite, a file, memory, PostgreSQL, or a vector database. Stores are made here, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path

from ..errors import ConfigError, unknown
from ..ports import Store

# The class of each store, in the module of its name; loaded when it is asked for.
STORES = {
    "sqlite": "SQLiteStore",
    "memory": "MemoryStore",
    "file": "FileStore",
    "postgres": "PostgresStore",
    "qdrant": "QdrantStore",
    "chroma": "ChromaStore",
    "pinecone": "PineconeStore",
    "azure": "CosmosStore",
}
IN_A_FILE = ("sqlite", "file")  # Their first argument is the path of their file.
ON_DISK = (*IN_A_FILE, "qdrant", "chroma")  # They are, or may be, files that a repository can bring.
READ_ONLY = ("sqlite", "postgres")  # They have an option `read_only`, with which nothing at all is changed.
VECTORS = ("qdrant", "chroma", "pinecone", "azure")  # They can keep the vectors of another store's records.


def check_name(name: str) -> None:
    """Raise ConfigError if there is no store of that name."""
    if name not in STORES:
        raise ConfigError(unknown("storage", name, STORES))


def check_vectors(name: str, storage: str) -> None:
    """Raise ConfigError unless the vectors of that storage can be kept in the database of that name."""
    if name not in VECTORS:
        raise ConfigError(unknown("vectors", name, VECTORS))
    if storage in VECTORS:
        raise ConfigError(
            f"storage {storage!r} keeps its vectors itself; remove `vectors`, or set storage to one of: "
            f"{', '.join(one for one in STORES if one not in VECTORS)}"
        )


def create(name: str, *, path: Path, options: Mapping[str, object], trust: bool = False) -> Store:
    """Return the store of that name. `path` is its file, if it is kept in one.

    A file or folder that git tracks or another user owns is refused, unless the user trusted it. With `trust`, the
    program decides; an option of a configuration cannot.
    """
    check_name(name)
    make: Callable[..., Store] = getattr(import_module(f"{__package__}.{name}"), STORES[name])
    if "trust" in options:
        valid = [one for one in signature(make).parameters if one not in ("path", "trust")]
        raise ConfigError(unknown(f"option of {name}", "trust", valid))
    decided = {"trust": True} if trust and name in ON_DISK else {}
    try:
        return make(path, **options, **decided) if name in IN_A_FILE else make(**options, **decided)
    except TypeError as error:
        _, is_missing, names = str(error).partition(" missing ")
        if is_missing:
            raise ConfigError(f"storage {name!r} needs {names.rpartition(': ')[2]} in storage_options") from error
        own = ("path", "trust") if name in IN_A_FILE else ("trust",)
        valid = [one for one in signature(make).parameters if one not in own]
        for option in options:
            if option not in valid:
                raise ConfigError(unknown(f"option of {name}", option, valid)) from error
        raise


def pair(rows: Store, name: str, options: Mapping[str, object], *, trust: bool = False) -> Store:
    """Return a store that keeps its rows in `rows`, and their vectors in the vector database of that name."""
    if name not in VECTORS:
        raise ConfigError(unknown("vectors", name, VECTORS))
    make: Callable[..., Store] = import_module(f"{__package__}.paired").PairedStore
    vectors = create(name, path=Path(), options=options, trust=trust)
    try:
        return make(rows, getattr(vectors, "documents"))  # noqa: B009 - of its class
    except BaseException:
        vectors.close()
        raise
