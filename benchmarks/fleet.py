"""Load and failures of several API processes on one PostgreSQL: `python -m benchmarks.fleet [--processes 4] [--json]`.

Client threads learn and retrieve through the HTTP API, one write to four reads, each as soon as it has its answer. In
the middle PostgreSQL is killed (kill -9) and started again, and later one API process. A client that gets no answer
repeats its request, with the same idempotency key, at another process. At the end every acknowledged write must be
stored exactly once. Clients, API processes and database share the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from alma.app import open_config
from alma.http import tokens
from alma.stores.postgres.server import LocalServer, find_server, start_server
from alma.types.query import Where

from ._measures import percentile
from ._report import machine
from .speed import Texts

LEARN, RETRIEVE = "learn", "retrieve"
_CONFIG = """\
alma:
  project_id: fleet
  storage: postgres
  storage_options: {{dsn: {dsn}}}
  embedding_provider: {embedder}
"""
_TOKENS = 16
_SHARE_OF_WRITES = 0.2
_PATIENCE_SECONDS = 180.0
_TRANSIENT = (408, 409, 429)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Call:
    """A request from its first attempt to its answer."""

    operation: str
    began: float
    ended: float
    sent: float
    """When the attempt that was answered was sent."""
    process: int


@dataclass
class Log:
    """What one client did."""

    calls: list[Call] = field(default_factory=list)
    writes: dict[str, str] = field(default_factory=dict)
    """The task of each acknowledged write, and its id."""
    begun: set[str] = field(default_factory=set)
    """The tasks of all writes that were sent."""
    repeats: Counter[int] = field(default_factory=Counter)
    """Attempts that failed, by status; 0 for no answer."""
    problems: list[str] = field(default_factory=list)


# -- processes


class Fleet:
    """API processes on one configuration, each on a port of its own."""

    def __init__(self, folder: Path, config: Path, count: int) -> None:
        self._folder, self._config = folder, config
        self.ports = [0] * count
        self.processes = [self._start(number) for number in range(count)]
        self.cpu: dict[int, float] = {}

    def _start(self, number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "alma.http", "--config", str(self._config), "--rate", "0"]
        command += ["--port", str(self.ports[number]), "--log-file", str(self._folder / f"requests-{number}.log")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stderr is not None
        while "://" not in (line := process.stderr.readline()):
            if not line:
                raise SystemExit(f"API process {number} did not start")
            print(line, end="", file=sys.stderr) if "error" in line.lower() else None
        self.ports[number] = int(line.strip().rpartition(":")[2])
        return process

    def replace(self, number: int) -> None:
        """Kill a process and start it again on the same port."""
        self.measure_cpu()
        process = self.processes[number]
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        self.processes[number] = self._start(number)

    def measure_cpu(self) -> float:
        """Return the CPU seconds of all processes so far, those of killed ones up to the last measurement."""
        self.cpu |= {one.pid: seconds for one in self.processes if (seconds := read_cpu(one.pid)) is not None}
        return sum(self.cpu.values())

    def stop(self) -> list[int]:
        """End all processes with SIGTERM and return their exit codes."""
        for process in self.processes:
            process.terminate()
        codes = [process.wait(60) for process in self.processes]
        for process in self.processes:
            assert process.stderr is not None
            process.stderr.close()
        return codes


def read_cpu(pid: int) -> float | None:
    """Return the CPU seconds that a process used, or None if it has ended."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(values[11]) + int(values[12])) / _TICKS


class DatabaseMeter(threading.Thread):
    """Measures the CPU time of PostgreSQL twice a second, because its processes come and go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._cpu = folder, dict[int, float]()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.5):
            self.measure_cpu()

    def measure_cpu(self) -> float:
        """Return the CPU seconds so far."""
        try:
            first = int((self._folder / "postmaster.pid").read_text().split("\n", 1)[0])
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except (OSError, ValueError):
            return sum(self._cpu.values())
        pids = [first, *map(int, children)]
        self._cpu |= {pid: seconds for pid in pids if (seconds := read_cpu(pid)) is not None}
        return sum(self._cpu.values())

    def stop(self) -> float:
        self._is_over.set()
        self.join()
        return self.measure_cpu()


@contextmanager
def run_database() -> Iterator[tuple[Path, LocalServer]]:
    """Start PostgreSQL in a folder of its own, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="alma-fleet-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # As root, PostgreSQL runs as another user, who has to reach its data.
        folder.chmod(0o711)
        server = start_server(folder / "pg")
        try:
            yield folder, server
        finally:
            if (running := find_server(folder / "pg")) is not None:
                running.stop()


# -- clients


def run_client(
    number: int, client: httpx.Client, texts: Texts, ports: Sequence[int], is_over: threading.Event, log: Log
) -> None:
    """Send requests until time is over. A request is repeated until it is answered."""
    chance, at = random.Random(number), number % len(ports)
    with client:
        while not is_over.is_set():
            arguments: dict[str, Any] = {"agent": f"agent-{number % 8}", "task": texts.task()}
            operation = LEARN if chance.random() < _SHARE_OF_WRITES else RETRIEVE
            if operation == LEARN:
                arguments["task"] += f" {number}-{len(log.begun)}"
                log.begun.add(arguments["task"])
                arguments |= {"idempotency_key": arguments["task"], "strategy_used": texts.strategy()}
                arguments["outcome"] = chance.choice(("success", "failure"))
            began = time.perf_counter()
            while True:
                # Round robin, as a balancer does.
                at = (at + 1) % len(ports)
                sent, status, answer = time.perf_counter(), 0, None
                try:
                    answer = client.post(f"http://127.0.0.1:{ports[at]}/v1/{operation}", json=arguments)
                    status = answer.status_code
                except httpx.TransportError:
                    pass
                if answer is not None and status == 200:
                    break
                log.repeats[status] += 1
                is_final = 400 <= status < 500 and status not in _TRANSIENT
                if is_final or time.perf_counter() > began + _PATIENCE_SECONDS:
                    log.problems.append(f"{operation}: {status} {answer.text[:300] if answer else 'no answer'}")
                    return
                time.sleep(chance.uniform(0.02, 0.2))
            log.calls.append(Call(operation, began, time.perf_counter(), sent, at))
            if operation == LEARN:
                log.writes[arguments["task"]] = answer.json()["id"]


# -- the run


@dataclass
class Run:
    """When what happened, on the clock of `time.perf_counter`."""

    start: float
    logs: list[Log]
    cpu: list[tuple[float, float]] = field(default_factory=list)
    """CPU seconds of the API and of PostgreSQL, at the start and before the first kill."""
    kills: dict[str, tuple[float, float, list[int]]] = field(default_factory=dict)
    """The moments of each kill and of the end of the restart, and the processes that must answer again."""
    end: float = 0.0


def run_fleet(processes: int, clients: int, seconds: float, memories: int, embedder: str) -> dict[str, Any]:
    """Run the load with its two kills and return all figures."""
    with run_database() as (folder, server):
        config = folder / "config.yaml"
        config.write_text(_CONFIG.format(dsn=json.dumps(server.dsn), embedder=embedder), encoding="utf-8")
        secrets = [tokens.add(tokens.find_file(config), f"team-{number}", "write") for number in range(_TOKENS)]
        fill_memory(config, memories)
        fleet, meter = Fleet(folder, config, processes), DatabaseMeter(server.folder)
        meter.start()
        run = run_load(fleet, meter, server, secrets, clients, seconds)
        codes = fleet.stop()
        meter.stop()
        about = {"processes": processes, "clients": clients, "memories": memories, "embedder": embedder}
        return {**about, **describe_run(run), "exit_codes": codes, **check_writes(config, run.logs)}


def run_load(
    fleet: Fleet, meter: DatabaseMeter, server: LocalServer, secrets: Sequence[str], clients: int, seconds: float
) -> Run:
    """Let the clients run, kill PostgreSQL after 40 % of the time and an API process after 70 %."""
    logs = [Log() for _ in range(clients)]
    # Made before the clock starts; all clients share what is costly to make.
    texts, certificates, is_over = Texts(2), ssl.create_default_context(), threading.Event()
    threads = []
    for number, log in enumerate(logs):
        headers = {"authorization": f"Bearer {secrets[number % len(secrets)]}"}
        client = httpx.Client(headers=headers, trust_env=False, timeout=60, verify=certificates)
        arguments = (number, client, texts, fleet.ports, is_over, log)
        threads.append(threading.Thread(target=run_client, args=arguments))
    for port in fleet.ports * 3:
        # What a process loads once is not part of a request.
        asked = {"task": texts.task(), "agent": "agent-0"}
        httpx.post(f"http://127.0.0.1:{port}/v1/retrieve", json=asked, headers=headers, verify=certificates, timeout=60)
    run = Run(time.perf_counter(), logs, [(fleet.measure_cpu(), meter.measure_cpu())])
    for thread in threads:
        thread.start()
    time.sleep(seconds * 0.4)
    run.cpu.append((fleet.measure_cpu(), meter.measure_cpu()))
    killed = time.perf_counter()
    os.kill(server.pid, signal.SIGKILL)
    start_server(server.folder)
    run.kills["postgres"] = killed, time.perf_counter(), list(range(len(fleet.ports)))
    time.sleep(seconds * 0.3)
    killed = time.perf_counter()
    fleet.replace(0)
    run.kills["api process"] = killed, time.perf_counter(), [0]
    time.sleep(seconds * 0.3)
    is_over.set()
    for thread in threads:
        thread.join()
    run.end = time.perf_counter()
    return run


def describe_run(run: Run) -> dict[str, Any]:
    calls = [call for log in run.logs for call in log.calls]
    calm = run.kills["postgres"][0]
    calm_calls = [call for call in calls if call.ended <= calm]
    before, after = run.cpu
    return {
        "seconds": run.end - run.start,
        "requests_per_second": {
            "before the kills": len(calm_calls) / (calm - run.start),
            "whole run": len(calls) / (run.end - run.start),
        },
        "latency_ms": {"before the kills": describe_latency(calm_calls), "whole run": describe_latency(calls)},
        "recovery": {name: describe_recovery(calls, *kill) for name, kill in run.kills.items()},
        "cpu_seconds_per_request": {
            name: (after[at] - before[at]) / max(1, len(calm_calls)) for at, name in enumerate(("api", "postgres"))
        },
        "repeats": dict(sum((log.repeats for log in run.logs), Counter())),
        "problems": [problem for log in run.logs for problem in log.problems],
        "machine": machine(),
    }


def fill_memory(config: Path, count: int) -> None:
    texts = Texts(1)
    with open_config(config) as alma:
        facts = [
            {"type": "domain_knowledge", "agent": "agent-0", "domain": "ops", "fact": texts.fact(n)}
            for n in range(count)
        ]
        for at in range(0, count, 500):
            alma.add_many(facts[at : at + 500])


def describe_latency(calls: Sequence[Call]) -> dict[str, dict[str, float]]:
    by_operation: defaultdict[str, list[float]] = defaultdict(list)
    for call in calls:
        by_operation[call.operation].append((call.ended - call.began) * 1000)
    return {
        name: {
            "count": len(took),
            **{f"p{round(share * 100)}": percentile(took, share) for share in (0.5, 0.95, 0.99)},
            "max": max(took),
        }
        for name, took in sorted(by_operation.items())
    }


def describe_recovery(
    calls: Sequence[Call], killed: float, restarted: float, numbers: Sequence[int]
) -> dict[str, float]:
    """Return seconds from a kill: until the program ran again, and until all of the named processes answered again.

    `longest_wait` is the longest time that a client waited for an answer around the kill.
    """
    firsts = [
        min((call.ended for call in calls if call.process == number and call.sent > killed), default=math.inf)
        for number in numbers
    ]
    waits = [call.ended - call.began for call in calls if call.began <= restarted and call.ended >= killed]
    return {
        "restarted": restarted - killed,
        "answered_again": max(firsts) - killed,
        "longest_wait": max(waits, default=0.0),
    }


def check_writes(config: Path, logs: Sequence[Log]) -> dict[str, int]:
    """Compare what is stored with what was acknowledged."""
    acknowledged = {task: id for log in logs for task, id in log.writes.items()}
    with open_config(config) as alma:
        store = alma.engine.store
        outcomes = {one.id: one.body["task"] for one in store.scan(Where(kinds={"outcome"}))}
        counted = sum(one.evidence.results for one in store.scan(Where(kinds={"strategy"})))
    stored = Counter(outcomes.values())
    return {
        "writes_acknowledged": len(acknowledged),
        "writes_lost": sum(outcomes.get(id) != task for task, id in acknowledged.items()),
        "writes_doubled": sum(count - 1 for count in stored.values()),
        "writes_stored_unasked": len(stored.keys() - {task for log in logs for task in log.begun}),
        # Every outcome is counted once in its strategy.
        "evidence_off": int(counted) - len(outcomes),
    }


def print_figures(figures: dict[str, Any]) -> None:
    print(
        f"{figures['processes']} API processes, {figures['clients']} clients, {figures['seconds']:.0f} s, "
        f"{figures['memories']} memories, embedder {figures['embedder']}"
    )
    for span, rate in figures["requests_per_second"].items():
        print(f"{span}: {rate:.0f} requests/s")
        for name, row in figures["latency_ms"][span].items():
            print(f"  {name:9}" + "".join(f"{key} {value:<10.0f}" for key, value in row.items()) + "(ms)")
    for name, row in figures["recovery"].items():
        print(f"kill -9 of {name}: " + ", ".join(f"{key} {value:.1f} s" for key, value in row.items()))
    cpu = figures["cpu_seconds_per_request"]
    print("CPU per request: " + ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in cpu.items()))
    print("writes: " + ", ".join(f"{key.removeprefix('writes_')} {figures[key]}" for key in figures if "write" in key))
    print(f"evidence off by {figures['evidence_off']}; attempts repeated by status: {figures['repeats']}")
    print(f"exit codes after SIGTERM: {figures['exit_codes']}")
    for problem in figures["problems"][:10]:
        print(f"problem: {problem}")


def is_correct(figures: dict[str, Any]) -> bool:
    """Return whether no write was lost or doubled, every client got its answers, and all processes ended well."""
    counts = ("writes_lost", "writes_doubled", "writes_stored_unasked", "evidence_off")
    return not any(figures[name] for name in counts) and not figures["problems"] and not any(figures["exit_codes"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0, help="without the time that restarts take")
    parser.add_argument("--memories", type=int, default=2000)
    parser.add_argument("--embedder", default="hash", choices=("local", "hash", "none"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    figures = run_fleet(args.processes, args.clients, args.seconds, args.memories, args.embedder)
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        print_figures(figures)
    return 0 if is_correct(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
