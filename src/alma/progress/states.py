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
before what it waits for is done. An item that waits for nothing and is set to blocked is held: it stays blocked until
somebody sets another status.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..errors import ValidationError
from ..types import times
from .types import Status

Body = Mapping[str, Any]

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
