"""Sessions: begin where the last one left off, note what happens, hand over, and wake up knowing who you are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .. import words
from ..context import MemoryStack
from ..core import ALMA
from ..progress import WorkItem
from ..session import SessionInitializer, SessionManager
from ..session.handoff import LastOutcome, Session, SessionContext, SessionHandoff
from ..types.kinds import Memory
from .operation import About, Effect, operation

SessionId = Annotated[str, About("the session's id, as start_session gave it")]
Texts = Annotated[list[str] | None, About("a list of short texts")]
Tests = Annotated[dict[str, bool] | None, About("by name, whether each test passes")]
Level = Annotated[float | None, About("0 to 1: how well it is going")]
Folder = Annotated[str | None, About("the folder of code it is about; null: none", local=True)]
Ended = Annotated[str | None, About("how the last thing went", tuple(LastOutcome))]


def _manager(alma: ALMA, workspace: str | None = None) -> SessionManager:
    # Whoever calls an operation may be gone in a moment, and the session goes on.
    return SessionManager(alma=alma, project_id=alma.project_id, workspace=workspace, held=False)


@operation(Effect.ADDS)
def start_session(
    alma: ALMA,
    agent: words.Agent,
    goal: Annotated[str, About("what the session is for")] = "",
    user_id: words.User = None,
    workspace: Folder = ".",
) -> SessionContext:
    """Begin a session with all that its agent should know.

    Gives the last session's handoff, the progress, what was tried lately, strategies for the goal, the state of the
    code, and what to work on first. Keep `session_id` for update_session and end_session.
    """
    return _manager(alma, workspace).start_session(agent, goal, user_id=user_id, orient=workspace is not None)


@operation(Effect.CHANGES)
def update_session(
    alma: ALMA,
    agent: words.Agent,
    session_id: SessionId,
    action: Annotated[str | None, About("what was done")] = None,
    outcome: Annotated[str | None, About("how the action went", tuple(LastOutcome))] = None,
    decisions: Texts = None,
    active_files: Texts = None,
    blockers: Texts = None,
    resolved: Annotated[list[str] | None, About("blockers and risks that are gone")] = None,
    next_steps: Annotated[list[str] | None, About("what comes next, in place of what was said before")] = None,
    risk_flags: Texts = None,
    test_status: Tests = None,
    confidence_level: Level = None,
    goal: Annotated[str | None, About("another goal")] = None,
) -> Session:
    """Note what happened in a session, so that it is known even if the session never ends."""
    given = {name: value for name, value in locals().items() if name not in ("alma", "agent", "session_id")}
    return _manager(alma).update_session(agent, session_id, **given)


@operation(Effect.CHANGES)
def end_session(
    alma: ALMA,
    agent: words.Agent,
    session_id: SessionId,
    last_action: Annotated[str | None, About("the last thing that was done")] = None,
    last_outcome: Ended = None,
    current_goal: Annotated[str | None, About("the goal as it stands now")] = None,
    key_decisions: Texts = None,
    active_files: Texts = None,
    blockers: Texts = None,
    next_steps: Texts = None,
    test_status: Tests = None,
    confidence_level: Level = None,
    risk_flags: Texts = None,
    metadata: words.Metadata = None,
) -> SessionHandoff:
    """End a session with what the next one should know. What is not given is taken from what was noted."""
    given = {name: value for name, value in locals().items() if name not in ("alma", "agent", "session_id")}
    return _manager(alma).end_session(agent, session_id, **given)


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@operation(Effect.READS)
def quick_reload(
    alma: ALMA,
    agent: words.Agent,
    max_tokens: words.MaxTokens = 400,
    user_id: words.User = None,
) -> Text:
    """Where an agent left off, in a few hundred tokens: goal, last action, blockers, next steps, progress."""
    return Text(_manager(alma).get_quick_reload(agent, max_tokens=max_tokens, user_id=user_id))


@operation(Effect.READS)
def previous_sessions(alma: ALMA, agent: words.Agent, limit: words.Limit = 5) -> list[SessionHandoff]:
    """The handoffs of an agent's latest sessions, the last one first."""
    return _manager(alma).get_previous_sessions(agent, limit)


@operation(Effect.READS)
def open_sessions(alma: ALMA, agent: words.Agent) -> list[Session]:
    """The sessions of an agent that have not ended."""
    return _manager(alma).get_open_sessions(agent)


@operation(Effect.READS)
def get_session(alma: ALMA, agent: words.Agent, session_id: SessionId) -> Session:
    """One session as it stands."""
    return _manager(alma).get_session(agent, session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """What an agent knows before it begins."""

    session_id: str
    agent: str
    goal: str
    work_items: list[WorkItem]
    recommended_start: WorkItem | None
    codebase_summary: str | None
    recent_activity: list[str]
    memories: list[Memory]
    retrieval_id: str | None
    scope_rules: list[str]
    constraints: list[str]
    quality_gates: list[str]
    planned_by: str
    """Which reader made the work items: `local`, or a model's name; empty when none were asked for."""
    prompt: str
    """All of it as Markdown for a prompt."""


@operation(Effect.ADDS)
def initialize(
    alma: ALMA,
    agent: words.Agent,
    user_prompt: Annotated[str, About("what the person asked for, in their words")],
    auto_expand: Annotated[bool, About("make work items of it")] = True,
    user_id: words.User = None,
    domain: Annotated[str | None, About("the name of a domain schema whose item types fit")] = None,
    workspace: Folder = ".",
    max_tokens: words.MaxTokens = 2000,
) -> Initialized:
    """Get an agent ready for a prompt: a session, work items, the state of the code, memories, rules, where to start.

    A task that is open already is not made a second time.
    """
    from ..domains import DomainMemoryFactory

    schema = None if domain is None else DomainMemoryFactory(alma).get_schema(domain)
    made = SessionInitializer(alma, session_manager=_manager(alma, workspace), workspace=workspace).initialize(
        alma.project_id, agent, user_prompt, auto_expand, user_id=user_id, domain=schema
    )
    return Initialized(
        session_id=made.session_id,
        agent=made.agent,
        goal=made.goal,
        work_items=made.work_items,
        recommended_start=made.recommended_start,
        codebase_summary=made.codebase_summary,
        recent_activity=made.recent_activity,
        memories=list(made.relevant_memories),
        retrieval_id=made.relevant_memories.retrieval_id,
        scope_rules=made.scope_rules,
        constraints=made.constraints,
        quality_gates=made.quality_gates,
        planned_by=made.planned_by,
        prompt=made.to_prompt(max_tokens),
    )


@operation(Effect.READS)
def wake_up(
    alma: ALMA,
    agent: words.Agent,
    user_id: words.User = None,
) -> Text:
    """Who an agent is and what matters most of all it remembers, within 900 tokens: what a prompt begins with."""
    return Text(MemoryStack(alma, agent, user_id).wake_up())


@operation(Effect.READS)
def recall_topic(
    alma: ALMA,
    agent: words.Agent,
    topic: Annotated[str, About("what it is about")],
    user_id: words.User = None,
    deep: Annotated[bool, About("everything, far-fetched things too (3,000 tokens; else 600)")] = False,
) -> Text:
    """What is known about a topic, as text within a budget."""
    stack = MemoryStack(alma, agent, user_id)
    return Text(stack.deep(topic) if deep else stack.on_demand(topic))
