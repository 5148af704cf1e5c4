"""Why a memory is retrieved for a task, or why it is not: the first obstacle on its way, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...types.kinds import MemoryType
from ...types.record import Record
from ...types.slice import Explanation, MemorySlice
from ..context import Engine
from ..search import find_closeness, read_snapshot
from .pipeline import choose_memories
from .rank import list_shared_words
from .request import Mode, Request, RetrievalContext, prepare

_MAX_PLACES = 50


@dataclass(frozen=True, slots=True)
class Why:
    memory_id: str
    retrieved: bool
    rank: int | None
    """Its place among the memories of its type, from 1; None when it is not retrieved."""
    reason: str
    explanation: Explanation | None
    """What it scored, where it was looked at."""


def explain_retrieval(engine: Engine, record: Record, request: Request) -> Why:
    """Return whether and why a memory, which is not a turn, is retrieved for a request."""
    request = request._replace(types=frozenset({MemoryType(record.kind)}))
    context = prepare(engine, request)
    broad = prepare(engine, request._replace(top_k=_MAX_PLACES, mode=Mode.BROAD))
    # Nothing is embedded inside a snapshot: a fork waits for it, and would wait for the embedder's lock, too.
    with read_snapshot(engine.store):
        place = _find_place(choose_memories(context), record.id)
        if place is not None:
            return Why(record.id, True, place[0], place[1].reason, place[1])
        obstacle = next(_list_obstacles(context, record), None)
        if obstacle is not None:
            return Why(record.id, False, None, obstacle, None)
        place = _find_place(choose_memories(broad), record.id)
    if place is not None:
        reason = f"it is outdone: looked for broadly, it comes in place {place[0]}"
        return Why(record.id, False, None, reason, place[1])
    close = find_closeness(engine, [record], context.vectors).get(record.id)
    meaning = "it has no vector to compare" if close is None else f"meaning {close:.2f}"
    shared = ", ".join(list_shared_words(context.question.text, record.text)[:6]) or "no word"
    reason = f"it is not near enough to the task: {meaning}, shares {shared}"
    return Why(record.id, False, None, reason, None)


def _find_place(memories: MemorySlice, memory_id: str) -> tuple[int, Explanation] | None:
    places = enumerate(memories.explain(), start=1)
    return next(((rank, one) for rank, one in places if one.memory_id == memory_id), None)


def _list_obstacles(context: RetrievalContext, record: Record) -> Iterator[str]:
    """Yield what keeps a memory out, however near it is."""
    where, user = context.where(record.kind), context.request.user
    if where.statuses is not None and record.status not in where.statuses:
        statuses = ", ".join(sorted(map(str, where.statuses)))
        yield f"its status is {str(record.status)!r}, and only {statuses} are retrieved"
    if record.kind == MemoryType.USER_PREFERENCE and record.user != user:
        yield f"it is a preference of {record.user!r}, and the task is for {user or 'nobody named'!r}"
    elif where.users is not None and record.user not in where.users:
        yield f"it belongs to the user {record.user!r}, and the task is for {user or 'nobody named'!r}"
    elif record.kind != MemoryType.USER_PREFERENCE and where.agents is not None and record.agent not in where.agents:
        yield f"it belongs to the agent {record.agent!r}, whose memories {context.request.agent!r} does not read"
    if where.sessions is not None and record.session not in where.sessions:
        yield "it holds in one session only"
    if not replace(where, statuses=None, users=None, agents=None, sessions=None).accepts(record):
        yield "it does not hold at this moment"
