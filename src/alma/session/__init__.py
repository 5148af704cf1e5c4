"""Sessions: start where the last one left off, record what happens, and hand over to the next one.

from alma.session import SessionManager

manager = SessionManager("my-project")
context = manager.start_session(agent="Helena", goal="Complete auth testing")
manager.create_handoff("Helena", context.session_id, last_action="completed_oauth_tests", last_outcome="success")

A session starts with rules of engagement: what the agent may do, what it must not do, and what must be true before work
counts as done. They come from the agent's scope and from its rules, preferences and anti-patterns.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial, wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, cast

from .. import words
from ..engine import validate
from ..engine.context import Engine
from ..engine.evidence import memory_strength
from ..engine.retrieve.pipeline import retrieve
from ..engine.retrieve.rank import alternate_persons, split_persons
from ..engine.retrieve.request import Request
from ..engine.rule_lines import describe_occasion
from ..engine.rules import is_old_fix
from ..engine.search import scan_shared
from ..engine.transaction import scan_records, write
from ..engine.view import to_memory
from ..errors import ValidationError
from ..memory import ALMA
from ..opening import OwnsMemory
from ..operations import About, Effect, Group
from ..progress import ProgressSummary, ProgressTracker, WorkItem
from ..text import shorten
from ..types.kinds import EVERYWHERE, KINDS, MemoryType, Outcome, quoted_why
from ..types.query import MemoryScope, Where, visible_users
from ..types.record import Record, Status, Trust
from ..types.speech import mark_source
from ..words import Text
from . import handoff
from .codebase import orient as look_around
from .handoff import (
    InitializationResult,
    LastOutcome,
    Session,
    SessionContext,
    SessionHandoff,
    SessionState,
    read_handoff,
    read_session,
)

if TYPE_CHECKING:
    from .initializer import SessionInitializer

__all__ = [
    "InitializationResult",
    "LastOutcome",
    "Session",
    "SessionContext",
    "SessionHandoff",
    "SessionInitializer",
    "SessionManager",
    "SessionState",
]

ALIVE_FOR = timedelta(minutes=30)
_RECENT = 5
_HEURISTICS = 5
_ORIENT_SECONDS = 0.4  # A session must start quickly; `orient_to_codebase` has more time.


def open_manager(alma: ALMA) -> SessionManager:
    """Return the manager of operations: the process that calls one may exit at once, and the session continues."""
    return SessionManager(alma=alma, project_id=alma.project_id, workspace=None, held=False)


operation = Group("sessions", open_manager)

F = TypeVar("F", bound=Callable[..., Any])


def take_project_first(method: F) -> F:
    """Also accept the project as the first positional argument of a method: `(project_id, agent, …)`.

    The first argument is read as the project only where no other reading is likely: when there is one argument too
    many, when a text is passed for a number, or when it is the project itself and a single word follows.
    """
    parameters = inspect.signature(method).parameters.values()
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][1:]

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        has_project = len(args) > len(names) or _starts_with_project(self.project_id, args)
        if args[1:] and names[len(args) - 1 :] == ["limit"] and isinstance(args[-1], str):
            has_project = True
        if has_project and "project_id" not in kwargs:
            return method(self, *args[1:], project_id=args[0], **kwargs)
        return method(self, *args, **kwargs)

    return cast(F, call)


def _starts_with_project(project: str, args: Sequence[Any]) -> bool:
    """Return whether the arguments begin with the manager's own project and the name of an agent.

    An agent may be named like its project, and a goal may follow; but a goal is more than a word.
    """
    return len(args) > 1 and args[0] == project and isinstance(args[1], str) and len(args[1].split()) == 1


SessionId = Annotated[str, About("the session's id, from start_session", check=validate.name)]
Folder = Annotated[str | PathLike[str] | None, About("the code folder to inspect", local=True)]
Decisions = Annotated[Iterable[str] | None, About("decisions made", check=handoff.read_lines)]
Blockers = Annotated[Iterable[str] | None, About("what blocks the work", check=handoff.read_lines)]
Risks = Annotated[Iterable[str] | None, About("what may go wrong", check=handoff.read_lines)]
Steps = Annotated[Iterable[str] | None, About("next steps", check=handoff.read_lines)]
Files = Annotated[Iterable[str] | None, About("files being worked on", check=handoff.read_paths)]
Tests = Annotated[Mapping[str, bool] | None, About("results by name; true if passed")]
Level = Annotated[float | None, About("how well it is going, 0 to 1", least=0.0, most=1.0)]


@dataclass(frozen=True, slots=True)
class SessionList:
    """The open sessions of an agent and the handoffs of those that ended."""

    sessions: list[Session]  # The open ones, or the one with the requested id.
    handoffs: list[SessionHandoff]  # Newest first.


def require_folder(workspace: str | PathLike[str] | None) -> None:
    """Raise ValidationError unless the workspace is an existing folder or None."""
    if workspace is not None and not Path(workspace).is_dir():
        raise ValidationError(f"workspace must be an existing folder, not {str(workspace)!r}")


class SessionManager(OwnsMemory):
    """Manages the sessions of the agents of a project.

    When an agent starts a session, its earlier sessions that never ended are closed with a handoff of what was
    recorded: at once if the process that owned the session has exited on this machine, otherwise once the session has
    been silent for `alive_for`. Pass `held=False` if this process does not own the sessions it starts, as on the
    command line. `workspace` is the folder of code that sessions are about: the current folder by default, None for no
    code.
    """

    def __init__(
        self,
        project_id: str | None = None,
        alma: ALMA | None = None,
        *,
        progress: ProgressTracker | None = None,
        workspace: str | PathLike[str] | None = ".",
        alive_for: timedelta = ALIVE_FOR,
        held: bool = True,
    ) -> None:
        if not isinstance(alive_for, timedelta) or alive_for < timedelta(0):
            raise ValidationError(f"alive_for must be a timedelta of at least 0, not {alive_for!r}")
        name = None if project_id is None else validate.name("project_id", project_id)
        super().__init__(alma, name)
        self.project_id = name or self.alma.project_id
        self.workspace = None if workspace is None else Path(workspace)
        self.alive_for = alive_for
        self._held = held
        self._progress = progress

    # -- starting

    @take_project_first
    @operation(Effect.ADDS, defaults={"workspace": "."})
    def start_session(
        self,
        agent: words.Agent,
        goal: Annotated[str, About("the goal of the session", check=handoff.read_goal)] = "",
        *,
        project_id: words.Project = None,
        user_id: words.User = None,
        workspace: Folder = None,
        orient: Annotated[bool, About("", for_python=True)] = True,
    ) -> SessionContext:
        """Start a session. Returns everything the agent needs to continue.

        Includes the last handoff, progress, recent outcomes, strategies, the state of the code and first steps. Pass
        `session_id` to update_session and end_session.

        Notes:
            `workspace` defaults to the manager's; `orient=False` does not inspect the code.
        """
        require_folder(workspace)
        engine, name, user = *self._find_engine(project_id, agent), user_id
        check = partial(handoff.check_session, agent=name, alive_for=self.alive_for)
        alive = [one for one in handoff.list_open(engine, name) if write(engine, partial(check, id=one.id))]
        previous = handoff.find_latest(engine, name, user)
        task = goal or (previous.current_goal if previous else "")
        types = frozenset({MemoryType.HEURISTIC})
        request = Request(task=task, agent=name, user=user, types=types, top_k=_HEURISTICS)
        strategies = retrieve(engine, request) if task else None
        progress, folder = self.tracker(engine.project).get_progress_summary(), workspace or self.workspace
        code = look_around(folder, _ORIENT_SECONDS) if orient and folder is not None else None
        focus, rules = self._find_focus(name, progress), find_engagement(engine, name, engine.scopes.of(name), user)
        seen, now = visible_users(user), engine.clock()
        outcomes = scan_records(engine, "outcome", _RECENT, agents={name}, users=seen, statuses={Status.ACTIVE})
        # Stored last, so that an error above leaves no open session behind.
        record = write(engine, lambda tx: handoff.begin_session(tx, name, goal, self._owner(), user))
        return SessionContext(
            session_id=record.id,
            project_id=engine.project,
            agent=name,
            goal=record.body["goal"],
            started_at=record.created_at,
            previous_handoff=previous,
            progress=progress,
            recent_outcomes=[one for one in (to_memory(each, now) for each in outcomes) if isinstance(one, Outcome)],
            relevant_heuristics=strategies.heuristics if strategies else [],
            codebase_state=code,
            environment_state=_describe_environment(),
            suggested_focus=focus,
            rules_of_engagement=[rule for sort in rules for rule in sort],
            open_sessions=[read_session(one) for one in alive if one.user in seen],
            retrieval_id=strategies.retrieval_id if strategies else None,
        )

    def tracker(self, project_id: str) -> ProgressTracker:
        """Return the tracker of a project's work items."""
        if self._progress is not None and self._progress.project_id == project_id:
            return self._progress
        return ProgressTracker(project_id, alma=self.alma)

    # -- while it is open

    @operation(Effect.CHANGES)
    def update_session(
        self,
        agent: words.Agent,
        session_id: SessionId,
        *,
        action: Annotated[str | None, About("what was done", check=handoff.read_line)] = None,
        outcome: Annotated[LastOutcome | str | None, About("the result of the action")] = None,
        decisions: Decisions = None,
        active_files: Files = None,
        blockers: Blockers = None,
        resolved: Annotated[
            Iterable[str] | None, About("resolved blockers and risks", check=handoff.read_lines)
        ] = None,
        next_steps: Steps = None,
        risk_flags: Risks = None,
        test_status: Tests = None,
        confidence_level: Level = None,
        goal: Annotated[str | None, About("the new goal", check=handoff.read_goal)] = None,
        project_id: words.Project = None,
    ) -> Session:
        """Save what happened in a session, so that it is not lost if the session never ends.

        Notes:
            A call without changes only marks the session as alive. Actions, decisions, files, blockers and risks are
            added; `resolved` removes blockers and risks; test results replace older ones by name; steps, goal and
            confidence replace the previous values.
        """
        noted = handoff.name_as_stored(locals())
        engine, name = self._find_engine(project_id, agent)
        if action is None and outcome is not None:
            raise ValidationError("outcome is the result of an action: pass `action` with it")
        owner = self._owner()
        return read_session(write(engine, lambda tx: handoff.note_session(tx, name, session_id, noted, owner)))

    # -- ending

    @take_project_first
    def create_handoff(
        self,
        agent: str,
        session_id: str,
        last_action: str,
        last_outcome: str,
        *,
        project_id: str | None = None,
        **context: Any,
    ) -> SessionHandoff:
        """End a session and return its handoff.

        `last_outcome` is 'success', 'failure' or 'interrupted'; `context` takes the other arguments of `end_session`.
        Arguments that are left out default to what was recorded during the session. Decisions and files are added to
        the recorded ones. Long lists are cut at the end.
        """
        action = validate.text("last_action", last_action)
        outcome = validate.choice("last_outcome", last_outcome, LastOutcome)
        closing = {"last_action": action, "last_outcome": outcome, "project_id": project_id, **context}
        return self.end_session(agent, session_id, **closing)

    @operation(Effect.CHANGES)
    def end_session(
        self,
        agent: words.Agent,
        session_id: SessionId,
        *,
        last_action: Annotated[str | None, About("the last action", check=handoff.read_line)] = None,
        last_outcome: Annotated[LastOutcome | str | None, About("the result")] = None,
        current_goal: Annotated[str | None, About("the current goal", check=handoff.read_goal)] = None,
        key_decisions: Decisions = None,
        active_files: Files = None,
        blockers: Blockers = None,
        next_steps: Steps = None,
        test_status: Tests = None,
        confidence_level: Level = None,
        risk_flags: Risks = None,
        metadata: words.Metadata = None,
        project_id: words.Project = None,
    ) -> SessionHandoff:
        """End a session and save a handoff for the next one. Values you leave out come from the session's notes.

        Notes:
            The default outcome is that of the last noted or learned action, or 'success' if there is none.
        """
        closing = handoff.name_as_stored(locals())
        engine, name = self._find_engine(project_id, agent)
        return read_handoff(write(engine, lambda tx: handoff.end_session(tx, name, session_id, closing)))

    # -- looking back

    @take_project_first
    @operation(Effect.READS, "quick_reload", answer=Text)
    def get_quick_reload(
        self,
        agent: words.Agent,
        *,
        max_tokens: Annotated[int, About("token budget of the text", least=120, most=4000)] = 400,
        user_id: words.User = None,
        project_id: words.Project = None,
    ) -> str:
        """Return where an agent left off, in a few hundred tokens.

        Includes goal, last action, blockers, next steps and progress.

        Notes:
            Sessions of other users than `user_id` are left out.
        """
        engine, name = self._find_engine(project_id, agent)
        progress = self.tracker(engine.project).get_progress_summary()
        latest, focus = handoff.find_latest(engine, name, user_id), self._find_focus(name, progress)
        records = [one for one in handoff.list_open(engine, name) if one.user in visible_users(user_id)]
        return handoff.write_reload(name, latest, [read_session(one) for one in records], progress, focus, max_tokens)

    @operation(Effect.READS)
    def list_sessions(
        self,
        agent: words.Agent,
        state: Annotated[Literal["open", "ended"] | None, About("only open or only ended sessions")] = None,
        *,
        session_id: Annotated[str | None, About("only this session", check=validate.name)] = None,
        limit: Annotated[int, About("maximum number of ended sessions", least=1, most=1000)] = 5,
        project_id: words.Project = None,
    ) -> SessionList:
        """List an agent's open sessions and its latest handoffs; or show one session by id.

        Notes:
            Open sessions of processes that died are listed too.
        """
        if session_id and state:
            raise ValidationError("pass session_id to show one session, or `state` to list sessions, not both")
        engine, name = self._find_engine(project_id, agent)
        if session_id is not None:
            sessions = [handoff.find_session(engine, name, session_id)]
            handoffs = scan_records(engine, "handoff", 1, sessions={session_id})
        else:
            sessions = [] if state == "ended" else handoff.list_open(engine, name)
            handoffs = [] if state == "open" else handoff.list_handoffs(engine, name, limit)
        return SessionList([read_session(one) for one in sessions], [read_handoff(one) for one in handoffs])

    @take_project_first
    def get_previous_sessions(
        self, agent: str, limit: int = 5, *, project_id: str | None = None
    ) -> list[SessionHandoff]:
        """Return the handoffs of an agent's latest sessions, newest first."""
        return self.list_sessions(agent, "ended", limit=limit, project_id=project_id).handoffs

    def get_session(self, agent: str, session_id: str, *, project_id: str | None = None) -> Session:
        """Return the current state of one session."""
        return self.list_sessions(agent, session_id=session_id, project_id=project_id).sessions[0]

    # -- shared steps

    def _find_engine(self, project: str | None, agent: str) -> tuple[Engine, str]:
        """Return the engine of a project, and the declared name of the agent."""
        engine, name = self.alma.engine, project or self.project_id
        return engine if name == engine.project else replace(engine, project=name), engine.agent(agent)

    def _owner(self) -> dict[str, Any] | None:
        return handoff.mark_process() if self._held else None

    def _find_focus(self, agent: str, progress: ProgressSummary) -> WorkItem | None:
        """Return the work item that the agent has in progress, or else its next one."""
        for item in progress.current:
            if agent == (item.claimed_by or item.agent):
                return item
        return self.tracker(progress.project_id).get_next_item(agent=agent, strategy="priority")


def _describe_environment() -> dict[str, Any]:
    """Return the platform and the Python environment, but no values of environment variables."""
    return {
        "platform": sys.platform,
        "python": ".".join(map(str, sys.version_info[:3])),
        "folder": str(Path.cwd()),
        "virtual_environment": sys.prefix if sys.prefix != sys.base_prefix else None,
        "ci": bool(os.environ.get("CI")),
    }


# -- rules of engagement

_READ = 200
_RULES = 12
_WARNINGS = 5
_CHARS = 240

# Matches rules about what must be true before work counts as done.
_GATE = re.compile(
    r"\bbefore\b.*\b(?:commit|merg|push|releas|deploy|finish|done)|\bmust pass|\btests should", re.IGNORECASE
)


class Engagement(NamedTuple):
    """The rules of engagement of an agent, one sentence each."""

    scope_rules: list[str]  # What the agent may do.
    constraints: list[str]  # What it must not do.
    quality_gates: list[str]  # What must be true before work counts as done.


def find_engagement(engine: Engine, agent: str, scope: MemoryScope, user: str | None = None) -> Engagement:
    """Return the rules of engagement of an agent, from its scope and from what was stored for it and the user."""
    taught = rank_memories(engine, MemoryType.RULE, agent, user, _READ)
    if user is not None:
        wishes = rank_memories(engine, MemoryType.USER_PREFERENCE, agent, user, _READ)
        taught += filter(_is_trusted, wishes)
    own, others = split_persons(taught)
    lines = [describe_instruction(one) for one in (*own, *others)]
    # Only anti-patterns without a condition; the others are retrieved with the tasks they apply to.
    warnings = [
        shorten(f"Avoid: {one.body['pattern']}{describe_reason(one)}", _CHARS)
        for one in rank_memories(engine, MemoryType.ANTI_PATTERN, agent, user, _READ)
        if not one.body["condition"] and _is_trusted(one)
    ]
    name = scope.agent_name
    excluded = [f"{name} must not learn about {category}." for category in scope.cannot_learn]
    bounds = [text for text in lines if not _GATE.search(text)]
    allowed = [f"{name} works in the domain {scope.domain}."] if scope.domain else []
    allowed += [f"{name} may learn about {category}." for category in scope.can_learn if scope.is_allowed(category)]
    if not scope.can_learn:
        allowed.append(f"{name} may learn about anything{' that is not excluded' if excluded else ''}.")
    allowed += [f"{name} may read the memories of {other}." for other in scope.inherit_from]
    gates = [text for text in lines if _GATE.search(text)]
    return Engagement(allowed, [*excluded, *bounds[:_RULES], *warnings[:_WARNINGS]], gates[:_RULES])


def _is_trusted(record: Record) -> bool:
    """Return whether the text may be shown as an instruction: text from programs and files may not."""
    return record.provenance.trust is not Trust.UNTRUSTED


def describe_instruction(record: Record) -> str:
    """Return a rule or a preference as one line, marked if somebody else than the user wrote the preference."""
    if record.kind == MemoryType.RULE:
        return shorten(describe_rule(record), _CHARS)
    mark = mark_source(record.provenance.canonical_source)
    words = f"{record.user} prefers: {record.body['preference']}"
    return shorten(words, _CHARS - len(mark)) + mark


def describe_rule(rule: Record) -> str:
    """Return a rule as one line, with the occasion it applies to."""
    occasion = describe_occasion(rule.body["trigger"], rule.body["rule"])
    return f"{occasion}: {rule.body['rule']}" if occasion else str(rule.body["rule"])


def describe_reason(warning: Record) -> str:
    """Return the reason for an anti-pattern in parentheses, or an empty string."""
    return f" ({quoted_why(warning)})" if warning.body["why_bad"] else ""


def rank_memories(engine: Engine, kind: MemoryType, agent: str, user: str | None, newest: int) -> list[Record]:
    """Return the memories of a kind that an agent may read while it serves a user, strongest first.

    Only the given number of newest memories is considered, and as many of what persons said. Rules and preferences in
    persons' words come first; of other memories, what persons said alternates with the rest.
    """
    now, is_rule, is_wish = engine.clock(), kind is MemoryType.RULE, kind is MemoryType.USER_PREFERENCE
    where = Where(
        kinds={kind},
        projects={engine.project, EVERYWHERE} if is_rule else {engine.project},
        agents=None if is_wish else engine.scopes.readable(agent),
        users={user or ""} if is_wish else visible_users(user),
        # A rule for one session applies in no other.
        sessions={""} if is_rule else None,
        statuses={Status.ACTIVE},
        valid_at=now,
    )
    # Strength is rounded to the day: with the exact time, ties would break differently on each call.
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    records = [one for one in scan_shared(engine.store, where, newest) if not is_old_fix(one)]
    half_lives = engine.settings.upkeep.half_life_days
    records.sort(key=lambda one: (-round(memory_strength(one, day, half_lives), 6), one.id))
    if KINDS[kind].is_gated:
        own, others = split_persons(records)
        return own + others
    return alternate_persons(records)


def __getattr__(name: str) -> object:
    # A session starts in a new process, and most do not need the initializer's imports.
    if name != "SessionInitializer":
        raise AttributeError(f"module 'alma.session' has no attribute {name!r}")
    from .initializer import SessionInitializer

    return SessionInitializer
