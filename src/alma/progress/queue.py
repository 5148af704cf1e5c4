"""Which item comes next, and claiming it."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..engine.admit import commit
from ..engine.context import Engine
from ..types.record import Record
from ..types.record import Status as Standing
from .plan import Plan, find_items
from .types import OPEN, Status, Strategy, WorkItem, item_of

_RECENT = 200
_GLANCE = 8


def rank_free_items(engine: Engine, agent: str | None, strategy: Strategy) -> list[WorkItem]:
    """Return what may be worked on now, the next one first. A parent waits until none of its parts is open."""
    items = [item_of(record) for record in find_items(engine, OPEN)]
    parents = {item.parent_id for item in items}
    now = engine.clock()
    candidates = [item for item in items if item.id not in parents and _can_take(item, agent, now)]
    return _sort_items(candidates, items, strategy, _usual_minutes(engine) if strategy is Strategy.QUICK_WIN else {})


def claim_next(engine: Engine, agent: str, strategy: Strategy, seconds: float) -> WorkItem | None:
    """Take the next item for an agent.

    After a lost race it looks only at the few next items in the queue, however long that is, and may skip some: all
    would lose again if they ran for the same item.
    """
    queue: list[str] = []
    losses = -1

    def attempt() -> tuple[tuple[Plan, str] | None, list[Record]]:
        nonlocal losses
        losses += 1
        near = _first_free(engine, queue, agent)
        if not near:
            queue[:] = [item.id for item in rank_free_items(engine, agent, strategy)]
            near = _first_free(engine, queue, agent)
        if not near:
            return None, []
        record = random.choice(near[: 1 + losses])
        # Not read again: the version that is claimed is the one that was seen to be free.
        plan = Plan(engine, agent, [record])
        plan.claim(record.id, seconds)
        return (plan, record.id), plan.build_records()

    taken = commit(engine, attempt)
    return taken[0].item(taken[1]) if taken else None


def _first_free(engine: Engine, queue: list[str], agent: str) -> list[Record]:
    """Return the first few that nobody took since the queue was made, and drop those before them."""
    while queue:
        records = [record for record in engine.store.get(queue[:_GLANCE]) if record.status is Standing.ACTIVE]
        near = [record for record in records if _can_take(item_of(record), agent, engine.clock())]
        if near:
            del queue[: queue.index(near[0].id)]
            return near
        del queue[:_GLANCE]
    return []


def _can_take(item: WorkItem, agent: str | None, now: datetime) -> bool:
    return item.is_free(now) and (agent is None or item.agent in (None, agent))


def _sort_items(
    candidates: Iterable[WorkItem], items: Sequence[WorkItem], strategy: Strategy, usual: Mapping[str, float]
) -> list[WorkItem]:
    waiting = {item.id: item.blocks for item in items if item.status is Status.BLOCKED}

    def rank(item: WorkItem) -> tuple[Any, ...]:
        match strategy:
            case Strategy.PRIORITY:
                best: tuple[float, ...] = (-item.priority,)
            case Strategy.FIFO:
                best = ()
            case Strategy.QUICK_WIN:
                # What is not known to be quick comes last.
                known = item.estimate_minutes
                best = (usual.get(item.item_type, math.inf) if known is None else known, -item.priority)
            case Strategy.BLOCKED_UNBLOCK:
                best = (-_count_freed(item, waiting), -item.priority)
        return (*best, item.created_at, item.id)

    return sorted(candidates, key=rank)


def _count_freed(item: WorkItem, waiting: Mapping[str, Sequence[str]]) -> int:
    """Return how many of those that wait could go on, one after the other, once this one is done."""
    seen: set[str] = set()
    rim = list(item.blocks)
    while rim:
        other = rim.pop()
        if other in waiting and other not in seen:
            seen.add(other)
            rim += waiting[other]
    return len(seen)


def _usual_minutes(engine: Engine) -> dict[str, float]:
    """Return how long the items finished lately took, by type."""
    from statistics import median

    minutes: dict[str, list[float]] = defaultdict(list)
    for record in find_items(engine, [Status.DONE])[-_RECENT:]:
        if record.body["time_spent_ms"]:
            minutes[record.body["item_type"]].append(record.body["time_spent_ms"] / 60_000)
    return {name: median(values) for name, values in minutes.items()}
