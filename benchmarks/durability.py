"""No write is lost: `python -m benchmarks.durability [--processes 8] [--each 500] [--kills 50] [--embedder hash]`.

1. Many processes learn on one database at once: every outcome is stored, and every heuristic has the exact count.
2. A learning process is killed with SIGKILL at random moments, repeatedly: everything it acknowledged is stored, and
   the database is consistent (rows, words and vectors agree).
3. A running process immediately retrieves what another process writes.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from alma import ALMA
from alma.app import open_memory
from alma.config import Config
from alma.ports import Checkable
from alma.types import Heuristic

STRATEGIES = ("Blue-green deployment", "Canary release to 5% of traffic", "Take a snapshot of the volume first")

_LEARN = """
import sys
from benchmarks.durability import opened, STRATEGIES
folder, embedder, start, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with opened(folder, embedder) as alma:
    for number in range(start, start + count):
        way = STRATEGIES[number % len(STRATEGIES)]
        made = alma.learn("dev", "Deploy auth service", "success", way, metadata={"number": number})
        print(made.id, flush=True)
"""

_ANSWER = """
import sys
from benchmarks.durability import opened
with opened(sys.argv[1], sys.argv[2]) as alma:
    for line in sys.stdin:
        found = alma.retrieve(line.strip(), "dev").domain_knowledge
        print(found[0].fact if found else "-", flush=True)
"""


def opened(folder: str | Path, embedder: str) -> ALMA:
    return open_memory(Config(project_id="durability", storage_dir=Path(folder), embedding_provider=embedder))


def _start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@dataclass(frozen=True)
class Together:
    wanted: int
    outcomes: int
    counted: dict[str, int]
    failed: int
    seconds: float
    damage: list[str]

    @property
    def holds(self) -> bool:
        right = self.outcomes == self.wanted == sum(self.counted.values())
        return right and len(self.counted) == len(STRATEGIES) and not self.failed and not self.damage


def together(folder: Path, processes: int, each: int, embedder: str) -> Together:
    """Let several processes learn the same few strategies at once."""
    began = time.perf_counter()
    running = [_start(_LEARN, folder, embedder, number * each, each) for number in range(processes)]
    for process in running:
        process.communicate()
    seconds = time.perf_counter() - began
    with opened(folder, embedder) as alma:
        lessons = [one for one in alma.list("heuristic") if isinstance(one, Heuristic)]
        return Together(
            wanted=processes * each,
            outcomes=alma.get_stats()["by_type"]["outcome"],
            counted={one.strategy: one.occurrence_count for one in lessons},
            failed=sum(process.returncode != 0 for process in running),
            seconds=seconds,
            damage=damage(alma),
        )


def damage(alma: ALMA) -> list[str]:
    store = alma.engine.store
    return store.check() if isinstance(store, Checkable) else []


@dataclass(frozen=True)
class Killed:
    kills: int
    acknowledged: int
    lost: int
    counted: int
    stored: int
    damage: list[str]

    @property
    def holds(self) -> bool:
        return not self.lost and not self.damage and self.counted == self.stored


def killed(folder: Path, kills: int, embedder: str, seed: int = 1) -> Killed:
    """Kill a learning process at random moments, then check that everything it acknowledged is stored."""
    chance = random.Random(seed)
    acknowledged: list[str] = []
    found: list[str] = []
    for number in range(kills):
        process = _start(_LEARN, folder, embedder, number * 100_000, 100_000)
        assert process.stdout is not None
        # The first line says that it is under way; then anything may happen.
        first = process.stdout.readline().strip()
        time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        lines = [first, *rest.splitlines(keepends=True)]
        acknowledged += [line.strip() for line in lines if line.endswith("\n") or line is first]
        if number % 10 == 9 or number == kills - 1:
            with opened(folder, embedder) as alma:
                found += damage(alma)
    with opened(folder, embedder) as alma:
        held = alma.engine.store.get(acknowledged)
        lessons = [one for one in alma.list("heuristic") if isinstance(one, Heuristic)]
        return Killed(
            kills=kills,
            acknowledged=len(acknowledged),
            lost=len(acknowledged) - len(held),
            counted=sum(one.occurrence_count for one in lessons),
            stored=alma.get_stats()["by_type"]["outcome"],
            damage=found,
        )


def seen_at_once(folder: Path, times: int, embedder: str) -> int:
    """Return how often a running process finds what another has just written, out of `times`."""
    reader = _start(_ANSWER, folder, embedder)
    assert reader.stdin is not None
    assert reader.stdout is not None
    right = 0
    with opened(folder, embedder) as alma:
        for number in range(times):
            fact = f"The secret word of round {number} is w{number * 7919}"
            alma.add_domain_knowledge("dev", "rounds", fact)
            reader.stdin.write(f"What is the secret word of round {number}?\n")
            reader.stdin.flush()
            right += reader.stdout.readline().strip() == fact
    reader.communicate()
    return right


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--each", type=int, default=500)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--embedder", default="hash")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        one = together(base / "together", options.processes, options.each, options.embedder)
        print(f"{options.processes} processes × {options.each} learn: {one.outcomes} of {one.wanted} outcomes stored,")
        print(f"  {one.counted} counted, {one.failed} failed, {one.seconds:.0f} s, damage: {one.damage or 'none'}")
        two = killed(base / "killed", options.kills, options.embedder)
        print(f"{two.kills} × kill -9: {two.acknowledged} acknowledged, {two.lost} lost; {two.stored} stored, ", end="")
        print(f"{two.counted} counted; damage: {two.damage or 'none'}")
        three = seen_at_once(base / "seen", 20, options.embedder)
        print(f"written by one process, retrieved at once by another: {three} of 20")
    holds = one.holds and two.holds and three == 20
    print("passed" if holds else "FAILED")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
