"""From stored records to the values people see, and how much is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypedDict

from ..ports import Countable
from ..types.kinds import KINDS, MEMORY_KINDS, Memory
from ..types.query import Where, visible_users
from ..types.record import Record, Status
from ..types.slice import MemorySlice
from .context import Engine
from .evidence import believe


def view(record: Record, now: datetime) -> Memory:
    decode = KINDS[record.kind].decode
    if decode is None:
        raise TypeError(f"a {record.kind} record is not a memory")
    return decode(record, believe(record, now))


def render_slice(memories: MemorySlice, max_tokens: int) -> str:
    # Loaded when a prompt is wanted: its patterns take longer to compile than a small retrieval takes.
    from .inject.prompt import render

    return render(memories, max_tokens)


class Stats(TypedDict):
    project_id: str
    agent: str | None
    total_count: int
    """Memories in use: active and candidate."""
    by_type: dict[str, int]
    by_status: dict[str, int]
    by_agent: dict[str, int]
    turn_count: int
    """What was said in all conversations."""
    retrieval_count: int
    embedder: str


def stats(engine: Engine, agent: str | None = None, user: str | None = None) -> Stats:
    """Count what is stored; with a user, what that user sees."""
    where = Where(
        projects={engine.project},
        agents=None if agent is None else {agent},
        users=None if user is None else visible_users(user),
    )
    counts = count_records(engine, replace(where, kinds=MEMORY_KINDS))
    asked = count_records(engine, replace(where, kinds={"retrieval"}))
    live = {place: number for place, number in counts.items() if place[2] in (Status.ACTIVE, Status.CANDIDATE)}
    return Stats(
        project_id=engine.project,
        agent=agent,
        total_count=sum(live.values()),
        by_type={kind: _sum(live, 0, kind) for kind in MEMORY_KINDS},
        by_status={str(status): number for status in Status if (number := _sum(counts, 2, status))},
        by_agent={name: _sum(live, 1, name) for name in sorted({place[1] for place in live}) if name},
        turn_count=sum(count_records(engine, replace(where, kinds={"turn"})).values()),
        retrieval_count=sum(asked.values()),
        embedder=engine.embedder_name or "none (words only)",
    )


def count_records(engine: Engine, where: Where) -> Mapping[tuple[str, str, str], int]:
    if isinstance(engine.store, Countable):
        return engine.store.count(where)
    return Counter((record.kind, record.agent, str(record.status)) for record in engine.store.scan(where))


def _sum(counts: Mapping[tuple[str, str, str], int], at: int, name: str) -> int:
    return sum(number for place, number in counts.items() if place[at] == name)
