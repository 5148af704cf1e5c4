"""What is to be done, by whom, in which order, and how far it is.

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
from typing import Annotated, Any, TypeVar

from .. import words
from ..codec import decode_record
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words
from ..engine.transaction import Transaction, scan_records, write
from ..engine.view import count_records
from ..errors import ValidationError
from ..memory import ALMA
from ..opening import OwnsMemory
from ..operations import About, Effect, Group, take_as_given
from ..text import fingerprint
from ..types import times
from ..types.query import Where
from ..types.record import Record
from ..words import Change as ItemChange
from . import items as work
from .items import (
    LEASE_SECONDS,
    Item,
    Plan,
    ProgressLog,
    ProgressSummary,
    Status,
    Strategy,
    WorkItem,
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
_DEFAULTS = {"item_type": "task", "priority": 50}

operation = Group("work", lambda alma: ProgressTracker(alma=alma, project_id=alma.project_id))

By = Annotated[str | None, About("who makes the change", check=validate.name, shown_as="agent")]
ItemId = Annotated[str, About("the work item's id", check=validate.name)]
Names = Iterable[str] | None
Blockers = Annotated[Names, About("ids of items to do first", check=validate.names)]
Priority = About("0 to 100; 100 is the most urgent", least=0, most=100)
Notes = Annotated[str | None, About("a note on the change")]
Lease = Annotated[float, About("duration in seconds", least=1.0, most=30 * 86_400.0)]


def _check_statuses(label: str, value: object) -> list[Status]:
    names = [value] if isinstance(value, str) else validate.items(label, value, "names")
    return [validate.choice(label, one, Status) for one in names]


@dataclass(frozen=True, slots=True)
class NextItem:
    item: WorkItem | None  # None: nothing is free to be worked on.
    waiting: int  # How many items are open all the same: blocked, being worked on, or another agent's.


@dataclass(frozen=True, slots=True)
class Archived:
    count: int


@dataclass(frozen=True, slots=True)
class DeletedItem:
    id: str


def _show_deleted(nothing: None, item_id: str) -> DeletedItem:
    return DeletedItem(item_id)


class ProgressTracker(OwnsMemory):
    """Tracks the work items of a project.

    Without a memory it opens the one that is configured here, and `close` (or leaving its `with` block) closes it.
    `by` says who makes a change; it is kept in the item's history, and an agent cannot change what another has claimed.
    """

    def __init__(self, project_id: str | None = None, alma: ALMA | None = None) -> None:
        super().__init__(alma, project_id)
        self.engine = self.alma.engine
        self._is_bound = project_id is not None
        if project_id is not None:
            self.engine = self._engine(validate.name("project_id", project_id))

    @property
    def project_id(self) -> str:
        return self.engine.project

    # -- creating

    @operation(Effect.ADDS)
    def create_work_item(
        self,
        item: Annotated[WorkItem | None, About("", check=take_as_given, for_python=True)] = None,
        *,
        title: Annotated[str | None, About("what to do", is_required=True)] = None,
        description: Annotated[str, About("details")] = "",
        item_type: Annotated[str, About("such as task, feature or bug")] = "task",
        priority: Annotated[int, Priority] = 50,
        agent: Annotated[str | None, About("the owner; default: any agent", check=validate.name)] = None,
        parent_id: Annotated[str | None, About("the item it is part of", check=validate.name)] = None,
        blocked_by: Blockers = None,
        blocks: Annotated[Names, About("ids of items that wait for this one", check=validate.names)] = None,
        tests: Annotated[Names, About("names of tests that must pass", check=validate.names)] = None,
        estimate_minutes: Annotated[float | None, About("estimate, in minutes")] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
        project_id: words.Project = None,
    ) -> WorkItem:
        """Create a work item. It starts as blocked if an item it waits for is not done.

        Notes:
            Pass the fields, or a `WorkItem` you made yourself.
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
        drafts = []
        for item in validate.many("items", items):
            if isinstance(item, WorkItem):
                item = {name: getattr(item, name) for name in work.CREATABLE}
            draft = work.check_fields(validate.mapping("item", item))
            drafts.append({**draft, "agent": self._agent(draft.get("agent"))})
        projects = {draft.pop("project_id", "") or project_id or self.project_id for draft in drafts}
        if len(projects) > 1:
            raise ValidationError(f"items of one call belong to one project, not to {', '.join(sorted(projects))}")
        engine = self._engine(next(iter(projects), None))

        def create(plan: Plan) -> list[WorkItem]:
            return [read_item(plan.find(id)) for id in [plan.create(draft).id for draft in drafts]]

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
        """Return the next work item to do. Skips items that are blocked, in progress or another agent's.

        'priority' picks the most urgent item, 'blocked_unblock' the one that unblocks most others, 'quick_win' the
        shortest, 'fifo' the oldest. Pass `claim` if several agents work in parallel.
        """
        return self.offer_next_item(agent, strategy, claim, lease_seconds, project_id=project_id).item

    def claim_next(
        self,
        agent: str,
        lease_seconds: float = LEASE_SECONDS,
        strategy: str = "priority",
        *,
        project_id: str | None = None,
    ) -> WorkItem | None:
        """Take the next item: two who ask at once never get the same one.

        It is the agent's until it leaves 'in_progress', is released, or the lease has run out; then others may have it.
        """
        return self.get_next_item(project_id, agent, strategy, claim=True, lease_seconds=lease_seconds)

    @operation(Effect.CHANGES, "get_next_item")
    def offer_next_item(
        self,
        agent: Annotated[str | None, About("the agent that asks; default: any agent")] = None,
        strategy: Annotated[Strategy | str, About("how to choose")] = Strategy.PRIORITY,
        claim: Annotated[bool, About("claim the item for the agent")] = False,
        lease_seconds: Lease = LEASE_SECONDS,
        *,
        project_id: words.Project = None,
    ) -> NextItem:
        """Return the next work item to do. Skips items that are blocked, in progress or another agent's.

        'priority' picks the most urgent item, 'blocked_unblock' the one that unblocks the most others, 'quick_win' the
        shortest, 'fifo' the oldest. Pass `claim` if several agents work at the same time.
        """
        who = self._agent(agent)
        if claim and who is None:
            raise ValidationError("claim=True needs the agent that claims: get_next_item(agent='...', claim=True)")
        losses = -1

        def choose(plan: Plan) -> WorkItem | None:
            # After a lost race some items are skipped: all would lose again if they ran for the same one.
            nonlocal losses
            losses += 1
            items = work.rank_free_items(plan.tx, who, Strategy(strategy))
            if not items or not claim:
                return items[0] if items else None
            chosen = plan.get(random.choice(items[: 1 + losses]).id)
            plan.claim(chosen, lease_seconds)
            return read_item(plan.find(chosen.id))

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
        tags: words.Tags = None,
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
        given = {name: value for name, value in locals().items() if value is not None}
        names = [name for name in given if name not in ("self", "item_id", "by")]
        if not names:
            raise ValidationError("nothing to update: pass what should change, such as its status or priority")
        fields = {name: given[name] for name in names if name in work.FIELDS}
        if owner is not None:
            fields["agent"] = self._agent(owner)

        def change(plan: Plan, item: Item) -> None:
            if archived is False and not item.archived:
                raise ValidationError(f"{item.title!r} is not archived; it is {item.status}")
            if archived is False:
                item.archived = False
                plan.save(item, "restored")
            vars(item).update(fields)
            if tests is not None:
                work.set_tests(item, tests, item.test_results)
            plan.save(item, "edited")
            if test_results:
                results = clean({validate.name("test", one): passed for one, passed in test_results.items()})
                work.set_tests(item, (*item.tests, *results), {**item.test_results, **results})
                plan.save(item, "tested")
            if parent_id is not None:
                plan.set_parent(item, parent_id)
            for other in map(plan.get, blocked_by or ()):
                plan.add_blocker(item, other)
            for other in map(plan.get, unblocked_by or ()):
                plan.remove_blocker(item, other)
            if status is not None or notes is not None:
                plan.set_status(item, Status(status or item.status), notes or "")
            if archived:
                plan.archive(item)

        reorders = not given.keys().isdisjoint(("parent_id", "blocked_by", "unblocked_by"))
        # Whoever runs the tests may record how they went.
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
                raise ValidationError("pass an item_id, or what to list items by, not both")
            return [read_item(self._find_item(item_id)[1])]
        engine, who = self._engine(project_id), self._agent(agent)
        conditions = {"agents": who, "linked": parent_id, "tagged": tag}
        given = {name: {value} for name, value in conditions.items() if value}
        where = work.select_items(engine, status, archived=archived, **given)
        if query is not None:
            query = validate.text("query", query)
            hits = by_words(engine.store, query, where, limit or _MAX_LIMIT)
            items = [read_item(record) for record in engine.store.get([hit.id for hit in hits])]
        else:
            items = work.list_by_urgency(engine, where)
        fits = (one for one in items if parent_id in (None, one.parent_id) and item_type in (None, one.item_type))
        return list(fits)[:limit]

    def history(self, item_id: str) -> list[ItemChange]:
        """Return who changed what of a work item, oldest first."""
        engine, record = self._find_item(item_id)
        lines = scan_records(engine, "change", linked={record.id})[::-1]
        changes = [decode_record(ItemChange, line, {"at": "created_at"}) for line in lines]
        return [ItemChange(record.created_at, "created", "", {}), *changes]

    # -- claims

    @operation(Effect.CHANGES, "claim_work_item")
    def claim(self, item_id: ItemId, agent: words.Agent, lease_seconds: Lease = LEASE_SECONDS) -> WorkItem:
        """Claim a work item for an agent, so that no other agent takes it. Claiming it again renews the claim."""
        return self._change(item_id, agent, lambda plan, item: plan.claim(item, lease_seconds))

    def renew(self, item_id: str, agent: str, lease_seconds: float = LEASE_SECONDS) -> WorkItem:
        """Keep a claim for that long from now."""
        self._change(item_id, agent, Plan.check_own)
        return self.claim(item_id, agent, lease_seconds)

    @operation(Effect.CHANGES, "release_work_item")
    def release(self, item_id: ItemId, agent: words.Agent, notes: Notes = None) -> WorkItem:
        """Release a claimed work item without finishing it."""

        def release(plan: Plan, item: Item) -> None:
            plan.check_own(item)
            plan.move(item, Status.PENDING)
            plan.save(item, "released", notes or "")

        return self._change(item_id, agent, release)

    # -- putting away

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

        def archive(plan: Plan) -> int:
            done = plan.tx.scan(work.select_items(engine, [Status.DONE]))
            due = [record.id for record in done if record.updated_at < before][::-1]
            for id in due:
                plan.archive(plan.get(id))
            return len(due)

        return self._write(engine, None, archive)

    @operation(Effect.ERASES, "delete_work_item", answer=_show_deleted)
    def delete(self, item_id: ItemId, *, by: By = None) -> None:
        """Delete a work item and its history. Items that wait for it no longer do.

        Notes:
            Its parts become independent items.
        """
        engine, _ = self._find_item(item_id)
        self._write(engine, by, lambda plan: plan.erase(plan.get(item_id)), reorders=True)
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
            str | None, About("the current work item; default: the agent's item in progress", check=validate.name)
        ] = None,
    ) -> ProgressLog:
        """Log the current progress of a session, for later review.

        Notes:
            Counts actions and outcomes since the session started.
        """
        if agent is None or session_id is None:
            raise ValidationError("log_session_progress needs agent and session_id, by name: agent='...'")
        engine, who = self._engine(project_id), self.engine.agent(agent)
        item = None if current_item_id is None else self._find_item(current_item_id)[1].id
        # When the session began: from its record, or else from its first log.
        known = (*engine.store.get([session_id]), *scan_records(engine, _LOG, sessions={session_id})[-1:])
        begun = (one.body.get("started_at") or one.body.get("session_start") for one in known)
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

    # -- where and who

    def _engine(self, project: str | None) -> Engine:
        return self.engine if project in (None, self.engine.project) else replace(self.engine, project=project)

    def _agent(self, name: str | None) -> str | None:
        return self.engine.agent(name) if name else None

    def _find_item(self, item_id: str) -> tuple[Engine, Record]:
        """Return an item and its project's engine. A tracker of one project knows only that one's items."""
        project = None
        if not self._is_bound:
            project = next((record.project for record in self.engine.store.get([item_id])), None)
        engine = self._engine(project)
        return engine, Plan(Transaction(engine)).find(item_id)

    def _change(
        self,
        item_id: str,
        by: str | None,
        change: Callable[[Plan, Item], object],
        *,
        reorders: bool = False,
        checks_claim: bool = True,
    ) -> WorkItem:
        """Change an item, unless another agent has claimed it, and return it as it is then."""

        def change_item(plan: Plan) -> WorkItem:
            item = plan.get(item_id)
            if checks_claim:
                plan.check_claim(item)
            change(plan, item)
            return read_item(plan.find(item_id))

        return self._write(self._find_item(item_id)[0], by, change_item, reorders=reorders)

    def _write(self, engine: Engine, by: str | None, change: Callable[[Plan], T], *, reorders: bool = False) -> T:
        """Change items together, all or none; `change` may raise to change nothing.

        A change that `reorders` items keeps others from doing so at the same time: two changes that are right each for
        itself can together make a circle without touching the same item.
        """

        def step(tx: Transaction) -> T:
            if reorders:
                # The marker is read before the items are.
                tx.set_marker(f"mrk_work_{fingerprint(engine.project)}", {"value": "work"})
            return change(Plan(tx, self._agent(by) or ""))

        return write(engine, step)


def _count_matches(engine: Engine, where: Where) -> int:
    return sum(count_records(engine, where).values())
