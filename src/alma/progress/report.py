"""How far things are: counts, what a session did, and what happened to an item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..engine import things
from ..engine.context import Engine
from ..ports import Countable
from ..types import times
from ..types.query import Where
from ..types.record import Record
from ..types.record import Status as Standing
from .edit import LINE, held, key
from .types import KIND, ItemChange, ProgressLog, ProgressSummary, Status, WorkItem, item_of, log_of

LOG = "progress_log"


def summary(engine: Engine, agent: str | None) -> ProgressSummary:
    counts = {str(status): _count(engine, _where(engine, agent, status)) for status in Status}
    return ProgressSummary(
        project_id=engine.project,
        agent=agent,
        items_total=sum(counts.values()),
        by_status=counts,
        current=urgent(engine, agent, Status.IN_PROGRESS),
        blocked=urgent(engine, agent, Status.BLOCKED),
        created_at=engine.clock(),
    )


def urgent(engine: Engine, agent: str | None, status: Status) -> tuple[WorkItem, ...]:
    agents = None if agent is None else {agent}
    found = [item_of(record) for record in held(engine, statuses=[status], agents=agents)]
    return tuple(sorted(found, key=lambda item: (-item.priority, item.created_at, item.id)))


def _where(engine: Engine, agent: str | None, status: Status) -> Where:
    agents = None if agent is None else {agent}
    kept = {Standing.ACTIVE}
    return Where(kinds={KIND}, projects={engine.project}, agents=agents, statuses=kept, keys={key(status)})


def _count(engine: Engine, where: Where) -> int:
    if isinstance(engine.store, Countable):
        return sum(engine.store.count(where).values())
    return sum(1 for _ in engine.store.scan(where))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is told of a session; what is not, is found out."""

    agent: str
    session: str
    item: str | None = None
    action: str = ""
    started: datetime | None = None
    actions: int | None = None
    outcomes: int | None = None


def log(engine: Engine, told: Moment) -> ProgressLog:
    now = summary(engine, None)
    start = told.started or _session_start(engine, told.session) or engine.clock()
    own = [item.id for item in now.current if told.agent in (item.claimed_by, item.agent)]
    body = {
        "total": now.items_total,
        "done": now.items_done,
        "in_progress": now.items_in_progress,
        "blocked": now.items_blocked,
        "current": told.item or next(iter(own), None),
        "action": told.action,
        "actions": _since(engine, "change", told.agent, start) if told.actions is None else told.actions,
        "outcomes": _since(engine, "outcome", told.agent, start) if told.outcomes is None else told.outcomes,
        "session_start": times.to_iso(start),
    }
    return log_of(things.add(engine, things.draft(LOG, body, agent=told.agent, session=told.session)))


def _session_start(engine: Engine, session: str) -> datetime | None:
    """From the session itself, where one is kept; else from its first log."""
    for record in engine.store.get([session]):
        if record.kind == "session" and record.project == engine.project:
            return times.from_iso(record.body.get("started_at")) or record.created_at
    logs = things.scan(engine, LOG, sessions={session})
    return times.from_iso(logs[-1].body["session_start"]) if logs else None


def _since(engine: Engine, kind: str, agent: str, start: datetime) -> int:
    """How many changes to work items, or outcomes, an agent made since then."""
    tagged = {LINE} if kind == "change" else None
    where = Where(kinds={kind}, projects={engine.project}, agents={agent}, tagged=tagged, created_from=start)
    return _count(engine, where)


def logs(engine: Engine, agent: str | None, session: str | None, limit: int) -> list[ProgressLog]:
    agents = None if agent is None else {agent}
    sessions = None if session is None else {session}
    return [log_of(record) for record in things.scan(engine, LOG, limit, agents=agents, sessions=sessions)]


def history(engine: Engine, record: Record) -> list[ItemChange]:
    made = ItemChange(at=record.created_at, by="", verb="created")
    return [made, *(_told(line) for line in lines(engine, record.id))]


def lines(engine: Engine, id: str) -> list[Record]:
    """What was written down of an item, oldest first."""
    return things.scan(engine, "change", linked={id})[::-1]


def _told(line: Record) -> ItemChange:
    body = line.body
    return ItemChange(
        at=line.created_at,
        by=body.get("by", ""),
        verb=body["verb"],
        why=body["why"],
        before=body["before"],
        after=body.get("after", {}),
    )
