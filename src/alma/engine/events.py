"""Events: one for each memory that a transaction changes, and their deliveries to webhooks.

A delivery is a record that waits in the same store, and is written in the same transaction as the change: a committed
change has its deliveries, and one that was not stored has none. `alma.events` sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..text import shorten
from ..types.events import EventType, MemoryEvent
from ..types.kinds import KINDS, MEMORY_KINDS
from ..types.record import LIVE, Record, Status, new_id
from .admit import make_record
from .calls import ACTOR, CALL
from .changes import CHANGESET, UNFILTERED, describe_change

if TYPE_CHECKING:
    from .context import Engine
    from .transaction import Transaction

DELIVERY = "delivery"
_CHARS = 500


def derive_events(tx: Transaction, records: Sequence[Record]) -> list[MemoryEvent]:
    """Return one event for each memory that a transaction changes or erases.

    `records` are those that the transaction stores, with its changesets.
    """
    change = next((one.key for one in records if one.kind == CHANGESET), "")
    lines = {one.body["record"]: one for one in records if one.kind == "change" and tx.is_new(one)}
    tx.get([one.id for one in tx.changed if one.version > 1], as_stored=True)
    erased = {one.id: one for one in tx.erased if one.kind in MEMORY_KINDS}
    events = []
    for record in tx.changed:
        line = lines.get(record.id)
        type = _find_type(tx.read_stored(record.id), record, str(line.body["verb"]) if line else "")
        if type is not None and record.id not in erased:
            # A line that quotes another memory holds its words.
            why = str(line.body["why"]) if line and len(line.links) == 1 else ""
            events.append(describe_event(tx.engine, type, record, change=change, why=shorten(why, _CHARS)))
    blank: dict[str, Any] = {"user": "", "status": "", "version": 0, "text": "", "related": ()}
    return events + [describe_event(tx.engine, EventType.DELETED, one, **blank) for one in erased.values()]


def describe_event(engine: Engine, type: EventType, record: Record, **fields: Any) -> MemoryEvent:
    """Return the event of a changed record, or of a retrieval."""
    related: tuple[str, ...] = (record.superseded_by,) if record.superseded_by else ()
    text = "\n".join(KINDS[record.kind].passages(record.body))
    if record.kind not in MEMORY_KINDS:
        related, text = record.links, str(record.body.get("task", ""))
    names = ("kind", "project", "agent", "user", "status", "version")
    values: dict[str, Any] = {name: getattr(record, name) for name in names} | {"type": type, "record": record.id}
    values |= {"text": shorten(text or str(record.body.get("title", "")), _CHARS), "related": related}
    values |= {"by": engine.actor or ACTOR.get(), "call": CALL.get()}
    return MemoryEvent(id=new_id("evt"), at=engine.clock(), **values | fields)


def _find_type(before: Record | None, after: Record, verb: str) -> EventType | None:
    """Return what happened to a record. An explicit line of history decides, otherwise the difference."""
    if after.kind == "retrieval" and before is None:
        return EventType.RETRIEVED
    if after.kind == "comparison" and EventType.CONFLICT in {*after.tags} - {*(before.tags if before else ())}:
        return EventType.CONFLICT
    if after.kind not in MEMORY_KINDS:
        return None
    if verb == EventType.MERGED and after.status not in LIVE:
        return EventType.MERGED
    if before is None or before.status is not after.status:
        if after.status not in LIVE:
            return EventType.SUPERSEDED if after.status is Status.SUPERSEDED else EventType.FORGOTTEN
        if before is not None and before.status not in LIVE:
            return EventType.RESTORED
        if before is None or after.status is Status.ACTIVE:
            return EventType.LEARNED
    is_changed = before is not None and describe_change(before, after).keys() - UNFILTERED
    return EventType.CHANGED if is_changed else EventType.JUDGED


def make_deliveries(engine: Engine, events: Iterable[MemoryEvent]) -> list[Record]:
    """Return the deliveries of events: one for each webhook that wants the type."""
    deliveries = []
    for event in events:
        place: dict[str, Any] = {"project": event.project, "agent": event.agent, "user": event.user}
        # Erasing a memory erases what links to it, and must leave this event. A retrieval holds a question about it.
        related = event.related if event.type == EventType.RETRIEVED else ()
        links = () if event.type == EventType.DELETED else tuple(dict.fromkeys((event.record, *related)))
        body = {"event": event.to_json(), "attempts": 0, "next_at": 0, "error": ""}
        for webhook in engine.events.webhooks:
            if event.type in webhook.events:
                deliveries.append(make_record(engine, DELIVERY, body, key=webhook.id, links=links, **place))
    return deliveries
