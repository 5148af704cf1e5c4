"""How work items change: the status machine, who waits for whom, claims, and which item comes next.

| from        | to                                           |
|-------------|----------------------------------------------|
| pending     | in_progress, blocked, review, done, failed   |
| in_progress | pending, blocked, review, done, failed       |
| blocked     | pending, in_progress, failed                 |
| review      | pending, in_progress, blocked, done, failed  |
| done        | pending, in_progress, blocked                |
| failed      | pending, in_progress, blocked                |

An item that waits for another is blocked: it can be given up (failed), but it cannot be begun, reviewed or done
before what it waits for is done. An item that waits for nothing and is set to blocked is held: it stays blocked until
somebody sets another status.

A change reads the items that it touches once, changes them together, and stores them together or not at all. Two sides
of a relation are always written together: `blocks` here and `blocked_by` there. `waiting_for` holds those blockers that
are not done, so an item knows by itself whether it is blocked.

An agent that claims an item has it alone until it is finished, released, or the lease has expired. A claim is a new
version of the item, so of two who claim the same one the store lets only one have it. Leases are compared with the
clock of the caller: machines that share a store need clocks that agree to within a small part of the lease.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ..engine import things
from ..engine.admit import build, change, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.transaction import commit
from ..errors import NotFoundError, ValidationError
from ..text import fingerprint
from ..types import times
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, new_id
from ..types.record import Status as Standing
from .types import KIND, OPEN, PAST, Status, Strategy, WorkItem, body_of, item_of

T = TypeVar("T")
Body = Mapping[str, Any]

LINE = "work_item"
"""The tag of the lines of history that are about work items."""
LEASE_SECONDS = 900.0
RELATIONS = ("parent_id", "blocks", "blocked_by")
_LISTED = (Standing.ACTIVE, Standing.ARCHIVED)
_RECENT = 200
_GLANCE = 8

_REOPENED = (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED)
TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    Status.PENDING: (Status.IN_PROGRESS, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.IN_PROGRESS: (Status.PENDING, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.BLOCKED: (Status.PENDING, Status.IN_PROGRESS, Status.FAILED),
    Status.REVIEW: (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED, Status.DONE, Status.FAILED),
    Status.DONE: _REOPENED,
    Status.FAILED: _REOPENED,
}
AHEAD = (Status.PENDING, Status.IN_PROGRESS, Status.REVIEW)
"""What an item that waits for another cannot be."""


def check_move(body: Body, status: Status) -> None:
    """Raise ValidationError unless an item may get that status; it may always keep its own."""
    title, current, blockers = body["title"], Status(body["status"]), ", ".join(body["waiting_for"])
    if status is current:
        return
    if status not in TRANSITIONS[current]:
        reason = f": it waits for {blockers}" if blockers else ""
        valid = ", ".join(TRANSITIONS[current])
        raise ValidationError(f"{title!r} is {current} and cannot be set to {status}{reason}. From {current}: {valid}.")
    if blockers and status in (*AHEAD, Status.DONE):
        raise ValidationError(
            f"{title!r} cannot be set to {status} while it waits for {blockers}: finish that, or remove the blocker"
        )


def move_item(body: Body, status: Status, now: datetime) -> dict[str, Any]:
    """Return what changes in an item with its status: times, attempts and the claim."""
    current, moment = body["status"], times.to_iso(now)
    changes: dict[str, Any] = {"status": str(status)}
    if current == Status.IN_PROGRESS and status is not Status.IN_PROGRESS:
        changes |= stop_work(body, now)
    if status is Status.IN_PROGRESS and current != Status.IN_PROGRESS:
        changes |= {"started_at": body["started_at"] or moment, "working_since": moment}
        changes["attempt_count"] = body["attempt_count"] + 1
    changes["completed_at"] = (body["completed_at"] or moment) if status is Status.DONE else None
    changes["held"] = status is Status.BLOCKED and not body["waiting_for"]
    return changes


def claim_item(body: Body, agent: str, until: datetime, now: datetime) -> dict[str, Any]:
    """Return what changes when an agent claims an item and begins it.

    An agent that let its lease expire worked on the item until then.
    """
    ended = times.from_iso(body["claimed_until"]) or now
    lapsed = stop_work(body, min(now, ended)) if body["status"] == Status.IN_PROGRESS else {}
    begun = move_item({**body, **lapsed, "status": str(Status.PENDING)}, Status.IN_PROGRESS, now)
    return {**lapsed, **begun, "claimed_by": agent, "claimed_until": times.to_iso(until)}


def stop_work(body: Body, at: datetime) -> dict[str, Any]:
    """Return the time spent up to a moment; the claim ends with the work."""
    since = times.from_iso(body["working_since"])
    spent = max(timedelta(0), at - since) if since else timedelta(0)
    total = body["time_spent_ms"] + spent // timedelta(milliseconds=1)
    return {"time_spent_ms": total, "working_since": None, "claimed_by": None, "claimed_until": None}


def select_items(
    engine: Engine, statuses: Iterable[str] | None = None, *, archived: bool = False, **conditions: Any
) -> Where:
    """Return the filter for the work items of a project; `statuses` are theirs, not those of records."""
    return Where(
        kinds={KIND},
        projects={engine.project},
        statuses=_LISTED if archived else {Standing.ACTIVE},
        keys=None if statuses is None else {f"work {status}" for status in statuses},
        **conditions,
    )


def find_items(engine: Engine, statuses: Iterable[str] | None = None, **conditions: Any) -> list[Record]:
    """Return the records of work items, oldest first."""
    return list(engine.store.scan(select_items(engine, statuses, **conditions)))[::-1]


def unknown_item(engine: Engine, id: str) -> NotFoundError:
    return NotFoundError(f"there is no work item {id!r} in project {engine.project!r}")


def change_plan(engine: Engine, by: str, step: Callable[[Plan], T], *, reorders: bool = False) -> tuple[Plan, T]:
    """Run a step until no other writer was faster; it may raise to change nothing.

    A step that `reorders` items keeps others from doing so at the same time: two changes that are right each for itself
    can together make a circle without touching the same item.
    """

    def attempt() -> tuple[tuple[Plan, T], list[Record]]:
        # The marker is read before the items are.
        marker = [_next_marker(engine)] if reorders else []
        plan = Plan(engine, by)
        result = step(plan)
        return (plan, result), [*plan.build_records(), *marker]

    return commit(engine, attempt)


def _next_marker(engine: Engine) -> Record:
    id = f"mrk_work_{fingerprint(engine.project)}"
    draft = Draft(kind="marker", body={"value": "work"}, provenance=Provenance(Origin.SYSTEM))
    markers = engine.store.get([id])
    return revise(engine, markers[0]) if markers else build(engine, draft, (), id=id)


class Plan:
    """The items that one change touches, as they were stored and as they become."""

    def __init__(self, engine: Engine, by: str = "", records: Iterable[Record] = ()) -> None:
        self.engine = engine
        self.by = by
        self._stored = {record.id: record for record in records}
        self._records = dict(self._stored)
        self._lines: list[Record] = []

    # -- reading and writing

    def load(self, ids: Iterable[str]) -> None:
        missing = [id for id in dict.fromkeys(ids) if id not in self._records]
        for record in self.engine.store.get(missing):
            if record.kind == KIND and record.project == self.engine.project and record.status in _LISTED:
                self._stored[record.id] = self._records[record.id] = record
        for id in missing:
            if id not in self._records:
                raise unknown_item(self.engine, id)

    def body(self, id: str) -> Mapping[str, Any]:
        self.load([id])
        return self._records[id].body

    def item(self, id: str) -> WorkItem:
        self.load([id])
        return item_of(self._records[id])

    def alter(self, id: str, verb: str, changes: Mapping[str, Any], why: str = "", **fields: Any) -> None:
        """Change an item's body and `fields` of its record; without a verb, its history does not mention it."""
        body, record = self.body(id), self._records[id]
        after = {name: value for name, value in changes.items() if body[name] != value}
        fields = {name: value for name, value in fields.items() if getattr(record, name) != value}
        self._records[id] = replace(record, body={**body, **after}, **fields)
        if not verb or id not in self._stored or not (after or fields or why):
            return
        before = {name: body[name] for name in after} | {name: getattr(record, name) for name in fields}
        line = change(self.engine, record, verb, why, _show_fields(before))
        told = {**line.body, "by": self.by, "after": _show_fields(after | fields)}
        self._lines.append(replace(line, agent=self.by, tags=(LINE,), body=told))

    def build_records(self) -> list[Record]:
        """Return what is to be stored: new and changed items, and the lines of their histories."""
        changed = [record for id, record in self._records.items() if record != self._stored.get(id)]
        for record in changed:
            body = record.body
            if body:
                links = tuple(dict.fromkeys(filter(None, (body["parent_id"], *body["blocked_by"]))))
                text = KINDS[KIND].text(body)
                record = replace(record, key=f"work {body['status']}", links=links, text=text)
            self._records[record.id] = revise(self.engine, record) if record.id in self._stored else record
        return [*(self._records[record.id] for record in changed), *self._lines]

    def create(self, given: Mapping[str, Any], agent: str, tags: Sequence[str]) -> str:
        """Add an item with these checked fields, under its id where somebody chose one."""
        own = dict(given)
        id = own.pop("id", "") or new_id(KINDS[KIND].prefix)
        if id in self._records or self.engine.store.get([id]):
            raise ValidationError(f"the id {id!r} is taken; leave it out to get a fresh one")
        parent, blocks, blocked_by = (own.pop(name, None) for name in RELATIONS)
        status = own.pop("status", Status.PENDING)
        past = {name: own.pop(name) for name in PAST if name in own}
        self._records[id] = things.made(self.engine, things.draft(KIND, body_of(own), agent=agent, tags=tags), id=id)
        if parent:
            self.set_parent(id, parent)
        for other in blocked_by or ():
            self.add_blocker(id, other)
        for other in blocks or ():
            self.add_blocker(other, id)
        if status is not Status.PENDING:
            self.set_status(id, status)
        self.alter(id, "", past)
        return id

    # -- status

    def set_status(self, id: str, status: Status, why: str = "") -> None:
        self.refuse_archived(id)
        self.refuse_claimed(id)
        body = self.body(id)
        check_move(body, status)
        notes = {"notes": why} if why else {}
        if status == body["status"]:
            self.alter(id, "noted", notes, why)
            return
        self.alter(id, "status", move_item(body, status, self.engine.clock()) | notes, why)
        if Status.DONE not in (status, body["status"]):
            return
        # Histories name the blocker by its id: a title would outlive the item when that is deleted.
        self.load(body["blocks"])
        for other in body["blocks"]:
            left = [one for one in self.body(other)["waiting_for"] if one != id]
            self.alter(other, "", {"waiting_for": left if status is Status.DONE else [*left, id]})
            self._settle_item(other, f"{id} is done" if status is Status.DONE else f"{id} was taken up again")

    def _settle_item(self, id: str, why: str) -> None:
        """Block an item that waits for something; unblock it when it does not and nobody holds it."""
        body, now = self.body(id), self.engine.clock()
        if body["waiting_for"] and body["status"] in AHEAD:
            self.alter(id, "blocked", move_item(body, Status.BLOCKED, now), why)
        elif not body["waiting_for"] and body["status"] == Status.BLOCKED and not body["held"]:
            self.alter(id, "unblocked", move_item(body, Status.PENDING, now), why)

    def refuse_archived(self, id: str) -> None:
        self.load([id])
        if self._records[id].status is Standing.ARCHIVED:
            raise ValidationError(f"{self.body(id)['title']!r} is archived; restore it first")

    def refuse_claimed(self, id: str) -> None:
        """Raise if another agent has claimed the item. A caller who does not say who they are may change it."""
        body = self.body(id)
        until, other = times.from_iso(body["claimed_until"]), body["claimed_by"]
        if self.by and until is not None and other != self.by and until > self.engine.clock():
            raise ValidationError(
                f"{body['title']!r} is claimed by {other!r} until {times.to_iso(until)}; {self.by!r} cannot change it"
            )

    # -- claims

    def claim(self, id: str, seconds: float) -> None:
        """Take an item for an agent, or renew the claim that the agent has."""
        self.refuse_archived(id)
        self.refuse_claimed(id)
        body, now = self.body(id), self.engine.clock()
        lease = times.from_iso(body["claimed_until"])
        if body["status"] == Status.DONE:
            raise ValidationError(f"{body['title']!r} is done; set it to pending to take it up again")
        if body["status"] != Status.IN_PROGRESS:
            check_move(body, Status.IN_PROGRESS)
        elif lease is None:
            raise ValidationError(f"{body['title']!r} is in progress already; set it to pending to give it away")
        elif body["claimed_by"] == self.by and lease > now:
            self.renew(id, seconds)
            return
        self.alter(id, "claimed", claim_item(body, self.by, now + timedelta(seconds=seconds), now))

    def renew(self, id: str, seconds: float) -> None:
        """Extend a claim. The history does not mention it: an agent may do so every minute."""
        self._refuse_unclaimed(id)
        until = self.engine.clock() + timedelta(seconds=seconds)
        self.alter(id, "", {"claimed_until": times.to_iso(until)})

    def release(self, id: str, why: str) -> None:
        self._refuse_unclaimed(id)
        self.alter(id, "released", move_item(self.body(id), Status.PENDING, self.engine.clock()), why)

    def _refuse_unclaimed(self, id: str) -> None:
        body = self.body(id)
        if body["claimed_by"] != self.by:
            who = f"{body['claimed_by']!r} has claimed it" if body["claimed_by"] else "nobody has claimed it"
            raise ValidationError(f"{self.by!r} has not claimed {body['title']!r}: {who}")

    # -- relations

    def add_blocker(self, id: str, blocker: str) -> None:
        self.load([id, blocker])
        if blocker in self.body(id)["blocked_by"]:
            return
        self.refuse_archived(id)
        self.refuse_archived(blocker)
        self._refuse_circle(id, blocker)
        body, other = self.body(id), self.body(blocker)
        waiting = body["waiting_for"] if other["status"] == Status.DONE else [*body["waiting_for"], blocker]
        self.alter(blocker, "", {"blocks": [*other["blocks"], id]})
        self.alter(id, "blocker added", {"blocked_by": [*body["blocked_by"], blocker], "waiting_for": waiting})
        self._settle_item(id, f"waits for {blocker}")

    def remove_blocker(self, id: str, blocker: str, why: str = "") -> None:
        self.load([id, blocker])
        body = self.body(id)
        if blocker not in body["blocked_by"]:
            names = ", ".join(body["blocked_by"]) or "nothing"
            raise ValidationError(f"{body['title']!r} is not blocked by {blocker!r}. It is blocked by: {names}.")
        left = {name: [one for one in body[name] if one != blocker] for name in ("blocked_by", "waiting_for")}
        self.alter(id, "blocker removed", left)
        self._settle_item(id, why or f"{blocker} no longer blocks it")
        self.alter(blocker, "", {"blocks": [one for one in self.body(blocker)["blocks"] if one != id]})

    def set_parent(self, id: str, parent: str | None) -> None:
        self.load(filter(None, (id, parent)))
        if parent is not None:
            self._refuse_circle(parent, id)
        self.alter(id, "edited", {"parent_id": parent})

    def _refuse_circle(self, id: str, blocker: str) -> None:
        """Raise if `blocker` waits for `id` already, directly or through others; a parent waits for its parts.

        The search follows those who wait for `id`: items know them themselves, and a new one has few.
        """
        came: dict[str, str] = {id: ""}
        rim = [id]
        while rim and blocker not in came:
            self.load(rim)
            pairs = [(one, other) for one in rim for other in (*self.body(one)["blocks"], self.body(one)["parent_id"])]
            rim = []
            for one, other in pairs:
                if other and other not in came:
                    came[other] = one
                    rim.append(other)
        if blocker in came:
            path = [blocker]
            while path[-1] != id:
                path.append(came[path[-1]])
            names = " → ".join(repr(self.body(one)["title"]) for one in (id, *path))
            raise ValidationError(f"this would make a circle in which each waits for the next: {names}")

    # -- putting away

    def archive(self, id: str) -> None:
        self.refuse_archived(id)
        self.refuse_claimed(id)
        body = self.body(id)
        self.load(body["blocks"])
        ended = (Status.DONE, Status.FAILED)
        others = [(other, self.body(other)) for other in body["blocks"]]
        waiting = [other for other, its in others if id in its["waiting_for"] and its["status"] not in ended]
        if waiting:
            raise ValidationError(
                f"{body['title']!r} still blocks {', '.join(waiting)}: finish it, or remove it as a blocker first"
            )
        if body["status"] == Status.IN_PROGRESS:
            self.alter(id, "", move_item(body, Status.PENDING, self.engine.clock()))
        self.alter(id, "archived", {}, status=Standing.ARCHIVED)

    def archive_done(self, ids: Sequence[str]) -> int:
        """Archive those that are still done; return how many."""
        self.load(ids)
        records = [self._records[id] for id in ids]
        due = [one.id for one in records if one.body["status"] == Status.DONE and one.status is Standing.ACTIVE]
        for id in due:
            self.archive(id)
        return len(due)

    def erase(self, id: str) -> None:
        """Leave only the id, so that nobody who read it before brings it back; its parts lose their parent."""
        self.refuse_claimed(id)
        body = self.body(id)
        for other in body["blocks"]:
            self.remove_blocker(other, id, f"{id} was deleted")
        for other in body["blocked_by"]:
            self.alter(other, "", {"blocks": [one for one in self.body(other)["blocks"] if one != id]})
        for record in find_items(self.engine, archived=True, linked={id}):
            if record.body["parent_id"] == id:
                self.alter(record.id, "edited", {"parent_id": None})
        blank: dict[str, Any] = {"text": "", "vectors": (), "embedder": "", "tags": (), "links": (), "body": {}}
        self._records[id] = replace(self._records[id], status=Standing.RETIRED, key="", **blank)
        self._lines = [line for line in self._lines if line.body["record"] != id]


def _show_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as a history shows them, without the fields that only the status machine reads."""
    shown = {name: value for name, value in values.items() if name not in ("working_since", "held")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}


def rank_free_items(engine: Engine, agent: str | None, strategy: Strategy) -> list[WorkItem]:
    """Return what may be worked on now, the next one first. A parent waits until none of its parts is open."""
    items = [item_of(record) for record in find_items(engine, OPEN)]
    parents = {item.parent_id for item in items}
    waiting = {item.id: item.blocks for item in items if item.status is Status.BLOCKED}
    usual = _usual_minutes(engine) if strategy is Strategy.QUICK_WIN else {}

    def minutes(item: WorkItem) -> float:
        # What is not known to be quick comes last.
        return usual.get(item.item_type, math.inf) if item.estimate_minutes is None else item.estimate_minutes

    ranks: Mapping[Strategy, Callable[[WorkItem], tuple[float, ...]]] = {
        Strategy.PRIORITY: lambda item: (-item.priority,),
        Strategy.FIFO: lambda item: (),
        Strategy.QUICK_WIN: lambda item: (minutes(item), -item.priority),
        Strategy.BLOCKED_UNBLOCK: lambda item: (-_count_freed(item, waiting), -item.priority),
    }
    now, rank = engine.clock(), ranks[strategy]
    candidates = [item for item in items if item.id not in parents and _can_take(item, agent, now)]
    return sorted(candidates, key=lambda item: (*rank(item), item.created_at, item.id))


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
