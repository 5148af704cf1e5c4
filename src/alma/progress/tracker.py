"""`ProgressTracker`: what is to be done, by whom, in which order, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words
from ..errors import ValidationError
from ..opening import Holder
from ..types.query import Where
from ..types.record import Record
from ..types.record import Status as Standing
from . import choose, claims, plan, report, told
from .edit import Edit, held, one, unknown_item, write
from .types import KIND, ItemChange, ProgressLog, ProgressSummary, Status, Strategy, WorkItem, item_of

if TYPE_CHECKING:
    from ..core import ALMA

_MAX_LIMIT = 1_000_000
_DAYS = 36_500.0
_DEFAULTS = {"item_type": "task", "priority": 50}


class ProgressTracker(Holder):
    """Tracks the work items of a project.

    Without a memory it opens the one that is configured here, and `close` (or leaving its `with` block) closes it.
    `by` says who makes a change; it is kept in the item's history, and an agent cannot change what another has claimed.
    """

    def __init__(self, project_id: str | None = None, alma: ALMA | None = None) -> None:
        super().__init__(alma, project_id)
        self._bound = project_id is not None
        self.engine = self.alma.engine if project_id is None else _of_project(self.alma.engine, project_id)

    @property
    def project_id(self) -> str:
        return self.engine.project

    # -- making and reading

    def create_work_item(
        self,
        item: WorkItem | None = None,
        *,
        title: str | None = None,
        description: str = "",
        item_type: str = "task",
        priority: int = 50,
        agent: str | None = None,
        parent_id: str | None = None,
        blocked_by: Iterable[str] = (),
        blocks: Iterable[str] = (),
        tests: Iterable[str] = (),
        estimate_minutes: float | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        project_id: str | None = None,
    ) -> WorkItem:
        """Create a work item, from its fields or from a `WorkItem` made by hand.

        With a blocker that is not done it begins as blocked. `agent` is whose it is; without one it is anybody's.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "item", "project_id")}
        if item is not None and any(value and value != _DEFAULTS.get(name) for name, value in given.items()):
            raise ValidationError("pass a WorkItem or its fields, not both")
        return self.create_work_items([given if item is None else item], project_id=project_id)[0]

    def create_work_items(
        self, items: Iterable[WorkItem | Mapping[str, Any]], *, project_id: str | None = None
    ) -> list[WorkItem]:
        """Create several, all or none; each a `WorkItem` or a mapping of its fields, and a later one may name an
        earlier one's id."""
        made = [_given(one) for one in validate.many("items", items)]
        projects = {one.pop("project_id", None) for one in made} - {None, ""}
        if project_id is not None:
            projects.add(project_id)
        if len(projects) > 1:
            raise ValidationError(f"items of one call belong to one project, not to {', '.join(sorted(projects))}")
        engine = self._engine(next(iter(projects), None))
        ready = [_ready(engine, one) for one in made]

        def step(edit: Edit) -> list[str]:
            if any(fields.get(name) for fields, _, _ in ready for name in plan.RELATIONS):
                edit.guard()
            return [plan.create(edit, *parts) for parts in ready]

        edit, ids = write(engine, "", step)
        return [edit.item(id) for id in ids]

    def get_item(self, item_id: str) -> WorkItem:
        """One item by its id, archived or not."""
        return item_of(self._record(item_id))

    def list_items(
        self,
        status: str | Iterable[str] | None = None,
        agent: str | None = None,
        *,
        item_type: str | None = None,
        parent_id: str | None = None,
        tag: str | None = None,
        archived: bool = False,
        limit: int | None = None,
        project_id: str | None = None,
    ) -> list[WorkItem]:
        """Items, the most urgent first, then the oldest; `archived=True` for those that were put away too."""
        engine = self._engine(project_id)
        wanted = [status] if isinstance(status, str) else status
        found = held(
            engine,
            statuses=None if wanted is None else [validate.choice("status", one, Status) for one in wanted],
            archived=archived,
            agents=None if agent is None else {_agent(engine, agent)},
            linked=None if parent_id is None else {validate.name("parent_id", parent_id)},
            tagged=None if tag is None else {validate.name("tag", tag)},
        )
        items = [
            item
            for item in map(item_of, found)
            if item_type in (None, item.item_type) and parent_id in (None, item.parent_id)
        ]
        most = len(items) if limit is None else validate.whole("limit", limit, 1, _MAX_LIMIT)
        return sorted(items, key=lambda item: (-item.priority, item.created_at, item.id))[:most]

    def search(self, query: str, limit: int = 10, *, project_id: str | None = None) -> list[WorkItem]:
        """Items whose title or description shares words with the query, best first."""
        engine = self._engine(project_id)
        where = Where(kinds={KIND}, projects={engine.project}, statuses={Standing.ACTIVE})
        most = validate.whole("limit", limit, 1, 1000)
        hits = by_words(engine.store, validate.text("query", query), where, most)
        return [item_of(record) for record in engine.store.get([hit.id for hit in hits])]

    # -- changing

    def update_status(self, item_id: str, status: str, notes: str | None = None, *, by: str | None = None) -> WorkItem:
        """Move an item to 'pending', 'in_progress', 'blocked', 'review', 'done' or 'failed'.

        Which moves are allowed stands in `alma.progress.states`. Done frees what waited for it; taken up again, it
        blocks that again.
        """
        wanted = validate.choice("status", status, Status)
        why = _note(notes)
        return self._one(item_id, by, lambda edit: plan.set_status(edit, item_id, wanted, why))

    def update_item(self, item_id: str, *, by: str | None = None, **fields: Any) -> WorkItem:
        """Change title, description, item_type, priority, agent, parent_id, tests, estimate_minutes, tags, metadata."""
        engine = self._engine_of(item_id)
        place: dict[str, Any] = {}
        if "agent" in fields:
            agent = fields.pop("agent")
            place["agent"] = "" if agent is None else _agent(engine, agent)
        if "tags" in fields:
            place["tags"] = clean_names("tags", fields.pop("tags"))
        if not fields and not place:
            raise ValidationError(f"nothing to update: pass some of {', '.join((*told.EDITABLE, 'agent', 'tags'))}")
        changes = told.checked(fields, told.EDITABLE)

        def step(edit: Edit) -> None:
            if "parent_id" in changes:
                edit.guard()
            plan.refuse_claimed(edit, item_id)
            plain = {name: value for name, value in changes.items() if name != "parent_id"}
            if "tests" in plain:
                plain |= told.tested(plain["tests"], edit.body(item_id)["test_results"])
            edit.alter(item_id, "edited", plain, fields=place)
            if "parent_id" in changes:
                plan.set_parent(edit, item_id, changes["parent_id"])

        return self._one(item_id, by, step)

    def add_blocker(self, item_id: str, blocker_id: str, *, by: str | None = None) -> WorkItem:
        """From now on the item waits for the other; a circle is refused."""
        blocker = validate.name("blocker_id", blocker_id)
        return self._ordered(item_id, by, lambda edit: plan.link(edit, item_id, blocker))

    def remove_blocker(self, item_id: str, blocker_id: str, *, by: str | None = None) -> WorkItem:
        """The item no longer waits for the other."""
        blocker = validate.name("blocker_id", blocker_id)
        return self._ordered(item_id, by, lambda edit: plan.unlink(edit, item_id, blocker))

    def record_test(self, item_id: str, test: str, passing: bool, *, by: str | None = None) -> WorkItem:
        """How a test of the item went; a new name is added to its tests."""
        name = str(clean(validate.name("test", test)))
        if not isinstance(passing, bool):
            raise ValidationError(f"passing must be True or False, not {passing!r}")

        def step(edit: Edit) -> None:
            body = edit.body(item_id)
            tests = list(dict.fromkeys((*body["tests"], name)))
            edit.alter(item_id, "tested", told.tested(tests, {**body["test_results"], name: passing}))

        return self._one(item_id, by, step)

    # -- what comes next

    def get_next_item(
        self,
        project_id: str | None = None,
        agent: str | None = None,
        strategy: str = "priority",
        *,
        claim: bool = False,
        lease_seconds: float = claims.LEASE_SECONDS,
    ) -> WorkItem | None:
        """What to work on next: nothing that is blocked, being worked on, or another agent's.

        `strategy` is 'priority', 'blocked_unblock' (what frees most), 'quick_win' or 'fifo'. With `claim` the item is
        taken for `agent` and in progress at once, and nobody else gets it.
        """
        engine = self._engine(project_id)
        chosen = validate.choice("strategy", strategy, Strategy)
        who = None if agent is None else _agent(engine, agent)
        if not claim:
            return next(iter(choose.ranked(engine, who, chosen)), None)
        if who is None:
            raise ValidationError("claim=True needs the agent that claims: get_next_item(agent='...', claim=True)")
        return claims.claim_next(engine, who, chosen, _lease(lease_seconds))

    def claim_next(
        self,
        agent: str,
        lease_seconds: float = claims.LEASE_SECONDS,
        strategy: str = "priority",
        *,
        project_id: str | None = None,
    ) -> WorkItem | None:
        """Take the next item: two who ask at once never get the same one.

        It is the agent's until it leaves 'in_progress', is released, or the lease has run out; then others may have it.
        """
        return self.get_next_item(project_id, agent, strategy, claim=True, lease_seconds=lease_seconds)

    def claim(self, item_id: str, agent: str, lease_seconds: float = claims.LEASE_SECONDS) -> WorkItem:
        """Take this item, as `claim_next` takes the next."""
        seconds = _lease(lease_seconds)
        return self._one(item_id, agent, lambda edit: claims.take(edit, item_id, seconds))

    def renew(self, item_id: str, agent: str, lease_seconds: float = claims.LEASE_SECONDS) -> WorkItem:
        """Keep a claim for that long from now."""
        seconds = _lease(lease_seconds)
        return self._one(item_id, agent, lambda edit: claims.renew(edit, item_id, seconds))

    def release(self, item_id: str, agent: str, notes: str | None = None) -> WorkItem:
        """Give a claimed item back unfinished."""
        why = _note(notes)
        return self._one(item_id, agent, lambda edit: claims.release(edit, item_id, why))

    # -- how far it is

    def get_progress_summary(self, project_id: str | None = None, agent: str | None = None) -> ProgressSummary:
        """Counts by status, what is in progress and what is blocked; of all items or of one agent's."""
        engine = self._engine(project_id)
        return report.summary(engine, None if agent is None else _agent(engine, agent))

    def log_session_progress(
        self,
        project_id: str | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        *,
        current_item_id: str | None = None,
        current_action: str = "",
        session_start: datetime | str | None = None,
        actions_taken: int | None = None,
        outcomes_recorded: int | None = None,
    ) -> ProgressLog:
        """Keep where a session stands now; what is not said is counted since the session began."""
        if agent is None or session_id is None:
            raise ValidationError("log_session_progress needs agent and session_id, by name: agent='...'")
        engine = self._engine(project_id)
        moment = report.Moment(
            agent=_agent(engine, agent),
            session=validate.name("session_id", session_id),
            item=None if current_item_id is None else self._record(current_item_id).id,
            action=_note(current_action),
            started=validate.moment("session_start", session_start),
            actions=None if actions_taken is None else validate.whole("actions_taken", actions_taken, 0, 10**9),
            outcomes=None
            if outcomes_recorded is None
            else validate.whole("outcomes_recorded", outcomes_recorded, 0, 10**9),
        )
        return report.log(engine, moment)

    def get_progress_logs(
        self,
        agent: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        *,
        project_id: str | None = None,
    ) -> list[ProgressLog]:
        """What `log_session_progress` kept, newest first."""
        engine = self._engine(project_id)
        return report.logs(
            engine,
            None if agent is None else _agent(engine, agent),
            None if session_id is None else validate.name("session_id", session_id),
            validate.whole("limit", limit, 1, _MAX_LIMIT),
        )

    def history(self, item_id: str) -> list[ItemChange]:
        """Who changed what of an item, oldest first."""
        record = self._record(item_id)
        return report.history(_of_project(self.engine, record.project), record)

    # -- putting away

    def archive(self, item_id: str, *, by: str | None = None) -> WorkItem:
        """Put an item away; it is neither listed nor counted. One that others still wait for is refused."""
        return self._one(item_id, by, lambda edit: plan.archive(edit, item_id))

    def restore(self, item_id: str, *, by: str | None = None) -> WorkItem:
        """Take an archived item back."""
        return self._one(item_id, by, lambda edit: plan.restore(edit, item_id))

    def archive_finished(self, older_than_days: float = 30.0, *, project_id: str | None = None) -> int:
        """Archive what is done and was not touched for that long; how many."""
        engine = self._engine(project_id)
        days = validate.number("older_than_days", older_than_days, 0.0, _DAYS)
        due = plan.done_before(engine, engine.clock() - timedelta(days=days))
        _, gone = write(engine, "", lambda edit: plan.put_away(edit, due))
        return len(gone)

    def delete(self, item_id: str, *, by: str | None = None) -> None:
        """Erase an item and its history. What waited for it waits no longer; its parts stand on their own."""
        engine = self._engine_of(item_id)

        def step(edit: Edit) -> None:
            edit.guard()
            plan.erase(edit, item_id)

        write(engine, self._who(engine, by), step)
        engine.store.delete([line.id for line in report.lines(engine, item_id)])

    # -- where and who

    def _engine(self, project_id: str | None) -> Engine:
        return self.engine if project_id is None else _of_project(self.engine, project_id)

    def _record(self, item_id: str) -> Record:
        """A tracker of one project knows only that one's items; one of none knows all of its memory."""
        id = validate.name("item_id", item_id)
        for record in self.engine.store.get([id]):
            ours = record.project == self.engine.project or not self._bound
            if record.kind == KIND and ours and record.status is not Standing.RETIRED:
                return record
        raise unknown_item(self.engine, id)

    def _engine_of(self, item_id: str) -> Engine:
        return _of_project(self.engine, self._record(item_id).project)

    def _who(self, engine: Engine, by: str | None) -> str:
        return "" if by is None else _agent(engine, by)

    def _one(self, item_id: str, by: str | None, step: Callable[[Edit], object]) -> WorkItem:
        engine = self._engine_of(item_id)
        return one(engine, self._who(engine, by), item_id, step)

    def _ordered(self, item_id: str, by: str | None, step: Callable[[Edit], object]) -> WorkItem:
        def guarded(edit: Edit) -> None:
            edit.guard()
            plan.refuse_claimed(edit, item_id)
            step(edit)

        return self._one(item_id, by, guarded)


def _of_project(engine: Engine, project_id: str) -> Engine:
    name = validate.name("project_id", project_id)
    return engine if name == engine.project else replace(engine, project=name)


def _agent(engine: Engine, given: object) -> str:
    return engine.agent(validate.name("agent", given))


def _given(item: WorkItem | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, WorkItem):
        return {**told.of_item(item), "project_id": item.project_id}
    if not isinstance(item, Mapping):
        raise ValidationError(f"an item must be a WorkItem or a mapping of its fields, not {type(item).__name__}")
    return dict(item)


def _ready(engine: Engine, given: dict[str, Any]) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    agent, tags = given.pop("agent", None), given.pop("tags", None)
    name = "" if agent is None else _agent(engine, agent)
    return told.creatable(given), name, clean_names("tags", tags)


def clean_names(label: str, given: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(map(clean, validate.names(label, given)))


def _note(given: str | None) -> str:
    return str(clean(validate.optional_text("notes", given) or ""))


def _lease(given: float) -> float:
    return validate.number("lease_seconds", given, 1.0, claims.MAX_LEASE_SECONDS)
