"""Claims: whoever takes an item has it alone until it is finished, given back, or the lease has run out.

A claim is a new version of the item, so of two who reach for the same one the store lets only one have it; the other
looks for the next. Leases are told by the clock of whoever asks: machines that share a store need clocks that agree to
within a small part of the lease.
"""

from __future__ import annotations

import random
from datetime import timedelta

from ..engine.admit import commit
from ..engine.context import Engine
from ..errors import ValidationError
from ..types import times
from ..types.record import Record
from ..types.record import Status as Standing
from . import states
from .choose import for_agent, ranked
from .edit import Edit
from .plan import refuse_archived, refuse_claimed
from .types import Status, Strategy, WorkItem, item_of

LEASE_SECONDS = 900.0
MAX_LEASE_SECONDS = 30 * 86_400.0
_GLANCE = 8


def claim_next(engine: Engine, agent: str, strategy: Strategy, seconds: float) -> WorkItem | None:
    queue: list[str] = []
    losses = -1

    def attempt() -> tuple[tuple[Edit, str] | None, list[Record]]:
        nonlocal losses
        losses += 1
        near = _first_free(engine, queue, agent)
        if not near:
            queue[:] = [item.id for item in ranked(engine, agent, strategy)]
            near = _first_free(engine, queue, agent)
        if not near:
            return None, []
        # Who lost a race would lose the next one too if all ran for the same item: step aside a little.
        found = random.choice(near[: 1 + losses])
        # Read only once: what is taken is the very version that was seen to be free.
        edit = Edit(engine, agent, [found])
        take(edit, found.id, seconds)
        return (edit, found.id), edit.records()

    taken = commit(engine, attempt)
    return taken[0].item(taken[1]) if taken else None


def _first_free(engine: Engine, queue: list[str], agent: str) -> list[Record]:
    """The first few that nobody took since the queue was made; those before them are struck off.

    Whoever was not fast enough looks only at the few next in the queue, however long it is.
    """
    while queue:
        near = [record for record in engine.store.get(queue[:_GLANCE]) if _takeable(engine, record, agent)]
        if near:
            del queue[: queue.index(near[0].id)]
            return near
        del queue[:_GLANCE]
    return []


def _takeable(engine: Engine, record: Record, agent: str) -> bool:
    if record.status is not Standing.ACTIVE:
        return False
    item = item_of(record)
    return item.is_free(engine.clock()) and for_agent(item, agent)


def take(edit: Edit, id: str, seconds: float) -> None:
    """Claim this one."""
    refuse_archived(edit, id)
    refuse_claimed(edit, id)
    body, now = edit.body(id), edit.engine.clock()
    lease = times.from_iso(body["claimed_until"])
    if body["status"] == Status.DONE:
        raise ValidationError(f"{edit.title(id)!r} is done; set it to pending to take it up again")
    if body["status"] != Status.IN_PROGRESS:
        states.check(edit.title(id), body, Status.IN_PROGRESS)
    elif lease is None:
        raise ValidationError(f"{edit.title(id)!r} is in progress already; set it to pending to give it away")
    elif body["claimed_by"] == edit.by and lease > now:
        renew(edit, id, seconds)
        return
    until = now + timedelta(seconds=seconds)
    edit.alter(id, "claimed", states.claimed(body, edit.by, until, now))


def renew(edit: Edit, id: str, seconds: float) -> None:
    """Have it longer. History does not mention it: an agent may do so every minute."""
    _refuse_others(edit, id)
    until = edit.engine.clock() + timedelta(seconds=seconds)
    edit.alter(id, "", {"claimed_until": times.to_iso(until)})


def release(edit: Edit, id: str, why: str) -> None:
    """Give it back, to be taken by anybody."""
    _refuse_others(edit, id)
    body = edit.body(id)
    edit.alter(id, "released", states.moved(body, Status.PENDING, edit.engine.clock()), why)


def _refuse_others(edit: Edit, id: str) -> None:
    body = edit.body(id)
    if body["claimed_by"] != edit.by:
        who = f"{body['claimed_by']!r} has claimed it" if body["claimed_by"] else "nobody has claimed it"
        raise ValidationError(f"{edit.by!r} has not claimed {edit.title(id)!r}: {who}")
