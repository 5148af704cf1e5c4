"""The status machine.

| from        | to                                           |
|-------------|----------------------------------------------|
| pending     | in_progress, blocked, review, done, failed   |
| in_progress | pending, blocked, review, done, failed       |
| blocked     | pending, in_progress, failed                 |
| review      | pending, in_progress, blocked, done, failed  |
| done        | pending, in_progress, blocked                |
| failed      | pending, in_progress, blocked                |

An item that waits for another is blocked: it can be given up (failed), but it cannot be begun, reviewed or done
before what it waits for is done. Whoever sets an item that waits for nothing to blocked holds it: then it stays
blocked until somebody sets it to something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..errors import ValidationError
from ..types import times
from .types import Status

Body = Mapping[str, Any]

TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    Status.PENDING: (Status.IN_PROGRESS, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.IN_PROGRESS: (Status.PENDING, Status.BLOCKED, Status.REVIEW, Status.DONE, Status.FAILED),
    Status.BLOCKED: (Status.PENDING, Status.IN_PROGRESS, Status.FAILED),
    Status.REVIEW: (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED, Status.DONE, Status.FAILED),
    Status.DONE: (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED),
    Status.FAILED: (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED),
}
AHEAD = (Status.PENDING, Status.IN_PROGRESS, Status.REVIEW)
"""What an item that waits for another cannot be."""


def check(title: str, body: Body, status: Status) -> None:
    """Whether an item may become that, or stay it."""
    held = Status(body["status"])
    if status is not held and status not in TRANSITIONS[held]:
        reason = f": it waits for {', '.join(body['waiting_for'])}" if body["waiting_for"] else ""
        valid = ", ".join(TRANSITIONS[held])
        raise ValidationError(f"{title!r} is {held} and cannot be set to {status}{reason}. From {held}: {valid}.")
    if body["waiting_for"] and status in (*AHEAD, Status.DONE) and status is not held:
        names = ", ".join(body["waiting_for"])
        raise ValidationError(
            f"{title!r} cannot be set to {status} while it waits for {names}: finish that, or remove the blocker"
        )


def moved(body: Body, status: Status, now: datetime) -> dict[str, Any]:
    """What changes in an item with its status; nothing is asked."""
    held = Status(body["status"])
    changes: dict[str, Any] = {"status": str(status)}
    if held is Status.IN_PROGRESS and status is not held:
        changes |= _left(body, now)
    if status is Status.IN_PROGRESS and status is not held:
        changes |= begun(body, now)
    if status is Status.DONE:
        changes["completed_at"] = body["completed_at"] or times.to_iso(now)
    else:
        changes["completed_at"] = None
    changes["held"] = status is Status.BLOCKED and not body["waiting_for"]
    return changes


def begun(body: Body, now: datetime) -> dict[str, Any]:
    moment = times.to_iso(now)
    return {
        "started_at": body["started_at"] or moment,
        "working_since": moment,
        "attempt_count": body["attempt_count"] + 1,
    }


def claimed(body: Body, agent: str, until: datetime, now: datetime) -> dict[str, Any]:
    """To claim is to begin. Whoever had it before and let the lease run out worked on it until then."""
    ended = times.from_iso(body["claimed_until"]) or now
    lapsed = _left(body, min(now, ended)) if body["status"] == Status.IN_PROGRESS else {}
    after = {**body, **lapsed, "status": str(Status.PENDING)}
    return {
        **lapsed,
        **moved(after, Status.IN_PROGRESS, now),
        "claimed_by": agent,
        "claimed_until": times.to_iso(until),
    }


def _left(body: Body, at: datetime) -> dict[str, Any]:
    since = times.from_iso(body["working_since"])
    spent = max(timedelta(0), at - since) if since else timedelta(0)
    return {
        "time_spent_ms": body["time_spent_ms"] + spent // timedelta(milliseconds=1),
        "working_since": None,
        "claimed_by": None,
        "claimed_until": None,
    }
