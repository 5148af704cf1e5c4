"""What progress is told with: work items, summaries, logs, and a line of an item's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ValidationError, unknown
from ..types import times
from ..types.record import Record
from ..types.record import Status as Standing

KIND = "work_item"


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

    def is_free(self, now: datetime) -> bool:
        """Nobody works on it and nothing holds it up: it waits, or whoever claimed it let the lease run out."""
        if self.status is Status.PENDING:
            return True
        return self.status is Status.IN_PROGRESS and self.claimed_until is not None and self.claimed_until <= now


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


_OF_RECORD = ("id", "project_id", "agent", "archived", "tags", "created_at", "updated_at")
_IN_BODY = tuple(part.name for part in fields(WorkItem) if part.name not in _OF_RECORD)
_LISTS = ("blocks", "blocked_by", "waiting_for", "tests")
_MOMENTS = ("started_at", "completed_at", "claimed_until")


def item_of(record: Record) -> WorkItem:
    body = {name: record.body[name] for name in _IN_BODY}
    for name in _LISTS:
        body[name] = tuple(body[name])
    for name in _MOMENTS:
        body[name] = times.from_iso(body[name])
    body["status"] = Status(body["status"])
    return WorkItem(
        **body,
        id=record.id,
        project_id=record.project,
        agent=record.agent or None,
        archived=record.status is Standing.ARCHIVED,
        tags=record.tags,
        created_at=record.created_at,
        updated_at=record.updated_at,
    )


def body_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a new item: the given fields, and the defaults of the others."""
    blank = WorkItem(title="")
    values = {name: getattr(blank, name) for name in _IN_BODY}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {**plain, "status": str(blank.status), "held": False, "working_since": None, **given}


def log_of(record: Record) -> ProgressLog:
    body = record.body
    return ProgressLog(
        id=record.id,
        project_id=record.project,
        agent=record.agent,
        session_id=record.session,
        items_total=body["total"],
        items_done=body["done"],
        items_in_progress=body["in_progress"],
        items_blocked=body["blocked"],
        current_item_id=body["current"],
        current_action=body["action"],
        session_start=times.from_iso(body["session_start"]) or record.created_at,
        actions_taken=body["actions"],
        outcomes_recorded=body["outcomes"],
        created_at=record.created_at,
    )


# -- fields as a caller passes them

Checks = Mapping[str, Callable[[str, Any], Any]]

_MAX_TITLE = 500
_PAST: Checks = {
    "started_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "completed_at": lambda name, value: times.to_iso(validate.moment(name, value)),
    "time_spent_ms": lambda name, value: validate.whole(name, value, 0, 10**15),
    "attempt_count": lambda name, value: validate.whole(name, value, 0, 10**15),
}
PAST = tuple(_PAST)
"""What is stored as it is given when an item is created with a status."""
_SET_BY_STORE = ("created_at", "updated_at", "archived", "waiting_for", "claimed_by", "claimed_until")


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


def check_fields(given: Mapping[str, Any], checks: Checks = EDITABLE) -> dict[str, Any]:
    for name in given:
        if name not in checks:
            raise ValidationError(unknown("field of a work item", name, checks))
    return {name: clean(checks[name](name, value)) for name, value in given.items()}


def check_new_item(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked fields of an item to be created; unknown times and counts are left out."""
    checked = check_fields(given, _CREATABLE)
    if "title" not in checked:
        raise ValidationError("a work item needs a title")
    checked = {name: value for name, value in checked.items() if value or name not in PAST}
    results = checked.get("test_results", {})
    if checked.pop("tests_passing", False) and not results:
        results = dict.fromkeys(checked.get("tests", ()), True)
    return checked | join_tests((*checked.get("tests", ()), *results), results)


def join_tests(tests: tuple[str, ...], results: Mapping[str, bool]) -> dict[str, Any]:
    """Return the fields of a body that tell which tests an item has and how they went."""
    known = {test: results[test] for test in tests if test in results}
    passing = bool(tests) and all(known.get(test, False) for test in tests)
    return {"tests": list(dict.fromkeys(tests)), "test_results": known, "tests_passing": passing}


def read_item(item: WorkItem | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a work item that a caller made, unchecked."""
    if isinstance(item, WorkItem):
        return {part.name: getattr(item, part.name) for part in fields(item) if part.name not in _SET_BY_STORE}
    if not isinstance(item, Mapping):
        raise ValidationError(f"an item must be a WorkItem or a mapping of its fields, not {type(item).__name__}")
    return dict(item)
