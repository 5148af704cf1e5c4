"""What a session leaves behind, and what the next one starts with."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from ..progress import ProgressSummary, WorkItem
from ..types.kinds import Heuristic, Outcome
from ..types.record import Record
from ..types.slice import MemorySlice
from ..types.times import from_iso
from ..types.vector import unit

RECORD_NAMES = {
    "current_goal": "goal", "key_decisions": "decisions", "active_files": "files", "test_status": "tests",
    "risk_flags": "risks", "confidence_level": "confidence",
}  # fmt: skip
"""Arguments and attributes that have another name in a record."""


class LastOutcome(StrEnum):
    """How the last thing that was done went; interrupted: nobody was there to tell."""

    SUCCESS = "success"
    FAILURE = "failure"
    INTERRUPTED = "interrupted"


class SessionState(StrEnum):
    OPEN = "open"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    """It was not seen any more and never ended; it may still come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as it stands: what was noted along the way."""

    id: str
    project_id: str
    agent: str
    goal: str = ""
    state: SessionState = SessionState.OPEN
    started_at: datetime
    last_seen: datetime
    ended_at: datetime | None = None
    actions: list[str] = field(default_factory=list)
    """The latest, newest last."""
    action_count: int = 0
    """All of them, also those too old to be kept."""
    decisions: list[str] = field(default_factory=list)
    active_files: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    test_status: Mapping[str, bool] = field(default_factory=dict)
    risk_flags: list[str] = field(default_factory=list)
    confidence_level: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHandoff:
    """Compressed context for going on where a session left off."""

    id: str
    project_id: str
    agent: str
    session_id: str
    last_action: str
    last_outcome: LastOutcome
    current_goal: str
    key_decisions: list[str]
    """The ten most important."""
    active_files: list[str]
    blockers: list[str]
    next_steps: list[str]
    test_status: dict[str, bool]
    confidence_level: float
    """Between 0 and 1: how well it was going."""
    risk_flags: list[str]
    session_start: datetime
    session_end: datetime
    duration_ms: int
    embedding: list[float] | None = None
    created_at: datetime
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many of each list there was no room for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What a session starts with."""

    session_id: str
    project_id: str
    agent: str
    goal: str
    started_at: datetime
    previous_handoff: SessionHandoff | None
    progress: ProgressSummary
    recent_outcomes: list[Outcome]
    relevant_heuristics: list[Heuristic]
    codebase_state: dict[str, Any] | None
    """Branch, changes, recent commits, layout, how tests are run; None where there is no code."""
    environment_state: dict[str, Any] | None
    suggested_focus: WorkItem | None
    rules_of_engagement: list[str]
    open_sessions: list[Session] = field(default_factory=list)
    """Others of this agent that are still going on, as far as anybody knows."""
    retrieval_id: str | None = None
    """What to name when an outcome is learned with the help of these heuristics."""


class Ready:
    """A value that may be awaited, and then gives itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self


class WorkItems(list[WorkItem], Ready):
    planned_by = ""
    """The reader that planned them."""


class Bearings(dict[str, Any], Ready):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationResult(Ready):
    """What an agent knows before it begins."""

    session_id: str
    project_id: str
    agent: str
    goal: str
    work_items: list[WorkItem]
    codebase_summary: str | None
    recent_activity: list[str]
    relevant_memories: MemorySlice
    scope_rules: list[str]
    """What the agent may do."""
    constraints: list[str]
    """What it may not."""
    quality_gates: list[str]
    """What must hold before something is done."""
    recommended_start: WorkItem | None
    initialized_at: datetime
    session: SessionContext
    planned_by: str = ""
    """Which reader made the work items: `local`, a model's name, or both when the model failed; empty without."""

    def to_prompt(self, max_tokens: int = 2000) -> str:
        """All of it as Markdown for a prompt, within the budget."""
        # Loaded when a prompt is wanted: its patterns take a while to compile.
        from .briefing import write_briefing

        return write_briefing(self, max_tokens)


def read_session(record: Record) -> Session:
    body = record.body
    return Session(
        id=record.id,
        project_id=record.project,
        agent=record.agent,
        goal=body["goal"],
        state=SessionState(body["state"]),
        started_at=read_moment(body, "started_at", record.created_at),
        last_seen=read_moment(body, "last_seen", record.updated_at),
        ended_at=from_iso(body.get("ended_at")),
        actions=[one["what"] for one in body["actions"]],
        action_count=body["action_count"],
        decisions=[one["what"] for one in body["decisions"]],
        **_read_shared(body),
    )


def read_handoff(record: Record) -> SessionHandoff:
    body = record.body
    start, end = (read_moment(body, name, record.created_at) for name in ("started_at", "ended_at"))
    return SessionHandoff(
        id=record.id,
        project_id=record.project,
        agent=record.agent,
        session_id=record.session,
        last_action=body["last_action"],
        last_outcome=LastOutcome(body["last_outcome"]),
        current_goal=body["goal"],
        key_decisions=list(body["decisions"]),
        session_start=start,
        session_end=end,
        duration_ms=max(0, round((end - start).total_seconds() * 1000)),
        embedding=unit(record.vectors[0]) if record.vectors else None,
        created_at=record.created_at,
        left_out=dict(body.get("left_out", {})),
        metadata=dict(body.get("metadata", {})),
        **_read_shared(body),
    )


def read_moment(body: Mapping[str, Any], name: str, otherwise: datetime) -> datetime:
    return from_iso(body.get(name)) or otherwise


def _read_shared(body: Mapping[str, Any]) -> dict[str, Any]:
    lists = ("active_files", "blockers", "next_steps", "risk_flags")
    values: dict[str, Any] = {name: list(body[RECORD_NAMES.get(name, name)]) for name in lists}
    return {**values, "test_status": dict(body["tests"]), "confidence_level": body["confidence"]}
