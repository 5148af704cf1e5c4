"""What is measured beside alma in the same run: the least that a retrieval needs, and other programs that find vectors.

The floor of a retrieval is one embedding, one exact scan of all vectors in memory, and one durable commit of a small
row. The other programs are measured if they are installed: they get the vectors, and return the ten nearest. None of
them is a dependency.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alma.types.record import Vector

NEAREST = 10
Codes = NDArray[Any]
Batches = Iterable[tuple[int, Codes]]
"""The vectors of all memories in batches, with the number of the first of each."""
_IN_FLOATS = 200_000
_BLOCK = 65_536


@dataclass
class Spent:
    """The times of one kind of call, in milliseconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self, call: Callable[[], object]) -> Any:
        began, used = time.perf_counter(), time.process_time()
        result = call()
        self.cpu.append((time.process_time() - used) * 1000)
        self.wall.append((time.perf_counter() - began) * 1000)
        return result

    @property
    def wall_ms(self) -> float:
        return median(self.wall)

    @property
    def cpu_ms(self) -> float:
        return median(self.cpu)


# -- the floor


class Scan:
    """The cosine of one vector with every other, exactly; large sets are turned into floats block by block."""

    def __init__(self, batches: Batches) -> None:
        codes = np.concatenate([part for _, part in batches])
        self._lengths = np.linalg.norm(codes.astype("f4"), axis=1)
        self._codes = codes.astype("f4") if len(codes) <= _IN_FLOATS else codes

    def find(self, vector: Vector) -> Codes:
        query = np.frombuffer(vector, "i1").astype("f4")
        starts = range(0, len(self._codes), _BLOCK)
        parts = [self._codes[start : start + _BLOCK].astype("f4", copy=False) @ query for start in starts]
        scores = np.concatenate(parts) / self._lengths
        return np.argpartition(scores, -NEAREST)[-NEAREST:]


class Commit:
    """One durable commit of a small row, as SQLite itself does it with the settings of the store."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS t (a TEXT)")

    def write(self) -> None:
        self._db.execute("INSERT INTO t VALUES (?)", ("x" * 600,))

    def close(self) -> None:
        self._db.close()


# -- other programs


class Peer(Protocol):
    """A program that stores vectors in a folder and finds the nearest."""

    def fill(self, batches: Batches) -> None: ...

    def find(self, vector: Vector) -> object: ...

    def close(self) -> None: ...


class Chroma:
    """A collection of Chroma on disk, with its default index."""

    def __init__(self, folder: Path) -> None:
        chromadb = import_module("chromadb")
        settings = import_module("chromadb.config").Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(folder / "chroma"), settings)
        self._found = self._client.get_or_create_collection("scale", metadata={"hnsw:space": "cosine"})

    def fill(self, batches: Batches) -> None:
        for start, codes in batches:
            ids = [str(start + number) for number in range(len(codes))]
            self._found.upsert(ids, embeddings=codes.astype("f4"))

    def find(self, vector: Vector) -> object:
        query = np.frombuffer(vector, "i1").astype("f4")
        return self._found.query(query_embeddings=[query], n_results=NEAREST)["ids"]

    def close(self) -> None:
        """Its files are closed with the process."""


class SqliteVec:
    """A table of sqlite-vec in a file."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "sqlite-vec.db", isolation_level=None)
        self._db.enable_load_extension(True)
        import_module("sqlite_vec").load(self._db)
        self._db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS v USING vec0(e float[384] distance_metric=cosine)")

    def fill(self, batches: Batches) -> None:
        for start, codes in batches:
            rows = [(start + number, row.tobytes()) for number, row in enumerate(codes.astype("f4"))]
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO v (rowid, e) VALUES (?, ?)", rows)
            self._db.execute("COMMIT")

    def find(self, vector: Vector) -> object:
        query = np.frombuffer(vector, "i1").astype("f4").tobytes()
        return self._db.execute("SELECT rowid FROM v WHERE e MATCH ? AND k = ?", (query, NEAREST)).fetchall()

    def close(self) -> None:
        self._db.close()


PEERS: Mapping[str, tuple[str, Callable[[Path], Peer]]] = {
    "Chroma": ("chromadb", Chroma),
    "sqlite-vec": ("sqlite_vec", SqliteVec),
}
"""The module that each needs, and how it is opened in a folder."""


def list_missing() -> dict[str, str]:
    """Return how to install each peer that is not installed."""
    modules = {name: module for name, (module, _) in PEERS.items()}
    return {
        name: f"not installed: pip install {module.replace('_', '-')}"
        for name, module in modules.items()
        if find_spec(module) is None
    }


def open_peers(folder: Path) -> dict[str, Peer]:
    """Return the installed peers, each with its data in the folder."""
    missing = list_missing()
    return {name: opening(folder) for name, (_, opening) in PEERS.items() if name not in missing}


def fill_peers(folder: Path, make_batches: Callable[[], Iterator[tuple[int, Codes]]]) -> None:
    """Store the vectors with every installed peer, once."""
    for name, peer in open_peers(folder).items():
        is_filled = folder / f"filled-{name}"
        if not is_filled.exists():
            peer.fill(make_batches())
            is_filled.touch()
        peer.close()
