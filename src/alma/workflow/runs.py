"""Runs, kept by the name their caller gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..engine import things
from ..engine.admit import commit
from ..engine.context import Engine
from ..errors import NotFoundError, ValidationError
from ..types.record import Record
from ..types.times import from_iso, to_iso
from .types import Run, RunStatus


def known_id(prefix: str, *parts: str) -> str:
    """The id of the one record there can be of these names. Exactly these: case and spaces make a difference."""
    joined = "\x1f".join(f"{len(part)}:{part}" for part in parts)
    return f"{prefix}_{hashlib.blake2b(joined.encode(), digest_size=16).hexdigest()}"


def decode(record: Record) -> Run:
    body = record.body
    return Run(
        run_id=record.session,
        workflow_id=body["workflow"],
        status=RunStatus(body["status"]),
        agent=record.agent,
        started_at=from_iso(body["started_at"]) or record.created_at,
        ended_at=from_iso(body["ended_at"]),
        metadata=body.get("metadata", {}),
    )


def find(engine: Engine, run: str) -> Record | None:
    held = engine.store.get([known_id("run", engine.project, run)])
    return held[0] if held else None


def get(engine: Engine, run: str) -> Record:
    held = find(engine, run)
    if held is None:
        raise NotFoundError(
            f"there is no run {run!r} in project {engine.project!r}; start_run or a checkpoint makes one"
        )
    return held


def begun(
    engine: Engine,
    run: str,
    workflow: str = "",
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    goes_on: bool = True,
) -> tuple[Record, bool]:
    """The run, made if it is new, and whether it has to be put. One that had ended goes on, unless told otherwise."""
    held = find(engine, run)
    if held is None:
        return _first(engine, run, workflow, agent, metadata or {}), True
    body = dict(held.body)
    if workflow and body["workflow"] not in ("", workflow):
        raise ValidationError(f"run {run!r} is one of workflow {body['workflow']!r}, not of {workflow!r}")
    body["workflow"] = workflow or body["workflow"]
    if goes_on:
        body |= {"status": str(RunStatus.RUNNING), "ended_at": None}
    if metadata:
        body["metadata"] = {**body.get("metadata", {}), **metadata}
    changed = body != held.body
    return (things.altered(engine, held, body) if changed else held), changed


def _first(engine: Engine, run: str, workflow: str, agent: str, metadata: Mapping[str, Any]) -> Record:
    body = {
        "workflow": workflow,
        "run": run,
        "status": str(RunStatus.RUNNING),
        "started_at": to_iso(engine.clock()),
        "ended_at": None,
        "metadata": dict(metadata),
    }
    draft = things.draft("run", body, agent=agent, session=run)
    return things.made(engine, draft, id=known_id("run", engine.project, run))


def begin(
    engine: Engine,
    run: str,
    workflow: str,
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    goes_on: bool = True,
) -> Record:
    def attempt() -> tuple[Record, list[Record]]:
        record, fresh = begun(engine, run, workflow, agent, metadata, goes_on=goes_on)
        return record, [record] if fresh else []

    return commit(engine, attempt)


def end(engine: Engine, run: str, status: RunStatus) -> Record:
    def attempt() -> tuple[Record, list[Record]]:
        held = get(engine, run)
        ended = None if status is RunStatus.RUNNING else to_iso(engine.clock())
        record = things.altered(engine, held, {**held.body, "status": str(status), "ended_at": ended})
        return record, [record]

    return commit(engine, attempt)
