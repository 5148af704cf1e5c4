"""Shared by the retrieval benchmarks: their options, the systems to compare, and the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.errors import ALMAError
from alma.ports import Embedder

from . import _report
from ._baselines import Dense, OneVector
from ._data import Data, DataError, limited
from ._embedder import Remembering, finishing
from ._product import Product
from ._trial import Level, Plan, System, run
from ._unrelated import UNRELATED

EMBEDDERS: dict[str, Callable[[], Embedder]] = {"local": LocalEmbedder, "hash": HashEmbedder}


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--data", type=Path, required=True, metavar="FILE", help="the public file, .json or .json.gz")
    made.add_argument("--compare", action="store_true", help="also run simpler systems for comparison")
    made.add_argument("--json", action="store_true")
    made.add_argument("--plot", type=Path, metavar="FILE.svg")
    made.add_argument("--limit", type=_positive, metavar="N", help="at most N questions, spread over the file")
    made.add_argument("--top-k", type=_positive, default=20, metavar="K")
    made.add_argument("--cache", type=Path, metavar="FILE", help="cache vectors here for later runs")
    made.add_argument("--embedder", choices=list(EMBEDDERS), default="local")
    return made


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def systems(embedder: Remembering, compare: bool) -> list[System]:
    ours: list[System] = [Product("alma", embedder)]
    return [*ours, Product("alma, words only", None), Dense(embedder), OneVector(embedder)] if compare else ours


def execute(
    benchmark: str,
    read: Callable[[], Data],
    options: argparse.Namespace,
    levels: tuple[Level, ...],
    each: Callable[[Data], int],
) -> int:
    """Read the data, run the systems and report; a file that cannot be read is reported in one line."""
    try:
        _writable(options.plot, options.cache)
        data = limited(read(), options.limit)
        if not data.questions:
            raise DataError(f"{options.data} holds no question")
        told = measured(benchmark, data, options, levels, each(data))
    except ALMAError as error:
        print(f"{benchmark}: {error}", file=sys.stderr)
        return 2
    _report.write(told, options.json)
    if options.plot:
        _report.plot(told, options.plot)
    return 0


def _writable(*files: Path | None) -> None:
    """Said before the work, not after it."""
    for file in files:
        if file is not None and not file.resolve().parent.is_dir():
            raise DataError(f"{file} cannot be written: there is no folder {file.resolve().parent}")


def measured(
    benchmark: str, data: Data, options: argparse.Namespace, levels: tuple[Level, ...], each: int
) -> _report.Figures:
    plan = Plan(levels, options.top_k, UNRELATED, each)
    with finishing(Remembering(EMBEDDERS[options.embedder](), options.cache)) as embedder:
        with embedder.forgetful():
            embedder.embed(["The model is loaded before anything is timed."])
        asked = systems(embedder, options.compare)
        with _report.progress(benchmark, len(data.questions) * len(asked), options.json) as tick:
            trials = [run(system, data.haystacks, plan, tick) for system in asked]
    return _report.report(benchmark, data, embedder.name, options.top_k, trials)
