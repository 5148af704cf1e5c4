"""Claims are exclusive: `python -m benchmarks.claims [--processes 20] [--items 500] [--strategy priority]`.

Many processes claim items from one list until none is left. Each item must be claimed exactly once, according to both
the process and the store. With `--finish`, each item is also finished before the next is claimed, which unblocks some
others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from alma import ALMA
from alma.app import open_memory
from alma.config import Config
from alma.progress import ProgressTracker, Status

_CLAIM = """
import sys, time
from benchmarks.claims import opened
from alma.progress import ProgressTracker
folder, name, strategy, finish = sys.argv[1:5]
with opened(folder) as alma:
    tracker = ProgressTracker(alma=alma)
    tracker.get_progress_summary()
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        began = time.perf_counter()
        item = tracker.claim_next(name, 3600, strategy)
        took = time.perf_counter() - began
        if item is None:
            break
        if finish == "yes":
            tracker.update_status(item.id, "done", by=name)
        print(item.id, took, flush=True)
"""


def opened(folder: str | Path) -> ALMA:
    return open_memory(Config(project_id="claims", storage_dir=Path(folder), embedding_provider="none"))


@dataclass(frozen=True)
class Claimed:
    items: int
    claims: int
    twice: int
    """How many items more than one process got."""
    stored: int
    """How many the store says are claimed by, or done by, somebody."""
    failed: int
    seconds: float
    waits_ms: tuple[float, ...]

    @property
    def holds(self) -> bool:
        return self.claims == self.stored == self.items and not self.twice and not self.failed


def fill(folder: Path, items: int, chained: bool) -> None:
    """Create the items; with chains, every fifth item waits for the one before it."""
    with opened(folder) as alma:
        tracker = ProgressTracker(alma=alma)
        tracker.create_work_items(
            {
                "id": f"item-{number}",
                "title": f"Item {number}",
                "priority": number % 101,
                "blocked_by": [f"item-{number - 1}"] if chained and number % 5 == 4 else [],
            }
            for number in range(items)
        )


def run(folder: Path, processes: int, items: int, strategy: str, finish: bool) -> Claimed:
    fill(folder, items, chained=finish)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIM, str(folder), f"worker-{number}", strategy, "yes" if finish else "no"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    began = time.perf_counter()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in running]
    seconds = time.perf_counter() - began
    claims = [line.split() for output in told for line in output.splitlines()]
    by_item = Counter(id for id, _ in claims)
    return Claimed(
        items=items,
        claims=len(claims),
        twice=sum(many > 1 for many in by_item.values()),
        stored=stored(folder, finish),
        failed=sum(process.returncode != 0 for process in running),
        seconds=seconds,
        waits_ms=tuple(1000 * float(took) for _, took in claims),
    )


def stored(folder: Path, finish: bool) -> int:
    with opened(folder) as alma:
        items = ProgressTracker(alma=alma).list_items(Status.DONE if finish else Status.IN_PROGRESS)
    return sum(item.attempt_count == 1 and (finish or item.claimed_by is not None) for item in items)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--strategy", default="priority")
    given = parser.parse_args(arguments)
    holds = True
    for finish in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            result = run(Path(folder), given.processes, given.items, given.strategy, finish)
        holds &= result.holds
        waits = result.waits_ms or (0.0, 0.0)
        print(
            f"{'claim and finish' if finish else 'claim':<17} {given.processes} processes, {result.items} items: "
            f"{result.claims} claims, {result.twice} items claimed twice, {result.stored} as the store says, "
            f"{result.failed} processes failed; {result.claims / result.seconds:,.0f} claims/s, "
            f"median {median(waits):.0f} ms, p95 {quantiles(waits, n=20)[-1]:.0f} ms"
        )
    print("each item was claimed once" if holds else "NOT every item was claimed once")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
