"""Stores of any size with realistic vectors.

Tens of thousands of real sentences are embedded by the shipped model. A memory consists of two of them, and its vector
is a mixture of their vectors with a little noise, which is close to the model's vector of both together (`likeness`
measures how close). Random vectors would not do: they have no near neighbours, so an index that works well for them may
work badly for real ones, and the reverse.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import random
import re
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.ports import Embedder, Store
from alma.stores.sqlite import SQLiteStore
from alma.types.query import MemoryScope
from alma.types.record import Record, Status, Vector

SENTENCES = 20_000
QUERIES = 400
BATCH = 5_000
LESSONS = 100
SESSION = 20
"""Memories of one session."""
RARE, AUDITED, USED, ARCHIVED = 7, 13, 29, 57
"""Which one of a hundred memories has the rare tag, is the auditor's, belongs to a user, is put away."""
PROJECT = "scale"
AGENTS = ("dev", "ops", "web", "data", "auditor")
"""All share with the first, which therefore reads everything; the last has one memory in a hundred."""
BEGAN = datetime(2023, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=1)

_NOISE = 0.25
_ENDS = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*\d])")
_SHORTEST, _LONGEST = 24, 240


@dataclass(frozen=True)
class World:
    sentences: list[str]
    codes: NDArray[Any]
    queries: list[str]


def world(data: str | None, keep: Path, progress: Callable[[int, int], None]) -> World:
    """The sentences and their vectors; embedded once for each source and folder."""
    found = _sentences(data)
    random.Random(5).shuffle(found)
    queries, sentences = found[:QUERIES], found[QUERIES : QUERIES + SENTENCES]
    digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()[:12]
    held = keep / f"sentences-{digest}.npy"
    if not held.exists():
        np.save(held, _embedded(sentences, progress))
    return World(sentences, np.load(held), queries)


def _embedded(sentences: list[str], progress: Callable[[int, int], None]) -> NDArray[Any]:
    embedder, made = LocalEmbedder(), []
    for start in range(0, len(sentences), 500):
        made += embedder.embed(sentences[start : start + 500])
        progress(len(made), len(sentences))
    return np.frombuffer(b"".join(made), "i1").reshape(len(made), embedder.dim)


def _sentences(data: str | None) -> list[str]:
    texts = _python_says() if data is None else _strings(_loaded(Path(data)))
    split = (" ".join(part.split()) for text in texts for part in _ENDS.split(text))
    return sorted({part for part in split if _SHORTEST <= len(part) <= _LONGEST and part.count(" ") >= 3})


def _loaded(path: Path) -> Any:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return json.load(file)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _python_says() -> Iterator[str]:
    """What Python's own modules say about themselves: prose that every machine has."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted([*root.glob("*.py"), *root.glob("[a-z]*/*.py")]):
        if not {"test", "tests", "site-packages", "lib2to3"} & set(path.parts):
            yield from _docstrings(path)


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.Dict) and path.name == "topics.py":
            yield from (str(part.value) for part in node.values if isinstance(part, ast.Constant))


# --- memories


def pairs(world: World, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Which two sentences each memory says: never the same two twice."""
    many = len(world.sentences)
    for number in range(start, stop):
        first, again = number % many, number // many
        yield first, (first + 1 + 37 * again) % many


def texts(world: World, start: int, stop: int) -> list[str]:
    return [f"{world.sentences[one]} {world.sentences[other]}" for one, other in pairs(world, start, stop)]


def codes(world: World, start: int, stop: int) -> NDArray[Any]:
    """The vectors of memories `start` to `stop`, which must be a batch: the same in every process."""
    one, other = np.array(list(pairs(world, start, stop))).T
    chance = np.random.default_rng(start)
    share = chance.uniform(0.3, 0.7, (stop - start, 1))
    mixed = unit(share * unit(world.codes[one]) + (1 - share) * unit(world.codes[other]))
    mixed += chance.normal(0, _NOISE / np.sqrt(mixed.shape[1]), mixed.shape)
    scaled: NDArray[Any] = np.rint(127 * mixed / np.abs(mixed).max(axis=1, keepdims=True))
    return scaled.astype("i1")


def batches(world: World, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Return the vectors of all memories in batches, with the number of the first of each."""
    for start in range(0, size, BATCH):
        yield start, codes(world, start, min(size, start + BATCH))


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    given = vectors.astype("f4")
    return given / np.linalg.norm(given, axis=1, keepdims=True)  # type: ignore[no-any-return]


def likeness(world: World, many: int = 100) -> float:
    """The mean cosine between mixtures and what the model makes of the two sentences."""
    real = np.frombuffer(b"".join(LocalEmbedder().embed(texts(world, 0, many))), "i1").reshape(many, -1)
    return float((unit(real) * unit(codes(world, 0, many))).sum(axis=1).mean())


class Prepared:
    """What fills a store: vectors that were prepared for its texts, and the model's for others. It reads no pairs."""

    def __init__(self) -> None:
        self._real = LocalEmbedder()
        self.name, self.dim, self.passage_chars = self._real.name, self._real.dim, self._real.passage_chars
        self.known: dict[str, Vector] = {}

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self.known.get(text) or self._real.embed([text])[0] for text in texts]

    def knows(self, text: str) -> bool:
        return self._real.knows(text)

    def close(self) -> None:
        self._real.close()


def agent_of(number: int) -> str:
    return AGENTS[-1] if number % 100 == AUDITED else AGENTS[number // 7 % (len(AGENTS) - 1)]


def moment_of(number: int) -> datetime:
    return BEGAN + number * STEP


def number_of(record: Record) -> int:
    return (record.created_at - BEGAN) // STEP


def stamped(record: Record, number: int) -> Record:
    """What `add_many` does not take: a session of about twenty memories, a user for one in a hundred, one put away."""
    return replace(
        record,
        session=f"s{number // SESSION}",
        user=f"u{number // 100 % 10}" if number % 100 == USED else "",
        status=Status.ARCHIVED if number % 100 == ARCHIVED else record.status,
        created_at=moment_of(number),
        updated_at=moment_of(number),
    )


class _Stamping:
    """Stamps the facts on their way into the store."""

    next_number = 0

    def put(self, records: Sequence[Record]) -> None:
        super().put([self._stamped(record) for record in records])  # type: ignore[misc]

    def _stamped(self, record: Record) -> Record:
        if record.kind != "domain_knowledge":
            return record
        self.next_number += 1
        return stamped(record, self.next_number - 1)


class Stamping(_Stamping, SQLiteStore):
    """A SQLite store that is being filled."""


def open_postgres(dsn: str, schema: str, *, is_filled: bool) -> Store:
    """Return the store in a schema of a PostgreSQL database. While it is being filled, it stamps the facts."""
    from alma.stores.postgres import PostgresStore

    class StampingPostgres(_Stamping, PostgresStore):
        """A PostgreSQL store that is being filled."""

    kind = PostgresStore if is_filled else StampingPostgres
    return kind(dsn, schema=schema)


def open_store(store: Store, embedder: Embedder | None = None) -> ALMA:
    """Return the memory in a store, with the embedder that ships, in which pairs are read."""
    agents = [MemoryScope(name, share_with=AGENTS[:1] if name != AGENTS[0] else ()) for name in AGENTS]
    return ALMA(store, embedder or LocalEmbedder(), project_id=PROJECT, agents=agents)


def opened(path: Path) -> ALMA:
    return open_store(SQLiteStore(path))


def fill(world: World, store: Store, size: int, progress: Callable[[int, int], None]) -> float:
    """`size` facts of several agents, and a few preferences, strategies and warnings beside them.

    The seconds that adding the facts took.
    """
    spent = 0.0
    with open_store(store, Prepared()) as alma:
        encoder = alma.engine.encoder
        assert encoder is not None
        assert isinstance(encoder.embedder, Prepared)
        alma.add_many(_beside(world))
        for start in range(0, size, BATCH):
            stop = min(size, start + BATCH)
            said = texts(world, start, stop)
            made = codes(world, start, stop)
            encoder.embedder.known = {text: row.tobytes() for text, row in zip(said, made, strict=True)}
            facts = [_fact(start + at, text) for at, text in enumerate(said)]
            began = time.perf_counter()
            alma.add_many(facts)
            spent += time.perf_counter() - began
            progress(stop, size)
    return spent


def _fact(number: int, text: str) -> dict[str, Any]:
    tags = ["rare"] if number % 100 == RARE else [f"topic{number % 20}"]
    domain = f"area {number % 12}"
    return {"type": "domain_knowledge", "agent": agent_of(number), "domain": domain, "fact": text, "tags": tags}


def _beside(world: World) -> Iterator[dict[str, Any]]:
    said = cycle(world.sentences[::-1])
    for number in range(LESSONS):
        yield {"type": "user_preference", "user_id": f"u{number % 10}", "category": "work", "preference": next(said)}
        yield {"type": "heuristic", "agent": "dev", "condition": next(said), "strategy": next(said)}
        yield {"type": "anti_pattern", "agent": "dev", "pattern": next(said), "why_bad": next(said)}
