"""Measure the cost of a hook: `python -m benchmarks.hooks [--runs N] [--sessions N] [--json] [--one-project]`.

Each event is sent to the real launcher in a real process, with ten thousand stored memories and no worker running. CPU
is the time that the system charged to the process (user and system); wall is the time from its start to its end. A bare
interpreter is measured in the same rounds, because on a busy machine only the difference is meaningful. The drain that
some events start is a separate process and is not counted; here it has nothing to do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import claude_smart

from . import _hook_world as world
from ._measures import percentile

CPU_MS = 50
WALL_MS = 100
_BARE = "python -I -S -c pass"
_USUAL = "python -c pass"
HOOK = str(Path(claude_smart.__file__).with_name("hook.py"))


@dataclass(frozen=True)
class Cost:
    """Costs in milliseconds."""

    what: str
    cpu: float
    cpu_p95: float
    wall: float
    wall_p95: float
    holds: bool | None = None


def spent(command: Sequence[str], given: bytes, environ: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU and wall time of one process in milliseconds."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environ)
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000, wall * 1000


def measured(home: Path, cwd: Path, runs: int) -> list[Cost]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    commands: dict[str, list[str]] = {
        _USUAL: [sys.executable, "-c", "pass"],
        _BARE: [sys.executable, "-I", "-S", "-c", "pass"],
    }
    commands |= {
        name: [sys.executable, "-I", "-S", HOOK, name, "--home", str(home)] for name in (*world.EVENTS, *world.MORE)
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            _rested(home)
            given = world.payload(name, cwd, f"bench-{turn}") if name not in (_USUAL, _BARE) else b""
            times[name].append(spent(command, given, environ))
    # The first round compiles what the others find compiled.
    return [_cost(name, found[1:]) for name, found in times.items()]


def _rested(home: Path) -> None:
    """Restore the state after a pause: no worker was woken recently, and no rules were shown."""
    shutil.rmtree(home / "sessions", ignore_errors=True)


def _cost(name: str, times: Sequence[tuple[float, float]]) -> Cost:
    cpu, wall = zip(*times, strict=True)
    holds = None if name in (_USUAL, _BARE) else median(cpu) <= CPU_MS and percentile(wall, 0.95) <= WALL_MS
    return Cost(name, median(cpu), percentile(cpu, 0.95), median(wall), percentile(wall, 0.95), holds)


def machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(terse=True),
        "sqlite": sqlite3.sqlite_version,
    }


def measure_costs(runs: int, one_project: bool, sessions: int = 0) -> tuple[list[Cost], dict[str, int]]:
    """Return the cost of each event with ten thousand stored memories, and what is stored.

    `sessions` adds the exchanges of so many sessions, which are shown as evidence.
    """
    rules, own, turns = (10_000, 10_000, 10_000) if one_project else (2000, 300, 8000)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.mkdir(mode=0o700)
        world.fill(home, rules, own, turns, sessions)
        costs = measured(home, world.repository(Path(scratch) / "app"), runs)
    return costs, {"rules": rules, "of the project": own, "turns": turns, "sessions": sessions}


def main() -> int:
    options = _arguments()
    costs, stored = measure_costs(options.runs, options.one_project, options.sessions)
    if options.json:
        print(json.dumps({"machine": machine(), "stored": stored, "costs": [asdict(cost) for cost in costs]}, indent=1))
    else:
        _table(costs, stored)
    return 0 if all(cost.holds is not False for cost in costs) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hooks", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="how often each event is sent")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sessions", type=int, default=0, help="sessions with four exchanges each in the project")
    parser.add_argument("--one-project", action="store_true", help="10,000 rules and 10,000 turns, all of one project")
    return parser.parse_args()


def _table(costs: Sequence[Cost], stored: Mapping[str, int]) -> None:
    from rich.console import Console
    from rich.table import Table

    told = {**stored, **machine()}
    table = Table(title="claude-smart: hooks", caption=", ".join(f"{name} {value}" for name, value in told.items()))
    table.add_column("milliseconds")
    for column in ("CPU median", "CPU p95", "wall median", "wall p95"):
        table.add_column(column, justify="right")
    table.add_column(f"CPU ≤ {CPU_MS}, wall p95 ≤ {WALL_MS}")
    for cost in costs:
        mark = "" if cost.holds is None else "[green]yes" if cost.holds else "[red]no"
        table.add_row(
            cost.what, *(f"{value:.1f}" for value in (cost.cpu, cost.cpu_p95, cost.wall, cost.wall_p95)), mark
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
