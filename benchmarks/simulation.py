"""Simulate agents with alma: `python -m benchmarks.simulation [--rounds N] [--seeds N] [--json] [--plot DIR]`.

Each context has a hidden best strategy, in four settings: stationary, noisy, many contexts, and one where the best
strategy changes midway. Each setting is played by an agent without memory, by one that trusts its newest memory, by one
that takes what alma rates best, and by one that takes what alma suggests to try (`explore=True`). All agents get the
same tasks and the same luck. Regret is the loss compared with always choosing the best strategy: lower is better.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from alma.errors import ALMAError

from . import _report
from ._embedder import Remembering as RememberingEmbedder
from ._embedder import finishing
from ._plot import line_chart
from ._runner import EMBEDDERS
from ._simulation import (
    SETTINGS,
    Memoryless,
    NewestWins,
    Remembering,
    Round,
    Setting,
    mean_curve,
    played,
    regret,
    rounds,
    success_curve,
)
from .learning import memory

Figures = dict[str, Any]
EXPLOITING, EXPLORING = "alma, exploiting", "alma, exploring"
BASELINES = ("no memory", "newest wins")
AGENTS = (*BASELINES, EXPLOITING, EXPLORING)
_WINDOW = 50
_STEP = 10


def lost_by(
    name: str, given: Sequence[Round], seed: int, embedder: RememberingEmbedder, tick: Callable[[int], None]
) -> list[float]:
    random = Random(f"{name} {seed}")
    if name == "no memory":
        return played(Memoryless(random), given, tick)
    if name == "newest wins":
        return played(NewestWins(random), given, tick)
    with memory(embedder) as (alma, clock):
        return played(Remembering(alma, clock, seed, explore=name == EXPLORING), given, tick)


def simulated(
    setting: Setting, count: int, seeds: Sequence[int], embedder: RememberingEmbedder, tick: Callable[[int], None]
) -> Figures:
    worlds, step = [rounds(setting, count, seed) for seed in seeds], min(_STEP, count)
    pairs = list(zip(worlds, seeds, strict=True))
    lost = {name: [lost_by(name, given, seed, embedder, tick) for given, seed in pairs] for name in AGENTS}
    curves = {
        name: mean_curve([success_curve(*pair, _WINDOW) for pair in zip(worlds, runs, strict=True)], step)
        for name, runs in lost.items()
    }
    totals = {name: [sum(run) for run in runs] for name, runs in lost.items()}
    return {
        "regret by seed": totals,
        "regret": {name: sum(values) / len(seeds) for name, values in totals.items()},
        "success at the end": {name: curve[-1][1] for name, curve in curves.items()},
        "best possible": sum(max(one.chances) for given in worlds for one in given) / (count * len(seeds)),
        "regret curves": {name: mean_curve([regret(run) for run in runs], step) for name, runs in lost.items()},
        "success curves": curves,
    }


def won(found: Figures, agent: str = EXPLORING) -> bool:
    """Return whether the agent's regret was lower than each baseline's, averaged over the seeds."""
    return all(found["regret"][agent] < found["regret"][name] for name in BASELINES)


def show(told: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=110)
    for setting, found in told["settings"].items():
        table = Table(title=f"{setting} ({told['rounds']} rounds)", title_justify="left")
        for column in ("agent", "regret", "by seed", f"success, last {_WINDOW}"):
            table.add_column(column, justify="left" if column == "agent" else "right")
        for name in AGENTS:
            seeds = " ".join(f"{value:.0f}" for value in found["regret by seed"][name])
            table.add_row(name, f"{found['regret'][name]:.1f}", seeds, f"{found['success at the end'][name]:.3f}")
        console.print(table)
        console.print(f"· the best strategy works {found['best possible']:.3f} of the time", highlight=False)
        for agent in (EXPLOITING, EXPLORING):
            console.print(f"· {agent}, beats both: {'yes' if won(found, agent) else 'NO'}", highlight=False)


def plot(told: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for setting, found in told["settings"].items():
        name = setting.replace(" ", "-")
        line_chart(folder / f"regret-{name}.svg", f"Regret: {setting}", "rounds", "regret", found["regret curves"])
        title, y_label = f"Success: {setting}", f"chance of success, last {_WINDOW}"
        line_chart(folder / f"success-{name}.svg", title, "rounds", y_label, found["success curves"])


def main(argv: Sequence[str] | None = None) -> int:
    options = _arguments(argv)
    chosen = [one for one in SETTINGS if options.setting in (None, one.name)]
    settings, seeds = {}, range(options.first, options.first + options.seeds)
    try:
        with finishing(RememberingEmbedder(EMBEDDERS[options.embedder](), options.cache)) as embedder:
            for setting in chosen:
                total = options.rounds * options.seeds * len(AGENTS)
                with _report.progress(setting.name, total, options.json) as tick:
                    settings[setting.name] = simulated(setting, options.rounds, seeds, embedder, tick)
    except ALMAError as error:
        print(f"simulation: {error}", file=sys.stderr)
        return 2
    told = {"benchmark": "simulation", "rounds": options.rounds, "seeds": list(seeds), "settings": settings}
    told |= {"embedder": options.embedder, "machine": _report.machine()}
    if options.plot:
        plot(told, options.plot)
    print(json.dumps(told, indent=1, ensure_ascii=False)) if options.json else show(told)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=600, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="the number of worlds (default: 3)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the seed of the first world (default: 0)")
    parser.add_argument("--setting", choices=[one.name for one in SETTINGS])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="DIR")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="cache vectors here for later runs")
    parser.add_argument("--embedder", choices=list(EMBEDDERS), default="local")
    options = parser.parse_args(argv)
    if min(options.rounds, options.seeds) < 1:
        parser.error("there must be at least one round and one seed")
    return options


if __name__ == "__main__":
    sys.exit(main())
