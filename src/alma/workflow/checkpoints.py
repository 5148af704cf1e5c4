"""Checkpoints: one after the other on each branch of a run.

A checkpoint's id follows from its run, its branch and its number, so two writers who take the same number meet a
conflict and the slower one takes the next. Its time is later than that of every checkpoint of the run that was
acknowledged before, whatever the clock says, so that the newest is always the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ..engine import things
from ..engine.admit import build, commit, screen
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..errors import NotFoundError, ValidationError
from ..types.query import Where
from ..types.record import Record
from . import runs, states
from .runs import known_id
from .states import State
from .types import Checkpoint

_KIND = "checkpoint"
_TICK = timedelta(microseconds=1)
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A checkpoint to be made."""

    run: str
    node: str
    branch: str
    state: State
    workflow: str = ""
    agent: str = ""
    metadata: Mapping[str, Any]
    skip: bool = True
    redact: bool = False
    origin: Record | None = None
    """The checkpoint that a new branch begins at."""


def decode(record: Record, unchanged: bool = False) -> Checkpoint:
    body = record.body
    return Checkpoint(
        id=record.id,
        run_id=record.session,
        workflow_id=body["workflow"],
        node_id=body["node"],
        branch_id=body["branch"],
        number=body["number"],
        state=body["state"],
        digest=body["digest"],
        size=body["size"],
        parent_id=body["parent"],
        agent=record.agent,
        metadata=body["metadata"],
        redacted=tuple(body["redacted"]),
        created_at=record.created_at,
        unchanged=unchanged,
    )


def save(engine: Engine, point: Point) -> Checkpoint:
    """Write it, unless the newest of its branch is of the same node and holds the same state."""
    if point.skip and (held := _latest(engine, point)) is not None and _holds(held, point):
        return decode(held, unchanged=True)
    draft, point = _screened(engine, point)

    def attempt() -> tuple[Checkpoint, list[Record]]:
        # Read first: whoever writes in between is met as a conflict on the number.
        last = _latest(engine, point)
        if last is not None and point.origin is not None:
            raise ValidationError(f"run {point.run!r} already has a branch {point.branch!r}; choose another name")
        if last is not None and point.skip and _holds(last, point):
            return decode(last, unchanged=True), []
        run, fresh = runs.begun(engine, point.run, point.workflow, point.agent)
        record = _next(engine, draft, point, last, run)
        return decode(record), [record, run] if fresh else [record]

    return commit(engine, attempt)


def _latest(engine: Engine, point: Point) -> Record | None:
    return latest(engine, point.run, branch=point.branch)


def _holds(held: Record, point: Point) -> bool:
    return bool(held.body["digest"] == point.state.digest and held.body["node"] == point.node)


def _screened(engine: Engine, point: Point) -> tuple[Draft, Point]:
    """The draft without secrets; refused when the state would not come back exactly and nobody agreed to that."""
    body = {
        "run": point.run,
        "node": point.node,
        "branch": point.branch,
        "metadata": dict(point.metadata),
        "state": point.state.value,
    }
    draft = screen(engine, things.draft(_KIND, body, agent=point.agent, session=point.run))
    places = list(states.differences(point.state.value, draft.body["state"]))
    if places and not point.redact:
        raise states.refused(places)
    kept = states.read(draft.body["state"], 2**62) if places else point.state
    told = {"digest": kept.digest, "size": kept.size, "redacted": places}
    return replace(draft, body={**draft.body, **told}), replace(point, state=kept)


def _next(engine: Engine, draft: Draft, point: Point, last: Record | None, run: Record) -> Record:
    number = last.body["number"] + 1 if last else 1
    before = last or point.origin
    base = last.body["base"] if last else point.origin.id if point.origin else None
    body = {
        **draft.body,
        "workflow": run.body["workflow"],
        "number": number,
        "parent": before.id if before else None,
        "base": base,
    }
    newest = latest(engine, point.run)
    moment = engine.clock() if newest is None else max(engine.clock(), newest.created_at + _TICK)
    return build(
        engine,
        replace(draft, body=body),
        (),
        id=known_id("chk", engine.project, point.run, point.branch, str(number)),
        key=_key(point.run, point.branch),
        tags=(_node_tag(point.node),),
        links=(run.id,),
        created_at=moment,
        updated_at=moment,
    )


def _key(run: str, branch: str) -> str:
    return known_id("branch", run, branch)


def _node_tag(node: str) -> str:
    return f"node:{node}"


def _where(engine: Engine, run: str, node: str, branch: str) -> Where:
    return Where(
        kinds={_KIND},
        projects={engine.project},
        sessions={run},
        keys={_key(run, branch)} if branch else None,
        tagged={_node_tag(node)} if node else None,
    )


def latest(engine: Engine, run: str, node: str = "", branch: str = "") -> Record | None:
    return next(iter(engine.store.scan(_where(engine, run, node, branch), 1)), None)


def history(engine: Engine, run: str, node: str, branch: str, limit: int) -> list[Checkpoint]:
    return [decode(record) for record in engine.store.scan(_where(engine, run, node, branch), limit)]


def tip(engine: Engine, run: str, branch: str) -> Record:
    """The newest of a branch that must be there."""
    found = latest(engine, run, branch=branch)
    if found is None:
        raise NotFoundError(f"run {run!r} has no checkpoint on branch {branch!r}")
    return found


def beginning(engine: Engine, tips: list[Record]) -> Mapping[str, Any] | None:
    """The state that all these branches began at, where it is known."""
    ids = {tip.body["base"] for tip in tips if tip.body["base"]}
    if len(ids) != 1:
        return None
    held = engine.store.get(list(ids))
    rootless = {tip.body["branch"] for tip in tips if not tip.body["base"]}
    # A branch without a beginning of its own counts only if it is the one that the others began at.
    if not held or rootless - {held[0].body["branch"]}:
        return None
    state: Mapping[str, Any] = held[0].body["state"]
    return state


def cleanup(engine: Engine, run: str, keep: int, before: datetime | None) -> int:
    """Erase what lies further back than the newest of each branch and before the moment; how many that were.

    What a branch that is kept began at stays: it is needed to merge it.
    """
    where = Where(kinds={_KIND}, projects={engine.project}, sessions={run} if run else None)
    seen: dict[str, int] = {}
    old: list[str] = []
    bases: set[str] = set()
    for record in engine.store.scan(where):
        seen[record.key] = seen.get(record.key, 0) + 1
        if seen[record.key] <= keep or (before is not None and record.created_at >= before):
            bases.add(record.body["base"])
        else:
            old.append(record.id)
    gone = [id for id in old if id not in bases]
    return sum(engine.store.delete(gone[start : start + _BATCH]) for start in range(0, len(gone), _BATCH))
