"""Reports of trials: figures as plain values, tables for people, and a chart."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._data import Data
from ._measures import CUTS, all_at, any_at, mean, percentile, recall, wilson
from ._plot import bar_chart, line_chart
from ._trial import Asked, Ingest, Tick, Trial

if TYPE_CHECKING:
    from rich.table import Table

Figures = dict[str, Any]
MEASURES = (*(f"any@{k}" for k in CUTS), *(f"all@{k}" for k in CUTS), "nDCG@10", "MRR")
_UNCERTAIN = ("any@5", "all@5")
_WIDTH = 124


# -- figures


def figures(trial: Trial, top_k: int) -> Figures:
    return {
        "system": trial.system,
        "levels": {level: _level(asked, top_k) for level, asked in trial.answerable.items()},
        "silence": _silence(trial),
        "latency_ms": {f"p{share}": percentile(trial.seconds, share / 100) * 1000 for share in (50, 95)}
        if trial.seconds
        else {},
        "ingest": _ingest(trial.ingest),
    }


def _level(asked: Sequence[Asked], top_k: int) -> Figures:
    ordered = sorted(asked, key=lambda one: one.kind)
    everything = _row(asked)
    return {
        "all": everything,
        "interval": {name: wilson(everything[name] * len(asked), len(asked)) for name in _UNCERTAIN},
        "by_kind": {kind: _row(list(group)) for kind, group in groupby(ordered, key=lambda one: one.kind)},
        "curve": {
            "any": [mean([any_at(one.found, one.right, k) for one in asked]) for k in range(1, top_k + 1)],
            "all": [mean([all_at(one.found, one.right, k) for one in asked]) for k in range(1, top_k + 1)],
        },
    }


def _row(asked: Sequence[Asked]) -> Figures:
    return {"n": len(asked), **recall([(one.found, one.right) for one in asked])}


def _silence(trial: Trial) -> Figures:
    """Return the rates of false silence (should answer, did not) and false speech (should not, did)."""
    first = next(iter(trial.answerable.values()), [])
    return {
        "answerable": len(first),
        "false_silence": _share([not one.found for one in first]),
        "unanswerable": len(trial.unanswerable),
        "false_speech": _share([bool(one.found) for one in trial.unanswerable]),
        "unrelated": len(trial.unrelated),
        "speech_on_unrelated": _share([bool(one.found) for one in trial.unrelated]),
        "answered_though_unrelated": sorted({one.question for one in trial.unrelated if one.found}),
    }


def _share(values: Sequence[bool]) -> float | None:
    return mean(values) if values else None


def _ingest(ingest: Ingest) -> Figures:
    return {
        "turns": ingest.turns,
        "texts": ingest.texts,
        "texts_embedded_here": ingest.fresh_texts,
        "turns_per_second": ingest.rate,
        "turns_per_second_storing_alone": ingest.storing_rate,
    }


def report(benchmark: str, data: Data, embedder: str, top_k: int, trials: Sequence[Trial]) -> Figures:
    questions = data.questions
    return {
        "benchmark": benchmark,
        "data": {"file": data.file, "sha256": data.sha256, "kind": data.kind},
        "stores": len(data.haystacks),
        "questions": len(questions),
        "unanswerable": sum(not one.answerable for one in questions),
        "without_anything_right": sum(one.answerable and not one.sessions for one in questions),
        "embedder": embedder,
        "top_k": top_k,
        "notes": {what: count for what, count in data.notes.items() if count},
        "machine": machine(),
        "systems": [figures(trial, top_k) for trial in trials],
    }


def machine() -> Figures:
    return {"python": platform.python_version(), "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}


# -- tables


def show(told: Figures) -> None:
    from rich.console import Console

    console = Console()
    wide = console if console.is_terminal else Console(width=_WIDTH)
    for table in tables(told):
        wide.print(table)
    for line in remarks(told):
        wide.print(f"· {line}", highlight=False, markup=False)


def tables(told: Figures) -> Iterator[Table]:
    first, *others = told["systems"]
    data = told["data"]
    for level in first["levels"]:
        yield _by_kind(f"{told['benchmark']} ({data['kind']}): right {level}s found by {first['system']}", first, level)
        if others:
            yield _side_by_side(f"the same {level}s, by system", told["systems"], level)
    yield _silence_table(told["systems"])
    yield _speed_table(told["systems"])


def _table(title: str, first: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _by_kind(title: str, system: Figures, level: str) -> Table:
    table = _table(title, "questions", "n", *MEASURES)
    found = system["levels"][level]
    for kind, row in found["by_kind"].items():
        table.add_row(kind, *_cells(row))
    table.add_section()
    table.add_row("all", *_cells(found["all"]), style="bold")
    bounds = {name: f"{low:.2f}–{high:.2f}" for name, (low, high) in found["interval"].items()}
    table.add_row("95 % interval", "", *(bounds.get(name, "") for name in MEASURES))
    return table


def _side_by_side(title: str, systems: Sequence[Figures], level: str) -> Table:
    table = _table(title, "system", "n", *MEASURES)
    for system in systems:
        if level in system["levels"]:
            table.add_row(system["system"], *_cells(system["levels"][level]["all"]))
    return table


def _cells(row: Figures) -> list[str]:
    return [str(row["n"]), *(f"{row[name]:.3f}" for name in MEASURES)]


def _silence_table(systems: Sequence[Figures]) -> Table:
    counts = systems[0]["silence"]
    table = _table(
        "silence",
        "system",
        f"silent on answerable ({counts['answerable']})",
        f"spoke on unanswerable ({counts['unanswerable']})",
        f"spoke on unrelated ({counts['unrelated']})",
    )
    for system in systems:
        said = system["silence"]
        shares = (said["false_silence"], said["false_speech"], said["speech_on_unrelated"])
        table.add_row(system["system"], *(_number(share, ".3f") for share in shares))
    return table


def _speed_table(systems: Sequence[Figures]) -> Table:
    table = _table("speed", "system", "ask p50", "ask p95", "turns stored/s", "storing alone")
    for system in systems:
        took, filled = system["latency_ms"], system["ingest"]
        table.add_row(
            system["system"],
            _number(took.get("p50"), ".1f", " ms"),
            _number(took.get("p95"), ".1f", " ms"),
            _number(filled["turns_per_second"], ",.0f"),
            _number(filled["turns_per_second_storing_alone"], ",.0f"),
        )
    return table


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None or math.isnan(value) else f"{value:{form}}{unit}"


def remarks(told: Figures) -> list[str]:
    data = told["data"]
    lines = [
        f"{data['file']}, sha256 {data['sha256']}",
        f"{told['questions']} questions, stores: {told['stores']}, the first {told['top_k']} of what was found; "
        f"{told['unanswerable']} unanswerable ones are not in the tables of what was found",
        f"embedder {told['embedder']}: a text met again in another store is not embedded again; a question always is. "
        "Turns a second are counted as if every text were embedded afresh",
    ]
    if told["without_anything_right"]:
        lines.append(f"{told['without_anything_right']} questions name nothing that is there, and are left out")
    lines += [f"{count:,} {what}" for what, count in told["notes"].items()]
    lines.append(", ".join(f"{name} {value}" for name, value in told["machine"].items()))
    return lines


# -- chart


def plot(told: Figures, path: Path) -> None:
    """Plot several systems side by side as bars, or one as its recall among the first 1, 2, 3, …"""
    title = f"{told['benchmark']} ({told['data']['kind']}), {told['questions']} questions"
    if len(told["systems"]) > 1:
        _plot_systems(told["systems"], path, title)
        return
    curves = {
        f"{level}s, {name}@k": [(float(k), value) for k, value in enumerate(values, 1)]
        for level, found in told["systems"][0]["levels"].items()
        for name, values in found["curve"].items()
    }
    line_chart(path, title, "k", "share of questions", curves)


def _plot_systems(systems: Sequence[Figures], path: Path, title: str) -> None:
    levels = list(systems[0]["levels"])
    shown = [(levels[0], name) for name in ("any@1", "any@5", "all@5", "all@10")]
    if len(levels) > 1:
        shown = [(level, name) for level in levels for name in ("any@5", "all@5", "any@10")]
    groups = [f"{name}\n{level}s" if len(levels) > 1 else name for level, name in shown]
    bars = {
        system["system"]: [system["levels"].get(level, {}).get("all", {}).get(name, math.nan) for level, name in shown]
        for system in systems
    }
    bar_chart(path, title, groups, bars, "share of questions")


# -- while it runs


@contextmanager
def progress(what: str, total: int, hidden: bool) -> Iterator[Tick]:
    """Show a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=hidden or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


def write(told: Figures, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        show(told)
