"""Move a memory around: `python -m benchmarks.migrate [--records 50000] [--dim 384] [--places postgres,qdrant]`.

A SQLite store is filled and moved from store to store and back into a SQLite file (by default sqlite → postgres →
qdrant → sqlite). Each move copies, reads the source again until nothing is left, and compares both stores. At the end
the first and the last file must be identical, record by record, and answer 50 searches by vectors and by words alike.

The PostgreSQL server is started for the run, in a temporary folder. Qdrant and Chroma run inside the process. The
vectors are random directions around a few hundred centres, and the texts are made of two thousand words.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from alma.migration import migrate_places
from alma.stores.postgres.server import start_server
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where
from alma.types.record import Evidence, Record, Status, quantize

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SEARCHES = 50


def make_records(count: int, dim: int) -> Iterator[Record]:
    """Yield records of two projects and a few agents, most of them with a vector."""
    chance, numbers = random.Random(7), np.random.default_rng(7)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randint(4, 9))) for _ in range(2000)]
    centres = numbers.normal(size=(300, dim))
    for i in range(count):
        vector = centres[i % len(centres)] + numbers.normal(scale=0.8, size=dim)
        at = MOMENT + timedelta(seconds=37 * i)
        yield Record(
            id=f"kno_{i:07d}",
            kind=chance.choice(("domain_knowledge", "heuristic", "outcome")),
            project=chance.choice(("shop", "blog")),
            agent=f"agent{i % 5}",
            user="" if i % 7 else f"user{i % 11}",
            status=Status.ARCHIVED if i % 9 == 0 else Status.ACTIVE,
            text=" ".join(chance.choices(words, k=chance.randint(8, 30))),
            body={"number": i, "share": i / 3, "nested": {"list": [i, None, "ü"]}},
            evidence=Evidence(successes=i % 4, recent=((i, 1.0),)),
            links=(f"kno_{i // 3:07d}",),
            tags=("even",) if i % 2 == 0 else (),
            created_at=at,
            updated_at=at,
            version=1 + i % 6,
            embedder="random",
            vectors=() if i % 10 == 0 else (quantize(vector.tolist()),),
        )


def compare_files(first: Path, last: Path) -> dict[str, int]:
    """Return how many records and answers of searches are the same in both files."""
    one, other = SQLiteStore(first), SQLiteStore(last)
    try:
        records = sum(a == b for a, b in zip(one.scan(Where()), other.scan(Where()), strict=True))
        samples = [record for record in one.scan(Where(), 20 * SEARCHES) if record.vectors][:: 20 * 9 // 10][:SEARCHES]
        near = matching = 0
        for record in samples:
            where, words = Where(projects={record.project}), " ".join(record.text.split()[:3])
            near += one.nearest(record.vectors[0], where, 10) == other.nearest(record.vectors[0], where, 10)
            # All hits with their scores: the order of equal scores is not defined.
            answers = [
                {hit.id: round(hit.score, 6) for hit in store.match(words, where, 5000)} for store in (one, other)
            ]
            matching += answers[0] == answers[1]
        return {"identical": records, "searches": len(samples), "same_vectors": near, "same_words": matching}
    finally:
        one.close()
        other.close()


def main() -> None:
    """Fill, move, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--places", default="postgres,qdrant", help="stores between the two SQLite files")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures: dict[str, object] = {"records": args.records, "dim": args.dim}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pg")))
        os.chmod(folder, 0o711)
        places = [f"sqlite:{folder}/first.db"]
        for name in filter(None, args.places.split(",")):
            if name == "postgres":
                server = start_server(folder / "data")
                stack.callback(server.stop)
                places.append(server.dsn if "://" in server.dsn else f"postgres:{server.dsn}")
            else:
                places.append(f"{name}:{folder}/{name}")
        places.append(f"sqlite:{folder}/last.db")
        store, records = SQLiteStore(folder / "first.db"), make_records(args.records, args.dim)
        while batch := list(islice(records, 1000)):
            store.put(batch)
        store.close()
        for source, target in pairwise(places):
            label = f"{source.partition(':')[0]} → {target.partition(':')[0]}"
            began = time.perf_counter()
            report = migrate_places(source, target)
            seconds = time.perf_counter() - began
            figures[label] = {
                "seconds": round(seconds, 1),
                "records_per_second": round(report.records / seconds),
                "agreement": report.agreement,
                "checksum": report.checksum,
            }
            if not args.json:
                print(f"{label}: {figures[label]}", flush=True)
        figures |= compare_files(folder / "first.db", folder / "last.db")
        figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures, ensure_ascii=False) if args.json else figures)
    if figures["identical"] != args.records or {figures["same_vectors"], figures["same_words"]} != {SEARCHES}:
        raise SystemExit("the last file differs from the first")


if __name__ == "__main__":
    main()
