"""Measure the HTTP service under load: `python -m benchmarks.serve [--clients 16] [--seconds 20] [--workers 1,2]`.

What ships is measured: `alma serve` with the bundled embedder, on SQLite and, with `--stores sqlite,postgres`, on
PostgreSQL. Many concurrent clients send one kind of request after the other, each as soon as it has its answer: reading
one memory, which shows what HTTP itself costs, then retrievals, then additions. Reported are throughput, latencies, the
CPU time of the service for each request, and how many requests were refused because they would have waited too long. A
refused client comes back when it is told to. There should be no errors, and no acknowledged addition may be missing.

The clients share the machine with the service. `--markdown` prints the table of the documentation, `--page FILE` writes
it into that page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.app import open_config

from . import _tables as tables
from ._measures import percentile
from ._report import machine
from .speed import Texts

TABLE = "serve"
"""The name of the table in the documentation."""
COLUMNS = (
    *("store, workers", "retrievals/s", "p50, ms", "p95, ms", "CPU each, ms", "refused"),
    *("adds/s", "p95, ms", "reads of one memory/s", "CPU each, ms"),
)
READ, RETRIEVE, ADD = "get", "retrieve", "add_knowledge"
_CONFIG = "alma:\n  project_id: bench\n  {store}\n  embedding_provider: {embedder}\n"
_STORES = {
    "sqlite": "storage: sqlite\n  storage_dir: .alma",
    "postgres": "storage: postgres\n  storage_options: {{dsn: '{dsn}'}}",
}
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
_BATCH = 500
Address = tuple[str, int, str]
"""The host, the port and the token of a service."""


@dataclass
class Tally:
    """What the clients of one kind of request got."""

    seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    refused: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One kind of request, on one store and with so many workers."""

    store: str
    workers: int
    operation: str
    done: int
    a_second: float
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    """Of the service, for each request."""
    refused: int


@dataclass
class Result:
    """What was measured on one store with so many workers."""

    rows: list[Row]
    errors: list[str]
    lost: int


# -- requests


def make_requests(operation: str, texts: Texts, number: int, memory_id: str) -> Callable[[], dict[str, Any]]:
    """Return what makes the arguments of one client's requests: synthetic, varied, and the same in every run."""
    if operation == READ:
        return lambda: {"memory_id": memory_id}
    if operation == RETRIEVE:
        return lambda: {"task": texts.task(), "agent": "dev"}
    return lambda: {"agent": "dev", "domain": "ops", "fact": texts.fact(number)}


def fill(alma: ALMA, count: int) -> str:
    """Store so many facts, and return the id of one."""
    texts = Texts(1)
    facts = [{"type": "domain_knowledge", "agent": "dev", "domain": "ops", "fact": texts.fact(n)} for n in range(count)]
    for start in range(0, count, _BATCH):
        alma.add_many(facts[start : start + _BATCH])
    return alma.list(limit=1)[0].id


# -- the service


@contextmanager
def service(config: Path, log: Path, options: Sequence[str]) -> Iterator[tuple[int, Address]]:
    """Start the service and yield its process id and address."""
    command = [sys.executable, "-m", "alma.http", "--config", str(config), "--port", "0", "--rate", "0"]
    command += ["--log-file", str(log), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **_ONE_THREAD}) as process:
        assert process.stderr is not None
        try:
            while "://" not in (line := process.stderr.readline()):
                if not line:
                    raise SystemExit("the service did not start")
            host, _, port = line.split("://")[1].strip().rpartition(":")
            token = (config.parent / "http-token").read_text(encoding="ascii").strip()
            yield process.pid, (host, int(port), token)
        finally:
            process.terminate()
            process.wait(60)


def read_cpu(pid: int) -> float:
    """Return the CPU seconds that a process and its children have used; 0 where the system does not say."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(read_cpu(int(child)) for child in children)


# -- clients


class Line:
    """One connection that is kept open. Written by hand, because a full client would dominate the measurement."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port = host, port
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, operation: str, arguments: dict[str, Any]) -> tuple[int, float, bytes]:
        """Return the status of an answer, the seconds after which to come back, and the body."""
        body = json.dumps(arguments).encode()
        head = f"POST /v1/{operation} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answered.split("content-length:")[1].split("\r\n")[0])
        pause = float(answered.split("retry-after:")[1].split("\r\n")[0]) if "retry-after:" in answered else 0.0
        return int(answered.split(" ", 2)[1]), pause, await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def run_client(
    line: Line, operation: str, make_arguments: Callable[[], dict[str, Any]], until: float, tally: Tally
) -> None:
    """Send requests until the time is over, and at least until one was answered."""
    await line.open()
    is_answered = False
    while (began := time.perf_counter()) < until or not is_answered:
        try:
            status, pause, answer = await line.ask(operation, make_arguments())
        except (OSError, asyncio.IncompleteReadError) as error:
            tally.errors.append(repr(error))
            return
        if status == 200:
            is_answered = True
            tally.took.append(time.perf_counter() - began)
        elif status == 429:
            tally.refused += 1
            await asyncio.sleep(pause)
        else:
            is_answered = True
            tally.errors.append(f"{status} {answer[:200]!r}")
    await line.close()


async def load(address: Address, operation: str, clients: int, seconds: float, memory_id: str, warm_ups: int) -> Tally:
    """Return what so many clients get in so many seconds."""
    # A few requests first, so that opening the memory and its model is not counted.
    for _ in range(warm_ups):
        line = Line(*address)
        await line.open()
        await line.ask(RETRIEVE, {"task": "warm up", "agent": "dev"})
        await line.close()
    texts = Texts(100)
    tally, began = Tally(), time.perf_counter()
    running = []
    for number in range(100, 100 + clients):
        make_arguments = make_requests(operation, texts.vary(number), number, memory_id)
        running.append(run_client(Line(*address), operation, make_arguments, began + seconds, tally))
    await asyncio.gather(*running)
    tally.seconds = time.perf_counter() - began
    return tally


# -- together


def measure(store: str, dsn: str, workers: int, options: argparse.Namespace) -> Result:
    """Return what the clients get from a service on a new store."""
    with tempfile.TemporaryDirectory(prefix="alma-bench-") as folder:
        config = Path(folder) / ".alma" / "config.yaml"
        config.parent.mkdir()
        lines = _STORES[store].format(dsn=dsn)
        config.write_text(_CONFIG.format(store=lines, embedder=options.embedder), encoding="utf-8")
        with open_config(config, trust=True) as alma:
            memory_id = fill(alma, options.memories)
            before = alma.get_stats()["total_count"]
        rows, errors, added = [], [], 0
        more = ["--workers", str(workers), *options.serve]
        with service(config, Path(folder) / "requests.log", more) as (pid, address):
            for operation in (READ, RETRIEVE, ADD):
                used = read_cpu(pid)
                work = load(address, operation, options.clients, options.seconds, memory_id, 2 * workers)
                tally = asyncio.run(work)
                cpu = read_cpu(pid) - used
                rows.append(_make_row(store, workers, operation, tally, cpu))
                errors += tally.errors
                added = len(tally.took) if operation == ADD else 0
        with open_config(config, trust=True) as alma:
            # A fact that is said again confirms the one that is stored, so nothing may be missing from this sum.
            stored = alma.get_stats()["total_count"] - before
        return Result(rows, errors, max(0, added - stored))


def _make_row(store: str, workers: int, operation: str, tally: Tally, cpu: float) -> Row:
    done = len(tally.took)
    return Row(
        store=store,
        workers=workers,
        operation=operation,
        done=done,
        a_second=done / tally.seconds,
        p50_ms=percentile(tally.took, 0.5) * 1000 if done else 0.0,
        p95_ms=percentile(tally.took, 0.95) * 1000 if done else 0.0,
        cpu_ms=cpu * 1000 / max(1, done),
        refused=tally.refused,
    )


def write_markdown(results: Sequence[Result]) -> str:
    """Return the table of the documentation."""
    lines = []
    for result in results:
        read, retrieve, add = result.rows
        cells = [f"{read.store}, {read.workers}", f"{retrieve.a_second:.0f}", f"{retrieve.p50_ms:.0f}"]
        cells += [f"{retrieve.p95_ms:.0f}", f"{retrieve.cpu_ms:.0f}", f"{retrieve.refused}"]
        cells += [f"{add.a_second:.0f}", f"{add.p95_ms:.0f}", f"{read.a_second:.0f}", f"{read.cpu_ms:.1f}"]
        lines.append(cells)
    return tables.write_table(COLUMNS, lines)


def show(told: dict[str, Any], results: Sequence[Result]) -> None:
    print(f"{told['clients']} clients for {told['seconds']:.0f} s, {told['memories']} memories, {told['embedder']}")
    print(f"{'':28}{'done':>8}{'per s':>9}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>8}{'refused':>9}")
    for result in results:
        for row in result.rows:
            print(
                f"{row.store:9}{row.workers:3} {row.operation:15}{row.done:8}{row.a_second:9.1f}{row.p50_ms:9.1f}"
                f"{row.p95_ms:9.1f}{row.cpu_ms:8.1f}{row.refused:9}"
            )
    print(f"errors: {len(told['errors'])}; acknowledged additions that are missing: {told['lost']}")
    for problem in told["errors"][:5]:
        print(f"  {problem}")


def _read_list(given: str) -> list[str]:
    return given.split(",")


def _parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each kind of request")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--embedder", default="local", choices=("local", "hash", "none"))
    parser.add_argument("--stores", type=_read_list, default=["sqlite"], help="sqlite, postgres, or both with a comma")
    parser.add_argument("--workers", type=_read_list, default=["1", "2"], help="numbers of processes, such as 1,2")
    parser.add_argument("--serve", action="append", default=[], metavar="OPTION", help="passed to the service")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation")
    parser.add_argument("--page", metavar="FILE", help="write the table into this page")
    return parser.parse_args(argv)


@contextmanager
def open_database() -> Iterator[str]:
    """Start PostgreSQL in a folder of its own, and yield its address."""
    from .fleet import run_database

    with run_database() as (_, server):
        yield server.dsn


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse_options(argv)
    os.environ |= _ONE_THREAD
    results = []
    for store in options.stores:
        for workers in map(int, options.workers):
            with open_database() if store == "postgres" else nullcontext("") as dsn:
                results.append(measure(store, dsn, workers, options))
    told = {
        "clients": options.clients,
        "seconds": options.seconds,
        "memories": options.memories,
        "embedder": options.embedder,
        "rows": [asdict(row) for result in results for row in result.rows],
        "errors": [error for result in results for error in result.errors],
        "lost": sum(result.lost for result in results),
        "machine": machine(),
    }
    if options.page:
        tables.replace_table(Path(options.page), TABLE, write_markdown(results))
    if options.json:
        print(json.dumps(told, indent=2))
    elif options.markdown:
        print(write_markdown(results))
    else:
        show(told, results)
    return 1 if told["errors"] or told["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
