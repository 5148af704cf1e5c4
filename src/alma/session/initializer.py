"""`SessionInitializer`: plans work items, surveys the code and retrieves memories before an agent starts."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from .. import words
from ..domains import DomainMemoryFactory, DomainSchema
from ..engine import validate
from ..engine.admit import clean
from ..engine.retrieve.pipeline import retrieve
from ..errors import ALMAError, ModelOutputError, ValidationError
from ..memory import ALMA, build_request
from ..operations import About, Effect, Group, take_as_given
from ..ports import Model
from ..progress import ProgressTracker, WorkItem
from ..reading.local import LocalReader
from ..reading.port import Task, TaskPlan, ask_in_time
from ..text import normalise, shorten
from ..types.kinds import KINDS, Memory
from ..types.query import MemoryScope
from ..types.record import new_id
from ..words import copy_fields
from . import Engagement, Folder, SessionManager, codebase, find_engagement, open_manager, require_folder
from .handoff import AwaitableSelf, InitializationResult, Orientation, SessionContext

_LOG = logging.getLogger("alma")
_ACTIVITY = 10
_LINE_CHARS = 200
_QUERY_CHARS = 4000
_GOAL_CHARS = 300
_TITLE_CHARS = 200
_MODEL_SECONDS = 30.0
_LABELS = {
    "urgent|critical|asap|blocker|p0": 90,
    "important|high priority|high|p1": 75,
    "low priority|low|optional|nice to have|later|p3": 25,
}
_PRIORITIES = {label: priority for labels, priority in _LABELS.items() for label in labels.split("|")}
_LABEL_NAMES = "|".join(_PRIORITIES)
_LABEL = re.compile(rf"\W*({_LABEL_NAMES})(?:[:\])]|\s[–-]\s)|.*[(\[]({_LABEL_NAMES})[)\]]\W*$", re.IGNORECASE)


class WorkItems(list[WorkItem], AwaitableSelf):
    """A list of planned work items, which callers may also await."""

    planned_by = ""  # The reader that planned them: `local`, the model's name, or both if the model failed.


class CodebaseState(dict[str, Any], AwaitableSelf):
    """The state of a codebase as `orient_to_codebase` returns it; callers may also await it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized(Orientation):
    """What an agent receives when it is initialized over MCP, HTTP or the command line."""

    memories: list[Memory]
    retrieval_id: str | None
    prompt: str  # The whole result as Markdown for a prompt.


def _show_initialized(result: InitializationResult, max_tokens: words.MaxTokens = 2000) -> Initialized:
    memories = result.relevant_memories
    return copy_fields(
        Initialized,
        result,
        memories=list(memories),
        retrieval_id=memories.retrieval_id,
        prompt=result.to_prompt(max_tokens),
    )


operation = Group("sessions", lambda alma: SessionInitializer(alma, session_manager=open_manager(alma), workspace=None))


class SessionInitializer:
    """Prepares an agent for a task: a session, work items, the state of the code, memories, rules and where to start.

    The results may be used directly or awaited. In an event loop, use `initialize_async`, which does not block the
    loop. `model`, or the memory's configured model, plans the work items within `timeout` seconds. Without a model, or
    if it fails, the local reader plans them; `planned_by` names the reader.
    """

    def __init__(
        self,
        alma: ALMA,
        progress_tracker: ProgressTracker | None = None,
        session_manager: SessionManager | None = None,
        *,
        model: Model | None = None,
        workspace: str | PathLike[str] | None = ".",
        timeout: float = _MODEL_SECONDS,
    ) -> None:
        self.alma = alma
        self.model = model
        self.timeout = validate.number("timeout", timeout, 0.0, 3600.0)
        self.workspace = None if workspace is None else Path(workspace)
        self._tracker = progress_tracker
        self._manager = session_manager

    @operation(Effect.ADDS, defaults={"workspace": "."}, answer=_show_initialized)
    def initialize(
        self,
        project_id: words.Project = None,
        agent: Annotated[str | None, About("the agent's name", check=validate.name, is_required=True)] = None,
        user_prompt: Annotated[str | None, About("the person's request, verbatim", is_required=True)] = None,
        auto_expand: Annotated[bool, About("create work items from the request")] = True,
        *,
        user_id: words.User = None,
        domain: Annotated[
            DomainSchema | str | None,
            About("the name of a domain schema to take item types from", check=take_as_given, json=str | None),
        ] = None,
        workspace: Folder = None,
    ) -> InitializationResult:
        """Prepare an agent for a prompt: a session, work items, code state, memories, rules and a place to start.

        A task that already has an open work item is not added again.

        Notes:
            `auto_expand=False` creates no work items. `workspace` defaults to the initializer's.
        """
        require_folder(workspace)
        manager, tracker = self._find_parts(project_id)
        engine = replace(self.alma.engine, project=manager.project_id)
        name, user = engine.agent(validate.name("agent", agent)), user_id
        prompt = clean(validate.text("user_prompt", user_prompt))
        if isinstance(domain, str):
            domain = DomainMemoryFactory(self.alma).get_schema(domain)
        plan, planned_by = self._plan(prompt) if auto_expand else (TaskPlan(()), "")
        goal = "; ".join(task.title for task in plan.tasks) if "\n" in prompt and plan.tasks else prompt
        context = manager.start_session(name, shorten(goal, _GOAL_CHARS), user_id=user, orient=False)
        items = _store_items(tracker, _make_items(plan.tasks, domain, name, context.session_id))
        folder = workspace or self.workspace
        code = None if folder is None else codebase.orient(folder)
        rules = find_engagement(engine, name, engine.scopes.of(name), user)
        request = {"task": prompt[:_QUERY_CHARS], "agent": name, "user_id": user, "mode": "default", "level": "session"}
        # Items that belong to another agent are not for this one to start.
        own = [item for item in items if name == (item.claimed_by or item.agent or name)]
        free = [item for item in own if item.status in ("pending", "in_progress")]
        return InitializationResult(
            session_id=context.session_id,
            project_id=engine.project,
            agent=name,
            goal=context.goal,
            work_items=items,
            codebase_summary=codebase.summarise_code(code),
            recent_activity=_list_activity(context, code),
            relevant_memories=retrieve(engine, build_request(engine, request)),
            scope_rules=rules.scope_rules,
            # Constraints from the request itself come first.
            constraints=[*(shorten(bound, _LINE_CHARS) for bound in plan.constraints), *rules.constraints],
            quality_gates=list(dict.fromkeys((*rules.quality_gates, *_list_tests(context, code)))),
            # The most urgent item that waits for nothing.
            recommended_start=max(free, key=lambda item: item.priority, default=context.suggested_focus),
            initialized_at=engine.clock(),
            session=replace(context, codebase_state=code),
            planned_by=planned_by,
        )

    async def initialize_async(self, *args: Any, **options: Any) -> InitializationResult:
        """Run `initialize` with the same arguments in a worker thread."""
        import asyncio

        return await asyncio.to_thread(self.initialize, *args, **options)

    def expand_prompt(self, user_prompt: str, domain: DomainSchema | None = None) -> WorkItems:
        """Return the work items that a prompt asks for, without storing them; `blocked_by` holds their order."""
        plan, planned_by = self._plan(clean(validate.text("user_prompt", user_prompt)))
        items = WorkItems(_make_items(plan.tasks, domain))
        items.planned_by = planned_by
        return items

    def orient_to_codebase(self, project_id: str | None = None) -> CodebaseState:
        """Return branch, changes, recent commits, layout and test command of the workspace; empty without code."""
        return CodebaseState({} if self.workspace is None else codebase.orient(self.workspace) or {})

    def get_rules_of_engagement(
        self, agent: str, scope: MemoryScope | None = None, *, user_id: str | None = None
    ) -> Engagement:
        """Return the rules of engagement: what the agent may do, must not do, and what must be true before it is done.

        `scope` replaces the scope that is declared for the agent.
        """
        engine = self.alma.engine
        name = engine.agent(validate.name("agent", agent))
        return find_engagement(engine, name, scope or engine.scopes.of(name), user_id)

    def _find_parts(self, project_id: str | None) -> tuple[SessionManager, ProgressTracker]:
        """Return the session manager and the tracker of one project."""
        parts = [part for part in (self._manager, self._tracker) if part is not None]
        project = project_id or (parts[0] if parts else self.alma).project_id
        for part in parts:
            if part.project_id != project:
                raise ValidationError(
                    f"project_id is {project!r}, but the {type(part).__name__} works for {part.project_id!r}; "
                    "pass the same project to both"
                )
        manager = self._manager or SessionManager(project, self.alma, progress=self._tracker, workspace=self.workspace)
        return manager, self._tracker or manager.tracker(project)

    def _plan(self, prompt: str) -> tuple[TaskPlan, str]:
        """Return a plan of the prompt and the name of the reader that made it."""
        name = "the model"
        try:
            model = self.model or self.alma.model
            if model is None:
                return LocalReader().plan_tasks(prompt), "local"
            # Imported only when a model is used.
            from ..reading.model import ModelReader

            name = model.name
            plan = ask_in_time(lambda: ModelReader(model).plan_tasks(prompt), self.timeout)
            tasks = tuple(task for task in plan.tasks if re.search(r"\w", task.title))
            if len(tasks) < len(plan.tasks) or not (tasks or plan.constraints):
                raise ModelOutputError("the plan has no tasks, or a task without a title")
            return plan, name
        except ALMAError as error:
            _LOG.warning("%s could not plan the request, so the local reader plans it: %s", name, error)
            return LocalReader().plan_tasks(prompt), f"local ({name} failed: {error})"


def _make_items(
    tasks: Sequence[Task], domain: DomainSchema | None, agent: str | None = None, session: str = ""
) -> list[WorkItem]:
    """Return one work item per task; its type is the domain's entity type that the title names, or `task`.

    An item is blocked only by items before it.
    """
    names = [] if domain is None else [one.name for one in domain.entity_types]
    ids = [new_id(KINDS["work_item"].prefix) for _ in tasks]
    items = []
    for at, task in enumerate(tasks):
        words = f" {normalise(task.title)} "
        label = _LABEL.match(task.title)
        item = WorkItem(
            id=ids[at],
            agent=agent,
            title=shorten(task.title, _TITLE_CHARS),
            description=task.description or task.title,
            item_type=next((name for name in names if f" {name.casefold().replace('_', ' ')} " in words), "task"),
            priority=_PRIORITIES[(label[1] or label[2]).lower()] if label else 50,
            blocked_by=tuple(ids[first] for first in task.after if 0 <= first < at),
            metadata={"session": session} if session else {},
        )
        items.append(item)
    return items


def _store_items(tracker: ProgressTracker, items: Sequence[WorkItem]) -> list[WorkItem]:
    """Store the items, all or none, and return them in order; an item that is already open is not stored again."""

    def key(item: WorkItem) -> tuple[str, str]:
        return normalise(item.title), normalise(item.description)

    open_ids = {key(item): item.id for item in tracker.list_items(("pending", "in_progress", "blocked", "review"))}
    stored_ids = {item.id: open_ids.get(key(item), item.id) for item in items}
    fresh = [item for item in items if stored_ids[item.id] == item.id]
    tracker.create_work_items(replace(one, blocked_by=tuple(stored_ids[id] for id in one.blocked_by)) for one in fresh)
    return [tracker.get_item(id) for id in stored_ids.values()]


def _list_tests(context: SessionContext, code: dict[str, Any] | None) -> list[str]:
    """Return the quality gates that follow from the code's test command and the tests that failed last time."""
    command = code["tests"]["command"] if code else None
    status = context.previous_handoff.test_status if context.previous_handoff else {}
    failing = [f"{name} passes again" for name, passing in status.items() if not passing]
    return [*([f"The tests pass: {command}"] if command else []), *failing[:5]]


def _list_activity(context: SessionContext, code: dict[str, Any] | None) -> list[str]:
    """Return recent activity, dated: the previous session, the latest outcomes and commits."""
    previous = context.previous_handoff
    lines = []
    if previous is not None:
        lines.append(f"Session ended {previous.session_end:%Y-%m-%d}: {previous.last_action} ({previous.last_outcome})")
    lines += [
        f"Outcome {one.timestamp:%Y-%m-%d} {one.outcome}: {one.task_description}: {one.strategy_used}"
        for one in context.recent_outcomes
    ]
    lines += codebase.list_commits(code)
    return [shorten(line, _LINE_CHARS) for line in lines[:_ACTIVITY]]
