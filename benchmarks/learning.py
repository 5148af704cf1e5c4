"""Measure what alma learns: `python -m benchmarks.learning --data DIR [--json] [--plot FILE.svg]`.

Each file in the folder is run through alma's public interface and scored:

`strategy_pairs.jsonl`  pairs of texts that are the same strategy, or not. One is learned twice and the other once: a
                        heuristic forms if and only if alma counted the three together.
`outcomes.jsonl`        outcomes of real tasks in the order they happened. Before each is learned, alma predicts how
                        likely the strategy is to succeed. For comparison, the chance is also read from the retrieved
                        memories: a lesson about this strategy, else its outcomes, else outcomes of similar tasks.
`injection.jsonl`       hostile texts and harmless look-alikes: what is stored of them, and what a prompt contains.

`python -m benchmarks.learning --simulate` needs no data: agents with a hidden best strategy for each context run with
and without alma, as in `python -m benchmarks.simulation`, whose options it takes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alma import ALMA
from alma.errors import ALMAError
from alma.ports import Embedder
from alma.stores.sqlite import SQLiteStore

from . import _injection, _outcomes, _pairs, _report
from ._data import DataError
from ._embedder import Remembering, finishing
from ._plot import line_chart
from ._product import Clock
from ._runner import EMBEDDERS

if TYPE_CHECKING:
    from rich.table import Table

Rows = list[dict[str, Any]]
Figures = dict[str, Any]


@dataclass(frozen=True)
class Set:
    """A data set: its file and what is measured on it."""

    file: str
    measure: Callable[[ALMA, Clock, Rows, Callable[[int], None]], Figures]


SETS = (
    Set("strategy_pairs.jsonl", _pairs.measure),
    Set("outcomes.jsonl", _outcomes.measure),
    Set("injection.jsonl", _injection.measure),
)


def read(path: Path) -> tuple[Rows, str]:
    raw = path.read_bytes()
    try:
        return [json.loads(line) for line in raw.decode().splitlines() if line.strip()], hashlib.sha256(raw).hexdigest()
    except ValueError as error:
        raise DataError(f"{path} is not JSON, a value a line: {error}") from error


@contextmanager
def memory(embedder: Remembering) -> Iterator[tuple[ALMA, Clock]]:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "alma.db")
        with ALMA(store, embedder, project_id="bench", clock=clock) as alma:
            yield alma, clock


def measured(folder: Path, embedder: Embedder, cache: Path | None, hidden: bool) -> Figures:
    present = [one for one in SETS if (folder / one.file).exists()]
    if not present:
        raise DataError(f"{folder} holds none of {', '.join(one.file for one in SETS)}")
    sets = {}
    with finishing(Remembering(embedder, cache)) as held:
        for one in present:
            rows, sha256 = read(folder / one.file)
            with memory(held) as (alma, clock), _report.progress(one.file, len(rows), hidden) as tick:
                sets[one.file] = {"sha256": sha256, "rows": len(rows), **one.measure(alma, clock, rows, tick)}
            held.save()
    return {"benchmark": "learning", "embedder": held.name, "machine": _report.machine(), "sets": sets}


def show(told: Figures) -> None:
    from rich.console import Console

    console = Console(width=110)
    for file, found in told["sets"].items():
        console.print(_table(file, found["columns"], found["table"]))
        for more in found.get("tables", ()):
            console.print(_table(more["title"], more["columns"], more["table"]))
        for line in (f"{file}, sha256 {found['sha256']}", *found.get("remarks", ())):
            console.print(f"· {line}", highlight=False, markup=False)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    made.add_column("measured")
    for name in columns:
        made.add_column(name, justify="right")
    for what, *cells in rows:
        made.add_row(what, *(_cell(cell) for cell in cells))
    return made


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)


def plot(told: Figures, path: Path) -> None:
    """Plot how predictions improve as outcomes are learned."""
    curves = _outcomes_of(told)["curves"]
    line_chart(path, "Predicting the next outcome", "outcomes learned", "Brier score of the last 200", curves)


def plot_reliability(told: Figures, path: Path) -> None:
    """Plot predicted chances against observed frequencies."""
    lines = _outcomes.reliability_lines(_outcomes_of(told))
    line_chart(path, "Are predictions worth their word?", "predicted success", "observed success", lines)


def _outcomes_of(told: Figures) -> Figures:
    found: Figures | None = told["sets"].get("outcomes.jsonl")
    if found is None:
        raise DataError("the chart is of outcomes.jsonl, which is not in the folder")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else list(argv)
    if "--simulate" in given:
        from . import simulation

        return simulation.main([word for word in given if word != "--simulate"])
    options = _arguments(given)
    try:
        told = measured(options.data, EMBEDDERS[options.embedder](), options.cache, options.json)
        if options.plot:
            plot(told, options.plot)
        if options.reliability:
            plot_reliability(told, options.reliability)
    except ALMAError as error:
        print(f"learning: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        show(told)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--simulate", action="store_true", help="simulate agents instead of using data")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="plot how predictions improve")
    parser.add_argument(
        "--reliability", type=Path, metavar="FILE.svg", help="plot predicted against observed frequencies"
    )
    parser.add_argument("--cache", type=Path, metavar="FILE", help="cache vectors here for later runs")
    parser.add_argument("--embedder", choices=list(EMBEDDERS), default="local")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
