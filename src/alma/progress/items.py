"""Work items and how they change: the status machine, who waits for whom, claims, and which item comes next.

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

Two sides of a relation are always written together: `blocks` here and `blocked_by` there. `waiting_for` holds those
blockers that are not done, so an item knows by itself whether it is blocked.

An agent that claims an item has it alone until it is finished, released, or the lease has expired. A claim is a new
version of the item, so of two who claim the same one the store lets only one have it. Leases are compared with the
clock of the caller: machines that share a store need clocks that agree to within a small part of the lease.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from ..codec import decode_record
from ..engine import things, validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.transaction import Transaction, write
from ..engine.view import count_records
from ..errors import NotFoundError, ValidationError, unknown
from ..text import fingerprint
from ..types import times
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record, new_id
from ..types.record import Status as Standing

T = TypeVar("T")
Body = Mapping[str, Any]

KIND, LOG = "work_item", "progress_log"
LEASE_SECONDS = 900.0
_MAX_TITLE = 500
_RECENT = 200
_GLANCE = 8
_LISTED = (Standing.ACTIVE, Standing.ARCHIVED)


class Status(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    REVIEW = "review"
    DONE = "done"
    FAILED = "failed"


class Strategy(StrEnum):
    """How the next item is chosen; ties go to the higher priority, then to the older one."""

    PRIORITY = "priority"
    BLOCKED_UNBLOCK = "blocked_unblock"
    """What frees most of the items that wait, directly or through others."""
    QUICK_WIN = "quick_win"
    """What is likely done soonest: by its estimate, else by how long others of its type took."""
    FIFO = "fifo"


OPEN = (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED, Status.REVIEW)
"""What is still to be worked on. A failed item is not, until somebody takes it up again."""
AHEAD = (Status.PENDING, Status.IN_PROGRESS, Status.REVIEW)
"""What an item that waits for another cannot be."""
_REOPENED = (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED)
TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    Status.PENDING: (Status.IN_PROGRESS, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.IN_PROGRESS: (Status.PENDING, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.BLOCKED: (Status.PENDING, Status.IN_PROGRESS, Status.FAILED),
    Status.REVIEW: (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED, Status.DONE, Status.FAILED),
    Status.DONE: _REOPENED,
    Status.FAILED: _REOPENED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """A unit of work that is tracked."""

    id: str = ""
    project_id: str = ""
    agent: str | None = None
    """Whose it is; None: anybody's."""
    title: str
    description: str = ""
    item_type: str = "task"
    """Such as feature, bug, task, research_question."""
    status: Status = Status.PENDING
    priority: int = 50
    """From 0 to 100; the greater, the sooner."""
    started_at: datetime | None = None
    """When work on it first began."""
    completed_at: datetime | None = None
    time_spent_ms: int = 0
    """In progress, all in all; what is going on now is added when it ends."""
    attempt_count: int = 0
    """How often work on it began."""
    parent_id: str | None = None
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()
    """Those of `blocked_by` that are not done."""
    tests: tuple[str, ...] = ()
    tests_passing: bool = False
    """There are tests, and each passed when it was last recorded."""
    test_results: Mapping[str, bool] = field(default_factory=dict)
    estimate_minutes: float | None = None
    notes: str = ""
    """What was said at the last change of status."""
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    archived: bool = False
    tags: tuple[str, ...] = ()
    created_at: datetime = field(default_factory=times.now)
    updated_at: datetime = field(default_factory=times.now)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSummary:
    """How far a project, or an agent in it, has come. Archived items are not counted."""

    project_id: str
    agent: str | None
    items_total: int
    by_status: Mapping[str, int]
    """Every status, those of no item too."""
    current: tuple[WorkItem, ...] = ()
    """In progress, the most urgent first."""
    blocked: tuple[WorkItem, ...] = ()
    created_at: datetime

    @property
    def items_done(self) -> int:
        return self.by_status[Status.DONE]

    @property
    def items_in_progress(self) -> int:
        return self.by_status[Status.IN_PROGRESS]

    @property
    def items_blocked(self) -> int:
        return self.by_status[Status.BLOCKED]

    @property
    def completion_percentage(self) -> float:
        return 100.0 * self.items_done / self.items_total if self.items_total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLog:
    """Where a session stood at one moment."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """A line of an item's history."""

    at: datetime
    by: str
    """Who did it; empty: it was not said."""
    verb: str
    why: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


LOG_NAMES = {
    "items_total": "total", "items_done": "done", "items_in_progress": "in_progress", "items_blocked": "blocked",
    "current_item_id": "current", "current_action": "action", "actions_taken": "actions",
    "outcomes_recorded": "outcomes",
}  # fmt: skip


def read_item(record: Record) -> WorkItem:
    """Return the work item that a record holds."""
    return decode_record(WorkItem, record, agent=record.agent or None, archived=record.status is Standing.ARCHIVED)


# -- fields as a caller passes them

Checks = Mapping[str, Callable[[str, Any], Any]]

_PAST: Checks = {
    "started_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "completed_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "time_spent_ms": lambda name, value: validate.whole(name, value, 0, 10**15),
    "attempt_count": lambda name, value: validate.whole(name, value, 0, 10**15),
}
"""What is stored as it is given when an item is created with a status."""
SET_BY_STORE = ("created_at", "updated_at", "archived", "waiting_for", "claimed_by", "claimed_until")
RELATIONS = ("parent_id", "blocks", "blocked_by")


def check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValidationError(f"{name} must be True or False, not {value!r}")
    return value


def _check_results(name: str, value: object) -> dict[str, bool]:
    if not isinstance(value, Mapping) or not all(isinstance(passed, bool) for passed in value.values()):
        raise ValidationError(f"{name} must be a mapping from names of tests to True or False, not {value!r}")
    return {validate.name(name, test): passed for test, passed in value.items()}


EDITABLE: Checks = {
    "title": lambda name, value: validate.text(name, value, _MAX_TITLE).strip(),
    "description": lambda name, value: validate.optional_text(name, value) or "",
    "item_type": validate.name,
    "priority": lambda name, value: validate.whole(name, value, 0, 100),
    "tests": lambda name, value: list(validate.names(name, value)),
    "estimate_minutes": lambda name, value: None if value is None else validate.number(name, value, 0.0, 1e7),
    "metadata": lambda _, value: validate.metadata(value),
    "parent_id": lambda name, value: None if value is None else validate.name(name, value),
}
"""What `update_item` changes. Statuses and blockers have consequences and methods of their own."""

_CREATABLE: Checks = {
    **EDITABLE,
    **_PAST,
    "id": lambda name, value: validate.name(name, value) if value else "",
    "status": lambda name, value: validate.choice(name, value, Status),
    "blocks": lambda name, value: list(validate.names(name, value)),
    "blocked_by": lambda name, value: list(validate.names(name, value)),
    "notes": EDITABLE["description"],
    "test_results": _check_results,
    "tests_passing": check_flag,
}


def check_fields(given: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    for name in given:
        if name not in checks:
            raise ValidationError(unknown("field of a work item", name, checks))
    return {name: clean(checks[name](name, value)) for name, value in given.items()}


def check_new_item(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked fields of an item to be created; unknown times and counts are left out."""
    checked = check_fields(given, _CREATABLE)
    if "title" not in checked:
        raise ValidationError("a work item needs a title")
    checked = {name: value for name, value in checked.items() if value or name not in _PAST}
    results = checked.get("test_results", {})
    if checked.pop("tests_passing", False) and not results:
        results = dict.fromkeys(checked.get("tests", ()), True)
    return checked | join_tests((*checked.get("tests", ()), *results), results)


def join_tests(tests: Sequence[str], results: Mapping[str, bool]) -> dict[str, Any]:
    """Return the fields of a body that tell which tests an item has and how they went."""
    known = {test: results[test] for test in tests if test in results}
    passing = bool(tests) and all(known.get(test, False) for test in tests)
    return {"tests": list(dict.fromkeys(tests)), "test_results": known, "tests_passing": passing}


# -- how items change


class Plan:
    """The work items of a project in one transaction, changed by one agent (empty: it was not said by whom)."""

    def __init__(self, tx: Transaction, by: str) -> None:
        self.tx = tx
        self.engine = tx.engine
        self.by = by

    def get(self, ids: Iterable[str]) -> list[Record]:
        """Return the items, archived or not; one that does not exist is an error."""
        order = list(ids)
        records = {
            record.id: record
            for record in self.tx.get(order)
            if record.kind == KIND and record.project == self.engine.project and record.status in _LISTED
        }
        for id in order:
            if id not in records:
                raise unknown_item(self.engine, id)
        return [records[id] for id in order]

    def body(self, id: str) -> Body:
        return self.get([id])[0].body

    def alter(self, id: str, verb: str, changes: Body, why: str = "", **fields: Any) -> None:
        """Change an item's body and `fields` of its record; without a verb, its history does not mention it."""
        [record] = self.get([id])
        after = {name: value for name, value in changes.items() if record.body[name] != value}
        fields = {name: value for name, value in fields.items() if getattr(record, name) != value}
        is_new = self.tx.is_new(record)
        if after or fields:
            body = {**record.body, **after}
            links = tuple(dict.fromkeys(filter(None, (body["parent_id"], *body["blocked_by"]))))
            text, key = KINDS[KIND].text(body), f"work {body['status']}"
            self.tx.update(record, body=body, key=key, links=links, text=text, **fields)
        if not verb or is_new or not (after or fields or why):
            return
        before = {name: record.body[name] for name in after} | {name: getattr(record, name) for name in fields}
        line = self.tx.add_history(record, verb, why, _show_fields(before))
        body = {**line.body, "by": self.by, "after": _show_fields(after | fields)}
        self.tx.put(replace(line, agent=self.by, tags=(KIND,), body=body))

    def create(self, given: Body, agent: str, tags: Sequence[str]) -> str:
        """Add an item with these checked fields, under its id where somebody chose one."""
        own = dict(given)
        id = own.pop("id", "") or new_id(KINDS[KIND].prefix)
        if self.tx.find(id) is not None:
            raise ValidationError(f"the id {id!r} is taken; leave it out to get a fresh one")
        parent, blocks, blocked_by = (own.pop(name, None) for name in RELATIONS)
        status = own.pop("status", Status.PENDING)
        past = {name: own.pop(name) for name in _PAST if name in own}
        blank = WorkItem(title="")
        usual = {name: getattr(blank, name) for name in KINDS[KIND].fields if hasattr(blank, name)}
        body = {name: list(value) if isinstance(value, tuple) else value for name, value in usual.items()}
        body |= {"status": str(Status.PENDING), "held": False, "working_since": None, "metadata": {}, **own}
        draft = things.draft(KIND, body, agent=agent, tags=tags)
        self.tx.put(things.made(self.engine, draft, id=id, key=f"work {Status.PENDING}"))
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
        self.check_archived(id)
        self.check_move(id, status)
        body = self.body(id)
        notes = {"notes": why} if why else {}
        if status == body["status"]:
            self.alter(id, "noted", notes, why)
            return
        self.move(id, status, "status", why, notes)
        if Status.DONE not in (status, body["status"]):
            return
        # Histories name the blocker by its id: a title would outlive the item when that is deleted.
        reason = f"{id} is done" if status is Status.DONE else f"{id} was taken up again"
        for record in self.get(body["blocks"]):
            left = [one for one in record.body["waiting_for"] if one != id]
            self.alter(record.id, "", {"waiting_for": left if status is Status.DONE else [*left, id]})
            self.settle(record.id, reason)

    def move(self, id: str, status: Status, verb: str, why: str = "", more: Body | None = None) -> None:
        """Set a status and what changes with it: times, attempts and the claim."""
        self.alter(id, verb, {**_move_item(self.body(id), status, self.engine.clock()), **(more or {})}, why)

    def settle(self, id: str, why: str) -> None:
        """Block an item that waits for something; unblock it when it does not and nobody holds it."""
        body = self.body(id)
        if body["waiting_for"] and body["status"] in AHEAD:
            self.move(id, Status.BLOCKED, "blocked", why)
        elif not body["waiting_for"] and body["status"] == Status.BLOCKED and not body["held"]:
            self.move(id, Status.PENDING, "unblocked", why)

    def check_move(self, id: str, status: Status) -> None:
        """Raise ValidationError unless an item may get that status; it may always keep its own."""
        body = self.body(id)
        title, current, blockers = body["title"], Status(body["status"]), ", ".join(body["waiting_for"])
        if status is current:
            return
        if status not in TRANSITIONS[current]:
            reason = f": it waits for {blockers}" if blockers else ""
            valid = ", ".join(TRANSITIONS[current])
            raise ValidationError(
                f"{title!r} is {current} and cannot be set to {status}{reason}. From {current}: {valid}."
            )
        if blockers and status in (*AHEAD, Status.DONE):
            raise ValidationError(
                f"{title!r} cannot be set to {status} while it waits for {blockers}: finish that, or remove the blocker"
            )

    def check_archived(self, id: str) -> None:
        [record] = self.get([id])
        if record.status is Standing.ARCHIVED:
            raise ValidationError(f"{record.body['title']!r} is archived; restore it first")

    def check_claim(self, id: str) -> None:
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
        self.check_archived(id)
        body, now = self.body(id), self.engine.clock()
        lease = times.from_iso(body["claimed_until"])
        if body["status"] == Status.DONE:
            raise ValidationError(f"{body['title']!r} is done; set it to pending to take it up again")
        if body["status"] != Status.IN_PROGRESS:
            self.check_move(id, Status.IN_PROGRESS)
        elif lease is None:
            raise ValidationError(f"{body['title']!r} is in progress already; set it to pending to give it away")
        elif body["claimed_by"] == self.by and lease > now:
            self.renew(id, seconds)
            return
        # An agent that let its lease expire worked on the item until then.
        lapsed = _stop_work(body, min(now, lease or now)) if body["status"] == Status.IN_PROGRESS else {}
        start = _move_item({**body, **lapsed, "status": str(Status.PENDING)}, Status.IN_PROGRESS, now)
        until = times.to_iso(now + timedelta(seconds=seconds))
        self.alter(id, "claimed", {**lapsed, **start, "claimed_by": self.by, "claimed_until": until})

    def renew(self, id: str, seconds: float) -> None:
        """Extend a claim. The history does not mention it: an agent may do so every minute."""
        self.check_own(id)
        until = self.engine.clock() + timedelta(seconds=seconds)
        self.alter(id, "", {"claimed_until": times.to_iso(until)})

    def check_own(self, id: str) -> None:
        body = self.body(id)
        if body["claimed_by"] != self.by:
            who = f"{body['claimed_by']!r} has claimed it" if body["claimed_by"] else "nobody has claimed it"
            raise ValidationError(f"{self.by!r} has not claimed {body['title']!r}: {who}")

    # -- relations

    def add_blocker(self, id: str, blocker: str) -> None:
        body, other = (record.body for record in self.get([id, blocker]))
        if blocker in body["blocked_by"]:
            return
        self.check_archived(id)
        self.check_archived(blocker)
        self._check_circle(id, blocker)
        waiting = body["waiting_for"] if other["status"] == Status.DONE else [*body["waiting_for"], blocker]
        self.alter(blocker, "", {"blocks": [*other["blocks"], id]})
        self.alter(id, "blocker added", {"blocked_by": [*body["blocked_by"], blocker], "waiting_for": waiting})
        self.settle(id, f"waits for {blocker}")

    def remove_blocker(self, id: str, blocker: str, why: str = "") -> None:
        body, other = (record.body for record in self.get([id, blocker]))
        if blocker not in body["blocked_by"]:
            names = ", ".join(body["blocked_by"]) or "nothing"
            raise ValidationError(f"{body['title']!r} is not blocked by {blocker!r}. It is blocked by: {names}.")
        left = {name: [one for one in body[name] if one != blocker] for name in ("blocked_by", "waiting_for")}
        self.alter(id, "blocker removed", left)
        self.settle(id, why or f"{blocker} no longer blocks it")
        self.alter(blocker, "", {"blocks": [one for one in other["blocks"] if one != id]})

    def set_parent(self, id: str, parent: str | None) -> None:
        if parent is not None:
            self.get([id, parent])
            self._check_circle(parent, id)
        self.alter(id, "edited", {"parent_id": parent})

    def _check_circle(self, id: str, blocker: str) -> None:
        """Raise if `blocker` waits for `id` already, directly or through others; a parent waits for its parts.

        The search follows those who wait for `id`: items know them themselves, and a new one has few.
        """
        came_from: dict[str, str] = {id: ""}
        rim = [id]
        while rim and blocker not in came_from:
            records, rim = self.get(rim), []
            for record in records:
                for other in (*record.body["blocks"], record.body["parent_id"]):
                    if other and other not in came_from:
                        came_from[other] = record.id
                        rim.append(other)
        if blocker in came_from:
            path = [blocker]
            while path[-1] != id:
                path.append(came_from[path[-1]])
            names = " → ".join(repr(record.body["title"]) for record in self.get([id, *path]))
            raise ValidationError(f"this would make a circle in which each waits for the next: {names}")

    # -- putting away

    def archive(self, id: str) -> None:
        self.check_archived(id)
        body, ended = self.body(id), (Status.DONE, Status.FAILED)
        others = [one for one in self.get(body["blocks"]) if one.body["status"] not in ended]
        if waiting := [one.id for one in others if id in one.body["waiting_for"]]:
            raise ValidationError(
                f"{body['title']!r} still blocks {', '.join(waiting)}: finish it, or remove it as a blocker first"
            )
        if body["status"] == Status.IN_PROGRESS:
            self.move(id, Status.PENDING, "")
        self.alter(id, "archived", {}, status=Standing.ARCHIVED)

    def erase(self, id: str) -> None:
        """Leave only the id, so that nobody who read it before brings it back; its parts lose their parent."""
        self.check_claim(id)
        body = self.body(id)
        for other in body["blocks"]:
            self.remove_blocker(other, id, f"{id} was deleted")
        for record in self.get(body["blocked_by"]):
            self.alter(record.id, "", {"blocks": [one for one in record.body["blocks"] if one != id]})
        for record in self.tx.scan(select_items(self.engine, archived=True, linked={id})):
            if record.body["parent_id"] == id:
                self.alter(record.id, "edited", {"parent_id": None})
        blank: dict[str, Any] = {"text": "", "vectors": (), "embedder": "", "tags": (), "links": (), "body": {}}
        self.tx.update(self.get([id])[0], status=Standing.RETIRED, key="", **blank)
        for line in self.tx.changed:
            if line.body.get("record") == id:
                self.tx.drop(line)


def write_plan(engine: Engine, by: str, change: Callable[[Plan], T], *, reorders: bool = False) -> T:
    """Change items together, all or none; `change` may raise to change nothing.

    A change that `reorders` items keeps others from doing so at the same time: two changes that are right each for
    itself can together make a circle without touching the same item.
    """

    def step(tx: Transaction) -> T:
        if reorders:
            # The marker is read before the items are.
            tx.set_marker(f"mrk_work_{fingerprint(engine.project)}", {"value": "work"})
        return change(Plan(tx, by))

    return write(engine, step)


def _move_item(body: Body, status: Status, now: datetime) -> dict[str, Any]:
    """Return what changes in an item with its status: times, attempts and the claim."""
    current, moment = body["status"], times.to_iso(now)
    changes: dict[str, Any] = {"status": str(status)}
    if current == Status.IN_PROGRESS and status is not Status.IN_PROGRESS:
        changes |= _stop_work(body, now)
    if status is Status.IN_PROGRESS and current != Status.IN_PROGRESS:
        changes |= {"started_at": body["started_at"] or moment, "working_since": moment}
        changes["attempt_count"] = body["attempt_count"] + 1
    changes["completed_at"] = (body["completed_at"] or moment) if status is Status.DONE else None
    changes["held"] = status is Status.BLOCKED and not body["waiting_for"]
    return changes


def _stop_work(body: Body, at: datetime) -> dict[str, Any]:
    """Return the time spent up to a moment; the claim ends with the work."""
    since = times.from_iso(body["working_since"])
    spent = max(timedelta(0), at - since) if since else timedelta(0)
    total = body["time_spent_ms"] + spent // timedelta(milliseconds=1)
    return {"time_spent_ms": total, "working_since": None, "claimed_by": None, "claimed_until": None}


def _show_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as a history shows them, without the fields that only the status machine reads."""
    shown = {name: value for name, value in values.items() if name not in ("working_since", "held")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}


def unknown_item(engine: Engine, id: str) -> NotFoundError:
    return NotFoundError(f"there is no work item {id!r} in project {engine.project!r}")


# -- finding items


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


def list_by_urgency(engine: Engine, where: Where) -> list[WorkItem]:
    items = map(read_item, engine.store.scan(where))
    return sorted(items, key=lambda item: (-item.priority, item.created_at, item.id))


def count_matches(engine: Engine, where: Where) -> int:
    return sum(count_records(engine, where).values())


def find_session_start(engine: Engine, session: str) -> datetime | None:
    """Return when a session began: from its own record where there is one, else from its first log."""
    for record in engine.store.get([session]):
        if record.kind == "session" and record.project == engine.project:
            return times.from_iso(record.body.get("started_at")) or record.created_at
    logs = things.scan(engine, LOG, sessions={session})
    return times.from_iso(logs[-1].body["session_start"]) if logs else None


def _can_take(item: WorkItem, agent: str | None, now: datetime) -> bool:
    """Whether an agent may begin an item: nobody works on it, or whoever claimed it let the lease run out."""
    lapsed = item.status is Status.IN_PROGRESS and item.claimed_until is not None and item.claimed_until <= now
    return (lapsed or item.status is Status.PENDING) and (agent is None or item.agent in (None, agent))


def rank_free_items(engine: Engine, agent: str | None, strategy: Strategy) -> list[WorkItem]:
    """Return what may be worked on now, the next one first. A parent waits until none of its parts is open."""
    items = [read_item(record) for record in engine.store.scan(select_items(engine, OPEN))]
    parents = {item.parent_id for item in items}
    waiting = {item.id: item.blocks for item in items if item.status is Status.BLOCKED}
    usual = _find_usual_minutes(engine) if strategy is Strategy.QUICK_WIN else {}

    def rank(item: WorkItem) -> tuple[float, ...]:
        if strategy is Strategy.FIFO:
            return ()
        if strategy is Strategy.QUICK_WIN:
            # What is not known to be quick comes last.
            known = item.estimate_minutes
            return usual.get(item.item_type, math.inf) if known is None else known, -item.priority
        if strategy is Strategy.BLOCKED_UNBLOCK:
            return -_count_freed(item, waiting), -item.priority
        return (-item.priority,)

    now = engine.clock()
    candidates = [item for item in items if item.id not in parents and _can_take(item, agent, now)]
    return sorted(candidates, key=lambda item: (*rank(item), item.created_at, item.id))


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


def _find_usual_minutes(engine: Engine) -> dict[str, float]:
    """Return how long the items finished lately took, by type."""
    from statistics import median

    minutes: dict[str, list[float]] = defaultdict(list)
    for record in engine.store.scan(select_items(engine, [Status.DONE]), _RECENT):
        if record.body["time_spent_ms"]:
            minutes[record.body["item_type"]].append(record.body["time_spent_ms"] / 60_000)
    return {name: median(values) for name, values in minutes.items()}


def claim_next_item(engine: Engine, agent: str, strategy: Strategy, seconds: float) -> WorkItem | None:
    """Take the next item for an agent.

    After a lost race it looks only at the few next items in the queue, however long that is, and may skip some: all
    would lose again if they ran for the same item.
    """
    queue: list[str] = []
    losses = -1

    def list_near(tx: Transaction) -> list[str]:
        """Return the first few that nobody took since the queue was made, and drop those before them."""
        while queue:
            records = [record for record in tx.get(queue[:_GLANCE]) if record.status is Standing.ACTIVE]
            near = [record.id for record in records if _can_take(read_item(record), agent, engine.clock())]
            if near:
                del queue[: queue.index(near[0])]
                return near
            del queue[:_GLANCE]
        return []

    def step(tx: Transaction) -> WorkItem | None:
        nonlocal losses
        losses += 1
        near = list_near(tx)
        if not near:
            queue[:] = [item.id for item in rank_free_items(engine, agent, strategy)]
            near = list_near(tx)
        if not near:
            return None
        chosen, plan = random.choice(near[: 1 + losses]), Plan(tx, agent)
        plan.claim(chosen, seconds)
        return read_item(plan.get([chosen])[0])

    return write(engine, step)
