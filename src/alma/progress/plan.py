"""How items hang together: who waits for whom, and what follows when one is finished, taken up again or removed.

Two sides of a relation are always written together: `blocks` here and `blocked_by` there. `waiting_for` holds those
blockers that are not done, so an item knows by itself whether it is blocked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..engine.context import Engine
from ..errors import ValidationError
from ..types import times
from ..types.ids import new_id
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Status as Standing
from . import states
from .edit import Edit, fresh_body, held
from .types import KIND, Status

RELATIONS = ("parent_id", "blocks", "blocked_by")


# -- making


def create(edit: Edit, told: Mapping[str, Any], agent: str, tags: Sequence[str]) -> str:
    """`told` are checked fields of a work item, with its id where somebody chose one."""
    own = dict(told)
    id = own.pop("id", "") or new_id(KINDS[KIND].prefix)
    if edit.engine.store.get([id]):
        raise ValidationError(f"the id {id!r} is taken; leave it out to get a fresh one")
    parent, blocks, blocked_by = (own.pop(name, None) for name in RELATIONS)
    status = own.pop("status", Status.PENDING)
    past = {name: own.pop(name) for name in _PAST if name in own}
    edit.add(id, fresh_body(own), agent, tags)
    if parent:
        set_parent(edit, id, parent)
    for other in blocked_by or ():
        link(edit, id, other)
    for other in blocks or ():
        link(edit, other, id)
    if status is not Status.PENDING:
        set_status(edit, id, status)
    edit.alter(id, "", past)
    return id


_PAST = ("started_at", "completed_at", "time_spent_ms", "attempt_count")


# -- status


def set_status(edit: Edit, id: str, status: Status, why: str = "") -> None:
    body = edit.body(id)
    refuse_archived(edit, id)
    refuse_claimed(edit, id)
    states.check(edit.title(id), body, status)
    before = Status(body["status"])
    notes = {"notes": why} if why else {}
    if status is before:
        edit.alter(id, "noted", notes, why)
        return
    edit.alter(id, "status", states.moved(body, status, edit.engine.clock()) | notes, why)
    if Status.DONE in (before, status):
        _spread(edit, id, done=status is Status.DONE)


def _spread(edit: Edit, id: str, *, done: bool) -> None:
    """Those who wait for an item learn that it is done, or that it no longer is.

    Their histories name it by its id: a title would outlive the item when that is deleted.
    """
    waiting = edit.body(id)["blocks"]
    edit.load(waiting)
    for other in waiting:
        left = [one for one in edit.body(other)["waiting_for"] if one != id]
        edit.alter(other, "", {"waiting_for": left if done else [*left, id]})
        _settle(edit, other, f"{id} is done" if done else f"{id} was taken up again")


def _settle(edit: Edit, id: str, why: str) -> None:
    """An item is blocked as long as it waits for something, or as somebody holds it."""
    body = edit.body(id)
    status, waits = Status(body["status"]), bool(body["waiting_for"])
    now = edit.engine.clock()
    if waits and status in states.AHEAD:
        edit.alter(id, "blocked", states.moved(body, Status.BLOCKED, now), why)
    elif not waits and status is Status.BLOCKED and not body["held"]:
        edit.alter(id, "unblocked", states.moved(body, Status.PENDING, now), why)


def refuse_archived(edit: Edit, id: str) -> None:
    if not edit.is_fresh(id) and edit.record(id).status is Standing.ARCHIVED:
        raise ValidationError(f"{edit.title(id)!r} is archived; restore it first")


def refuse_claimed(edit: Edit, id: str) -> None:
    """An agent does not change what another one has claimed. Who does not say who they are may."""
    body = edit.body(id)
    until = times.from_iso(body["claimed_until"])
    other = body["claimed_by"]
    if edit.by and until is not None and other != edit.by and until > edit.engine.clock():
        raise ValidationError(
            f"{edit.title(id)!r} is claimed by {other!r} until {times.to_iso(until)}; {edit.by!r} cannot change it"
        )


# -- who waits for whom


def link(edit: Edit, id: str, blocker: str) -> None:
    """`id` waits for `blocker` from now on."""
    edit.load([id, blocker])
    if blocker in edit.body(id)["blocked_by"]:
        return
    refuse_archived(edit, id)
    refuse_archived(edit, blocker)
    _refuse_circle(edit, id, blocker)
    body = edit.body(id)
    open_ = [] if edit.body(blocker)["status"] == Status.DONE else [blocker]
    edit.alter(blocker, "", {"blocks": [*edit.body(blocker)["blocks"], id]})
    waits = {"blocked_by": [*body["blocked_by"], blocker], "waiting_for": [*body["waiting_for"], *open_]}
    edit.alter(id, "blocker added", waits)
    _settle(edit, id, f"waits for {blocker}")


def unlink(edit: Edit, id: str, blocker: str) -> None:
    edit.load([id, blocker])
    if blocker not in edit.body(id)["blocked_by"]:
        names = ", ".join(edit.body(id)["blocked_by"]) or "nothing"
        raise ValidationError(f"{edit.title(id)!r} is not blocked by {blocker!r}. It is blocked by: {names}.")
    _without(edit, id, blocker, f"{blocker} no longer blocks it")
    edit.alter(blocker, "", {"blocks": [one for one in edit.body(blocker)["blocks"] if one != id]})


def _without(edit: Edit, id: str, blocker: str, why: str) -> None:
    body = edit.body(id)
    left = {name: [one for one in body[name] if one != blocker] for name in ("blocked_by", "waiting_for")}
    edit.alter(id, "blocker removed", left)
    _settle(edit, id, why)


def set_parent(edit: Edit, id: str, parent: str | None) -> None:
    edit.load(filter(None, (id, parent)))
    if parent is not None:
        _refuse_circle(edit, parent, id)
    edit.alter(id, "edited", {"parent_id": parent})


def _refuse_circle(edit: Edit, id: str, other: str) -> None:
    """A parent waits for its parts as an item does for its blockers: nothing may end up waiting for itself.

    `id` is to wait for `other`. Asked is who waits for `id`, and not what `other` waits for: items know the former
    themselves, and of a fresh one there are few.
    """
    path = _path(edit, id, other)
    if path:
        names = " → ".join(repr(edit.title(one)) for one in (id, *path[::-1]))
        raise ValidationError(f"this would make a circle in which each waits for the next: {names}")


def _path(edit: Edit, start: str, goal: str) -> list[str]:
    """From an item to another along those that wait for it; empty when there is no way."""
    came: dict[str, str] = {start: ""}
    rim = [start]
    while rim and goal not in came:
        edit.load(rim)
        reached = [(one, other) for one in rim for other in _waiters(edit.body(one))]
        rim = []
        for one, other in reached:
            if other not in came:
                came[other] = one
                rim.append(other)
    if goal not in came:
        return []
    path = [goal]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _waiters(body: Mapping[str, Any]) -> list[str]:
    return [*body["blocks"], *filter(None, [body["parent_id"]])]


def _parts(edit: Edit, id: str) -> list[str]:
    kept = {Standing.ACTIVE, Standing.ARCHIVED}
    where = Where(kinds={KIND}, projects={edit.engine.project}, linked={id}, statuses=kept)
    return [record.id for record in edit.engine.store.scan(where) if record.body["parent_id"] == id]


# -- putting away


def archive(edit: Edit, id: str) -> None:
    refuse_archived(edit, id)
    refuse_claimed(edit, id)
    body = edit.body(id)
    edit.load(body["blocks"])
    waiting = [other for other in body["blocks"] if id in edit.body(other)["waiting_for"] and _open(edit, other)]
    if waiting:
        raise ValidationError(
            f"{edit.title(id)!r} still blocks {', '.join(waiting)}: finish it, or remove it as a blocker first"
        )
    if body["status"] == Status.IN_PROGRESS:
        edit.alter(id, "", states.moved(body, Status.PENDING, edit.engine.clock()))
    edit.alter(id, "archived", {}, fields={"status": Standing.ARCHIVED})


def _open(edit: Edit, id: str) -> bool:
    return edit.body(id)["status"] not in (Status.DONE, Status.FAILED)


def restore(edit: Edit, id: str) -> None:
    edit.load([id])
    edit.alter(id, "restored", {}, fields={"status": Standing.ACTIVE})


def erase(edit: Edit, id: str) -> None:
    """Nothing waits for it any more, and its parts stand on their own."""
    refuse_claimed(edit, id)
    body = edit.body(id)
    for other in body["blocks"]:
        _without(edit, other, id, f"{id} was deleted")
    for other in body["blocked_by"]:
        edit.alter(other, "", {"blocks": [one for one in edit.body(other)["blocks"] if one != id]})
    for part in _parts(edit, id):
        edit.alter(part, "edited", {"parent_id": None})
    edit.erase(id)


def put_away(edit: Edit, ids: Sequence[str]) -> list[str]:
    """Archive those that are still done."""
    edit.load(ids)
    due = [id for id in ids if edit.body(id)["status"] == Status.DONE and edit.record(id).status is Standing.ACTIVE]
    for id in due:
        archive(edit, id)
    return due


def done_before(engine: Engine, moment: datetime) -> list[str]:
    """Done, and not touched since."""
    return [record.id for record in held(engine, statuses=[Status.DONE]) if record.updated_at < moment]
