"""Work items: what there is to do, who does it, in which order, and how far it is.

from alma.progress import ProgressTracker

tracker = ProgressTracker("my-project")
item = tracker.create_work_item(title="Fix the login bug", priority=80)
tracker.update_status(item.id, "in_progress")
next_item = tracker.get_next_item(strategy="priority")
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, TypeVar, overload

from .. import words
from ..codec import decode_record
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.history import Change as ItemChange
from ..engine.history import list_revisions
from ..engine.search import by_words
from ..engine.transaction import Transaction, scan_records, write
from ..engine.view import count_records
from ..errors import NotFoundError, ValidationError
from ..memory import ALMA
from ..opening import OwnsMemory
from ..operations import About, Effect, Group, take_as_given
from ..text import fingerprint
from ..types import times
from ..types.query import Where
from ..types.record import Record
from . import items as work
from .items import (
    LEASE_SECONDS,
    Item,
    ProgressLog,
    ProgressSummary,
    Status,
    Strategy,
    WorkItem,
    WorkPlan,
    read_item,
)

__all__ = [
    "LEASE_SECONDS",
    "ItemChange",
    "ProgressLog",
    "ProgressSummary",
    "ProgressTracker",
    "Status",
    "Strategy",
    "WorkItem",
]

T = TypeVar("T")
_LOG = "progress_log"
_MAX_LIMIT = 1_000_000
_SHOWN = 5

operation = Group("work", lambda alma: ProgressTracker(alma=alma, project_id=alma.project_id))

By = Annotated[str | None, About("who makes the change", check=validate.name, shown_as="agent")]
ItemId = Annotated[str, About("the work item's id", check=validate.name)]
Names = Iterable[str] | None
Blockers = Annotated[Names, About("ids of items to do first", check=validate.names)]
Priority = About("0 to 100; 100 is the most urgent", least=0, most=100)
Notes = Annotated[str | None, About("a note on the change")]
Lease = Annotated[float, About("how long the claim lasts, in seconds", least=1.0, most=30 * 86_400.0)]


def _check_statuses(label: str, value: object) -> list[Status]:
    names = [value] if isinstance(value, str) else validate.items(label, value, "names")
    return [validate.choice(label, one, Status) for one in names]


@dataclass(frozen=True, slots=True)
class NextItem:
    """The work item to take up next, if any is free."""

    item: WorkItem | None  # None if no item is free.
    waiting: int  # How many items are open but not free: blocked, in progress, or another agent's.


@dataclass(frozen=True, slots=True)
class Archived:
    """How many work items were archived."""

    count: int


@dataclass(frozen=True, slots=True)
class DeletedItem:
    """The id of a work item that was deleted."""

    id: str


def _show_item(created: WorkItem | str) -> WorkItem:
    assert isinstance(created, WorkItem)  # Interfaces pass fields.
    return created


def _show_deleted(nothing: None, item_id: str) -> DeletedItem:
    return DeletedItem(item_id)


class ProgressTracker(OwnsMemory):
    """Tracks the work items of a project.

    Without `alma` the tracker opens the configured memory; `close`, or the end of its `with` block, closes it. `by` is
    the agent that makes a change: it is stored in the item's history, and an agent cannot change an item that another
    one has claimed.
    """

    def __init__(self, project_id: str | None = None, alma: ALMA | None = None) -> None:
        super().__init__(alma, project_id)
        self.engine = self.alma.engine
        self._is_bound = project_id is not None
        if project_id is not None:
            self.engine = self._engine(validate.name("project_id", project_id))

    @property
    def project_id(self) -> str:
        """The project whose work items are tracked."""
        return self.engine.project

    # -- creating

    @overload
    def create_work_item(self, item: WorkItem, *, project_id: str | None = None) -> str: ...

    @overload
    def create_work_item(
        self,
        item: None = None,
        *,
        title: str,
        description: str = "",
        item_type: str = "task",
        priority: int = 50,
        agent: str | None = None,
        parent_id: str | None = None,
        blocked_by: Iterable[str] | None = None,
        blocks: Iterable[str] | None = None,
        tests: Iterable[str] | None = None,
        estimate_minutes: float | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        project_id: str | None = None,
    ) -> WorkItem: ...

    @operation(Effect.ADDS, answer=_show_item)
    def create_work_item(
        self,
        item: Annotated[WorkItem | None, About("", check=take_as_given, for_python=True)] = None,
        *,
        title: Annotated[str | None, About("what to do", is_required=True)] = None,
        description: Annotated[str, About("details")] = "",
        item_type: Annotated[str, About("such as task, feature or bug")] = "task",
        priority: Annotated[int, Priority] = 50,
        agent: Annotated[str | None, About("the owner (default: any agent)", check=validate.name)] = None,
        parent_id: Annotated[str | None, About("the item it is part of", check=validate.name)] = None,
        blocked_by: Blockers = None,
        blocks: Annotated[Names, About("ids of items that wait for this one", check=validate.names)] = None,
        tests: Annotated[Names, About("names of tests that must pass", check=validate.names)] = None,
        estimate_minutes: Annotated[float | None, About("estimate, in minutes")] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
        project_id: words.Project = None,
    ) -> WorkItem | str:
        """Create a work item. It starts as blocked if an item it waits for is not done.

        Notes:
            Pass the fields to get the new item, or a `WorkItem` you made yourself to get its id.
        """
        fields = {name: value for name, value in locals().items() if name not in ("self", "item", "project_id")}
        if isinstance(item, str):
            raise ValidationError(f"item must be a WorkItem, not text; to create one by its title, pass title={item!r}")
        if item is not None and any(value and value != getattr(work.NEW, name) for name, value in fields.items()):
            raise ValidationError("pass a WorkItem or its fields, not both")
        [created] = self.create_work_items([fields if item is None else item], project_id=project_id)
        return created if item is None else created.id

    def create_work_items(
        self, items: Iterable[WorkItem | Mapping[str, Any]], *, project_id: str | None = None
    ) -> list[WorkItem]:
        """Create several work items, all or none, and return them.

        Each is a `WorkItem` or a mapping of its fields. An item may refer to the id of an earlier one in the list.
        """
        drafts = []
        for item in validate.many("items", items):
            if isinstance(item, WorkItem):
                item = {name: getattr(item, name) for name in work.CREATABLE}
            draft = work.check_fields(validate.mapping("item", item))
            drafts.append({**draft, "agent": self._agent(draft.get("agent"))})
        projects = {draft.pop("project_id", "") or project_id or self.project_id for draft in drafts}
        if len(projects) > 1:
            raise ValidationError(f"all items of a call must be of one project, not of {', '.join(sorted(projects))}")
        engine = self._engine(next(iter(projects), None))

        def create(plan: WorkPlan) -> list[WorkItem]:
            return [read_item(plan.find_record(id)) for id in [plan.create_item(draft).id for draft in drafts]]

        relates = any(draft.get(name) for draft in drafts for name in work.RELATIONS)
        return self._write(engine, None, create, reorders=relates)

    # -- what comes next

    def get_next_item(
        self,
        project_id: str | None = None,
        agent: str | None = None,
        strategy: str = "priority",
        *,
        claim: bool = False,
        lease_seconds: float = LEASE_SECONDS,
    ) -> WorkItem | None:
        """Return the work item to take up next, or None if none is free. Takes the arguments of `offer_next_item`."""
        return self.offer_next_item(agent, strategy, claim, lease_seconds, project_id=project_id).item

    def claim_next(
        self,
        agent: str,
        lease_seconds: float = LEASE_SECONDS,
        strategy: str = "priority",
        *,
        project_id: str | None = None,
    ) -> WorkItem | None:
        """Claim the next work item; two agents that ask at the same time never get the same one.

        The agent holds the item until its status changes from 'in_progress', it is released, or the lease expires.
        """
        return self.get_next_item(project_id, agent, strategy, claim=True, lease_seconds=lease_seconds)

    @operation(Effect.CHANGES, "get_next_item")
    def offer_next_item(
        self,
        agent: Annotated[str | None, About("the agent that asks (default: any agent)")] = None,
        strategy: Annotated[Strategy | str, About("how to choose")] = Strategy.PRIORITY,
        claim: Annotated[bool, About("claim the item for the agent")] = False,
        lease_seconds: Lease = LEASE_SECONDS,
        *,
        project_id: words.Project = None,
    ) -> NextItem:
        """Return the next work item to do. Skips items that are blocked, in progress or another agent's.

        'priority' picks the most urgent item, 'blocked_unblock' the one that unblocks most others, 'quick_win' the
        shortest, 'fifo' the oldest. Pass `claim` if several agents work in parallel.
        """
        who = self._agent(agent)
        if claim and who is None:
            raise ValidationError("`claim` needs an agent to claim the item for: pass `agent`, too")
        losses = -1

        def choose(plan: WorkPlan) -> WorkItem | None:
            # After losing a race, agents choose among several items, so that they do not all collide again.
            nonlocal losses
            losses += 1
            items = work.rank_free_items(plan.tx, who, Strategy(strategy))
            if not items or not claim:
                return items[0] if items else None
            chosen = plan.get_item(random.choice(items[: 1 + losses]).id)
            plan.claim_item(chosen, lease_seconds)
            return read_item(plan.find_record(chosen.id))

        item = self._write(self._engine(project_id), who, choose)
        counts = {} if item else self.get_progress_summary(project_id).by_status
        waiting = (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED)
        return NextItem(item, sum(counts.get(one, 0) for one in waiting))

    # -- changing

    def update_status(self, item_id: str, status: str, notes: str | None = None, *, by: str | None = None) -> WorkItem:
        """Move a work item to another status. The allowed moves are listed in `alma.progress.items`."""
        return self.update_item(item_id, status, notes, by=by)

    @operation(Effect.CHANGES, "update_progress")
    def update_item(
        self,
        item_id: ItemId,
        status: Annotated[Status | str | None, About("the new status")] = None,
        notes: Notes = None,
        *,
        title: Annotated[str | None, About("new title", check=work.check_title)] = None,
        description: Annotated[str | None, About("new description")] = None,
        item_type: Annotated[str | None, About("new type", check=validate.name)] = None,
        priority: Annotated[int | None, Priority] = None,
        owner: Annotated[str | None, About("new owner; '' for any agent")] = None,
        parent_id: Annotated[str | None, About("the item it is part of; '' for none")] = None,
        blocked_by: Blockers = None,
        unblocked_by: Annotated[Names, About("ids it no longer waits for", check=validate.names)] = None,
        tests: Annotated[Names, About("all its tests; replaces the list", check=validate.names)] = None,
        test_results: Annotated[Mapping[str, bool] | None, About("results by name; true if passed")] = None,
        estimate_minutes: Annotated[float | None, About("estimate, in minutes", least=0.0, most=1e7)] = None,
        tags: Annotated[Names, About("the new tags, which replace the current ones", check=validate.names)] = None,
        metadata: words.Metadata = None,
        archived: Annotated[bool | None, About("true archives the item, false restores it")] = None,
        by: By = None,
    ) -> WorkItem:
        """Change a work item; only the arguments you pass change.

        An item that is done unblocks the items that wait for it. A blocked item cannot be done.

        Notes:
            Blockers and test results are added to the existing ones; a dependency cycle is refused.
            `alma.progress.items` lists the valid status changes. An item that is reopened blocks its dependents again.
            An item that others still wait for cannot be archived. All changes are made, or none.
        """
        arguments = {name: value for name, value in locals().items() if value is not None}
        names = [name for name in arguments if name not in ("self", "item_id", "by")]
        if not names:
            raise ValidationError(
                "nothing to update: pass at least one field to change, such as `status` or `priority`"
            )
        fields = {name: arguments[name] for name in names if name in work.FIELDS}
        if owner is not None:
            fields["agent"] = self._agent(owner)

        def change(plan: WorkPlan, item: Item) -> None:
            if archived is False and not item.archived:
                raise ValidationError(f"work item {item.title!r} is not archived; its status is {item.status}")
            if archived is False:
                item.archived = False
                plan.save_item(item, "restored")
            work.check_active(item)
            vars(item).update(fields)
            if tests is not None:
                work.set_tests(item, tests, item.test_results)
            plan.save_item(item, "edited")
            if test_results:
                results = clean({validate.name("test", one): passed for one, passed in test_results.items()})
                work.set_tests(item, (*item.tests, *results), {**item.test_results, **results})
                plan.save_item(item, "tested")
            if parent_id is not None:
                plan.set_parent(item, parent_id)
            for other in map(plan.get_item, blocked_by or ()):
                plan.add_blocker(item, other)
            for other in map(plan.get_item, unblocked_by or ()):
                plan.remove_blocker(item, other)
            if status is not None or notes is not None:
                plan.set_status(item, Status(status or item.status), notes)
            if archived:
                plan.archive_item(item)

        reorders = not arguments.keys().isdisjoint(("parent_id", "blocked_by", "unblocked_by"))
        # Any agent may record test results, even of an item that another one has claimed.
        return self._change(item_id, by, change, reorders=reorders, checks_claim=names != ["test_results"])

    # -- reading

    def get_item(self, item_id: str) -> WorkItem:
        """Return one work item, archived or not."""
        return self.list_items(item_id=item_id)[0]

    @operation(Effect.READS, "list_work_items", defaults={"limit": 50})
    def list_items(
        self,
        status: Annotated[
            str | Iterable[str] | None,
            About("only these statuses", tuple(Status), check=_check_statuses, json=list[str] | None),
        ] = None,
        agent: words.AnyAgent = None,
        *,
        item_id: Annotated[str | None, About("only this item, archived or not", check=validate.name)] = None,
        query: Annotated[str | None, About("words in titles and descriptions; best match first")] = None,
        item_type: Annotated[str | None, About("only items of this type")] = None,
        parent_id: Annotated[str | None, About("only parts of this item", check=validate.name)] = None,
        tag: Annotated[str | None, About("only items with this tag", check=validate.name)] = None,
        archived: Annotated[bool, About("include archived items")] = False,
        limit: Annotated[int | None, About("maximum results", least=1, most=_MAX_LIMIT, json=int)] = None,
        project_id: words.Project = None,
    ) -> list[WorkItem]:
        """List work items, most urgent first; or show one by id, or search by words."""
        if item_id:
            if not (status is agent is query is item_type is parent_id is tag is None):
                raise ValidationError("pass item_id to show one item, or filters to list items, not both")
            return [read_item(self._find_item(item_id)[1])]
        engine, who = self._engine(project_id), self._agent(agent)
        conditions = {"agents": who, "linked": parent_id, "tagged": tag}
        filters = {name: {value} for name, value in conditions.items() if value}
        where = work.select_items(engine, status, archived=archived, **filters)
        if query is not None:
            query = validate.text("query", query)
            hits = by_words(engine.store, query, where, limit or _MAX_LIMIT)
            items = [read_item(record) for record in engine.store.get([hit.id for hit in hits])]
        else:
            items = work.list_by_urgency(engine, where)
        fits = (one for one in items if parent_id in (None, one.parent_id) and item_type in (None, one.item_type))
        return list(fits)[:limit]

    def history(self, item_id: str) -> list[ItemChange]:
        """Return the changes of a work item with their time and author, oldest first."""
        return list_revisions(*self._find_item(item_id))

    # -- claims

    @operation(Effect.CHANGES, "claim_work_item")
    def claim(self, item_id: ItemId, agent: words.Agent, lease_seconds: Lease = LEASE_SECONDS) -> WorkItem:
        """Claim a work item for an agent, so that no other agent takes it. Claiming it again renews the claim."""
        return self._change(item_id, agent, lambda plan, item: plan.claim_item(item, lease_seconds))

    def renew(self, item_id: str, agent: str, lease_seconds: float = LEASE_SECONDS) -> WorkItem:
        """Extend the claim that the agent has on an item by a new lease from now, and return the item."""
        self._change(item_id, agent, WorkPlan.check_holder)
        return self.claim(item_id, agent, lease_seconds)

    @operation(Effect.CHANGES, "release_work_item")
    def release(self, item_id: ItemId, agent: words.Agent, notes: Notes = None) -> WorkItem:
        """Release a claimed work item without finishing it."""

        def release(plan: WorkPlan, item: Item) -> None:
            plan.check_holder(item)
            plan.apply_status(item, Status.PENDING)
            plan.save_item(item, "released", notes or "")

        return self._change(item_id, agent, release)

    # -- archiving and deleting

    @operation(Effect.CHANGES, idempotent=True, answer=Archived)
    def archive_finished(
        self,
        older_than_days: Annotated[
            float, About("only items unchanged for this many days", least=0.0, most=36_500.0)
        ] = 30.0,
        *,
        project_id: words.Project = None,
    ) -> int:
        """Archive work items that are done."""
        engine = self._engine(project_id)
        before = engine.clock() - timedelta(days=older_than_days)

        def archive(plan: WorkPlan) -> int:
            done = plan.tx.scan(work.select_items(engine, [Status.DONE]))
            due = [record.id for record in done if record.updated_at < before][::-1]
            for id in due:
                plan.archive_item(plan.get_item(id))
            return len(due)

        return self._write(engine, None, archive)

    @operation(Effect.ERASES, "delete_work_item", answer=_show_deleted)
    def delete(self, item_id: ItemId, *, by: By = None) -> None:
        """Delete a work item and its history. Items that wait for it no longer do.

        Notes:
            Its parts become independent items.
        """
        engine, _ = self._find_item(item_id)
        self._write(engine, by, lambda plan: plan.erase_item(plan.get_item(item_id)), reorders=True)
        engine.store.delete([line.id for line in scan_records(engine, "change", linked={item_id})])

    # -- how far it is

    @operation(Effect.READS, "progress_summary")
    def get_progress_summary(self, project_id: words.Project = None, agent: words.AnyAgent = None) -> ProgressSummary:
        """Summarize the work: counts by status, items in progress, blocked items."""
        engine, who = self._engine(project_id), self._agent(agent)
        places = {one: work.select_items(engine, [one], agents=who and {who}) for one in Status}
        counts = {str(one): _count_matches(engine, where) for one, where in places.items()}
        return ProgressSummary(
            project_id=engine.project,
            agent=who,
            items_total=sum(counts.values()),
            by_status=counts,
            current=tuple(work.list_by_urgency(engine, places[Status.IN_PROGRESS])),
            blocked=tuple(work.list_by_urgency(engine, places[Status.BLOCKED])),
            created_at=engine.clock(),
        )

    @operation(Effect.READS, "progress_logs")
    def get_progress_logs(
        self,
        agent: words.AnyAgent = None,
        session_id: Annotated[str | None, About("only this session", check=validate.name)] = None,
        limit: Annotated[int, About("maximum results", least=1, most=_MAX_LIMIT)] = 50,
        *,
        project_id: words.Project = None,
    ) -> list[ProgressLog]:
        """List the progress that sessions logged, newest first."""
        who, sessions = self._agent(agent), session_id and {session_id}
        records = scan_records(self._engine(project_id), _LOG, limit, agents=who and {who}, sessions=sessions)
        return [decode_record(ProgressLog, record, work.LOG_NAMES) for record in records]

    @operation(Effect.ADDS, "log_progress")
    def log_session_progress(
        self,
        project_id: words.Project = None,
        agent: Annotated[str | None, About("the agent's name", check=validate.name, is_required=True)] = None,
        session_id: Annotated[str | None, About("the session's id", check=validate.name, is_required=True)] = None,
        *,
        current_action: Annotated[str, About("what the agent is doing")] = "",
        current_item_id: Annotated[
            str | None, About("the current work item (default: the agent's item in progress)", check=validate.name)
        ] = None,
    ) -> ProgressLog:
        """Log the current progress of a session, for later review.

        Notes:
            Counts actions and outcomes since the session started.
        """
        if agent is None or session_id is None:
            raise ValidationError("pass `agent` and session_id by name")
        engine, who = self._engine(project_id), self.engine.agent(agent)
        item = None if current_item_id is None else self._find_item(current_item_id)[1].id
        # When the session began: from its record, or else from its first log.
        place = ("session", engine.project, who)
        sessions = [one for one in engine.store.get([session_id]) if (one.kind, one.project, one.agent) == place]
        records = (*sessions, *scan_records(engine, _LOG, sessions={session_id})[-1:])
        if not records:
            refuse_misspelt(engine, who, session_id)
        begun = (one.body.get("started_at") or one.body.get("session_start") for one in records)
        start = times.from_iso(next(filter(None, begun), None)) or engine.clock()
        since = Where(projects={engine.project}, agents={who}, created_from=start)
        now = self.get_progress_summary(project_id)
        own = [one.id for one in now.current if who in (one.claimed_by, one.agent)]
        body = {
            **{stored: getattr(now, name) for name, stored in work.LOG_NAMES.items() if name.startswith("items_")},
            "current": item or next(iter(own), None),
            "action": current_action,
            "actions": _count_matches(engine, replace(since, kinds={"change"}, tagged={work.KIND})),
            "outcomes": _count_matches(engine, replace(since, kinds={"outcome"})),
            "session_start": times.to_iso(start),
        }
        record = write(engine, lambda tx: tx.add(_LOG, body, agent=who, session=session_id))
        return decode_record(ProgressLog, record, work.LOG_NAMES)

    # -- shared steps

    def _engine(self, project: str | None) -> Engine:
        return self.engine if project in (None, self.engine.project) else replace(self.engine, project=project)

    def _agent(self, name: str | None) -> str | None:
        return self.engine.agent(name) if name else None

    def _find_item(self, item_id: str) -> tuple[Engine, Record]:
        """Return the engine of an item's project, and its record.

        A tracker that was opened for a project finds only that project's items.
        """
        project = None
        if not self._is_bound:
            project = next((record.project for record in self.engine.store.get([item_id])), None)
        engine = self._engine(project)
        return engine, WorkPlan(Transaction(engine)).find_record(item_id)

    def _change(
        self,
        item_id: str,
        by: str | None,
        change: Callable[[WorkPlan, Item], object],
        *,
        reorders: bool = False,
        checks_claim: bool = True,
    ) -> WorkItem:
        """Change an item and return it; raise ValidationError if another agent has claimed it."""

        def change_item(plan: WorkPlan) -> WorkItem:
            item = plan.get_item(item_id)
            if checks_claim:
                plan.check_claim(item)
            change(plan, item)
            return read_item(plan.find_record(item_id))

        return self._write(self._find_item(item_id)[0], by, change_item, reorders=reorders)

    def _write(self, engine: Engine, by: str | None, change: Callable[[WorkPlan], T], *, reorders: bool = False) -> T:
        """Change items in one transaction, all or none; `change` may raise to change nothing.

        Changes that reorder items are serialized: two of them that are valid on their own could together make a cycle
        without touching the same item.
        """

        def step(tx: Transaction) -> T:
            if reorders:
                # The marker must be read before the items.
                tx.set_marker(f"mrk_work_{fingerprint(engine.project)}", {"value": "work"})
            return change(WorkPlan(tx, self._agent(by) or ""))

        return write(engine, step)


def refuse_misspelt(engine: Engine, agent: str, session_id: str) -> None:
    """Raise NotFoundError for an unknown session id, unless the agent has no session at all.

    A program that names its sessions itself has no session records; there the first log makes the name known.
    """
    latest = [f"{one.id} ({one.body['state']})" for one in scan_records(engine, "session", _SHOWN, agents={agent})]
    if latest:
        raise NotFoundError(
            f"{agent!r} has no session {session_id!r} in project {engine.project!r}. "
            f"Its latest sessions: {', '.join(latest)}."
        )


def _count_matches(engine: Engine, where: Where) -> int:
    """Return how many records match."""
    return sum(count_records(engine, where).values())
