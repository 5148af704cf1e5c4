"""Outcomes in the order they happened: predict each from the earlier ones, then learn it.

Two predictions are made. In the first, alma is asked how likely the strategy is to succeed at this task. In the second,
the chance is read from the retrieved memories: a lesson about the strategy, else its outcomes, else outcomes of similar
tasks. The baseline is the running success rate, which ignores task and strategy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from alma import ALMA
from alma.confidence import ConfidenceEngine
from alma.types import AntiPattern, Heuristic, Memory, MemorySlice, Outcome

from ._measures import Prediction, brier, mean, predictions
from ._product import AGENT, Clock

_TOP_K = 20
_WINDOW = 200
_STEP = 50
_BINS = 10
_COLUMNS = ("Brier", "log loss", "AUC", "calibration error", "accuracy")
FORWARD, BACKWARD, RUNNING = "alma", "looking back", "running rate"

Row = Mapping[str, Any]
HEURISTICS, WARNINGS = "heuristics", "warnings"


@dataclass(frozen=True)
class Shown:
    """A lesson that was shown for a task before the row was learned."""

    at: int
    kind: str
    strategy: str
    ahead: float
    """How well it was expected to do: what it is ranked by."""
    behind: float
    """How far it was believed for what it did so far."""


@dataclass
class _Told:
    """What was said before each outcome was known."""

    forward: list[Prediction] = field(default_factory=list)
    backward: list[Prediction] = field(default_factory=list)
    lessons: list[Shown] = field(default_factory=list)
    """Of each row and kind the best first."""


def measure(alma: ALMA, clock: Clock, rows: Sequence[Row], tick: Callable[[int], None]) -> dict[str, Any]:
    told, confidence = _Told(), ConfidenceEngine(alma)
    ordered = sorted(rows, key=lambda row: row["t"])
    for at, row in enumerate(ordered):
        clock.set(datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC))
        task, strategy, happened = row["task_text"].strip() or row["task_id"], row["strategy"], bool(row["success"])
        signal = confidence.assess_strategy(strategy, task, AGENT)
        known = alma.retrieve(task, AGENT, top_k=_TOP_K)
        told.forward.append((signal.predicted_success, happened))
        told.backward.append((chance(known, strategy), happened))
        told.lessons += shown(at, known)
        alma.learn(AGENT, task, "success" if happened else "failure", strategy, error_message=row.get("error"))
        tick(1)
    running = running_rate([bool(row["success"]) for row in ordered])
    found = score(ordered, {FORWARD: told.forward, BACKWARD: told.backward, RUNNING: running})
    return found | _ranked(ordered, told.lessons)


def chance(known: MemorySlice, strategy: str) -> float:
    """Return the chance of success: from the best lesson about the strategy, else from its outcomes, else from those of
    other strategies on similar tasks, else one half.
    """
    why = {one.memory_id: one for one in known.explain()}
    lessons = [(why[one.id].score, believed) for one in known if (believed := _believed(one, strategy)) is not None]
    if lessons:
        return max(lessons)[1]
    own = [outcome for outcome in known.outcomes if outcome.strategy_used == strategy]
    return _rate(own or known.outcomes, {name: one.factors["similarity"].value for name, one in why.items()})


def _believed(memory: Memory, strategy: str) -> float | None:
    """Return the success rate that a lesson states for the strategy; None if it is about another one."""
    if isinstance(memory, Heuristic) and memory.strategy == strategy:
        return memory.confidence
    if isinstance(memory, AntiPattern) and memory.pattern == strategy:
        return 1 - memory.confidence
    return None


def _rate(outcomes: Sequence[Outcome], similar: Mapping[str, float]) -> float:
    """Return the success rate, weighted by the similarity of the tasks, starting from one half."""
    weight = sum(similar[one.id] for one in outcomes)
    return (1 + sum(similar[one.id] for one in outcomes if one.success)) / (2 + weight)


def running_rate(results: Sequence[bool]) -> list[Prediction]:
    """Return the success rate of all earlier outcomes, ignoring task and strategy."""
    good, pairs = 0, []
    for seen, result in enumerate(results):
        pairs.append(((1 + good) / (2 + seen), result))
        good += result
    return pairs


def score(rows: Sequence[Row], systems: Mapping[str, Sequence[Prediction]]) -> dict[str, Any]:
    figures = {
        name: {system: _figures([pairs[at] for at in places]) for system, pairs in systems.items()}
        for name, places in _groups(rows).items()
        if places
    }
    table = [
        (f"{name}: {system}", found["n"], *(found[column] for column in _COLUMNS))
        for name, by_system in figures.items()
        for system, found in by_system.items()
    ]
    reliable = {system: reliability(pairs) for system, pairs in systems.items() if system != RUNNING}
    return {
        "figures": figures,
        "columns": ["n", *_COLUMNS],
        "table": table,
        "curves": {system: _curve(pairs) for system, pairs in systems.items()},
        "reliability": reliable,
        "tables": [_reliability_table(reliable)],
    }


def _figures(pairs: Sequence[Prediction]) -> dict[str, float]:
    right = mean([float((guess >= 0.5) == happened) for guess, happened in pairs])
    return {**predictions(pairs), "accuracy": right}


def _groups(rows: Sequence[Row]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {
        "all": list(range(len(rows))),
        "task seen first": [],
        "strategy new to the task": [],
    }
    groups["strategy tried on the task before"] = []
    tasks: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for at, row in enumerate(rows):
        task, pair = row["task_id"], (row["task_id"], row["strategy"])
        name = "strategy tried on the task before" if pair in pairs else "strategy new to the task"
        groups[name if task in tasks else "task seen first"].append(at)
        tasks.add(task)
        pairs.add(pair)
    return groups


def _curve(pairs: Sequence[Prediction]) -> list[tuple[float, float]]:
    return [
        (float(stop), brier(pairs[max(0, stop - _WINDOW) : stop]))
        for stop in range(min(_WINDOW, len(pairs)), len(pairs) + 1, _STEP)
    ]


# -- reliability: of what was called likely, how much came true


def reliability(pairs: Sequence[Prediction]) -> list[dict[str, float]]:
    """Return, for each tenth with predictions: their count, their mean, and the observed success rate."""
    held: dict[int, list[Prediction]] = defaultdict(list)
    for guess, happened in pairs:
        held[min(_BINS - 1, int(guess * _BINS))].append((guess, happened))
    return [
        {
            "from": at / _BINS,
            "n": len(held[at]),
            "predicted": mean([guess for guess, _ in held[at]]),
            "observed": mean([float(happened) for _, happened in held[at]]),
        }
        for at in sorted(held)
    ]


def _reliability_table(reliable: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    by_bin = {system: {one["from"]: one for one in bins} for system, bins in reliable.items()}
    columns = [f"{system}: {what}" for system in reliable for what in ("n", "predicted", "observed")]
    rows = []
    for at in range(_BINS):
        cells = [by_bin[system].get(at / _BINS, {}) for system in reliable]
        told = [cell.get(what) for cell in cells for what in ("n", "predicted", "observed")]
        rows.append((f"{at / _BINS:.1f} to {(at + 1) / _BINS:.1f}", *told))
    return {"title": "of what was called likely, how much came true", "columns": columns, "table": rows}


def reliability_lines(found: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return the reliability as lines; on the diagonal, predictions are calibrated."""
    lines = {
        {FORWARD: "looking forward"}.get(system, system): [(one["predicted"], one["observed"]) for one in bins]
        for system, bins in found["reliability"].items()
    }
    return {**lines, "worth its word": [(0.0, 0.0), (1.0, 1.0)]}


# -- the order in which lessons are shown


def shown(at: int, known: MemorySlice) -> list[Shown]:
    why = {one.memory_id: one.factors for one in known.explain()}
    lessons = [(HEURISTICS, one.id, one.strategy) for one in known.heuristics]
    lessons += [(WARNINGS, one.id, one.pattern) for one in known.anti_patterns]
    return [
        Shown(at, kind, strategy, why[name]["success"].value, why[name]["confidence"].value)
        for kind, name, strategy in lessons
    ]


def _ranked(rows: Sequence[Row], lessons: Sequence[Shown]) -> dict[str, Any]:
    """Return whether the lessons were right about the task, and more often when ranked higher."""
    later = {at: _later(rows, at) for at in {one.at for one in lessons}}
    proved = [one for one in lessons if later[one.at].get(one.strategy, 0.5) != 0.5]
    foretold = {
        "ranked by, looking forward": [(one.ahead, _proved(one, later[one.at])) for one in proved],
        "believed, looking back": [(one.behind, _proved(one, later[one.at])) for one in proved],
    }
    figures = {name: predictions(pairs) for name, pairs in foretold.items() if pairs}
    pairs = {kind: _pairs([one for one in lessons if one.kind == kind], later) for kind in (HEURISTICS, WARNINGS)}
    told = {kind: {"pairs": len(right), "right": mean(right)} for kind, right in pairs.items() if right}
    return {"lessons": figures, "ranking": told, "remarks": _remarks(figures, told, len(proved))}


def _proved(lesson: Shown, later: Mapping[str, float]) -> bool:
    """Return whether the outcome confirmed the lesson; for an anti-pattern, that is a failure."""
    return (later[lesson.strategy] > 0.5) == (lesson.kind == HEURISTICS)


def _later(rows: Sequence[Row], at: int) -> dict[str, float]:
    """Return how each strategy did on the task from this row on."""
    held: dict[str, list[float]] = defaultdict(list)
    for row in rows[at:]:
        if row["task_id"] == rows[at]["task_id"]:
            held[row["strategy"]].append(float(row["success"]))
    return {strategy: mean(values) for strategy, values in held.items()}


def _pairs(lessons: Sequence[Shown], later: Mapping[int, Mapping[str, float]]) -> list[float]:
    """Return, for every two lessons, 1 if the first was confirmed more often than the second, 0 for the reverse."""
    by_row: dict[int, list[Shown]] = defaultdict(list)
    for one in lessons:
        by_row[one.at].append(one)
    return [float(right) for at, held in by_row.items() for right in _verdicts(held, later[at])]


def _verdicts(held: Sequence[Shown], later: Mapping[str, float]) -> Iterator[bool]:
    best: dict[str, Shown] = {}
    for one in held:
        best.setdefault(one.strategy, one)
    for first, second in combinations([one for one in best.values() if one.strategy in later], 2):
        if later[first.strategy] != later[second.strategy]:
            yield (later[first.strategy] > later[second.strategy]) == (first.kind == HEURISTICS)


def _remarks(figures: Mapping[str, Mapping[str, float]], ranking: Mapping[str, Any], count: int) -> list[str]:
    told = [
        f"of two {kind} shown for a task, the first proved right later on in {one['right']:.3f} of {one['pairs']} pairs"
        for kind, one in ranking.items()
    ]
    told += [
        f"whether {count} lessons shown prove right: {name}, AUC {found['AUC']:.3f}, Brier {found['Brier']:.3f}"
        for name, found in figures.items()
    ]
    return told
