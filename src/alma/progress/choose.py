"""Which item comes next."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..engine.context import Engine
from .edit import held
from .types import OPEN, Status, Strategy, WorkItem, item_of

_LATELY = 200
_MINUTE_MS = 60_000

Order = Callable[[WorkItem], tuple[Any, ...]]


def ranked(engine: Engine, agent: str | None, strategy: Strategy) -> list[WorkItem]:
    """What may be worked on now, the next one first."""
    items = [item_of(record) for record in held(engine, statuses=OPEN)]
    usual = _usual_minutes(engine) if strategy is Strategy.QUICK_WIN else {}
    return order(free(items, agent, engine.clock()), items, strategy, usual)


def free(items: Sequence[WorkItem], agent: str | None, now: datetime) -> list[WorkItem]:
    """A parent waits until none of its parts is open."""
    whole = {item.parent_id for item in items if item.is_open}
    return [item for item in items if item.is_free(now) and item.id not in whole and for_agent(item, agent)]


def for_agent(item: WorkItem, agent: str | None) -> bool:
    return agent is None or item.agent in (None, agent)


def order(
    candidates: Iterable[WorkItem], items: Sequence[WorkItem], strategy: Strategy, usual: Mapping[str, float]
) -> list[WorkItem]:
    first: Mapping[Strategy, Callable[[], Order]] = {
        Strategy.PRIORITY: lambda: lambda item: (-item.priority,),
        Strategy.FIFO: lambda: lambda item: (),
        Strategy.QUICK_WIN: lambda: lambda item: (_minutes(item, usual), -item.priority),
        Strategy.BLOCKED_UNBLOCK: lambda: _most_freed(items),
    }
    best = first[strategy]()
    return sorted(candidates, key=lambda item: (*best(item), item.created_at, item.id))


def _most_freed(items: Sequence[WorkItem]) -> Order:
    waiting = {item.id: item.blocks for item in items if item.status is Status.BLOCKED}
    return lambda item: (-freed(item, waiting), -item.priority)


def freed(item: WorkItem, waiting: Mapping[str, Sequence[str]]) -> int:
    """How many of those that wait could go on, one after the other, once this one is done."""
    seen: set[str] = set()
    rim = list(item.blocks)
    while rim:
        other = rim.pop()
        if other in waiting and other not in seen:
            seen.add(other)
            rim += waiting[other]
    return len(seen)


def _minutes(item: WorkItem, usual: Mapping[str, float]) -> float:
    """What is not known to be quick comes last."""
    if item.estimate_minutes is not None:
        return item.estimate_minutes
    return usual.get(item.item_type, math.inf)


def _usual_minutes(engine: Engine) -> dict[str, float]:
    """By type, how long the items finished lately took."""
    from statistics import median

    took: dict[str, list[float]] = defaultdict(list)
    for record in held(engine, statuses=[Status.DONE])[-_LATELY:]:
        if record.body["time_spent_ms"]:
            took[record.body["item_type"]].append(record.body["time_spent_ms"] / _MINUTE_MS)
    return {name: median(minutes) for name, minutes in took.items()}
