"""Measure the HTTP service under load: `python -m benchmarks.serve [--seconds 60] [--clients 64] [--json]`.

Many concurrent clients send requests to one service on this machine, four retrievals to one learned outcome, each as
soon as it has its answer. Reported are errors (there should be none), latencies and throughput. For comparison, the
library alone runs the same mixture in one thread, half before and half after in the same run. The clients share the
machine with the service.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alma import ALMA
from alma.app import open_config

from ._measures import percentile
from ._report import machine
from .speed import Texts

READS, WRITES = "reads", "writes"
_CONFIG = "alma:\n  project_id: bench\n  storage: sqlite\n  storage_dir: .alma\n  embedding_provider: {embedder}\n"
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
_SHARE_OF_WRITES = 0.2
_LIBRARY_SECONDS = 10.0


@dataclass
class Tally:
    """How many requests were done, and how long each took."""

    seconds: float = 0.0
    took: dict[str, list[float]] = field(default_factory=lambda: {READS: [], WRITES: []})
    errors: list[str] = field(default_factory=list)

    def rate(self, what: str) -> float:
        return len(self.took[what]) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Row:
    what: str
    done: int
    a_second: float
    p50_ms: float
    p99_ms: float
    library_a_second: float
    library_p50_ms: float


class Asking:
    """The requests of one client: synthetic, varied, and the same for the library and over HTTP."""

    def __init__(self, seed: int) -> None:
        self._texts = Texts(seed)
        self._random = random.Random(seed)

    def next(self) -> tuple[str, str, dict[str, Any]]:
        if self._random.random() >= _SHARE_OF_WRITES:
            return READS, "retrieve", {"task": self._texts.task(), "agent": "dev"}
        learned = {"agent": "dev", "task": self._texts.task(), "outcome": self._random.choice(("success", "failure"))}
        return WRITES, "learn", {**learned, "strategy_used": self._texts.strategy()}


# -- the library


def library(config: Path, seconds: float, seed: int, tally: Tally) -> None:
    with open_config(config) as alma:
        asking, began = Asking(seed), time.perf_counter()
        while (at := time.perf_counter()) - began < seconds:
            what, name, arguments = asking.next()
            getattr(alma, name)(**arguments)
            tally.took[what].append(time.perf_counter() - at)
        tally.seconds += time.perf_counter() - began


def fill(alma: ALMA, count: int) -> None:
    texts = Texts(1)
    facts = [{"type": "domain_knowledge", "agent": "dev", "domain": "ops", "fact": texts.fact(n)} for n in range(count)]
    for at in range(0, count, 500):
        alma.add_many(facts[at : at + 500])


# -- over HTTP


@contextmanager
def service(config: Path, log: Path) -> Iterator[tuple[str, int, str]]:
    """Start the service and yield its address and token."""
    command = [sys.executable, "-m", "alma.http", "--config", str(config), "--port", "0", "--rate", "0"]
    command += ["--log-file", str(log)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **_ONE_THREAD}) as process:
        assert process.stderr is not None
        try:
            while "://" not in (line := process.stderr.readline()):
                if not line:
                    raise SystemExit("the service did not start")
            host, _, port = line.split("://")[1].strip().rpartition(":")
            yield host, int(port), (config.parent / "http-token").read_text(encoding="ascii").strip()
        finally:
            process.terminate()
            process.wait(60)


class Line:
    """One connection that is kept open. Written by hand, because a full client would dominate the measurement."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port = host, port
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, operation: str, arguments: dict[str, Any]) -> tuple[int, bytes]:
        body = json.dumps(arguments).encode()
        head = f"POST /v1/{operation} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answered.split("content-length:")[1].split("\r\n")[0])
        return int(answered.split(" ", 2)[1]), await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def client(line: Line, asking: Asking, until: float, tally: Tally) -> None:
    await line.open()
    while (at := time.perf_counter()) < until:
        what, operation, arguments = asking.next()
        try:
            status, answer = await line.ask(operation, arguments)
        except (OSError, asyncio.IncompleteReadError) as error:
            tally.errors.append(repr(error))
            return
        if status != 200:
            tally.errors.append(f"{status} {answer[:200]!r}")
        tally.took[what].append(time.perf_counter() - at)
    await line.close()


async def load(host: str, port: int, token: str, clients: int, seconds: float) -> Tally:
    # One request first, so that opening the memory and its model is not counted.
    first = Line(host, port, token)
    await first.open()
    await first.ask("retrieve", {"task": "warm up", "agent": "dev"})
    await first.close()
    everybody = [(Line(host, port, token), Asking(100 + at)) for at in range(clients)]
    tally, began = Tally(), time.perf_counter()
    await asyncio.gather(*(client(line, asking, began + seconds, tally) for line, asking in everybody))
    tally.seconds = time.perf_counter() - began
    return tally


# -- together


def measured(seconds: float, clients: int, memories: int, embedder: str) -> tuple[Tally, Tally, int]:
    """Return the results over HTTP and of the library, and how many outcomes are stored at the end."""
    with tempfile.TemporaryDirectory(prefix="alma-bench-") as folder:
        config = Path(folder) / ".alma" / "config.yaml"
        config.parent.mkdir()
        config.write_text(_CONFIG.format(embedder=embedder), encoding="utf-8")
        with open_config(config) as alma:
            fill(alma, memories)
        alone = Tally()
        half = min(_LIBRARY_SECONDS, seconds) / 2
        library(config, half, 7, alone)
        with service(config, Path(folder) / "requests.log") as (host, port, token):
            served = asyncio.run(load(host, port, token, clients, seconds))
        library(config, half, 8, alone)
        with open_config(config) as alma:
            return served, alone, alma.get_stats()["by_type"]["outcome"]


def rows(served: Tally, alone: Tally) -> list[Row]:
    return [
        Row(
            what=what,
            done=len(served.took[what]),
            a_second=served.rate(what),
            p50_ms=percentile(served.took[what], 0.5) * 1000,
            p99_ms=percentile(served.took[what], 0.99) * 1000,
            library_a_second=alone.rate(what),
            library_p50_ms=percentile(alone.took[what], 0.5) * 1000,
        )
        for what in (READS, WRITES)
    ]


def show(told: dict[str, Any]) -> None:
    print(f"{told['clients']} clients for {told['seconds']:.0f} s, {told['memories']} memories, {told['embedder']}")
    print(f"{'':8}{'done':>8}{'per s':>10}{'p50 ms':>9}{'p99 ms':>9}   library alone: {'per s':>9}{'p50 ms':>8}")
    for row in told["rows"]:
        print(
            f"{row['what']:8}{row['done']:8}{row['a_second']:10.1f}{row['p50_ms']:9.1f}{row['p99_ms']:9.1f}"
            f"{'':18}{row['library_a_second']:9.1f}{row['library_p50_ms']:8.1f}"
        )
    print(f"errors: {len(told['errors'])}; acknowledged writes that are missing: {told['lost']}")
    for one in told["errors"][:5]:
        print(f"  {one}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--memories", type=int, default=2000)
    parser.add_argument("--embedder", default="local", choices=("local", "hash", "none"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    os.environ |= _ONE_THREAD
    served, alone, held = measured(args.seconds, args.clients, args.memories, args.embedder)
    told = {
        "clients": args.clients,
        "seconds": served.seconds,
        "memories": args.memories,
        "embedder": args.embedder,
        "rows": [asdict(row) for row in rows(served, alone)],
        "errors": served.errors,
        "lost": max(0, len(served.took[WRITES]) + len(alone.took[WRITES]) - held),
        "machine": machine(),
    }
    if args.json:
        print(json.dumps(told, indent=2))
    else:
        show(told)
    return 1 if served.errors or told["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
