"""Work items and how they change: statuses, blockers, claims, and which item comes next.

| from        | to                                           |
|-------------|----------------------------------------------|
| pending     | in_progress, blocked, review, done, failed   |
| in_progress | pending, blocked, review, done, failed       |
| blocked     | pending, in_progress, failed                 |
| review      | pending, in_progress, blocked, done, failed  |
| done        | pending, in_progress, blocked                |
| failed      | pending, in_progress, blocked                |

An item with an unfinished blocker is blocked: it may fail, but it cannot be started, reviewed or done before its
blockers are done. An item without blockers that is set to blocked is on hold: it stays blocked until somebody sets
another status.

Both sides of a relation are written together: `blocks` of the blocker and `blocked_by` of the blocked item.
`waiting_for` holds the blockers that are not done, so an item alone shows whether it is blocked.

An agent that claims an item holds it alone until the item is finished, is released, or the lease expires. A claim
writes a new version of the item, so if two agents claim it, the store accepts only one. Leases are compared with the
caller's clock: machines that share a store need clocks that agree to within a small part of the lease.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Annotated, Any

from ..codec import decode_record
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.transaction import Transaction
from ..errors import NotFoundError, ValidationError, unknown
from ..operations import About, Effect, Operation
from ..types import times
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record, new_id
from ..types.record import Status as RecordStatus

Body = Mapping[str, Any]

LEASE_SECONDS = 900.0
KIND = "work_item"
_RECENT = 200
_SHOWN = 5


class Status(StrEnum):
    """The status of a work item; the allowed changes are in the table above."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    REVIEW = "review"
    DONE = "done"
    FAILED = "failed"


class Strategy(StrEnum):
    """How the next item is chosen; ties go to the higher priority, then to the older one."""

    PRIORITY = "priority"
    BLOCKED_UNBLOCK = "blocked_unblock"  # The item that unblocks most others, directly or indirectly.
    QUICK_WIN = "quick_win"  # The shortest item: by its estimate, or without one by the median time of its type.
    FIFO = "fifo"  # The oldest item.


RELATIONS = ("parent_id", "blocks", "blocked_by")
# Statuses that an item with unfinished blockers cannot have.
AHEAD = (Status.PENDING, Status.IN_PROGRESS, Status.REVIEW)
TRANSITIONS = {
    Status.PENDING: "in_progress blocked review done failed".split(),
    Status.IN_PROGRESS: "pending blocked review done failed".split(),
    Status.BLOCKED: "pending in_progress failed".split(),
    Status.REVIEW: "pending in_progress blocked done failed".split(),
    Status.DONE: "pending in_progress blocked".split(),
    Status.FAILED: "pending in_progress blocked".split(),
}


def check_title(name: str, value: object) -> str:
    """Return a title without surrounding spaces; raise ValidationError if it is empty or too long."""
    return validate.text(name, value, 500).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One tracked task."""

    id: str = ""
    project_id: str = ""
    agent: str | None = None  # The owner; None if any agent may take it.
    title: Annotated[str, About("", check=check_title)]
    description: str = ""
    item_type: Annotated[str, About("", check=validate.name)] = "task"  # Such as feature, bug, task, research_question.
    status: Status = Status.PENDING
    priority: Annotated[int, About("", least=0, most=100)] = 50  # 0 to 100, 100 being the most urgent.
    started_at: datetime | None = None  # When it was first in progress.
    completed_at: datetime | None = None
    # Total time in progress; the current stretch is added when it ends.
    time_spent_ms: Annotated[int, About("", least=0)] = 0
    attempt_count: Annotated[int, About("", least=0)] = 0  # How many times it was in progress.
    parent_id: str | None = None
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()  # Those of `blocked_by` that are not done.
    tests: tuple[str, ...] = ()
    tests_passing: bool = False  # True if there are tests and the last recorded result of each is a pass.
    test_results: Mapping[str, bool] = field(default_factory=dict)
    estimate_minutes: Annotated[float | None, About("", least=0.0, most=1e7)] = None
    notes: str = ""  # The latest note.
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    archived: bool = False
    tags: tuple[str, ...] = ()
    created_at: datetime = field(default_factory=times.now)
    updated_at: datetime = field(default_factory=times.now)
    metadata: Annotated[Mapping[str, Any], About("", check=validate.metadata)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSummary:
    """The progress of a project, or of one agent in it. Archived items are not counted."""

    project_id: str
    agent: str | None
    items_total: int
    by_status: Mapping[str, int]  # Every status, including those with no items.
    current: tuple[WorkItem, ...] = ()  # The items in progress, most urgent first.
    blocked: tuple[WorkItem, ...] = ()
    created_at: datetime

    @property
    def items_done(self) -> int:
        """How many items are done."""
        return self.by_status[Status.DONE]

    @property
    def items_in_progress(self) -> int:
        """How many items are in progress."""
        return self.by_status[Status.IN_PROGRESS]

    @property
    def items_blocked(self) -> int:
        """How many items are blocked."""
        return self.by_status[Status.BLOCKED]

    @property
    def completion_percentage(self) -> float:
        """The share of items that are done, in percent; 0 without items."""
        return 100.0 * self.items_done / self.items_total if self.items_total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLog:
    """The progress of a project at one moment of a session."""

    id: str
    project_id: str
    agent: str
    session_id: str
    items_total: int
    items_done: int
    items_in_progress: int
    items_blocked: int
    current_item_id: str | None
    current_action: str
    session_start: datetime
    actions_taken: int
    outcomes_recorded: int
    created_at: datetime


LOG_NAMES = {
    "items_total": "total", "items_done": "done", "items_in_progress": "in_progress", "items_blocked": "blocked",
    "current_item_id": "current", "current_action": "action", "actions_taken": "actions",
    "outcomes_recorded": "outcomes",
}  # fmt: skip


# -- fields that a caller passes

FIELDS = "title description item_type priority estimate_minutes tags metadata".split()
CREATABLE = [*FIELDS, *"""agent parent_id tests id project_id status notes blocks blocked_by test_results tests_passing
started_at completed_at time_spent_ms attempt_count""".split()]  # fmt: skip
NEW = WorkItem(title="")
_FIELDS = dict(Operation("work item", WorkItem, Effect.ADDS, idempotent=True, group="work").own_parameters)
# `Operation` skips the first parameter of a method, and here that is the id.
_FIELDS["id"] = _FIELDS["project_id"]._replace(name="id")


def check_fields(fields: Body) -> dict[str, Any]:
    """Return the checked fields of a new item, without those that are None."""
    for name in fields:
        if name not in CREATABLE:
            raise ValidationError(unknown("field of a work item", name, CREATABLE))
    if fields.get("title") is None:
        raise ValidationError("a work item needs a title: pass `title`")
    return {name: _FIELDS[name].check(value) for name, value in fields.items() if value is not None}


# -- how items change

# A work item that can be changed: the fields of its stored body (times as text), its id, agent, tags and `archived`.
Item = SimpleNamespace
_BLANK = {name: getattr(NEW, name, None) for name in KINDS[KIND].fields} | {"held": False, "metadata": {}}


def _read_fields(record: Record) -> dict[str, Any]:
    """Return the fields of a stored item; lists are copies."""
    place = {"id": record.id, "agent": record.agent or None, "archived": record.status is RecordStatus.ARCHIVED}
    stored = {**_BLANK, **record.body, **place, "tags": record.tags}
    return {name: list(value) if isinstance(value, list | tuple) else value for name, value in stored.items()}


def set_tests(item: Item, tests: Iterable[str], results: Mapping[str, bool]) -> None:
    """Set the tests of an item and their results."""
    item.tests = list(dict.fromkeys(tests))
    item.test_results = {test: results[test] for test in item.tests if test in results}
    item.tests_passing = bool(item.tests) and all(map(item.test_results.get, item.tests))


class WorkPlan:
    """The work items of a project in one transaction.

    `by` is the agent that makes the changes, or empty if the caller did not name one. `get_item` returns an item that
    can be changed in place, and `save_item` stores its changes.
    """

    def __init__(self, tx: Transaction, by: str = "") -> None:
        self.tx = tx
        self.engine = tx.engine
        self.by = by
        self._items: dict[str, Item] = {}

    def find_record(self, id: str) -> Record:
        """Return the record of an item, archived or not; raise NotFoundError if there is none."""
        record, project = self.tx.find(id), self.engine.project
        if record is None or (record.kind, record.project) != (KIND, project) or record.status is RecordStatus.RETIRED:
            newest = [one.id for one in self.engine.store.scan(select_items(self.engine), _SHOWN)]
            hint = f"The newest: {', '.join(newest)}." if newest else "It has no work items yet."
            raise NotFoundError(f"there is no work item {id!r} in project {project!r}. {hint}")
        return record

    def get_item(self, id: str) -> Item:
        """Return an item to be changed in place; the same object each time it is called."""
        if id not in self._items:
            self._items[id] = Item(**_read_fields(self.find_record(id)))
        return self._items[id]

    def save_item(self, item: Item, verb: str = "", why: str = "") -> None:
        """Store the changes of an item; with a verb, also add them to its history."""
        record = self.find_record(item.id)
        old, is_new = _read_fields(record), self.tx.is_new(record)
        after = {name: clean(value) for name, value in vars(item).items() if value != old[name]}
        if not after and not why:
            return
        vars(item).update(after)
        changed = self.tx.update(
            record,
            body={name: getattr(item, name) for name in {**_BLANK, **record.body}},
            agent=item.agent or "",
            tags=tuple(item.tags),
            status=RecordStatus.ARCHIVED if item.archived else RecordStatus.ACTIVE,
            key=f"work {item.status}",
            links=tuple(dict.fromkeys(filter(None, (item.parent_id, *item.blocked_by)))),
            text=KINDS[KIND].text(vars(item)),
        )
        vars(item).update(_read_fields(changed))
        if verb and not is_new:
            # These two are internal to the status changes.
            shown = [name for name in after if name not in ("working_since", "held")]
            line = self.tx.add_history(record, verb, clean(why), {name: old[name] for name in shown})
            body = {**line.body, "by": self.by, "after": {name: after[name] for name in shown}}
            self.tx.put(replace(line, agent=self.by, tags=(KIND,), body=body))

    def create_item(self, fields: Body) -> Item:
        """Add an item with these checked fields, and with its relations to others; return it."""
        id = fields.get("id") or new_id(KINDS[KIND].prefix)
        if self.tx.find(id) is not None:
            raise ValidationError(f"the id {id!r} is already in use; omit it to get a new one")
        self.tx.add(KIND, _BLANK, id=id)
        item = self.get_item(id)
        own = {name: fields[name] for name in fields if name in vars(item) and name not in ("id", "status", *RELATIONS)}
        own = {name: times.to_iso(value) if isinstance(value, datetime) else value for name, value in own.items()}
        vars(item).update(own)
        if fields.get("parent_id"):
            self.set_parent(item, fields["parent_id"])
        for other in map(self.get_item, fields.get("blocked_by", ())):
            self.add_blocker(item, other)
        for other in map(self.get_item, fields.get("blocks", ())):
            self.add_blocker(other, item)
        if fields.get("status", Status.PENDING) != Status.PENDING:
            self.set_status(item, Status(fields["status"]))
        # Setting the status changed times and attempts; the caller's own values win.
        vars(item).update({name: value for name, value in own.items() if value})
        results = item.test_results or dict.fromkeys(item.tests if item.tests_passing else (), True)
        set_tests(item, (*item.tests, *results), results)
        self.save_item(item)
        return item

    # -- status

    def set_status(self, item: Item, status: Status, notes: str | None = None) -> None:
        """Set the status and the note of an item, and block or free the items that wait for it.

        Without `notes` the note stays; an empty one clears it.
        """
        check_active(item)
        why, item.notes = notes or "", item.notes if notes is None else notes
        if status == item.status:
            self.save_item(item, "noted", why)
            return
        check_move(item, status)
        changes_others = Status.DONE in (status, item.status)
        self.apply_status(item, status)
        self.save_item(item, "status", why)
        # The history refers to the blocker by id: a title would remain there after the blocker is deleted.
        reason = f"{item.id} is done" if status is Status.DONE else f"{item.id} was taken up again"
        for other in map(self.get_item, item.blocks if changes_others else ()):
            other.waiting_for = [one for one in other.waiting_for if one != item.id]
            other.waiting_for += [] if status is Status.DONE else [item.id]
            self.save_item(other)
            self.update_blocked(other, reason)

    def apply_status(self, item: Item, status: Status, until: datetime | None = None) -> None:
        """Set a status and update times, attempts and the claim; work in progress ends at `until`, or now."""
        now = self.engine.clock()
        moment = times.to_iso(now)
        if item.status == Status.IN_PROGRESS:
            spent = (until or now) - (times.from_iso(item.working_since) or now)
            item.time_spent_ms += max(0, spent // timedelta(milliseconds=1))
            item.working_since = item.claimed_by = item.claimed_until = None
        if status is Status.IN_PROGRESS:
            item.started_at = item.started_at or moment
            item.working_since = moment
            item.attempt_count += 1
        item.status = str(status)
        item.completed_at = moment if status is Status.DONE else None
        item.held = status is Status.BLOCKED and not item.waiting_for

    def update_blocked(self, item: Item, why: str) -> None:
        """Block an item that has unfinished blockers; unblock it once it has none, unless it is on hold."""
        if item.waiting_for and item.status in AHEAD:
            self.apply_status(item, Status.BLOCKED)
            self.save_item(item, "blocked", why)
        elif not item.waiting_for and item.status == Status.BLOCKED and not item.held:
            self.apply_status(item, Status.PENDING)
            self.save_item(item, "unblocked", why)

    # -- claims

    def check_claim(self, item: Item) -> None:
        """Raise ValidationError if another agent has claimed the item; a caller without a name may change it."""
        until = times.from_iso(item.claimed_until)
        if self.by and item.claimed_by != self.by and until is not None and until > self.engine.clock():
            raise ValidationError(
                f"work item {item.title!r} is claimed by {item.claimed_by!r} until "
                f"{times.format_minute(until)}; {self.by!r} cannot change it before it is released or the claim expires"
            )

    def check_holder(self, item: Item) -> None:
        """Raise ValidationError unless the agent that makes the changes has claimed the item."""
        if item.claimed_by != self.by:
            who = f"{item.claimed_by!r} has claimed it" if item.claimed_by else "nobody has claimed it"
            raise ValidationError(f"{self.by!r} has not claimed work item {item.title!r}: {who}")

    def claim_item(self, item: Item, seconds: float) -> None:
        """Claim an item for the agent that makes the changes, or renew its claim."""
        check_active(item)
        now, lease = self.engine.clock(), times.from_iso(item.claimed_until)
        is_renewed = item.claimed_by == self.by and lease is not None and lease > now
        if lease is None and item.status in (Status.DONE, Status.IN_PROGRESS):
            raise ValidationError(
                f"work item {item.title!r} is already {item.status}; set it to pending before claiming it"
            )
        if lease is None:
            check_move(item, Status.IN_PROGRESS)
        if not is_renewed:
            # If the previous lease has expired, the work under it counts until then.
            self.apply_status(item, Status.IN_PROGRESS, min(now, lease or now))
        item.claimed_by = self.by
        item.claimed_until = times.to_iso(now + timedelta(seconds=seconds))
        # A renewal is not added to the history: agents may renew every minute.
        self.save_item(item, "" if is_renewed else "claimed")

    # -- relations

    def add_blocker(self, item: Item, blocker: Item) -> None:
        """Let an item wait for another; raise ValidationError if that would make a cycle."""
        if blocker.id in item.blocked_by:
            return
        check_active(item)
        check_active(blocker)
        self._check_circle(item, blocker)
        blocker.blocks.append(item.id)
        self.save_item(blocker)
        item.blocked_by.append(blocker.id)
        if blocker.status != Status.DONE:
            item.waiting_for.append(blocker.id)
        self.save_item(item, "blocker added")
        self.update_blocked(item, f"waits for {blocker.id}")

    def remove_blocker(self, item: Item, blocker: Item, why: str = "") -> None:
        """Let an item no longer wait for another; raise ValidationError if it does not."""
        if blocker.id not in item.blocked_by:
            names = ", ".join(item.blocked_by) or "none"
            raise ValidationError(f"work item {item.title!r} is not blocked by {blocker.id!r}. Its blockers: {names}.")
        item.blocked_by.remove(blocker.id)
        item.waiting_for = [one for one in item.waiting_for if one != blocker.id]
        self.save_item(item, "blocker removed")
        self.update_blocked(item, why or f"{blocker.id} no longer blocks it")
        blocker.blocks.remove(item.id)
        self.save_item(blocker)

    def set_parent(self, item: Item, parent: str | None) -> None:
        """Make an item a part of another, or of none; raise ValidationError if that would make a cycle."""
        if parent:
            self._check_circle(self.get_item(parent), item)
        item.parent_id = parent or None
        self.save_item(item, "edited")

    def _check_circle(self, item: Item, blocker: Item) -> None:
        """Raise ValidationError if `blocker` already waits for `item`, directly or indirectly.

        A parent waits for its parts. The search starts at the items that wait for `item`, because a new one has few.
        """
        came_from, rim = {item.id: item}, [item]
        for one in rim:
            fresh = [id for id in (*one.blocks, one.parent_id) if id and id not in came_from]
            came_from |= dict.fromkeys(fresh, one)
            rim += map(self.get_item, fresh)
        if blocker.id in came_from:
            path = [item, blocker]
            while path[-1] is not item:
                path.append(came_from[path[-1].id])
            names = " → ".join(repr(one.title) for one in path)
            raise ValidationError(f"this would make a cycle of items that wait for each other: {names}")

    # -- archiving and deleting

    def archive_item(self, item: Item) -> None:
        """Archive an item; raise ValidationError if others still wait for it."""
        check_active(item)
        others = [one for one in map(self.get_item, item.blocks) if item.id in one.waiting_for]
        if waiting := [one.id for one in others if one.status != Status.FAILED]:
            raise ValidationError(
                f"work item {item.title!r} still blocks {', '.join(waiting)}: finish it or remove it as a blocker first"
            )
        if item.status == Status.IN_PROGRESS:
            self.apply_status(item, Status.PENDING)
        item.archived = True
        self.save_item(item, "archived")

    def erase_item(self, item: Item) -> None:
        """Erase an item and its relations; its parts lose their parent.

        The id stays as a retired record, so that a writer that read the item before cannot bring it back.
        """
        self.check_claim(item)
        for other in map(self.get_item, [*item.blocks]):
            self.remove_blocker(other, item, f"{item.id} was deleted")
        for other in map(self.get_item, item.blocked_by):
            other.blocks.remove(item.id)
            self.save_item(other)
        for record in self.tx.scan(select_items(self.engine, archived=True, linked={item.id})):
            if record.body["parent_id"] == item.id:
                self.set_parent(self.get_item(record.id), None)
        blank: dict[str, Any] = {"text": "", "vectors": (), "embedder": "", "tags": (), "links": (), "body": {}}
        self.tx.update(self.find_record(item.id), status=RecordStatus.RETIRED, key="", **blank)
        for line in self.tx.changed:
            if line.body.get("record") == item.id:
                self.tx.drop(line)


def check_active(item: Item) -> None:
    """Raise ValidationError if an item is archived."""
    if item.archived:
        raise ValidationError(f"work item {item.title!r} is archived; restore it first")


def check_move(item: Item, status: Status) -> None:
    """Raise ValidationError unless an item may change to that status."""
    valid, blockers = TRANSITIONS[Status(item.status)], ", ".join(item.waiting_for)
    possible = [one for one in valid if not (blockers and one in (*AHEAD, Status.DONE))]
    if status not in valid:
        reason = f": it waits for {blockers}" if blockers else ""
        raise ValidationError(
            f"work item {item.title!r} is {item.status} and cannot be set to {status}{reason}. "
            f"Valid now: {', '.join(possible)}."
        )
    if blockers and status in (*AHEAD, Status.DONE):
        raise ValidationError(
            f"work item {item.title!r} cannot be set to {status} while it waits for {blockers}: "
            f"finish it first, or remove it as a blocker (`alma work unblock {item.id} --from ID`)"
        )


# -- finding items


def read_item(record: Record) -> WorkItem:
    """Return the work item that a record holds."""
    return decode_record(WorkItem, record, agent=record.agent or None, archived=record.status is RecordStatus.ARCHIVED)


def select_items(
    engine: Engine, statuses: Iterable[str] | None = None, *, archived: bool = False, **conditions: Any
) -> Where:
    """Return the filter for work items of a project; `statuses` are statuses of work items, not of records."""
    return Where(
        kinds={KIND},
        projects={engine.project},
        statuses={RecordStatus.ACTIVE, RecordStatus.ARCHIVED} if archived else {RecordStatus.ACTIVE},
        keys=None if statuses is None else {f"work {status}" for status in statuses},
        **conditions,
    )


def list_by_urgency(engine: Engine, where: Where) -> list[WorkItem]:
    """Return the matching work items, most urgent first, then oldest first."""
    items = map(read_item, engine.store.scan(where))
    return sorted(items, key=lambda item: (-item.priority, item.created_at, item.id))


def rank_free_items(tx: Transaction, agent: str | None, strategy: Strategy) -> list[WorkItem]:
    """Return the items that an agent may take up now, best first; a parent waits until none of its parts is open."""
    now = tx.engine.clock()
    items = [read_item(record) for record in tx.scan(select_items(tx.engine, (*AHEAD, Status.BLOCKED)))]
    parents = {item.parent_id for item in items}
    waiting = {item.id: item.blocks for item in items if item.status is Status.BLOCKED}
    minutes: dict[str, list[float]] = defaultdict(list)
    if strategy is Strategy.QUICK_WIN:
        # How long recently finished items took, by type.
        for record in tx.engine.store.scan(select_items(tx.engine, [Status.DONE]), _RECENT):
            if record.body["time_spent_ms"]:
                minutes[record.body["item_type"]].append(record.body["time_spent_ms"] / 60_000)

    def rank(item: WorkItem) -> float:
        if strategy is Strategy.BLOCKED_UNBLOCK:
            # How many blocked items could follow, one after the other, once this one is done.
            freed, rim = set[str](), list(item.blocks)
            for other in rim:
                if other in waiting and other not in freed:
                    freed.add(other)
                    rim += waiting[other]
            return -len(freed)
        if strategy is Strategy.QUICK_WIN:
            # Items without an estimate or earlier ones of their type come last.
            usual = sorted(minutes[item.item_type]) or [math.inf]
            return usual[len(usual) // 2] if item.estimate_minutes is None else item.estimate_minutes
        return 0.0

    # Pending, or claimed with a lease that has expired.
    idle = [one for one in items if one.status is Status.PENDING or (one.claimed_until and one.claimed_until <= now)]
    free = [one for one in idle if one.id not in parents and agent in (None, one.agent or agent)]
    weight = 0 if strategy is Strategy.FIFO else -1
    return sorted(free, key=lambda item: (rank(item), weight * item.priority, item.created_at, item.id))
