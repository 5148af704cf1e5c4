"""Check that quality has not regressed: `make gate DATA=folder [ONLY=slike,locomo]`.

Each part runs a benchmark and prints its figures next to their limits and the baseline they were measured against. The
exit code is 1 if a limit is missed or a part fails, and 2 if nothing could be run. `folder` holds the development data:
`longmemeval_oracle_dev.json.gz` with `haystack.py`, `locomo_dev.json.gz`, `worlds/dev.jsonl` with `score.py`, and
`learning/outcomes.jsonl`. Parts whose files are missing are skipped. Haystacks and vectors are cached in `--cache`.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from alma.engine.calls import ignore_progress

from . import _data, _outcomes, _runner, _scale_world, durability, hooks, learning, scale
from ._embedder import Remembering, finishing
from ._trial import Level

ORACLE, HAYSTACK = Path("longmemeval_oracle_dev.json.gz"), Path("haystack.py")
LOCOMO = Path("locomo_dev.json.gz")
WORLDS, WORLDS_SCORER = Path("worlds/dev.jsonl"), Path("worlds/score.py")
OUTCOMES = Path("learning/outcomes.jsonl")
_EPSILON = 1e-9


@dataclass(frozen=True)
class Limit:
    name: str
    baseline: float | None
    at_least: float | None = None
    at_most: float | None = None

    def allows(self, value: float) -> bool:
        too_low = self.at_least is not None and value < self.at_least - _EPSILON
        too_high = self.at_most is not None and value > self.at_most + _EPSILON
        return not too_low and not too_high

    def describe(self) -> str:
        return f"≥ {self.at_least:.3f}" if self.at_least is not None else f"≤ {self.at_most:.3f}"


@dataclass(frozen=True)
class Part:
    """A benchmark: the files of the data folder that it needs, its limits, and the function that measures it."""

    needs: tuple[Path, ...]
    limits: tuple[Limit, ...]
    measure: Callable[[Path, Path], dict[str, float]]
    """From the data folder and the cache to a value for the name of each limit."""


def make_haystack(data: Path, cache: Path, kind: str) -> Path:
    """Return the haystack of a kind, from the cache or made by the data folder's own script."""
    sources = hash_files(data, (ORACLE, HAYSTACK))
    file = cache / f"{kind}-{sources}.json.gz"
    if not file.exists():
        draft = file.with_suffix(".draft.gz")
        script, oracle = str(data / HAYSTACK), str(data / ORACLE)
        subprocess.run([sys.executable, script, oracle, "--kind", kind, "--out", str(draft)], check=True)
        draft.rename(file)
    return file


def measure_recall(data: _data.Data, cache: Path, level: Level) -> dict[str, float]:
    arguments = ["--data", data.file, "--cache", str(cache / "vectors.db")]
    options = _runner.parser("gate", None).parse_args(arguments)
    figures = _runner.measured(f"gate: {data.file}", data, options, (level,), each=0)
    row: dict[str, float] = figures["systems"][0]["levels"][level]["all"]
    return row


def measure_slike(data: Path, cache: Path) -> dict[str, float]:
    return measure_recall(_data.longmemeval(make_haystack(data, cache, "slike")), cache, "session")


def measure_pool(data: Path, cache: Path) -> dict[str, float]:
    return measure_recall(_data.longmemeval(make_haystack(data, cache, "pool")), cache, "session")


def measure_locomo(data: Path, cache: Path) -> dict[str, float]:
    return measure_recall(_data.locomo(data / LOCOMO), cache, "turn")


def measure_worlds(data: Path, cache: Path) -> dict[str, float]:
    """Run the data folder's own scorer, which uses only the public interface, and parse the lines that it prints."""
    command = [sys.executable, str(data / WORLDS_SCORER), str(data / WORLDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    rows: dict[str, dict[str, float]] = {}
    for line in done.stdout.splitlines():
        group, _, figures = line.partition(" n ")
        words = f"n {figures}".split()
        rows[group.strip()] = {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    return {
        "right": rows["headline"]["right"],
        "right in English": rows["headline en"]["right"],
        "updates right": rows["update"]["right"],
        "shown on silent": rows["silent en"]["shown"],
    }


def measure_outcomes(data: Path, cache: Path) -> dict[str, float]:
    rows, _ = learning.read(data / OUTCOMES)
    embedder = Remembering(_runner.EMBEDDERS["local"](), cache / "vectors.db")
    with finishing(embedder), learning.memory(embedder) as (alma, clock):
        figures = _outcomes.measure(alma, clock, rows, lambda done: None)["figures"]
    return {"Brier": figures["all"][_outcomes.FORWARD]["Brier"]}


def measure_hooks(data: Path, cache: Path) -> dict[str, float]:
    costs, _ = hooks.measure_costs(runs=10, one_project=False)
    return {"CPU ms": max(cost.cpu for cost in costs if cost.holds is not None)}


def measure_retrieval(data: Path, cache: Path) -> dict[str, float]:
    """Return the CPU time of a retrieval as shipped, at 10,000 memories, over its floor."""
    with tempfile.TemporaryDirectory() as scratch:
        world = _scale_world.world(None, cache, ignore_progress)
        return {"over the floor": scale.measure_ratio(Path(scratch), 10_000, world)}


def measure_durability(data: Path, cache: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        crowd = durability.together(Path(scratch) / "together", processes=4, each=100, embedder="hash")
        killed = durability.killed(Path(scratch) / "killed", kills=10, embedder="hash")
        seen = durability.seen_at_once(Path(scratch) / "seen", 20, "hash")
    return {
        "not counted": crowd.wanted - sum(crowd.counted.values()) + crowd.failed,
        "lost": killed.lost,
        "damage": len(crowd.damage) + len(killed.damage),
        "seen at once": seen / 20,
    }


PARTS = {
    "slike": Part(
        (ORACLE, HAYSTACK),
        (
            Limit("any@5", 228 / 231, at_least=225 / 231),
            Limit("all@5", 212 / 231, at_least=209 / 231),
        ),
        measure_slike,
    ),
    "pool": Part(
        (ORACLE, HAYSTACK),
        (
            Limit("any@5", 214 / 231, at_least=211 / 231),
            Limit("all@5", 177 / 231, at_least=174 / 231),
        ),
        measure_pool,
    ),
    "locomo": Part((LOCOMO,), (Limit("any@10", 637 / 760, at_least=633 / 760),), measure_locomo),
    "worlds": Part(
        (WORLDS, WORLDS_SCORER),
        (
            Limit("right", 0.717, at_least=0.71),
            Limit("right in English", 0.747, at_least=0.745),
            Limit("updates right", 0.73, at_least=0.66),
            Limit("shown on silent", 2.14, at_most=1.7),
        ),
        measure_worlds,
    ),
    "outcomes": Part((OUTCOMES,), (Limit("Brier", 0.138, at_most=0.142),), measure_outcomes),
    "hooks": Part((), (Limit("CPU ms", 31, at_most=hooks.CPU_MS),), measure_hooks),
    "retrieval": Part((), (Limit("over the floor", 60, at_most=90),), measure_retrieval),
    "durability": Part(
        (),
        (
            Limit("not counted", 0, at_most=0),
            Limit("lost", 0, at_most=0),
            Limit("damage", 0, at_most=0),
            Limit("seen at once", 1, at_least=1),
        ),
        measure_durability,
    ),
}


def hash_files(folder: Path, names: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()[:12]


def check_part(name: str, data: Path | None, cache: Path) -> bool | None:
    """Run a part and print its figures. Return whether all limits are met, or None if its data is missing."""
    part = PARTS[name]
    missing = [file for file in part.needs if data is None or not (data / file).exists()]
    if missing:
        print(f"{name:11} skipped: DATA has no {missing[0]}", flush=True)
        return None
    folder = data or Path()
    source = f"data {hash_files(folder, part.needs[:1])}" if part.needs else ""
    try:
        values = part.measure(folder, cache)
    except Exception as error:  # noqa: BLE001 - a broken part must not hide the others
        print(f"{name:11} FAILED: {type(error).__name__}: {error}", flush=True)
        return False
    for limit in part.limits:
        value, verdict = values[limit.name], "ok" if limit.allows(values[limit.name]) else "MISSED"
        line = f"{name:11} {limit.name:17} {value:8.3f}  {limit.describe():9} baseline {limit.baseline:6.3f}"
        print(f"{line}  {verdict:6}  {source}".rstrip(), flush=True)
    return all(limit.allows(values[limit.name]) for limit in part.limits)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the development data; without it, only parts that need none run"
    )
    parser.add_argument(
        "--only", default=",".join(PARTS), metavar="PART,…", help=f"run only these parts: {', '.join(PARTS)}"
    )
    parser.add_argument("--cache", type=Path, default=Path(".gate"), metavar="DIR")
    options = parser.parse_args(argv)
    names = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    options.cache.mkdir(parents=True, exist_ok=True)
    results = [check_part(name, options.data, options.cache) for name in names]
    if all(result is None for result in results):
        return 2
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
