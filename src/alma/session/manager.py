"""`SessionManager`: begin where the last session left off, note what happens, and hand over."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.text import shorten
from ..engine.view import view
from ..errors import ValidationError
from ..types.kinds import Heuristic, MemoryType, Outcome
from ..types.query import Where, visible_users
from ..types.record import Status
from ..types.times import to_iso
from . import _process, ledger, weighing
from ._codec import handoff, session
from ._home import Home
from .engagement import engagement
from .types import LastOutcome, Session, SessionContext, SessionHandoff

if TYPE_CHECKING:
    from ..core import ALMA
    from ..progress import ProgressSummary, ProgressTracker, WorkItem

ALIVE_FOR = timedelta(minutes=30)
_RECENT = 5
_HEURISTICS = 5
_ORIENT_SECONDS = 0.4
"""A session begins soon; `orient_to_codebase` has more time."""

Texts = Iterable[str] | None


class SessionManager(Home):
    """Sessions of the agents of a project.

    A session that nobody ended hands over what is known when its agent's next one starts: at once when the process that
    held it is gone from this machine, else after it was not heard of for `alive_for`. `held=False` says that this
    process does not hold the sessions it starts, as a command line does not. `workspace` is the folder of code that
    sessions are about: by default the current one; None: no code.
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
        super().__init__(project_id, alma)
        self.workspace = None if workspace is None else Path(workspace)
        self.alive_for = alive_for
        self._held = held
        self._progress = progress

    # -- beginning

    def start_session(
        self,
        agent: str,
        goal: str = "",
        *,
        project_id: str | None = None,
        user_id: str | None = None,
        orient: bool = True,
    ) -> SessionContext:
        """Begin a session with all that its agent should know; `orient=False` does not look at the code."""
        engine = self.engine(project_id)
        name, aim = arguments.agent(engine, agent), _goal(goal)
        user = None if user_id is None else validate.name("user_id", user_id)
        going_on = ledger.settle(engine, name, self.alive_for)
        previous = self._latest(engine, name, user)
        heuristics, retrieval = _heuristics(engine, name, user, aim or (previous.current_goal if previous else ""))
        progress = self.tracker(engine.project).get_progress_summary()
        recent, code = _outcomes(engine, name, user), self._code() if orient else None
        focus, rules = self._focus(engine, name, progress), engagement(engine, name, engine.scope(name), user)
        # Begun last: should anything go wrong before, no session is left open.
        begun = ledger.begin(engine, name, aim, self._owner(), user)
        return SessionContext(
            session_id=begun.id,
            project_id=engine.project,
            agent=name,
            goal=begun.body["goal"],
            started_at=begun.created_at,
            previous_handoff=previous,
            progress=progress,
            recent_outcomes=recent,
            relevant_heuristics=heuristics,
            codebase_state=code,
            environment_state=_environment(),
            suggested_focus=focus,
            rules_of_engagement=[rule for sort in rules for rule in sort],
            open_sessions=[session(one) for one in going_on if one.user in visible_users(user)],
            retrieval_id=retrieval,
        )

    def tracker(self, project_id: str) -> ProgressTracker:
        """The work items of a project of this memory."""
        if self._progress is not None and self._progress.project_id == project_id:
            return self._progress
        from ..progress import ProgressTracker

        return ProgressTracker(project_id, alma=self.alma)

    # -- along the way

    def update_session(
        self,
        agent: str,
        session_id: str,
        *,
        action: str | None = None,
        outcome: str | None = None,
        actions: Texts = None,
        decisions: Iterable[str | Mapping[str, Any]] | str | None = None,
        active_files: Texts = None,
        blockers: Texts = None,
        resolved: Texts = None,
        next_steps: Texts = None,
        risk_flags: Texts = None,
        test_status: Mapping[str, bool] | None = None,
        confidence_level: float | None = None,
        goal: str | None = None,
        project_id: str | None = None,
    ) -> Session:
        """Note what happened, so that it is known even if the session never ends; a call without anything says only
        that it is still alive.

        Actions, decisions, files, blockers and risks are added, `resolved` takes blockers and risks away, tests are
        told anew one by one, and steps, goal and confidence replace what was said before. `outcome` is how `action`
        went: 'success', 'failure' or 'interrupted'. A decision may be a mapping with `text` and `importance` (0 to 1).
        """
        engine = self.engine(project_id)
        now = engine.clock()
        done = [{"what": one, "outcome": "", "at": to_iso(now)} for one in weighing.lines("actions", actions)]
        if action is not None:
            [what] = weighing.lines("action", [action])
            done.append({"what": what, "outcome": str(_outcome("outcome", outcome) or ""), "at": to_iso(now)})
        elif outcome is not None:
            raise ValidationError("outcome says how an action went: pass `action` with it")
        notes = ledger.Notes(
            actions=done,
            decisions=weighing.decisions(decisions, now),
            files=weighing.paths("active_files", active_files),
            blockers=weighing.lines("blockers", blockers),
            resolved=weighing.lines("resolved", resolved),
            next_steps=None if next_steps is None else weighing.lines("next_steps", next_steps),
            risks=weighing.lines("risk_flags", risk_flags),
            tests=None if test_status is None else weighing.tests(test_status),
            confidence=_level(confidence_level),
            goal=None if goal is None else _goal(goal),
        )
        name = arguments.agent(engine, agent)
        return session(ledger.note(engine, name, validate.name("session_id", session_id), notes, self._owner()))

    def get_session(self, agent: str, session_id: str, *, project_id: str | None = None) -> Session:
        """A session as it stands."""
        engine = self.engine(project_id)
        return session(ledger.find(engine, arguments.agent(engine, agent), validate.name("session_id", session_id)))

    # -- the end

    def create_handoff(
        self,
        agent: str,
        session_id: str,
        last_action: str,
        last_outcome: str,
        *,
        current_goal: str | None = None,
        key_decisions: Texts = None,
        active_files: Texts = None,
        blockers: Texts = None,
        next_steps: Texts = None,
        test_status: Mapping[str, bool] | None = None,
        confidence_level: float | None = None,
        risk_flags: Texts = None,
        metadata: Mapping[str, Any] | None = None,
        project_id: str | None = None,
    ) -> SessionHandoff:
        """End a session with what the next one should know.

        `last_outcome` is 'success', 'failure' or 'interrupted'. What is not given is taken from what was noted along
        the way; decisions and files are added to it. Of long lists the most important are kept.
        """
        return self.end_session(
            agent,
            session_id,
            last_action=validate.text("last_action", last_action),
            last_outcome=validate.choice("last_outcome", last_outcome, LastOutcome),
            current_goal=current_goal,
            key_decisions=key_decisions,
            active_files=active_files,
            blockers=blockers,
            next_steps=next_steps,
            test_status=test_status,
            confidence_level=confidence_level,
            risk_flags=risk_flags,
            metadata=metadata,
            project_id=project_id,
        )

    def end_session(
        self,
        agent: str,
        session_id: str,
        *,
        last_action: str | None = None,
        last_outcome: str | None = None,
        current_goal: str | None = None,
        key_decisions: Texts = None,
        active_files: Texts = None,
        blockers: Texts = None,
        next_steps: Texts = None,
        test_status: Mapping[str, bool] | None = None,
        confidence_level: float | None = None,
        risk_flags: Texts = None,
        metadata: Mapping[str, Any] | None = None,
        project_id: str | None = None,
    ) -> SessionHandoff:
        """The same, with only what there is to say: how the last noted or learned thing went stands for the outcome,
        and 'success' when nothing is known."""
        engine = self.engine(project_id)
        closing = ledger.Closing(
            last_action=None if last_action is None else weighing.lines("last_action", [last_action])[0],
            last_outcome=_outcome("last_outcome", last_outcome),
            goal=None if current_goal is None else _goal(current_goal),
            decisions=weighing.lines("key_decisions", key_decisions),
            files=weighing.paths("active_files", active_files),
            blockers=None if blockers is None else weighing.lines("blockers", blockers),
            next_steps=None if next_steps is None else weighing.lines("next_steps", next_steps),
            risks=None if risk_flags is None else weighing.lines("risk_flags", risk_flags),
            tests=None if test_status is None else weighing.tests(test_status),
            confidence=_level(confidence_level),
            metadata=validate.metadata(metadata),
        )
        name = arguments.agent(engine, agent)
        return handoff(ledger.end(engine, name, validate.name("session_id", session_id), closing))

    # -- looking back

    def get_previous_sessions(
        self, agent: str, limit: int = 5, *, project_id: str | None = None
    ) -> list[SessionHandoff]:
        """The handoffs of the latest sessions, the last one first."""
        engine = self.engine(project_id)
        most = validate.whole("limit", limit, 1, 1000)
        return [handoff(one) for one in ledger.handoffs(engine, arguments.agent(engine, agent), most)]

    def get_open_sessions(self, agent: str, *, project_id: str | None = None) -> list[Session]:
        """Sessions that have not ended, those of dead processes too."""
        engine = self.engine(project_id)
        return [session(one) for one in ledger.open_ones(engine, arguments.agent(engine, agent))]

    def get_quick_reload(
        self, agent: str, *, max_tokens: int = 400, project_id: str | None = None, user_id: str | None = None
    ) -> str:
        """Where an agent left off, as text in a fixed layout, within the budget.

        Sessions of other users than `user_id` are left out.
        """
        # Loaded here: its patterns take a while to compile.
        from .reload import LEAST, MOST, Known, reload

        budget = validate.whole("max_tokens", max_tokens, LEAST, MOST)
        engine = self.engine(project_id)
        name = arguments.agent(engine, agent)
        user = None if user_id is None else validate.name("user_id", user_id)
        progress = self.tracker(engine.project).get_progress_summary()
        known = Known(
            agent=name,
            project_id=engine.project,
            handoff=self._latest(engine, name, user),
            going_on=[session(one) for one in ledger.open_ones(engine, name) if one.user in visible_users(user)],
            progress=progress,
            focus=self._focus(engine, name, progress),
        )
        return reload(known, budget)

    # -- what these are made of

    def _owner(self) -> dict[str, Any] | None:
        return _process.mark() if self._held else None

    def _latest(self, engine: Engine, agent: str, user: str | None) -> SessionHandoff | None:
        found = ledger.left_off(engine, agent, user)
        return None if found is None else handoff(found)

    def _code(self) -> dict[str, Any] | None:
        if self.workspace is None:
            return None
        from .codebase import orient

        return orient(self.workspace, _ORIENT_SECONDS)

    def _focus(self, engine: Engine, agent: str, progress: ProgressSummary) -> WorkItem | None:
        """What the agent has begun; else what comes next."""
        begun = [item for item in progress.current if agent in (item.agent, item.claimed_by)]
        return begun[0] if begun else self.tracker(engine.project).get_next_item(agent=agent, strategy="priority")


def _goal(given: object) -> str:
    return shorten(clean(validate.optional_text("goal", given) or ""), weighing.GOAL_CHARS)


def _outcome(label: str, given: str | None) -> LastOutcome | None:
    return None if given is None else validate.choice(label, given, LastOutcome)


def _level(given: float | None) -> float | None:
    return None if given is None else validate.number("confidence_level", given, 0.0, 1.0)


def _outcomes(engine: Engine, agent: str, user: str | None) -> list[Outcome]:
    where = Where(
        kinds={MemoryType.OUTCOME},
        projects={engine.project},
        agents={agent},
        users=visible_users(user),
        statuses={Status.ACTIVE},
    )
    now = engine.clock()
    found = (view(one, now) for one in engine.store.scan(where, _RECENT))
    return [one for one in found if isinstance(one, Outcome)]


def _heuristics(engine: Engine, agent: str, user: str | None, goal: str) -> tuple[list[Heuristic], str | None]:
    """Those that bear on the goal; without one, none can be told to."""
    if not goal:
        return [], None
    # Loaded where there is something to look for.
    from ..engine.retrieve.pipeline import retrieve
    from ..engine.retrieve.request import Request

    request = Request(task=goal, agent=agent, user=user, types=frozenset({MemoryType.HEURISTIC}), top_k=_HEURISTICS)
    found = retrieve(engine, request)
    return found.heuristics, found.retrieval_id


def _environment() -> dict[str, Any]:
    """Names of things only, never the values of variables."""
    return {
        "platform": sys.platform,
        "python": ".".join(map(str, sys.version_info[:3])),
        "folder": str(Path.cwd()),
        "virtual_environment": sys.prefix if sys.prefix != sys.base_prefix else None,
        "ci": bool(os.environ.get("CI")),
    }
