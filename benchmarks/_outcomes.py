"""Outcomes in the order they happened: predict each from what is known, then learn it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from alma import ALMA
from alma.types import AntiPattern, Heuristic, Memory, MemorySlice, Outcome

from ._measures import Prediction, brier, predictions
from ._product import AGENT, Clock

_TOP_K = 20
_WINDOW = 200
_STEP = 50
_COLUMNS = ("Brier", "log loss", "AUC", "calibration error")


def measure(alma: ALMA, clock: Clock, rows: Sequence[Mapping[str, Any]], tick: Callable[[int], None]) -> dict[str, Any]:
    ours: list[Prediction] = []
    ordered = sorted(rows, key=lambda row: row["t"])
    for row in ordered:
        clock.set(datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC))
        task = row["task_text"].strip() or row["task_id"]
        ours.append((chance(alma.retrieve(task, AGENT, top_k=_TOP_K), row["strategy"]), bool(row["success"])))
        result = "success" if row["success"] else "failure"
        alma.learn(AGENT, task, result, row["strategy"], error_message=row.get("error"))
        tick(1)
    return score(ordered, ours, running_rate([bool(row["success"]) for row in ordered]))


def chance(known: MemorySlice, strategy: str) -> float:
    """How likely the strategy is to succeed: as the best lesson about it says, else as its outcomes do, else as those
    of others on similar tasks do, else even."""
    why = {one.memory_id: one for one in known.explain()}
    lessons = [(why[one.id].score, believed) for one in known if (believed := _believed(one, strategy)) is not None]
    if lessons:
        return max(lessons)[1]
    own = [outcome for outcome in known.outcomes if outcome.strategy_used == strategy]
    return _rate(own or known.outcomes, {name: one.factors["similarity"].value for name, one in why.items()})


def _believed(memory: Memory, strategy: str) -> float | None:
    """What a lesson says of the strategy's success; None when it is not about it."""
    if isinstance(memory, Heuristic) and memory.strategy == strategy:
        return memory.confidence
    if isinstance(memory, AntiPattern) and memory.pattern == strategy:
        return 1 - memory.confidence
    return None


def _rate(outcomes: Sequence[Outcome], similar: Mapping[str, float]) -> float:
    """The share of successes, each counting as much as its task is alike, from an even start."""
    weight = sum(similar[one.id] for one in outcomes)
    return (1 + sum(similar[one.id] for one in outcomes if one.success)) / (2 + weight)


def running_rate(results: Sequence[bool]) -> list[Prediction]:
    """The share of all earlier outcomes that were successes: what knows nothing of tasks and strategies."""
    good, pairs = 0, []
    for seen, result in enumerate(results):
        pairs.append(((1 + good) / (2 + seen), result))
        good += result
    return pairs


def score(rows: Sequence[Mapping[str, Any]], ours: list[Prediction], basic: list[Prediction]) -> dict[str, Any]:
    figures = {
        name: {
            "alma": predictions([ours[at] for at in places]),
            "running rate": predictions([basic[at] for at in places]),
        }
        for name, places in _groups(rows).items()
        if places
    }
    table = [
        (f"{name}: {system}", found["n"], *(found[column] for column in _COLUMNS))
        for name, systems in figures.items()
        for system, found in systems.items()
    ]
    return {
        "figures": figures,
        "columns": ["n", *_COLUMNS],
        "table": table,
        "curves": {"alma": _curve(ours), "running rate": _curve(basic)},
    }


def _groups(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
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
