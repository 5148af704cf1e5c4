"""Check the product's promises for daily work: `python -m benchmarks.promises [--data DIR] [--json]`.

domains             each preset makes a memory that learns and retrieves
session reload      a cold process reads where an agent left off, in a project with many records
items tracked       several processes create work items, some are killed: every acknowledged item is stored
confidence          outcomes are predicted, then observed: how often the prediction was on the right side of one half
other domains       the examples of a research assistant and of a sales agent run from start to end

With `--data`, the outcomes are those of `outcomes.jsonl` in the folder; without it, a small synthetic history is used.
The last line reports whether all promises hold; if not, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from alma import ALMA
from alma.app import open_memory
from alma.confidence import ConfidenceEngine
from alma.config import Config
from alma.domains import DomainMemoryFactory
from alma.errors import ALMAError
from alma.progress import ProgressTracker
from alma.types import Result

from . import _report, reload
from ._data import DataError
from ._embedder import Remembering, finishing
from ._product import AGENT
from ._runner import EMBEDDERS
from ._simulation import STRATEGIES, Setting, rounds
from .learning import memory, read

PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")
EXAMPLES = ("research_assistant.py", "sales_agent.py")
_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_EXAMPLE_SECONDS = 120
_RIGHT_ENOUGH = 0.7
_MADE_UP = 300
_WORLD = Setting("made up", 6, 0.9, (0.05, 0.25))


@dataclass(frozen=True)
class Promise:
    what: str
    asked: str
    measured: float
    unit: str
    holds: bool
    how: str
    """What it was measured on."""


# -- domains


def domains(folder: Path, presets: Iterable[str] = PRESETS) -> Promise:
    working = [name for name in presets if _works(name, folder)]
    return Promise(
        "domains", "6 work", len(working), "", len(working) >= 6, f"learned and found again: {', '.join(working)}"
    )


def _works(preset: str, folder: Path) -> bool:
    """Return whether a strategy that worked often enough in a domain is retrieved for a similar task."""
    task, strategy = f"Prepare the {preset.replace('_', ' ')} work for Monday", "start from the last accepted version"
    schema = DomainMemoryFactory.get_schema(preset)
    with DomainMemoryFactory().create_alma(schema, f"try-{preset}", folder / preset) as alma:
        for _ in range(schema.min_occurrences_for_heuristic or 3):
            alma.learn(AGENT, task, "success", strategy, task_type=next(iter(schema.learning_categories), None))
    with DomainMemoryFactory().open_alma(f"try-{preset}", folder / preset) as alma:
        return any(one.strategy == strategy for one in alma.retrieve(task, AGENT).heuristics)


# -- sessions


def session_reload(folder: Path, records: int, runs: int) -> Promise:
    reload.repository(folder)
    held = reload.prepare(folder, records)
    # Once beforehand, so that compiled modules are there, as they are after an installation.
    pairs = [(_cold(folder, "quick reload"), _cold(folder, "a bare Python")) for _ in range(runs + 1)][1:]
    seconds, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    told = f"median of {runs} cold processes, {held:,} records; of a bare Python beside them {bare:.2f} s"
    return Promise("session reload", f"under {reload.LIMIT:g} s", seconds, "s", seconds < reload.LIMIT, told)


def _cold(folder: Path, what: str) -> float:
    return reload.cold(folder, reload.COLD[what])[0]


# -- work items

_MAKE = """
import sys
from pathlib import Path
from benchmarks.promises import opened
from alma.progress import ProgressTracker
folder, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with opened(Path(folder)) as alma:
    tracker = ProgressTracker(alma=alma)
    for number in range(count):
        print(tracker.create_work_item(title=f"Item {number} of {name}").id, flush=True)
"""


def opened(folder: Path) -> ALMA:
    return open_memory(Config(project_id="promises", storage_dir=folder, embedding_provider="none"))


def items_tracked(folder: Path, processes: int, each: int) -> Promise:
    """Let processes create work items, and kill every third one halfway."""
    running = [_making(folder, f"process {number}", each) for number in range(processes)]
    killed = running[::3]
    told = [list(_acknowledged(process, each // 2)) for process in killed]
    for process in killed:
        process.kill()
    told += [[line.strip() for line in process.communicate()[0].splitlines()] for process in running]
    names = {name for lines in told for name in lines if name}
    whole = (len(running) - len(killed)) * each + len(killed) * (each // 2)
    with opened(folder) as alma:
        kept = {item.id for item in ProgressTracker(alma=alma).list_items()}
    share = len(names & kept) / len(names)
    how = f"{len(names)} items of {processes} processes, {len(killed)} of them killed; {len(kept)} in the store"
    return Promise("items tracked", "100 %", 100 * share, "%", names <= kept and len(names) >= whole, how)


def _making(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _MAKE, str(folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _acknowledged(process: subprocess.Popen[str], count: int) -> Iterator[str]:
    assert process.stdout is not None
    for _ in range(count):
        yield process.stdout.readline().strip()


# -- confidence


@dataclass(frozen=True)
class Happened:
    at: datetime
    task: str
    strategy: str
    success: bool
    error: str | None = None


def recorded(folder: Path) -> list[Happened]:
    """Return the outcomes of a file in the order they happened."""
    file = folder / "outcomes.jsonl"
    if not file.exists():
        raise DataError(f"{folder} holds no outcomes.jsonl")
    rows, _ = read(file)
    return [_happened(row) for row in sorted(rows, key=lambda row: row["t"])]


def _happened(row: dict[str, Any]) -> Happened:
    at = datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC)
    task = row["task_text"].strip() or row["task_id"]
    return Happened(at, task, row["strategy"], bool(row["success"]), row.get("error"))


def made_up(count: int, seed: int = 1) -> list[Happened]:
    """Return a synthetic history: six task types, each with one strategy that mostly works and four that fail."""
    random, began = Random(seed), datetime(2025, 1, 1, tzinfo=UTC)
    out = []
    for number, one in enumerate(rounds(_WORLD, count, seed)):
        way = random.randrange(len(STRATEGIES))
        worked = one.luck < one.chances[way]
        out.append(Happened(began + timedelta(hours=number), one.task, STRATEGIES[way], worked))
    return out


def confidence(history: Sequence[Happened], told: str, embedder: Remembering, tick: Callable[[int], None]) -> Promise:
    right = 0
    with memory(embedder) as (alma, clock):
        engine = ConfidenceEngine(alma)
        for one in history:
            clock.set(one.at)
            signal = engine.assess_strategy(one.strategy, one.task, AGENT)
            right += (signal.predicted_success >= 0.5) == one.success
            result = Result.SUCCESS if one.success else Result.FAILURE
            alma.learn(AGENT, one.task, result, one.strategy, error_message=one.error)
            tick(1)
    share, usual = right / len(history), sum(one.success for one in history) / len(history)
    how = f"{told}; always saying the commoner result: {100 * max(usual, 1 - usual):.0f} %"
    return Promise("confidence accuracy", "over 70 %", 100 * share, "%", share > _RIGHT_ENOUGH, how)


# -- examples


def other_domains(examples: Iterable[Path]) -> Promise:
    ran = [path.name for path in examples if _runs(path)]
    return Promise("other domains than coding", "2 end to end", len(ran), "", len(ran) >= 2, f"ran: {', '.join(ran)}")


def _runs(example: Path) -> bool:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, timeout=_EXAMPLE_SECONDS, check=False)
    return done.returncode == 0 and bool(done.stdout.strip())


# -- all of it


def measured(options: argparse.Namespace, scratch: Path) -> list[Promise]:
    folders = [scratch / name for name in ("domains", "reload", "items")]
    for folder in folders:
        folder.mkdir()
    history = recorded(options.data) if options.data else made_up(options.made_up)
    told = f"{len(history):,} outcomes of {options.data or 'a made-up history'}"
    with (
        finishing(Remembering(EMBEDDERS[options.embedder](), options.cache)) as embedder,
        _report.progress("outcomes", len(history), options.json) as tick,
    ):
        accuracy = confidence(history, told, embedder, tick)
    return [
        domains(folders[0]),
        session_reload(folders[1], options.records, options.runs),
        items_tracked(folders[2], options.processes, options.items),
        accuracy,
        other_domains(_EXAMPLES / name for name in EXAMPLES),
    ]


def show(promises: Sequence[Promise]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Promises and measurements", title_justify="left")
    for column in ("promise", "asked", "measured", "holds", "how"):
        table.add_column(column, justify="right" if column == "measured" else "left", overflow="fold")
    for one in promises:
        table.add_row(one.what, one.asked, _figure(one), "yes" if one.holds else "NO", one.how)
    console = Console(width=124)
    console.print(table)
    failed = [one.what for one in promises if not one.holds]
    console.print(f"not met: {', '.join(failed)}" if failed else "all promises are met", highlight=False)


def _figure(one: Promise) -> str:
    number = f"{one.measured:.2f}" if one.unit == "s" else f"{one.measured:.1f}".removesuffix(".0")
    return f"{number} {one.unit}".strip()


def main(argv: Sequence[str] | None = None) -> int:
    options = _arguments(argv)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            promises = measured(options, Path(scratch))
    except ALMAError as error:
        print(f"promises: {error}", file=sys.stderr)
        return 2
    if options.json:
        told = {"benchmark": "promises", "embedder": options.embedder, "machine": _report.machine()}
        print(json.dumps(told | {"promises": [asdict(one) for one in promises]}, indent=1, ensure_ascii=False))
    else:
        show(promises)
    return 0 if all(one.holds for one in promises) else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promises",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder with outcomes.jsonl")
    parser.add_argument(
        "--made-up", type=int, default=_MADE_UP, metavar="N", help="without --data: the number of synthetic outcomes"
    )
    parser.add_argument("--records", type=int, default=10_000, metavar="N", help="the number of records in the project")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="the number of cold processes")
    parser.add_argument(
        "--processes", type=int, default=6, metavar="N", help="the number of processes that create work items"
    )
    parser.add_argument(
        "--items", type=int, default=50, metavar="N", help="the number of work items that each of them creates"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="cache vectors here for later runs")
    parser.add_argument("--embedder", choices=list(EMBEDDERS), default="local")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
