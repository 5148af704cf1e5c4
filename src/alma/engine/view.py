"""From stored records to the values people see, and how much is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import TypedDict, TypeVar, cast

from ..ports import Countable, Watchable
from ..types.kinds import KINDS, MEMORY_KINDS, Memory
from ..types.query import Where, visible_users
from ..types.record import LIVE, Record, Status
from ..types.slice import MemorySlice
from .context import Engine
from .evidence import believe

T = TypeVar("T")
_MOST_ANSWERS = 1000


def to_memory(record: Record, now: datetime) -> Memory:
    """Return a record as the memory that a user sees, with its confidence as of `now`."""
    decode = KINDS[record.kind].decode
    if decode is None:
        raise TypeError(f"a {record.kind} record is not a memory")
    return decode(record, believe(record, now))


def render_slice(memories: MemorySlice, max_tokens: int) -> str:
    """Return the memories as Markdown for a prompt of at most `max_tokens` tokens."""
    # Loaded when a prompt is wanted: its patterns take longer to compile than a small retrieval takes.
    from .prompt import render_memories

    return render_memories(memories, max_tokens)


class Stats(TypedDict):
    """How many memories a project has, by type, status and agent."""

    project_id: str
    agent: str | None
    total_count: int  # Memories in use: active and candidate.
    by_type: dict[str, int]
    by_status: dict[str, int]
    by_agent: dict[str, int]
    turn_count: int  # What was said in all conversations.
    retrieval_count: int
    embedder: str


def stats(engine: Engine, agent: str | None = None, user: str | None = None) -> Stats:
    """Count what is stored; with a user, what that user sees."""
    agents, users = None if agent is None else {agent}, None if user is None else visible_users(user)
    where = engine.where(*MEMORY_KINDS, "turn", "retrieval", agents=agents, users=users)
    by_type: dict[str, int] = dict.fromkeys(MEMORY_KINDS, 0)
    by_status, by_agent, others = Counter[str](), Counter[str](), Counter[str]()
    counts = recall(engine, ("stats", engine.project, agent, user), lambda: count_records(engine, where))
    for (kind, name, status), number in counts.items():
        if kind not in by_type:
            others[kind] += number
            continue
        by_status[status] += number
        if status in LIVE:
            by_type[kind] += number
            by_agent[name] += number
    return Stats(
        project_id=engine.project,
        agent=agent,
        total_count=sum(by_type.values()),
        by_type=by_type,
        by_status={str(status): by_status[status] for status in Status if by_status[status]},
        by_agent={name: by_agent[name] for name in sorted(by_agent) if name},
        turn_count=others["turn"],
        retrieval_count=others["retrieval"],
        embedder=engine.embedder_name or "none (words only)",
    )


def recall(engine: Engine, key: Hashable, compute: Callable[[], T]) -> T:
    """Return what was computed before for this key, unless something was written to the store since."""
    if not isinstance(engine.store, Watchable):
        return compute()
    revision = engine.store.revision()
    if key in engine.answers and engine.answers[key][0] == revision:
        return cast(T, engine.answers[key][1])
    answer = compute()
    if len(engine.answers) >= _MOST_ANSWERS:
        engine.answers.clear()
    engine.answers[key] = revision, answer
    return answer


def count_records(engine: Engine, where: Where) -> Mapping[tuple[str, str, str], int]:
    """Return how many records there are of each kind, agent and status."""
    if isinstance(engine.store, Countable):
        return engine.store.count(where)
    return Counter((record.kind, record.agent, str(record.status)) for record in engine.store.scan(where))
