"""Why a memory is retrieved for a task, or why it is not: the first obstacle on its way, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...types.kinds import MemoryType
from ...types.record import Record, Status
from ...types.slice import Explanation, MemorySlice
from ..context import Engine
from ..search import closeness
from .pipeline import look, retrieve
from .request import Asked, Mode, Request
from .score import shared_words

_MOST = 50


@dataclass(frozen=True, slots=True)
class Why:
    memory_id: str
    retrieved: bool
    rank: int | None
    """Its place among the memories of its type, from 1; None when it is not retrieved."""
    reason: str
    explanation: Explanation | None
    """What it scored, where it was looked at."""


def why(engine: Engine, record: Record, request: Request) -> Why:
    """`record` is a memory, not a turn."""
    silent = replace(engine, settings=replace(engine.settings, keep_retrievals=False))
    narrowed = replace(request, types=frozenset({MemoryType(record.kind)}))
    shown = _place(retrieve(silent, narrowed), record.id)
    if shown is not None:
        rank, told = shown
        return Why(record.id, True, rank, told.reason, told)
    asked = look(silent, narrowed)
    obstacle = next(_obstacles(asked, record), None)
    if obstacle is not None:
        return Why(record.id, False, None, obstacle, None)
    wide = _place(retrieve(silent, replace(narrowed, top_k=_MOST, mode=Mode.BROAD)), record.id)
    if wide is None:
        return Why(record.id, False, None, f"it is not near enough to the task: {_distance(asked, record)}", None)
    rank, told = wide
    return Why(record.id, False, None, f"it is outdone: looked for broadly, it comes in place {rank}", told)


def _place(found: MemorySlice, memory_id: str) -> tuple[int, Explanation] | None:
    places = enumerate(found.explain(), start=1)
    return next(((rank, one) for rank, one in places if one.memory_id == memory_id), None)


def _obstacles(asked: Asked, record: Record) -> Iterator[str]:
    """What keeps it out before anybody asks how near it is."""
    where = asked.where(record.kind)
    if where.statuses is not None and record.status not in where.statuses:
        yield f"its status is {str(record.status)!r}, and only {_names(where.statuses)} are retrieved"
    if record.kind == MemoryType.USER_PREFERENCE and record.user != asked.request.user:
        yield f"it is a preference of {record.user!r}, and the task is for {asked.request.user or 'nobody named'!r}"
    elif where.users is not None and record.user not in where.users:
        yield f"it belongs to the user {record.user!r}, and the task is for {asked.request.user or 'nobody named'!r}"
    elif record.kind != MemoryType.USER_PREFERENCE and where.agents is not None and record.agent not in where.agents:
        yield f"it belongs to the agent {record.agent!r}, whose memories {asked.request.agent!r} does not read"
    if where.sessions is not None and record.session not in where.sessions:
        yield "it holds in one session only"
    if not replace(where, statuses=None, users=None, agents=None, sessions=None).accepts(record):
        yield "it does not hold at this moment"


def _names(statuses: object) -> str:
    return ", ".join(sorted(str(one) for one in statuses)) if isinstance(statuses, set) else str(Status.ACTIVE)


def _distance(asked: Asked, record: Record) -> str:
    near = closeness(asked.engine, record, asked.vectors)
    meaning = "it has no vector to compare" if near is None else f"meaning {near:.2f}"
    shared = shared_words(asked.question.text, record.text)
    return f"{meaning}, shares {', '.join(shared[:6]) if shared else 'no word'}"
