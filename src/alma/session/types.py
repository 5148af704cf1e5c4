"""What a session leaves behind, and what the next one starts with."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..progress.types import ProgressSummary, WorkItem
from ..types.kinds import Heuristic, Outcome
from ..types.slice import MemorySlice


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationResult:
    """What an agent knows before it begins. It may be awaited, and then gives itself."""

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

    def __await__(self) -> Generator[None, None, InitializationResult]:
        yield from ()
        return self

    def to_prompt(self, max_tokens: int = 2000) -> str:
        """All of it as Markdown for a prompt, within the budget."""
        # Loaded when a prompt is wanted: its patterns take a while to compile.
        from .briefing import briefing

        return briefing(self, max_tokens)
