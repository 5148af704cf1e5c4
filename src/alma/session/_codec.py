"""Sessions and handoffs as records, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..types.record import Record
from ..types.times import from_iso
from ..types.vector import unit
from .types import LastOutcome, Session, SessionHandoff, SessionState

Body = Mapping[str, Any]


def moment(body: Body, name: str, otherwise: datetime) -> datetime:
    return from_iso(body.get(name)) or otherwise


def session(record: Record) -> Session:
    body = record.body
    return Session(
        id=record.id,
        project_id=record.project,
        agent=record.agent,
        goal=body["goal"],
        state=SessionState(body["state"]),
        started_at=moment(body, "started_at", record.created_at),
        last_seen=moment(body, "last_seen", record.updated_at),
        ended_at=from_iso(body.get("ended_at")),
        actions=[one["what"] for one in body["actions"]],
        action_count=body["action_count"],
        decisions=[one["what"] for one in body["decisions"]],
        active_files=list(body["files"]),
        blockers=list(body["blockers"]),
        next_steps=list(body["next_steps"]),
        test_status=dict(body["tests"]),
        risk_flags=list(body["risks"]),
        confidence_level=body["confidence"],
    )


def handoff(record: Record) -> SessionHandoff:
    body = record.body
    start, end = moment(body, "started_at", record.created_at), moment(body, "ended_at", record.created_at)
    return SessionHandoff(
        id=record.id,
        project_id=record.project,
        agent=record.agent,
        session_id=record.session,
        last_action=body["last_action"],
        last_outcome=LastOutcome(body["last_outcome"]),
        current_goal=body["goal"],
        key_decisions=list(body["decisions"]),
        active_files=list(body["files"]),
        blockers=list(body["blockers"]),
        next_steps=list(body["next_steps"]),
        test_status=dict(body["tests"]),
        confidence_level=body["confidence"],
        risk_flags=list(body["risks"]),
        session_start=start,
        session_end=end,
        duration_ms=max(0, round((end - start).total_seconds() * 1000)),
        embedding=unit(record.vectors[0]) if record.vectors else None,
        created_at=record.created_at,
        left_out=dict(body.get("left_out", {})),
        metadata=dict(body.get("metadata", {})),
    )
