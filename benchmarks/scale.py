"""Measure scaling: `python -m benchmarks.scale [--sizes 1000,…,1000000] [--data FILE] [--json] [--plot FILE.svg]`.

For each size, a store is filled through `ALMA.add_many` and then queried in separate processes. The stored vectors
are not computed by the model one by one, which would take hours: they are mixtures of vectors that the model computed
for real sentences. Queries are embedded by the model, and are sentences that the store does not contain.

The sentences come from `--data`, any JSON file with texts such as LongMemEval's, or by default from the documentation
strings of Python's standard library. `--keep DIR` leaves the stores there and reuses them.

Times are wall times, next to CPU times, which are more stable on a shared machine.

Recall is the share of the ten exact nearest neighbours that `nearest` finds, compared with a scan of all vectors in
floats: without a filter, and with each of six filters that select about one memory in a hundred.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alma.types.query import Where

from . import _scale_world as scale
from .speed import median_ms, peak_mb

SIZES = (1_000, 10_000, 100_000, 1_000_000)
NEAREST = 10
ASKED = 50
TURNS = 30
LIMITS = {
    ("warm_p50_ms", 100_000): 60.0,
    ("cold_s", 100_000): 0.8,
    ("warm_p50_ms", 1_000_000): 150.0,
    ("peak_mb", 1_000_000): 1024.0,
}
RECALL = 0.99

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Warm:
    """The costs of a query in a warm process."""

    warm_p50_ms: float
    warm_p95_ms: float
    cpu_ms: float
    embedding_ms: float
    filtered_ms: float
    sessions_ms: float
    rss_mb: float
    peak_mb: float


@dataclass(frozen=True)
class Filled:
    ingest_per_s: float
    file_mb: float
    wal_mb: float


@dataclass(frozen=True)
class At:
    size: int
    filled: Filled
    warm: Warm
    cold_s: float
    cold_cpu_s: float
    recall: dict[str, float]

    def figures(self) -> dict[str, float]:
        return {**asdict(self.filled), **asdict(self.warm), "cold_s": self.cold_s, "cold_cpu_s": self.cold_cpu_s}


NAMES = {
    "ingest_per_s": "add_many, memories/s",
    "file_mb": "file, MB",
    "wal_mb": "largest write-ahead log, MB",
    "warm_p50_ms": "retrieve, warm p50, ms",
    "warm_p95_ms": "retrieve, warm p95, ms",
    "cpu_ms": "retrieve, warm, CPU mean, ms",
    "embedding_ms": "of which embedding the query, ms",
    "filtered_ms": "nearest with the slowest filter, p50, ms",
    "sessions_ms": f"all memories of {TURNS} sessions (600), p50, ms",
    "rss_mb": "resident memory, MB",
    "peak_mb": "peak resident memory, MB",
    "cold_s": "cold process to first result, s",
    "cold_cpu_s": "cold process, CPU, s",
}


# --- filters


@dataclass(frozen=True)
class Selection:
    """A filter for about one memory in a hundred, as the store applies it and as it is counted by hand."""

    where: Where
    holds: NDArray[Any]


def selections(size: int) -> dict[str, Selection]:
    number = np.arange(size)
    share, turn = number % 100, number // scale.SESSION
    begins, many = size // 2, max(NEAREST, size // 100)
    chosen = turn % 100 == min(3, turn[-1])
    sessions = {f"s{session}" for session in np.unique(turn[chosen]).tolist()}
    span = {"created_from": scale.moment_of(begins), "created_to": scale.moment_of(begins + many)}
    told: dict[str, tuple[dict[str, Any], NDArray[Any]]] = {
        "none": ({}, number >= 0),
        "tag": ({"tagged": {"rare"}}, share == scale.RARE),
        "session": ({"sessions": sessions}, chosen),
        "time": (span, (number >= begins) & (number < begins + many)),
        "user": ({"users": {f"u{user}" for user in range(10)}}, share == scale.USED),
        "agent": ({"agents": {scale.AGENTS[-1]}}, share == scale.AUDITED),
        "status": ({"statuses": {"archived"}}, share == scale.ARCHIVED),
    }
    return {name: Selection(Where(kinds={"domain_knowledge"}, **asked), holds) for name, (asked, holds) in told.items()}


# --- measuring, each in a process of its own


def warm(folder: Path, size: int, runs: int) -> Warm:
    queries = iter(json.loads((folder.parent / "queries.json").read_text()) * 20)
    with scale.opened(folder / "alma.db") as alma:
        encoder, store = alma.engine.encoder, alma.engine.store
        assert encoder is not None
        for _ in range(5):
            alma.retrieve(next(queries), "dev")
        began = time.process_time()
        middle, slow = median_ms(lambda: alma.retrieve(next(queries), "dev"), runs)
        cpu = (time.process_time() - began) * 1000 / runs
        resident = _resident_mb()
        embedding, _ = median_ms(lambda: encoder.embedder.embed([next(queries)]), runs)
        [vector] = encoder.embedder.embed([next(queries)])
        filtered = [
            median_ms(lambda where=chosen.where: store.nearest(vector, where, NEAREST), 9)[0]  # type: ignore[misc]
            for chosen in selections(size).values()
        ]
        chance = random.Random(3)
        sessions, _ = median_ms(lambda: list(store.scan(Where(sessions=_some_sessions(chance, size)))), 15)
    return Warm(middle, slow, cpu, embedding, max(filtered), sessions, resident, peak_mb())


def _some_sessions(chance: random.Random, size: int) -> set[str]:
    every = range(-(-size // scale.SESSION))
    return {f"s{session}" for session in chance.sample(every, min(TURNS, len(every)))}


def _resident_mb() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_mb()
    held = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(held.split()[1]) / 1024


_COLD = """
import sys
from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.stores.sqlite import SQLiteStore
from alma.types.query import MemoryScope
path, project, query, reader, *others = sys.argv[1:]
agents = [MemoryScope(reader), *(MemoryScope(name, share_with=(reader,)) for name in others)]
with ALMA(SQLiteStore(path), LocalEmbedder(), project_id=project, agents=agents) as alma:
    print(alma.retrieve(query, reader).total_items, flush=True)
"""


def cold(folder: Path, queries: list[str], runs: int = 3) -> tuple[float, float]:
    """Return the seconds from starting Python to the first answer, and the CPU seconds until it exits.

    The minimum of several runs, with the file in the system's cache.
    """
    spent = []
    for query in queries[:runs]:
        began, used = time.perf_counter(), _children_cpu()
        arguments = [str(folder / "alma.db"), scale.PROJECT, query, *scale.AGENTS]
        with subprocess.Popen([sys.executable, "-c", _COLD, *arguments], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the cold process gave no answer")
            first = time.perf_counter() - began
        spent.append((first, _children_cpu() - used))
    return min(first for first, _ in spent), min(cpu for _, cpu in spent)


def _children_cpu() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def recall(world: scale.World, folder: Path, size: int, progress: Progress) -> dict[str, float]:
    """Return, by filter, the share of the exact nearest neighbours that were found; ties count as found."""
    chosen = selections(size)
    with scale.opened(folder / "alma.db") as alma:
        encoder, store = alma.engine.encoder, alma.engine.store
        assert encoder is not None
        vectors = encoder.embedder.embed(world.queries[:ASKED])
        scores = _exact(world, np.frombuffer(b"".join(vectors), "i1").reshape(ASKED, -1), size, progress)
        found: dict[str, float] = {}
        for name, selection in chosen.items():
            numbers = [
                [scale.number_of(record) for record in store.get([hit.id for hit in hits])]
                for hits in (store.nearest(vector, selection.where, NEAREST) for vector in vectors)
            ]
            parts = [_part(row, selection.holds, some) for row, some in zip(scores, numbers, strict=True)]
            found[name] = statistics.fmean(parts)
    return found


def _exact(world: scale.World, asked: NDArray[Any], size: int, progress: Progress) -> NDArray[Any]:
    """Return the cosine of every query with every memory, in floats."""
    queries = scale.unit(asked)
    scores = np.empty((len(queries), size), "f4")
    for start in range(0, size, scale.BATCH):
        stop = min(size, start + scale.BATCH)
        scores[:, start:stop] = queries @ scale.unit(scale.codes(world, start, stop)).T
        progress(stop, size)
    return scores


def _part(scores: NDArray[Any], holds: NDArray[Any], found: list[int]) -> float:
    best = np.sort(scores[holds])[-NEAREST:]
    if not all(holds[found]):
        return 0.0
    return float((scores[found] >= best[0] - 1e-6).sum() / len(best))


# --- the whole run


def fill(world: scale.World, folder: Path, size: int, progress: Progress) -> Filled:
    """Fill a store, or reuse one that was filled before."""
    told = folder / "filled.json"
    if told.exists():
        return Filled(**json.loads(told.read_text()))
    folder.mkdir(exist_ok=True)
    for left in folder.glob("alma.db*"):
        left.unlink()
    path, largest = folder / "alma.db", 0

    def noting(done: int, of: int) -> None:
        nonlocal largest
        largest = max(largest, Path(f"{path}-wal").stat().st_size)
        progress(done, of)

    spent = scale.fill(world, path, size, noting)
    made = Filled(size / spent, path.stat().st_size / 1e6, largest / 1e6)
    told.write_text(json.dumps(asdict(made)))
    return made


def measure(world: scale.World, folder: Path, size: int, bar: Callable[[str], Progress]) -> At:
    filled = fill(world, folder, size, bar(f"filling {size:,}"))
    asking = bar(f"asking {size:,}")
    first = cold(folder, world.queries)
    asking(1, 2)
    runs = "60" if size >= 1_000_000 else "150"
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", str(folder), "--sizes", str(size), "--runs", runs]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    asking(2, 2)
    return At(
        size,
        filled,
        Warm(**json.loads(done.stdout)),
        *first,
        recall(world, folder, size, bar(f"comparing {size:,}")),
    )


def growth(found: list[At]) -> list[dict[str, float]]:
    """Return by how much time grows from one size to the next, and by how much the size does."""
    return [
        {"from": a.size, "to": b.size, "size": b.size / a.size, "p50": b.warm.warm_p50_ms / a.warm.warm_p50_ms}
        for a, b in pairwise(found)
    ]


@contextmanager
def bars() -> Iterator[Callable[[str], Progress]]:
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True)) as shown:

        def bar(what: str) -> Progress:
            task = shown.add_task(what, total=None)
            return lambda done, of: shown.update(task, completed=done, total=of)

        yield bar


def run(options: argparse.Namespace, keep: Path) -> int:
    with bars() as bar:
        world = scale.world(options.data, keep, bar("embedding sentences"))
        (keep / "queries.json").write_text(json.dumps(world.queries))
        found = [measure(world, keep / str(size), size, bar) for size in options.sizes]
        told = {
            "machine": _machine(),
            "sentences": {
                "from": Path(options.data).name if options.data else "Python's standard library",
                "many": len(world.sentences),
                "likeness of mixtures to real vectors": round(scale.likeness(world), 3),
            },
            "sizes": [{"size": at.size, **at.figures(), "recall": at.recall} for at in found],
            "growth": growth(found),
        }
    if options.plot:
        _plot(options.plot, found)
    if options.json:
        print(json.dumps(told, indent=1))
    else:
        _table(found, told)
    return 0


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "sqlite": sqlite3.sqlite_version,
        "numpy": np.__version__,
    }


def _plot(path: str, found: list[At]) -> None:
    from ._plot import line_chart

    series = {
        "warm, median": [(float(at.size), at.warm.warm_p50_ms) for at in found],
        "warm, 95th percentile": [(float(at.size), at.warm.warm_p95_ms) for at in found],
        "cold process": [(float(at.size), 1000 * at.cold_s) for at in found],
    }
    line_chart(path, "Time of one retrieval", "memories", "milliseconds", series, log_x=True, log_y=True)


def _table(found: list[At], told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    source = ", ".join(f"{name} {value}" for part in ("machine", "sentences") for name, value in told[part].items())
    table = Table(title="alma: scale", caption=f"Vectors are mixtures of real ones. {source}")
    table.add_column("measured")
    for at in found:
        table.add_column(f"{at.size:,}", justify="right")
    for name, shown in NAMES.items():
        table.add_row(shown, *(_marked(at.figures()[name], LIMITS.get((name, at.size))) for at in found))
    for name in found[0].recall:
        what = "recall@10" if name == "none" else f"recall@10 of 1 % by {name}"
        table.add_row(what, *(_marked(-at.recall[name], -RECALL) for at in found))
    steps = [_marked(step["p50"], step["size"]) for step in told["growth"]]
    table.add_row("p50 over that of the size before, ×", "", *steps)
    Console(width=120).print(table)


def _marked(value: float, most: float | None) -> str:
    """Return a figure in green if it is within its limit; limits for figures that should be large are negative."""
    shown = f"{abs(value):,.4g}"
    if most is None:
        return shown
    return f"[green]{shown}[/]" if value <= most else f"[red]{shown} (asked {abs(most):g})[/]"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, default=list(SIZES), help="numbers of memories, separated by commas")
    parser.add_argument("--data", metavar="FILE", help="a JSON file, optionally gzipped, with the texts to use")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--keep", metavar="DIR", help="keep the stores in this folder and reuse them")
    parser.add_argument("--measure", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=150, help=argparse.SUPPRESS)
    return parser.parse_args()


def _sizes(given: str) -> list[int]:
    sizes = [int(size) for size in given.split(",")]
    if not sizes or any(size < 100 for size in sizes):
        raise argparse.ArgumentTypeError("sizes are whole numbers from 100 on")
    return sorted(sizes)


def main() -> int:
    options = _arguments()
    if options.measure:
        print(json.dumps(asdict(warm(Path(options.measure), options.sizes[0], options.runs))))
        return 0
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        return run(options, Path(options.keep))
    with tempfile.TemporaryDirectory() as scratch:
        return run(options, Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
