"""Replay a simulated year of a team into a memory: `python -m benchmarks.year [--events N] [--without] [--plot]`.

    python -m benchmarks.year --without --plot              compare a year with and without upkeep, and plot both
    python -m benchmarks.year --dump prompts.jsonl          write the prompts about look-alike memories for a model
    python -m benchmarks.year --answers answers.jsonl       compare look-alikes with a model's recorded answers
    python -m benchmarks.year --answers … --dump …          also write the prompts about pairs that have no answer yet

The events and their ground truth come from `benchmarks._year_world`; its texts were written by hand, and a random half
of them is held out. The upkeep runs once a week. Every acknowledged write is counted here, not by the memory.

*Duplicates* are memories in use that say the same as another one of their owner. For comparison: the share that would
be left if only equal texts were merged. A *wrong merge* superseded a memory by one that says something else. *Lost* is
an acknowledged write that nobody deleted and that cannot be listed any more. A memory that was merged with one of
another owner is no longer seen by its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from alma.engine.conflicts import read_pair
from alma.engine.consolidate import list_unresolved, split_pairs
from alma.errors import ALMAError, ModelUnavailableError
from alma.models.registry import Recorded
from alma.reading.model import ModelReader
from alma.reading.port import Pair, Relation, Verdict
from alma.text import count_tokens, normalise
from alma.types.kinds import AntiPattern, Heuristic, Memory
from alma.types.query import split_batches

from . import _report
from ._plot import line_chart, stack_charts
from ._year_replay import EVERYTHING, STATED, Snapshot, Table, TableComparer, Truth, YearReplay, owner_of, read_text
from ._year_world import DATA, PARTS, YearTexts, generate_events, load_year

Figures = dict[str, Any]
EVENTS = 200_000
DUMP_EVENTS = 1_200
"""The distinct statements do not depend on the number of events, so a short year asks about the same pairs."""
FIGURE = Path(__file__).parent.parent / "docs" / "explanation" / "figures" / "year.svg"
_EXAMPLES, _PAIRS_PER_PROMPT = 5, 40


# -- the end of the year


def measure_losses(replay: YearReplay, memories: Mapping[str, Memory]) -> Figures:
    """Count acknowledged writes that cannot be listed any more though nobody deleted them."""
    ledger = replay.ledger
    stored = {one.id for one in replay.alma.list("outcome", status=None, limit=EVERYTHING)}
    episodes = {one.id for one in replay.alma.list("episode", status=None, limit=EVERYTHING)}
    return {
        "outcomes acknowledged": len(ledger.outcomes),
        "outcomes lost": len(ledger.outcomes.keys() - stored),
        "statements acknowledged": len(ledger.stated),
        "statements deleted by a person": len(ledger.deleted),
        "statements lost": len(ledger.stated.keys() - memories.keys() - ledger.deleted),
        "conversations lost": len(ledger.episodes - episodes),
    }


def measure_evidence(replay: YearReplay, memories: Mapping[str, Memory]) -> Figures:
    """Compare the results that lessons count with the outcomes that were learned, for each strategy and owner.

    A heuristic and an anti-pattern with the same words come from the same outcomes, and are counted once.
    """
    lessons: dict[tuple[str, str, str], int] = {}
    for one in memories.values():
        truth = replay.find_truth(one)
        if truth in replay.texts.strategies and one.status != "superseded":
            results = one.occurrence_count if isinstance(one, Heuristic) else 0
            results = one.trial_count if isinstance(one, AntiPattern) else results
            key = (truth, owner_of(one), normalise(read_text(one)))
            lessons[key] = max(lessons.get(key, 0), results)
    counted: Counter[tuple[str, str]] = Counter()
    for (truth, owner, _), results in lessons.items():
        counted[truth, owner] += results
    learned = Counter(replay.ledger.outcomes.values())
    return {
        "strategies with exact counts": sum(counted[one] == number for one, number in learned.items()),
        "strategies in use": len(learned),
        "outcomes that no lesson counts": sum(max(0, number - counted[one]) for one, number in learned.items()),
        "outcomes counted too often": sum(max(0, number - learned[one]) for one, number in counted.items()),
    }


def measure_merges(replay: YearReplay, memories: Mapping[str, Memory]) -> Figures:
    """Compare each superseded memory with the one that took its place."""
    superseded = [one for one in memories.values() if one.status == "superseded"]
    successors = {one.id: one.superseded_by for one in replay.alma.engine.store.get([one.id for one in superseded])}
    sums: Counter[str] = Counter()
    examples = []
    for one in superseded:
        truth, other = replay.find_truth(one), memories.get(successors.get(one.id, ""))
        if not truth or other is None:
            sums["superseded, successor unknown"] += 1
            continue
        successor = replay.find_truth(other)
        if successor not in (truth, f"{truth}/update"):
            sums[f"wrong merges, {replay.find_part(truth)}"] += 1
            examples.append((read_text(one), read_text(other)))
        elif owner_of(one) != owner_of(other):
            sums["merged with another owner's"] += 1
        else:
            sums["merged with the same" if successor == truth else "replaced by an update"] += 1
    names = ["merged with the same", "replaced by an update", *(f"wrong merges, {part}" for part in PARTS)]
    names += ["merged with another owner's", "superseded, successor unknown"]
    return {name: sums[name] for name in names} | {
        "statements taken for others when written": len(replay.ledger.misread),
        "examples": [*examples, *replay.ledger.misread][:_EXAMPLES],
    }


def measure_returns(replay: YearReplay, memories: Mapping[str, Memory]) -> Figures:
    """Count deleted and outdated meanings that are in use, and current ones that are not.

    A candidate counts as in use only for current meanings: it waits for a person, and is not forgotten.
    """
    active: dict[Truth, set[str]] = defaultdict(set)
    live: set[Truth] = set()
    held: list[Truth] = []
    for one in memories.values():
        truth = (replay.find_truth(one), owner_of(one))
        if one.status == "candidate" and "resembles" in getattr(one, "metadata", {}):
            held.append(truth)
        if one.status == "active":
            active[truth].add(normalise(read_text(one)))
        if one.status in ("active", "candidate"):
            live.add(truth)
    deleted = replay.ledger.deleted_meanings
    updated = [truth for truth in replay.ledger.texts if truth[0].endswith("/update")]
    outdated = {(id.removesuffix("/update"), owner) for id, owner in updated}
    current = replay.ledger.texts.keys() - outdated - deleted.keys()
    return {
        "current meanings": len(current),
        "current meanings that no memory in use says": len(current - live),
        "meanings deleted by a person": len(deleted),
        "deleted, back in the same words": sum(bool(active[truth] & texts) for truth, texts in deleted.items()),
        "deleted, back in other words": sum(bool(active[truth] - texts) for truth, texts in deleted.items()),
        "held back, and deleted": sum(truth in deleted for truth in held),
        "held back, but never deleted": sum(truth not in deleted for truth in held),
        "updates": len(updated),
        "updates whose old value is still in use": sum(bool(active[truth]) for truth in outdated),
    }


def ask_questions(replay: YearReplay) -> Figures:
    """Ask the fixed questions at the end of the year."""
    sums: Counter[str] = Counter()
    for question in replay.texts.questions:
        shown = replay.alma.retrieve(question.text, agent=question.agent, user_id=question.user or None)
        sums["tokens"] += count_tokens(shown.to_prompt())
        owner = f"/{question.user}" if question.user else f"{question.agent}/"
        update = f"{question.about}/update"
        current = update if (update, owner) in replay.ledger.texts else question.about
        truths = [(replay.find_truth(one), bool(one.newer)) for one in shown]
        sums["shown"] += any(truth == current for truth, _ in truths)
        sums["outdated"] += current == update and (question.about, False) in truths
    number = max(len(replay.texts.questions), 1)
    return {
        "questions": len(replay.texts.questions),
        "mean tokens of the prompt": sums["tokens"] / number,
        "questions with the current statement shown": sums["shown"],
        "questions with an outdated one shown as current": sums["outdated"],
    }


def measure_year(replay: YearReplay) -> Figures:
    """Return all figures of the memory at the end of its year."""
    memories = {one.id: one for one in replay.list_memories((*STATED, "heuristic"), None)}
    last = replay.snapshots[-1]
    figures: Figures = {
        "active memories": last.active,
        "quota": replay.alma.engine.settings.upkeep.max_memories,
        "file, MB": last.file_bytes / 1e6,
        **{f"duplicates, {name}": share for name, share in last.duplicates.items()},
        **measure_merges(replay, memories),
        **measure_losses(replay, memories),
        **measure_evidence(replay, memories),
        **measure_returns(replay, memories),
        **ask_questions(replay),
    }
    return figures


# -- runs


def run_year(
    texts: YearTexts,
    count: int,
    *,
    has_upkeep: bool = True,
    table: Table | None = None,
    dump: Path | None = None,
    tick: Callable[[int], None] = lambda done: None,
) -> Figures:
    """Replay a year into a fresh SQLite memory and measure it."""
    comparer = TableComparer(table) if table is not None and has_upkeep else None
    with tempfile.TemporaryDirectory() as folder:
        replay = YearReplay(texts, Path(folder), has_upkeep=has_upkeep, comparer=comparer)
        with closing(replay.alma):
            replay.run(generate_events(texts, count), tick)
            figures = measure_year(replay)
    notes = [f"in {number} weeks: {problem}" for problem, number in replay.problems.most_common(_EXAMPLES)]
    if comparer is not None:
        same = sum(replay.find_meaning(first) == replay.find_meaning(second) for first, second, _ in comparer.unknown)
        notes.append(
            f"{comparer.known:,} pairs were compared by recorded answers; {len(comparer.unknown):,} have no answer, "
            f"of which {same:,} say the same"
        )
        if dump is not None:
            write_prompts(comparer.unknown.values(), ModelReader(Recorded(None, dump)))
    return {
        "name": "with upkeep" if has_upkeep else "without upkeep",
        "notes": notes,
        "figures": figures,
        "events": dict(replay.ledger.counts),
        "upkeep": dict(replay.upkeep_counts),
        "seconds": {name: round(value, 1) for name, value in replay.seconds.items()},
        "total seconds": sum(replay.seconds.values()),
        "CPU seconds": replay.cpu_seconds,
        "snapshots": [vars(one) for one in replay.snapshots],
    }


def ask_about_pairs(texts: YearTexts, reader: ModelReader) -> Table:
    """Replay a short year without merging, and ask about all look-alikes at its end."""
    table: Table = {}
    with tempfile.TemporaryDirectory() as folder:
        replay = YearReplay(texts, Path(folder), has_upkeep=False)
        with closing(replay.alma):
            replay.run(generate_events(texts, DUMP_EVENTS), lambda done: None)
            for batch in split_pairs(list_unresolved(replay.alma.engine)):
                pairs = [read_pair(pair) for pair in batch]
                with suppress(ModelUnavailableError):
                    relations = reader.compare(pairs)
                    table |= {(*pair[:2], False): one for pair, one in zip(pairs, relations, strict=True)}
    return table


def write_prompts(pairs: Iterable[Pair], reader: ModelReader) -> None:
    """Write the prompts about pairs, those about details after the others, as many pairs in one as are asked about."""
    for _, group in groupby(sorted(pairs, key=lambda pair: (any(pair[3:]), pair)), key=lambda pair: any(pair[3:])):
        for batch in split_batches(list(group), _PAIRS_PER_PROMPT):
            with suppress(ModelUnavailableError):
                reader.compare(batch)


def join_answers(prompts: Path, answers: Path) -> Table:
    """Build the table from dumped prompts and their answers, whatever pairs this version would ask about."""
    table: Table = {}
    values = {row["id"]: row["value"] for row in map(json.loads, answers.read_text(encoding="utf-8").splitlines())}
    for row in map(json.loads, prompts.read_text(encoding="utf-8").splitlines()):
        answered = {one["n"]: one for one in values.get(row["id"], {}).get("pairs", ())}
        for pair in json.loads(row["text"])["pairs"]:
            if one := answered.get(pair["n"]):
                relation = Relation(Verdict(one["relation"]), one["probability"])
                table[pair["old"], pair["new"], "only_old" in pair] = relation
    return table


# -- report


def show(report: Figures) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(width=110)
    runs = report["runs"]
    table = RichTable(title=f"A year of {report['events']:,} events", title_justify="left")
    table.add_column("at the end of the year")
    for run in runs:
        table.add_column(run["name"], justify="right")
    for name in runs[0]["figures"]:
        if name != "examples":
            table.add_row(name, *(format_value(run["figures"][name]) for run in runs))
    for name in ("total seconds", "CPU seconds"):
        table.add_row(name, *(f"{run[name]:,.0f}" for run in runs))
    console.print(table)
    for run in runs:
        weeks = run["snapshots"][:: max(1, len(run["snapshots"]) // 6)]
        trend = ", ".join(f"day {one['day']}: {one['active']:,} in {one['file_bytes'] / 1e6:.0f} MB" for one in weeks)
        lines = [f"active memories: {trend}", f"seconds: {run['seconds']}", *run["notes"]]
        lines += [f"upkeep: {run['upkeep']}"] if run["upkeep"] else []
        lines += [f"not the same: {first!r} / {second!r}" for first, second in run["figures"]["examples"]]
        for line in lines:
            console.print(f"· {run['name']}: {line}", highlight=False, markup=False)
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    console.print(f"· {report['file']}, sha256 {report['sha256']}\n· {machine}", highlight=False)


def format_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}" if value < 10 else f"{value:,.1f}"


def plot_year(runs: Sequence[Figures], path: Path) -> None:
    """Plot active memories, duplicates and the size of the file over the year, below each other."""
    panels: dict[tuple[str, str], Callable[[Snapshot], dict[str, float]]] = {
        ("Active memories", "memories"): lambda one: {"": one.active},
        ("Duplicates", "share of stated memories"): lambda one: {
            part.replace("_", " "): one.duplicates[f"stated, {part}"] for part in PARTS
        },
        ("Size of the store", "MB"): lambda one: {"": one.file_bytes / 1e6},
    }
    with tempfile.TemporaryDirectory() as folder:
        charts = []
        for number, ((title, label), read_values) in enumerate(panels.items()):
            series: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for run in runs:
                for snapshot in (Snapshot(**one) for one in run["snapshots"]):
                    for part, value in read_values(snapshot).items():
                        name = f"{run['name'].removesuffix(' upkeep')}, {part}" if part else run["name"]
                        series[name].append((float(snapshot.day), value))
            charts.append(Path(folder) / f"{number}.svg")
            line_chart(charts[-1], title, "day", label, series)
        stack_charts(path, "A year of use", charts)


def main(argv: Sequence[str] | None = None) -> int:
    options = read_options(argv)
    try:
        texts = load_year(options.data)
        if options.dump and not options.answers:
            ask_about_pairs(texts, ModelReader(Recorded(None, options.dump)))
            print(f"the prompts were written to {options.dump}")
            return 0
        table = None
        if options.answers and options.prompts:
            table = join_answers(options.prompts, options.answers)
        elif options.answers:
            table = ask_about_pairs(texts, ModelReader(Recorded(options.answers, None)))
        runs = []
        for has_upkeep in (True, False) if options.without else (True,):
            with _report.progress("a year", options.events, options.json) as tick:
                run = run_year(texts, options.events, has_upkeep=has_upkeep, table=table, dump=options.dump, tick=tick)
                runs.append(run)
    except ALMAError as error:
        print(f"year: {error}", file=sys.stderr)
        return 2
    report = {
        "benchmark": "year",
        "file": options.data.name,
        "sha256": texts.sha256,
        "events": options.events,
        "machine": _report.machine(),
        "runs": runs,
    }
    if options.plot:
        plot_year(runs, options.plot)
    print(json.dumps(report, indent=1, ensure_ascii=False)) if options.json else show(report)
    return 0


def read_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.year", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="other texts of the same format")
    parser.add_argument("--without", action="store_true", help="also run the year without upkeep")
    parser.add_argument(
        "--dump",
        type=Path,
        metavar="FILE",
        help="write the prompts about look-alikes, and end; "
        "with --answers, those about pairs that have no answer, after the run",
    )
    parser.add_argument("--answers", type=Path, metavar="FILE", help="a model's recorded answers to these prompts")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="the dumped prompts, if they have changed since")
    parser.add_argument("--plot", type=Path, nargs="?", const=FIGURE, metavar="FILE", help=f"(default: {FIGURE.name})")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
