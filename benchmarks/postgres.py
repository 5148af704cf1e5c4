"""Measure filtered search: `python -m benchmarks.postgres --rows 100000 [--store sqlite|postgres] [--json]`.

A store is filled with vectors of real sentences and asked for the ten nearest, with filters that 100, 10, 1 and 0.1 %
of the records pass. Recall is the share of the exact ten nearest that is found. Times are those of warm queries.

The sentences are the texts of `tools/training/*.jsonl`, embedded by the shipped model. There are fewer of them than
rows: the other rows are mixtures of two of these vectors. Queries are sentences that are not stored. `--cache FILE`
keeps the embedded sentences. Without `--dsn` a PostgreSQL server is started in a temporary folder, below `--folder`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from alma.embedders.local import LocalEmbedder
from alma.stores.postgres import PostgresStore
from alma.stores.postgres.server import start_server
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where
from alma.types.record import Record

TEXTS = Path(__file__).parent.parent / "tools" / "training"
SHARES = {"100 %": 1.0, "10 %": 0.1, "1 %": 0.01, "0.1 %": 0.001}
NEAREST = 10
QUERIES = 200
START = datetime(2026, 1, 1, tzinfo=UTC)
COMMON = "what is the way to run all of the tests in this project"
Codes = NDArray[np.int8]


def list_texts() -> list[str]:
    """Return the different sentences of the training data, in a random order that is always the same."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from walk(one)

    texts = {
        text
        for path in sorted(TEXTS.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        for text in walk(json.loads(line))
        if len(text.split()) >= 4
    }
    ordered = sorted(texts)
    random.Random(1).shuffle(ordered)
    return ordered


def embed_texts(texts: list[str], cache: Path | None) -> Codes:
    """Return a vector for each text."""
    if cache is not None and cache.exists():
        stored: Codes = np.load(cache)
        if len(stored) == len(texts):
            return stored
    embedder = LocalEmbedder()
    vectors: list[bytes] = []
    for start in range(0, len(texts), 256):
        vectors += embedder.embed(texts[start : start + 256])
    embedder.close()
    codes = np.frombuffer(b"".join(vectors), "i1").reshape(len(texts), -1)
    if cache is not None:
        np.save(cache, codes)
    return codes


def mix_vectors(codes: Codes, rows: int) -> Codes:
    """Return as many vectors: first those that there are, then mixtures of two of them."""
    rng = np.random.default_rng(2)
    parts = [codes[:rows]]
    for start in range(len(codes), rows, 10_000):
        count = min(10_000, rows - start)
        first, second = (codes[rng.integers(0, len(codes), count)].astype("f4") for _ in range(2))
        weight = rng.uniform(0.5, 0.9, (count, 1)).astype("f4")
        mixed = first * weight + second * (1 - weight)
        parts.append(np.rint(mixed * 127 / np.abs(mixed).max(axis=1, keepdims=True)).astype("i1"))
    return np.concatenate(parts)


def make_records(texts: list[str], codes: Codes, projects: list[str]) -> Iterator[list[Record]]:
    """Yield the records in batches."""
    for start in range(0, len(codes), 1000):
        yield [
            Record(
                id=f"mem_{i:09d}",
                kind="domain_knowledge",
                project=projects[i],
                agent="agent",
                embedder="local",
                text=texts[i % len(texts)],
                created_at=START + timedelta(seconds=i),
                updated_at=START,
                vectors=(codes[i].tobytes(),),
            )
            for i in range(start, min(start + 1000, len(codes)))
        ]


def choose_projects(rows: int) -> list[str]:
    """Return the project of each row; some projects have exactly a tenth of the rows, a hundredth, and so on."""
    projects = [f"other-{i % 7}" for i in range(rows)]
    places = list(range(rows))
    random.Random(3).shuffle(places)
    for name, share in list(SHARES.items())[1:]:
        for _ in range(round(rows * share)):
            projects[places.pop()] = name
    return projects


def measure_filter(store: Any, codes: Codes, queries: Codes, projects: list[str], name: str) -> dict[str, float]:
    """Return recall and times of queries with one filter."""
    where = Where(
        kinds={"domain_knowledge"}, statuses={"active"}, projects=None if SHARES[name] == 1.0 else {name}, users={""}
    )
    passing = np.array([SHARES[name] == 1.0 or project == name for project in projects])
    numbers = np.flatnonzero(passing)
    own = codes[passing].astype("f4")
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    for query in queries[:10]:
        store.nearest(query.tobytes(), where, NEAREST)
    shares, times = [], []
    for query in queries:
        begin = time.perf_counter()
        hits = store.nearest(query.tobytes(), where, NEAREST)
        times.append(1000 * (time.perf_counter() - begin))
        scores = own @ (query / np.linalg.norm(query.astype("f4"))).astype("f4")
        least = np.partition(scores, -NEAREST)[-NEAREST] - 1e-6
        good = set(numbers[scores >= least].tolist())
        shares.append(sum(int(hit.id[4:]) in good for hit in hits) / NEAREST)
    return {"recall": statistics.mean(shares), **summarise(times)}


def summarise(times: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {"p50_ms": round(statistics.median(times), 2), "p95_ms": round(statistics.quantiles(times, n=20)[-1], 2)}


def measure_words(store: Any, texts: list[str]) -> dict[str, dict[str, float]]:
    """Return the times of searches by words: sentences that are not stored, and words that very many records have."""
    result = {}
    for name, queries in (("sentences", texts), ("common words", [COMMON] * 50)):
        times = []
        for query in queries:
            begin = time.perf_counter()
            store.match(query, Where(statuses={"active"}), NEAREST)
            times.append(1000 * (time.perf_counter() - begin))
        result[name] = summarise(times)
    return result


@contextmanager
def open_store(options: argparse.Namespace) -> Iterator[tuple[Any, Callable[[], int]]]:
    """Yield an empty store and a function that returns how many bytes it takes."""
    with tempfile.TemporaryDirectory(prefix="pg", dir=options.folder) as name, ExitStack() as stack:
        folder = Path(name)
        if options.store == "sqlite":
            store: Any = SQLiteStore(folder / "alma.db")
            measure_size = partial(measure_files, folder)
        else:
            dsn = options.dsn
            if dsn is None:
                folder.chmod(0o711)
                memory = {"shared_buffers": "4GB", "maintenance_work_mem": "4GB", "max_wal_size": "16GB"}
                server = start_server(folder / "data", **memory, max_parallel_maintenance_workers="2")
                stack.callback(server.stop)
                dsn = server.dsn
            schema = f"bench_{os.getpid()}"
            store = PostgresStore(dsn, schema=schema, timeout=7200.0)
            measure_size = partial(measure_tables, dsn, schema)
        stack.callback(store.close)
        yield store, measure_size


def measure_files(folder: Path) -> int:
    """Return the size of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


def measure_tables(dsn: str, schema: str) -> int:
    """Return the size of the tables and indexes in a schema."""
    query = "SELECT sum(pg_total_relation_size(oid))::int8 FROM pg_class WHERE relnamespace = %s::regnamespace"
    with psycopg.connect(dsn) as connection:
        [(size,)] = connection.execute(f"{query} AND relkind = 'r'", (schema,)).fetchall()
    return int(size)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    texts = list_texts()
    sentences = embed_texts(texts, options.cache)
    queries, stored = sentences[:QUERIES], sentences[QUERIES:]
    codes = mix_vectors(stored, options.rows)
    projects = choose_projects(options.rows)
    digest = hashlib.sha256(codes.tobytes() + queries.tobytes() + "".join(projects).encode()).hexdigest()[:16]
    figures: dict[str, Any] = {"store": options.store, "rows": options.rows, "sentences": len(stored), "data": digest}
    with open_store(options) as (store, measure_size):
        begin = time.perf_counter()
        for records in make_records(texts[QUERIES:], codes, projects):
            store.put(records)
        figures["put_s"] = round(time.perf_counter() - begin, 1)
        begin = time.perf_counter()
        if isinstance(store, PostgresStore):
            store.build_indexes()
        figures["index_s"] = round(time.perf_counter() - begin, 1)
        figures["mb"] = round(measure_size() / 2**20)
        figures["filters"] = {name: measure_filter(store, codes, queries, projects, name) for name in SHARES}
        figures["words"] = measure_words(store, texts[:QUERIES])
    return figures


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--dsn")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = run(options)
    if options.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    print(", ".join(f"{name} {value}" for name, value in figures.items() if not isinstance(value, dict)))
    for name, row in {**figures["filters"], **figures["words"]}.items():
        print(f"{name:>14}  " + "  ".join(f"{key} {value:.3f}" for key, value in row.items()))


if __name__ == "__main__":
    main()
