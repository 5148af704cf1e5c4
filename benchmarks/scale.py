"""Measure scaling: `python -m benchmarks.scale [--sizes 1000,…,1000000] [--stores sqlite,postgres] [--markdown]`.

What ships is measured: the bundled embedder, with which a retrieval also reads pairs of texts. For each size, a store
is filled through `ALMA.add_many` and then queried in separate processes. The stored vectors are not computed by the
model one by one, which would take hours: they are mixtures of vectors that the model computed for real sentences, and
no pairs are read while the store is filled. Queries are embedded by the model, and are sentences that the store does
not contain.

In the same process and in turn with the retrievals, the floor is measured (one embedding, one exact scan of all vectors
in memory, one SQLite commit), and so are Chroma and sqlite-vec if they are installed. They are given the vectors, up to
`--peers` memories.

The sentences come from `--data`, any JSON file with texts such as LongMemEval's, or by default from the documentation
strings of Python's standard library. `--keep DIR` leaves the SQLite stores there and reuses them. `--markdown` prints
the table of the documentation, `--page FILE` writes it into that page.

Times are wall times, next to CPU times, which are more stable on a shared machine. The CPU time of PostgreSQL's own
processes is not in them.

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
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alma import ALMA
from alma.engine.calls import ignore_progress
from alma.ports import Embedder
from alma.types.query import Where

from . import _beside as beside
from . import _scale_world as scale
from . import _tables as tables
from ._beside import Peer
from ._measures import percentile
from .speed import Texts, median_ms, peak_mb

TABLE = "scale"
"""The name of the table in the documentation."""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
NEAREST = 10
ASKED = 50
TURNS = 30
LIMITS = {
    ("warm_p50_ms", 10_000): 25.0,
    ("cpu_ms", 10_000): 30.0,
    ("warm_p50_ms", 100_000): 45.0,
    ("cold_s", 100_000): 0.8,
    ("warm_p50_ms", 1_000_000): 120.0,
    ("peak_mb", 1_000_000): 1024.0,
}
RECALL = 0.99

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Costs:
    """The costs of calls in a warm process, in milliseconds."""

    warm_p50_ms: float
    warm_p95_ms: float
    cpu_ms: float
    narrow_ms: float
    add_ms: float
    add_cpu_ms: float


@dataclass(frozen=True)
class Floor:
    """The least that a retrieval needs, measured in turn with retrievals, and what other programs need."""

    embedding_ms: float
    scan_ms: float
    commit_ms: float
    floor_cpu_ms: float
    peers: dict[str, float]
    """The time to find the nearest vectors, for each program that is installed."""


@dataclass(frozen=True)
class Warm:
    """What is measured in a warm process with a SQLite store."""

    costs: Costs
    floor: Floor
    filtered_ms: float
    sessions_ms: float
    rss_mb: float
    peak_mb: float

    def figures(self) -> dict[str, float]:
        own = {"filtered_ms": self.filtered_ms, "sessions_ms": self.sessions_ms}
        own |= {"rss_mb": self.rss_mb, "peak_mb": self.peak_mb}
        floor = {name: value for name, value in asdict(self.floor).items() if name != "peers"}
        floor_ms = self.floor.embedding_ms + self.floor.scan_ms + self.floor.commit_ms
        ratio = self.costs.cpu_ms / self.floor.floor_cpu_ms
        return {**asdict(self.costs), **floor, "floor_ms": floor_ms, "floor_ratio": ratio, **own}


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
    postgres: Costs | None = None

    def figures(self) -> dict[str, float]:
        figures = {**asdict(self.filled), **self.warm.figures(), "cold_s": self.cold_s, "cold_cpu_s": self.cold_cpu_s}
        postgres = asdict(self.postgres) if self.postgres else {}
        return figures | {f"postgres_{name}": value for name, value in postgres.items()}


NAMES = {
    "warm_p50_ms": "retrieve, warm p50, ms",
    "warm_p95_ms": "retrieve, warm p95, ms",
    "cpu_ms": "retrieve, warm, CPU, ms",
    "narrow_ms": "retrieve with a filter to 1 %, p50, ms",
    "embedding_ms": "floor: embedding the query, ms",
    "scan_ms": "floor: exact scan of all vectors, ms",
    "commit_ms": "floor: one commit, ms",
    "floor_ms": "floor together, ms",
    "floor_cpu_ms": "floor together, CPU, ms",
    "floor_ratio": "retrieve over the floor, CPU, ×",
    "add_ms": "add_domain_knowledge, p50, ms",
    "add_cpu_ms": "add_domain_knowledge, CPU, ms",
    "postgres_warm_p50_ms": "PostgreSQL: retrieve, warm p50, ms",
    "postgres_warm_p95_ms": "PostgreSQL: retrieve, warm p95, ms",
    "postgres_cpu_ms": "PostgreSQL: retrieve, CPU of the client, ms",
    "postgres_narrow_ms": "PostgreSQL: retrieve with a filter to 1 %, p50, ms",
    "postgres_add_ms": "PostgreSQL: add_domain_knowledge, p50, ms",
    "postgres_add_cpu_ms": "PostgreSQL: add_domain_knowledge, CPU of the client, ms",
    "cold_s": "cold process to first result, s",
    "cold_cpu_s": "cold process, CPU, s",
    "ingest_per_s": "add_many, memories/s",
    "file_mb": "file, MB",
    "wal_mb": "largest write-ahead log, MB",
    "filtered_ms": "nearest with the slowest filter, p50, ms",
    "sessions_ms": f"all memories of {TURNS} sessions (600), p50, ms",
    "rss_mb": "resident memory, MB",
    "peak_mb": "peak resident memory, MB",
}
PAGE_ROWS = {
    "warm_p50_ms": "`retrieve`, median, ms",
    "cpu_ms": "`retrieve`, CPU, ms",
    "narrow_ms": "`retrieve` with a filter to 1 %, ms",
    "floor_ms": "floor: embedding, exact scan, commit, ms",
    "floor_ratio": "`retrieve` over the floor, CPU, ×",
    "add_ms": "`add_domain_knowledge`, median, ms",
    "postgres_warm_p50_ms": "`retrieve` on PostgreSQL, median, ms",
    "postgres_add_ms": "`add_domain_knowledge` on PostgreSQL, ms",
    "cold_s": "new process to its first answer, s",
    "peak_mb": "peak memory, MB",
    "ingest_per_s": "`add_many`, memories per second",
    "file_mb": "file size, MB",
}
"""The rows of the table in the documentation, before those of the peers and of recall."""
RECALL_ROW = "recall@10 against an exact scan, worst of six filters"


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


def measure_costs(
    alma: ALMA, queries: Iterator[str], runs: int, floor: Callable[[str], object], add_to: ALMA | None = None
) -> Costs:
    """Return the costs of retrievals and additions. After each retrieval, the floor is measured with another query."""
    retrieving, narrow, adding = beside.Spent(), beside.Spent(), beside.Spent()
    for _ in range(runs):
        query, other = next(queries), next(queries)
        retrieving.measure(lambda: alma.retrieve(query, "dev"))  # noqa: B023 - called at once
        floor(other)
    for _ in range(runs // 3):
        query = next(queries)
        narrow.measure(lambda: alma.retrieve(query, "dev", tags=["rare"]))  # noqa: B023 - called at once
    texts = Texts(seed=5)
    target = add_to or alma
    for number in range(runs // 3):
        fact = texts.fact(number)
        adding.measure(lambda: target.add_domain_knowledge("dev", "ops", fact))  # noqa: B023 - called at once
    return Costs(
        warm_p50_ms=retrieving.wall_ms,
        warm_p95_ms=percentile(retrieving.wall, 0.95),
        cpu_ms=retrieving.cpu_ms,
        narrow_ms=narrow.wall_ms,
        add_ms=adding.wall_ms,
        add_cpu_ms=adding.cpu_ms,
    )


class FloorMeter:
    """Measures the floor and the other programs, one query at a time."""

    def __init__(self, folder: Path, embedder: Embedder, codes: beside.Batches, peers: Mapping[str, Peer]) -> None:
        self._embedder = embedder
        self._scan, self._commit = beside.Scan(codes), beside.Commit(folder)
        self._peers = peers
        self._spent = {name: beside.Spent() for name in ("embedding", "scan", "commit", *peers)}

    def measure(self, query: str) -> None:
        [vector] = self._spent["embedding"].measure(lambda: self._embedder.embed([query]))
        self._spent["scan"].measure(lambda: self._scan.find(vector))
        self._spent["commit"].measure(self._commit.write)
        for name, peer in self._peers.items():
            self._spent[name].measure(lambda: peer.find(vector))  # noqa: B023 - called at once

    def close(self) -> Floor:
        self._commit.close()
        for peer in self._peers.values():
            peer.close()
        embedding, scan, commit = (self._spent[name] for name in ("embedding", "scan", "commit"))
        return Floor(
            embedding_ms=embedding.wall_ms,
            scan_ms=scan.wall_ms,
            commit_ms=commit.wall_ms,
            floor_cpu_ms=embedding.cpu_ms + scan.cpu_ms + commit.cpu_ms,
            peers={name: self._spent[name].wall_ms for name in self._peers},
        )


def warm(folder: Path, size: int, runs: int) -> Warm:
    """Measure a SQLite store in this process."""
    queries = cycle(json.loads((folder.parent / "queries.json").read_text()))
    # Facts are added to a copy, so that the store can be measured again.
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "alma.db"
        shutil.copyfile(folder / "alma.db", copy)
        with scale.opened(folder / "alma.db") as alma, scale.opened(copy) as other:
            encoder, store = alma.engine.encoder, alma.engine.store
            assert encoder is not None
            for _ in range(5):
                alma.retrieve(next(queries), "dev")
            resident, peak = _resident_mb(), peak_mb()
            batches = [(0, np.load(folder / "codes.npy"))]
            peers = beside.open_peers(folder) if any(folder.glob("filled-*")) else {}
            meter = FloorMeter(folder, encoder.embedder, batches, peers)
            costs = measure_costs(alma, queries, runs, meter.measure, other)
            floor = meter.close()
            [vector] = encoder.embedder.embed([next(queries)])
            filtered = [
                median_ms(lambda where=chosen.where: store.nearest(vector, where, NEAREST), 9)[0]  # type: ignore[misc]
                for chosen in selections(size).values()
            ]
            chance = random.Random(3)
            sessions, _ = median_ms(lambda: list(store.scan(Where(sessions=_some_sessions(chance, size)))), 15)
    return Warm(costs, floor, max(filtered), sessions, resident, peak)


def measure_postgres(world: scale.World, dsn: str, size: int, runs: int, progress: Progress) -> Costs:
    """Fill a schema of a PostgreSQL database and measure it, in this process."""
    schema = f"scale_{size}"
    scale.fill(world, scale.open_postgres(dsn, schema, is_filled=False), size, progress)
    queries = cycle(world.queries)
    with scale.open_store(scale.open_postgres(dsn, schema, is_filled=True)) as alma:
        for _ in range(5):
            alma.retrieve(next(queries), "dev")
        return measure_costs(alma, queries, runs, lambda query: None)


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
from alma.engine.calls import ignore_progress
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

    spent = scale.fill(world, scale.Stamping(path), size, noting)
    np.save(folder / "codes.npy", np.concatenate([codes for _, codes in scale.batches(world, size)]))
    made = Filled(size / spent, path.stat().st_size / 1e6, largest / 1e6)
    told.write_text(json.dumps(asdict(made)))
    return made


def measure(
    world: scale.World, folder: Path, size: int, bar: Callable[[str], Progress], peers: int, dsn: str = ""
) -> At:
    filled = fill(world, folder, size, bar(f"filling {size:,}"))
    if size <= peers:
        beside.fill_peers(folder, lambda: scale.batches(world, size))
    asking = bar(f"asking {size:,}")
    first = cold(folder, world.queries)
    asking(1, 2)
    runs = 60 if size >= 1_000_000 else 90
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", str(folder)]
    command += ["--sizes", str(size), "--runs", str(runs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    asking(2, 2)
    measured = json.loads(done.stdout.splitlines()[-1])
    warm_figures = Warm(**{**measured, "costs": Costs(**measured["costs"]), "floor": Floor(**measured["floor"])})
    found = recall(world, folder, size, bar(f"comparing {size:,}"))
    postgres = measure_postgres(world, dsn, size, runs, bar(f"PostgreSQL {size:,}")) if dsn else None
    return At(size, filled, warm_figures, *first, found, postgres)


def measure_ratio(folder: Path, size: int, world: scale.World, runs: int = 30) -> float:
    """Return the CPU time of a retrieval over that of its floor, measured in turn in a new store of this size."""
    scale.fill(world, scale.Stamping(folder / "alma.db"), size, ignore_progress)
    queries = cycle(world.queries)
    with scale.opened(folder / "alma.db") as alma:
        encoder = alma.engine.encoder
        assert encoder is not None
        for _ in range(5):
            alma.retrieve(next(queries), "dev")
        meter = FloorMeter(folder, encoder.embedder, scale.batches(world, size), {})
        costs = measure_costs(alma, queries, runs, meter.measure)
        return costs.cpu_ms / meter.close().floor_cpu_ms


def growth(found: list[At]) -> list[dict[str, float]]:
    """Return by how much time grows from one size to the next, and by how much the size does."""
    steps = []
    for smaller, larger in pairwise(found):
        p50 = larger.warm.costs.warm_p50_ms / smaller.warm.costs.warm_p50_ms
        step = {"from": smaller.size, "to": larger.size, "size": larger.size / smaller.size, "p50": p50}
        steps.append(step)
    return steps


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
        with open_database() if "postgres" in options.stores else nullcontext("") as dsn:
            found = [measure(world, keep / str(size), size, bar, options.peers, dsn) for size in options.sizes]
        told = {
            "machine": _machine(),
            "sentences": {
                "from": Path(options.data).name if options.data else "Python's standard library",
                "many": len(world.sentences),
                "likeness of mixtures to real vectors": round(scale.likeness(world), 3),
            },
            "sizes": [
                {"size": at.size, **at.figures(), "peers": at.warm.floor.peers, "recall": at.recall} for at in found
            ],
            "missing": beside.list_missing(),
            "growth": growth(found),
        }
    if options.plot:
        _plot(options.plot, found)
    if options.page:
        tables.replace_table(Path(options.page), TABLE, write_markdown(found))
    if options.json:
        print(json.dumps(told, indent=1))
    elif options.markdown:
        print(write_markdown(found))
    else:
        _table(found, told)
    for name, problem in beside.list_missing().items():
        print(f"{name}: {problem}", file=sys.stderr)
    return 0


@contextmanager
def open_database() -> Iterator[str]:
    """Start PostgreSQL in a folder of its own, and yield its address."""
    from .fleet import run_database

    with run_database() as (_, server):
        yield server.dsn


def write_markdown(found: list[At]) -> str:
    """Return the table of the documentation."""
    rows = []
    for name, shown in PAGE_ROWS.items():
        rows.append([shown, *(_format(at.figures().get(name)) for at in found)])
    for name in beside.PEERS:
        rows.append([f"{name}, vectors given, ms", *(_format(at.warm.floor.peers.get(name)) for at in found)])
    rows.append([RECALL_ROW, *(f"{min(at.recall.values()):.3f}" for at in found)])
    return tables.write_table(["memories", *(f"{at.size:,}" for at in found)], rows)


def _format(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


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
        "warm, median": [(float(at.size), at.warm.costs.warm_p50_ms) for at in found],
        "warm, 95th percentile": [(float(at.size), at.warm.costs.warm_p95_ms) for at in found],
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
        if all(name in at.figures() for at in found):
            table.add_row(shown, *(_marked(at.figures()[name], LIMITS.get((name, at.size))) for at in found))
    for name in beside.PEERS:
        times = [_format(at.warm.floor.peers.get(name)) for at in found]
        table.add_row(f"{name}, vectors given, p50, ms", *times)
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
    parser.add_argument("--stores", type=_stores, default=["sqlite"], help="sqlite, or sqlite,postgres")
    parser.add_argument("--peers", type=int, default=100_000, help="measure other programs up to so many memories")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation")
    parser.add_argument("--page", metavar="FILE", help="write the table into this page")
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--keep", metavar="DIR", help="keep the stores in this folder and reuse them")
    parser.add_argument("--measure", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=150, help=argparse.SUPPRESS)
    return parser.parse_args()


def _sizes(given: str) -> list[int]:
    sizes = [int(size) for size in given.split(",")]
    if not sizes or any(size < 50 for size in sizes):
        raise argparse.ArgumentTypeError("sizes are whole numbers from 50 on")
    return sorted(sizes)


def _stores(given: str) -> list[str]:
    stores = given.split(",")
    if "sqlite" not in stores or not set(stores) <= {"sqlite", "postgres"}:
        raise argparse.ArgumentTypeError("stores are sqlite, or sqlite,postgres")
    return stores


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
