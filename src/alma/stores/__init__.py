"""Where records are kept: SQLite, a file, memory, PostgreSQL, or a vector database. Stores are made here, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path

from ..errors import ConfigError, unknown
from ..ports import Store
from ..registries import Registry

STORES = Registry(
    "alma.stores",
    "storage",
    {
        "sqlite": "alma.stores.sqlite:SQLiteStore",
        "memory": "alma.stores.memory:MemoryStore",
        "file": "alma.stores.file:FileStore",
        "postgres": "alma.stores.postgres:PostgresStore",
        "qdrant": "alma.stores.qdrant:QdrantStore",
        "chroma": "alma.stores.chroma:ChromaStore",
        "pinecone": "alma.stores.pinecone:PineconeStore",
        "azure": "alma.stores.azure:CosmosStore",
    },
)
IN_A_FILE = ("sqlite", "file")  # Their first argument is the path of their file.
ON_DISK = (*IN_A_FILE, "qdrant", "chroma")  # They are, or may be, files that a repository can bring.
_READ_ONLY = ("sqlite", "postgres")
VECTORS = ("qdrant", "chroma", "pinecone", "azure")  # They can keep the vectors of another store's records.


def check_name(name: str) -> None:
    """Raise ConfigError if there is no store of that name."""
    STORES.find(name)


def can_open_read_only(name: str) -> bool:
    """Return whether the store of that name has an option `read_only`, with which nothing at all is changed."""
    part = STORES.find(name)
    return name in _READ_ONLY if part.is_built_in else "read_only" in signature(part.load()).parameters


def check_vectors(name: str, storage: str) -> None:
    """Raise ConfigError unless the vectors of that storage can be kept in the database of that name."""
    if name not in VECTORS:
        raise ConfigError(unknown("vectors", name, VECTORS))
    if storage in VECTORS:
        raise ConfigError(
            f"storage {storage!r} keeps its vectors itself; remove `vectors`, or set storage to one of: "
            f"{', '.join(other for other in STORES.built_in if other not in VECTORS)}"
        )


def create(name: str, *, path: Path, options: Mapping[str, object], trust: bool = False) -> Store:
    """Return the store of that name. `path` is its file, if it is kept in one.

    A file or folder that git tracks or another user owns is refused, unless the user trusted it. With `trust`, the
    program decides; an option of a configuration cannot.
    """
    part = STORES.find(name)
    make: Callable[..., Store] = part.load()
    if "trust" in options:
        valid = [option for option in signature(make).parameters if option not in ("path", "trust")]
        raise ConfigError(unknown(f"option of {name}", "trust", valid))
    decided = {"trust": True} if trust and name in ON_DISK else {}
    try:
        store = make(path, **options, **decided) if name in IN_A_FILE else make(**options, **decided)
    except TypeError as error:
        _, is_missing, names = str(error).partition(" missing ")
        if is_missing:
            raise ConfigError(f"storage {name!r} needs {names.rpartition(': ')[2]} in storage_options") from error
        own = ("path", "trust") if name in IN_A_FILE else ("trust",)
        valid = [option for option in signature(make).parameters if option not in own]
        for option in options:
            if option not in valid:
                raise ConfigError(unknown(f"option of {name}", option, valid)) from error
        raise
    if not part.is_built_in and not isinstance(store, Store):
        raise ConfigError(f"{part.target} of the package {part.package} is no store; see alma.ports.Store")
    return store


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
