"""`ProgressTracker`: what is to be done, by whom, in which order, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from .. import words
from ..codec import decode_record
from ..engine import things, validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words
from ..engine.transaction import write
from ..errors import ValidationError
from ..opening import Holder
from ..operations import About, Effect, Group, take_as_given
from ..types import times
from ..types.query import Where
from ..types.record import Record
from ..types.record import Status as Standing
from . import items as work
from .items import ItemChange, Plan, ProgressLog, ProgressSummary, Status, Strategy, WorkItem, read_item

if TYPE_CHECKING:
    from ..memory import ALMA

_MAX_LIMIT = 1_000_000
_MAX_COUNT = 10**9
_MAX_LEASE_SECONDS = 30 * 86_400.0
_DEFAULTS = {"item_type": "task", "priority": 50}

operation = Group("work", lambda alma: ProgressTracker(alma=alma, project_id=alma.project_id))

By = Annotated[
    str | None,
    About(
        "who makes the change; an agent cannot change what another has claimed", check=validate.name, shown_as="agent"
    ),
]
ItemId = Annotated[str, About("the work item's id", check=validate.name)]
Notes = Annotated[str | None, About("a word about it")]
Lease = Annotated[float, About("for so many seconds; then others may have it", least=1.0, most=_MAX_LEASE_SECONDS)]
Limit = Annotated[int, About("at most so many", least=1, most=_MAX_LIMIT)]
Count = Annotated[int | None, About("", least=0, most=_MAX_COUNT, for_python=True)]


def _check_statuses(label: str, value: object) -> list[Status]:
    names = [value] if isinstance(value, str) else validate.items(label, value, "names")
    return [validate.choice(label, one, Status) for one in names]


@dataclass(frozen=True, slots=True)
class NextItem:
    item: WorkItem | None
    """None: nothing is free to be worked on."""
    waiting: int
    """How many items are open all the same: blocked, being worked on, or another agent's."""


@dataclass(frozen=True, slots=True)
class Archived:
    count: int


@dataclass(frozen=True, slots=True)
class DeletedItem:
    id: str


def _show_deleted(nothing: None, item_id: str) -> DeletedItem:
    return DeletedItem(item_id)


class ProgressTracker(Holder):
    """Tracks the work items of a project.

    Without a memory it opens the one that is configured here, and `close` (or leaving its `with` block) closes it.
    `by` says who makes a change; it is kept in the item's history, and an agent cannot change what another has claimed.
    """

    def __init__(self, project_id: str | None = None, alma: ALMA | None = None) -> None:
        super().__init__(alma, project_id)
        self.engine = self.alma.engine
        self.engine = self._engine(None if project_id is None else validate.name("project_id", project_id))
        self._bound = project_id is not None

    @property
    def project_id(self) -> str:
        return self.engine.project

    # -- making

    @operation(Effect.ADDS)
    def create_work_item(
        self,
        item: Annotated[WorkItem | None, About("", check=take_as_given, for_python=True)] = None,
        *,
        title: Annotated[str | None, About("what is to be done, in a few words", is_required=True)] = None,
        description: Annotated[str, About("all there is to say about it")] = "",
        item_type: Annotated[str, About("such as task, feature, bug, research_question")] = "task",
        priority: Annotated[int, About("0 to 100; the greater, the sooner", least=0, most=100)] = 50,
        agent: Annotated[str | None, About("whose it is; without it anybody's", check=validate.name)] = None,
        parent_id: Annotated[str | None, About("the item it is a part of", check=validate.name)] = None,
        blocked_by: Annotated[
            Iterable[str] | None, About("ids of items that must be done first", check=validate.names)
        ] = None,
        blocks: Annotated[
            Iterable[str] | None, About("ids of items that wait for this one", check=validate.names)
        ] = None,
        tests: Annotated[Iterable[str] | None, About("names of tests that must pass", check=validate.names)] = None,
        estimate_minutes: Annotated[float | None, About("how long it may take")] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
        project_id: words.Project = None,
    ) -> WorkItem:
        """Create a work item to be tracked. With a blocker that is not done it begins as blocked.

        Notes:
            Pass its fields, or a `WorkItem` made by hand.
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
        given: list[dict[str, Any]] = []
        for item in validate.many("items", items):
            if isinstance(item, WorkItem):
                own = (part.name for part in fields(item) if part.name not in work.SET_BY_STORE)
                given.append({name: getattr(item, name) for name in own})
            elif isinstance(item, Mapping):
                given.append(dict(item))
            else:
                raise ValidationError(
                    f"an item must be a WorkItem or a mapping of its fields, not {type(item).__name__}"
                )
        projects = {project_id, *(one.pop("project_id", None) for one in given)} - {None, ""}
        if len(projects) > 1:
            names = ", ".join(sorted(map(str, projects)))
            raise ValidationError(f"items of one call belong to one project, not to {names}")
        project = next(iter(projects), None)
        engine = self._engine(None if project is None else validate.name("project_id", project))
        drafts = []
        for one in given:
            agent, tags = one.pop("agent", None), validate.names("tags", one.pop("tags", None))
            name = "" if agent is None else engine.agent(validate.name("agent", agent))
            drafts.append((work.check_new_item(one), name, tags))
        relates = any(body.get(name) for body, _, _ in drafts for name in work.RELATIONS)

        def create(plan: Plan) -> list[WorkItem]:
            ids = [plan.create(*draft) for draft in drafts]
            return [read_item(record) for record in plan.get(ids)]

        return work.write_plan(engine, "", create, reorders=relates)

    # -- what comes next

    def get_next_item(
        self,
        project_id: str | None = None,
        agent: str | None = None,
        strategy: str = "priority",
        *,
        claim: bool = False,
        lease_seconds: float = work.LEASE_SECONDS,
    ) -> WorkItem | None:
        """Return what to work on next; None when nothing is free. `offer_next_item` says what the arguments mean."""
        engine = self._engine(None if project_id is None else validate.name("project_id", project_id))
        chosen = validate.choice("strategy", strategy, Strategy)
        who = self._agent(None if agent is None else validate.name("agent", agent))
        if not claim:
            return next(iter(work.rank_free_items(engine, who, chosen)), None)
        if who is None:
            raise ValidationError("claim=True needs the agent that claims: get_next_item(agent='...', claim=True)")
        return work.claim_next_item(engine, who, chosen, _check_lease(lease_seconds))

    @operation(Effect.CHANGES, "get_next_item")
    def offer_next_item(
        self,
        agent: Annotated[str | None, About("who asks; without it anybody")] = None,
        strategy: Annotated[Strategy | str, About("what comes first")] = Strategy.PRIORITY,
        claim: Annotated[bool, About("take it for the agent at once, so that nobody else gets it")] = False,
        lease_seconds: Lease = work.LEASE_SECONDS,
    ) -> NextItem:
        """What to work on next: nothing that is blocked, being worked on, or another agent's.

        'priority' takes the most urgent, 'blocked_unblock' what frees most, 'quick_win' what is soonest done, 'fifo'
        the oldest. Several agents that work at once should pass `claim`.
        """
        item = self.get_next_item(None, agent, strategy, claim=claim, lease_seconds=lease_seconds)
        if item is not None:
            return NextItem(item, 0)
        counts = self.get_progress_summary().by_status
        return NextItem(None, sum(counts[one] for one in (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED)))

    # -- changing

    @operation(Effect.CHANGES, "update_progress", idempotent=True)
    def update_status(
        self,
        item_id: ItemId,
        status: Annotated[Status | str, About("what it is now")],
        notes: Notes = None,
        *,
        by: By = None,
    ) -> WorkItem:
        """Move a work item to another status. Done frees what waited for it; a blocked item cannot be done.

        Notes:
            The allowed moves are listed in `alma.progress.items`. Taken up again, an item blocks again what waited
            for it.
        """
        why = clean(notes or "")
        return self._change(item_id, by, lambda plan: plan.set_status(item_id, Status(status), why))

    def update_item(self, item_id: str, *, by: str | None = None, **fields: Any) -> WorkItem:
        """Change title, description, item_type, priority, agent, parent_id, tests, estimate_minutes, tags, metadata."""
        place: dict[str, Any] = {}
        if "agent" in fields:
            agent = fields.pop("agent")
            engine = self._engine(self._record(item_id).project)
            place["agent"] = "" if agent is None else engine.agent(validate.name("agent", agent))
        if "tags" in fields:
            place["tags"] = tuple(map(clean, validate.names("tags", fields.pop("tags"))))
        if not fields and not place:
            raise ValidationError(f"nothing to update: pass some of {', '.join((*work.EDITABLE, 'agent', 'tags'))}")
        changes = work.check_fields(fields, work.EDITABLE)

        def edit(plan: Plan) -> None:
            plain = {name: value for name, value in changes.items() if name != "parent_id"}
            if "tests" in plain:
                plain |= work.join_tests(plain["tests"], plan.body(item_id)["test_results"])
            plan.alter(item_id, "edited", plain, **place)
            if "parent_id" in changes:
                plan.set_parent(item_id, changes["parent_id"])

        return self._change(item_id, by, edit, reorders="parent_id" in changes)

    @operation(Effect.CHANGES, idempotent=True)
    def update_work_item(
        self,
        item_id: ItemId,
        title: Annotated[str | None, About("a new title")] = None,
        description: Annotated[str | None, About("a new description")] = None,
        item_type: Annotated[str | None, About("another type")] = None,
        priority: Annotated[int | None, About("0 to 100; the greater, the sooner", least=0, most=100)] = None,
        owner: Annotated[str | None, About("whose it is from now on; '' for anybody's")] = None,
        parent_id: Annotated[str | None, About("the item it is a part of; '' for none")] = None,
        tests: Annotated[Iterable[str] | None, About("names of all its tests", check=validate.names)] = None,
        estimate_minutes: Annotated[float | None, About("how long it may take")] = None,
        tags: words.Tags = None,
        metadata: words.Metadata = None,
        by: By = None,
    ) -> WorkItem:
        """Change what a work item says. Only what is given changes."""
        given = {name: value for name, value in locals().items() if value is not None}
        for own in ("self", "item_id", "owner", "parent_id", "by"):
            given.pop(own, None)
        if owner is not None:
            given["agent"] = owner or None
        if parent_id is not None:
            given["parent_id"] = parent_id or None
        return self.update_item(item_id, by=by, **given)

    # -- reading

    @operation(Effect.READS, "get_work_item")
    def get_item(self, item_id: ItemId) -> WorkItem:
        """Show one work item."""
        return read_item(self._record(item_id))

    @operation(Effect.READS, "list_work_items", defaults={"limit": 50})
    def list_items(
        self,
        status: Annotated[
            str | Iterable[str] | None,
            About("only these statuses", tuple(Status), check=_check_statuses, json=list[str] | None),
        ] = None,
        agent: words.AnyAgent = None,
        *,
        item_type: Annotated[str | None, About("only items of this type")] = None,
        parent_id: Annotated[str | None, About("only parts of this item", check=validate.name)] = None,
        tag: Annotated[str | None, About("only what has this tag", check=validate.name)] = None,
        archived: Annotated[bool, About("archived ones, too")] = False,
        limit: Annotated[int | None, About("at most so many", least=1, most=_MAX_LIMIT, json=int)] = None,
        project_id: words.Project = None,
    ) -> list[WorkItem]:
        """List work items, the most urgent first."""
        engine = self._engine(project_id)
        where = work.select_items(
            engine,
            status,
            archived=archived,
            agents=_one_of(self._agent(agent)),
            linked=_one_of(parent_id),
            tagged=_one_of(tag),
        )
        items = [item for item in work.list_by_urgency(engine, where) if parent_id in (None, item.parent_id)]
        return [item for item in items if item_type in (None, item.item_type)][:limit]

    @operation(Effect.READS, "search_work_items")
    def search(
        self,
        query: Annotated[str, About("words to look for")],
        limit: Annotated[int, About("at most so many", least=1, most=1000)] = 10,
        *,
        project_id: words.Project = None,
    ) -> list[WorkItem]:
        """Find work items by the words of their titles and descriptions."""
        engine = self._engine(project_id)
        hits = by_words(engine.store, query, work.select_items(engine), limit)
        return [read_item(record) for record in engine.store.get([hit.id for hit in hits])]

    @operation(Effect.READS, "work_item_history")
    def history(self, item_id: ItemId) -> list[ItemChange]:
        """Who changed what of a work item, oldest first."""
        record = self._record(item_id)
        lines = things.scan(self._engine(record.project), "change", linked={record.id})[::-1]
        changes = [decode_record(ItemChange, line, {"at": "created_at"}, by=line.body.get("by", "")) for line in lines]
        return [ItemChange(at=record.created_at, by="", verb="created"), *changes]

    # -- blockers and tests

    @operation(Effect.CHANGES, idempotent=True)
    def add_blocker(
        self,
        item_id: ItemId,
        blocker_id: Annotated[str, About("the item that must be done first", check=validate.name)],
        *,
        by: By = None,
    ) -> WorkItem:
        """Let one work item wait for another. A circle is refused."""
        return self._change(item_id, by, lambda plan: plan.add_blocker(item_id, blocker_id), reorders=True)

    @operation(Effect.CHANGES)
    def remove_blocker(
        self,
        item_id: ItemId,
        blocker_id: Annotated[str, About("the item that it need not wait for", check=validate.name)],
        *,
        by: By = None,
    ) -> WorkItem:
        """Let one work item wait for another no longer."""
        return self._change(item_id, by, lambda plan: plan.remove_blocker(item_id, blocker_id), reorders=True)

    @operation(Effect.CHANGES, idempotent=True)
    def record_test(
        self,
        item_id: ItemId,
        test: Annotated[str, About("the test's name", check=validate.name)],
        passing: Annotated[bool, About("whether it passed", check=work.check_flag)],
        *,
        by: By = None,
    ) -> WorkItem:
        """Record how a test of a work item went.

        Notes:
            A new name is added to the item's tests.
        """
        result = {str(clean(test)): passing}

        def record(plan: Plan) -> None:
            body = plan.body(item_id)
            plan.alter(item_id, "tested", work.join_tests((*body["tests"], *result), body["test_results"] | result))

        return self._change(item_id, by, record, checks_claim=False)

    # -- claims

    def claim_next(
        self,
        agent: str,
        lease_seconds: float = work.LEASE_SECONDS,
        strategy: str = "priority",
        *,
        project_id: str | None = None,
    ) -> WorkItem | None:
        """Take the next item: two who ask at once never get the same one.

        It is the agent's until it leaves 'in_progress', is released, or the lease has run out; then others may have it.
        """
        return self.get_next_item(project_id, agent, strategy, claim=True, lease_seconds=lease_seconds)

    def claim(self, item_id: str, agent: str, lease_seconds: float = work.LEASE_SECONDS) -> WorkItem:
        """Take this item, as `claim_next` takes the next."""
        seconds = _check_lease(lease_seconds)
        return self._change(item_id, agent, lambda plan: plan.claim(item_id, seconds))

    def renew(self, item_id: str, agent: str, lease_seconds: float = work.LEASE_SECONDS) -> WorkItem:
        """Keep a claim for that long from now."""
        seconds = _check_lease(lease_seconds)
        return self._change(item_id, agent, lambda plan: plan.renew(item_id, seconds), checks_claim=False)

    @operation(Effect.CHANGES)
    def claim_work_item(
        self, item_id: ItemId, agent: words.Agent, lease_seconds: Lease = work.LEASE_SECONDS
    ) -> WorkItem:
        """Take one work item for an agent, so that nobody else gets it; one's own claim is renewed."""
        is_own = self.get_item(item_id).claimed_by == self._agent(agent)
        return (self.renew if is_own else self.claim)(item_id, agent, lease_seconds)

    @operation(Effect.CHANGES, "release_work_item")
    def release(self, item_id: ItemId, agent: words.Agent, notes: Notes = None) -> WorkItem:
        """Give a claimed work item back unfinished."""
        why = clean(notes or "")

        def release(plan: Plan) -> None:
            plan.check_own(item_id)
            plan.move(item_id, Status.PENDING, "released", why)

        return self._change(item_id, agent, release, checks_claim=False)

    # -- putting away

    @operation(Effect.CHANGES, "archive_work_item")
    def archive(self, item_id: ItemId, *, by: By = None) -> WorkItem:
        """Put a work item away. One that others still wait for is refused.

        Notes:
            An archived item is neither listed nor counted.
        """
        return self._change(item_id, by, lambda plan: plan.archive(item_id))

    @operation(Effect.CHANGES, "restore_work_item", idempotent=True)
    def restore(self, item_id: ItemId, *, by: By = None) -> WorkItem:
        """Take an archived work item back."""

        def restore(plan: Plan) -> None:
            plan.alter(item_id, "restored", {}, status=Standing.ACTIVE)

        return self._change(item_id, by, restore, checks_claim=False)

    @operation(Effect.CHANGES, idempotent=True, answer=Archived)
    def archive_finished(
        self,
        older_than_days: Annotated[float, About("and not touched for so many days", least=0.0, most=36_500.0)] = 30.0,
        *,
        project_id: words.Project = None,
    ) -> int:
        """Put away the work items that are done."""
        engine = self._engine(project_id)
        before = engine.clock() - timedelta(days=older_than_days)
        done = engine.store.scan(work.select_items(engine, [Status.DONE]))
        ids = [record.id for record in done if record.updated_at < before][::-1]

        def archive(plan: Plan) -> int:
            due = [one for one in plan.get(ids) if one.body["status"] == Status.DONE and one.status is Standing.ACTIVE]
            for record in due:
                plan.archive(record.id)
            return len(due)

        return work.write_plan(engine, "", archive)

    @operation(Effect.ERASES, "delete_work_item", answer=_show_deleted)
    def delete(self, item_id: ItemId, *, by: By = None) -> None:
        """Erase a work item and its history. What waited for it waits no longer.

        Notes:
            Its parts stand on their own.
        """
        engine = self._engine(self._record(item_id).project)
        work.write_plan(engine, self._agent(by) or "", lambda plan: plan.erase(item_id), reorders=True)
        engine.store.delete([line.id for line in things.scan(engine, "change", linked={item_id})])

    # -- how far it is

    @operation(Effect.READS, "progress_summary")
    def get_progress_summary(self, project_id: words.Project = None, agent: words.AnyAgent = None) -> ProgressSummary:
        """How far the work is: counts by status, what is in progress, what is blocked."""
        engine, who = self._engine(project_id), self._agent(agent)
        places = {one: work.select_items(engine, [one], agents=_one_of(who)) for one in Status}
        counts = {str(one): work.count_matches(engine, where) for one, where in places.items()}
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
        session_id: Annotated[str | None, About("only of this session", check=validate.name)] = None,
        limit: Limit = 50,
        *,
        project_id: words.Project = None,
    ) -> list[ProgressLog]:
        """Where sessions stood at moments that they noted, newest first."""
        agents, sessions = _one_of(self._agent(agent)), _one_of(session_id)
        records = things.scan(self._engine(project_id), work.LOG, limit, agents=agents, sessions=sessions)
        return [decode_record(ProgressLog, record, work.LOG_NAMES) for record in records]

    @operation(Effect.ADDS, "log_progress")
    def log_session_progress(
        self,
        project_id: words.Project = None,
        agent: Annotated[str | None, About("the agent's name", check=validate.name, is_required=True)] = None,
        session_id: Annotated[
            str | None, About("the session that it is noted in", check=validate.name, is_required=True)
        ] = None,
        *,
        current_action: Annotated[str, About("what is being done")] = "",
        current_item_id: Annotated[
            str | None, About("the item worked on; by default the agent's in progress", check=validate.name)
        ] = None,
        session_start: Annotated[words.Moment, About("", for_python=True)] = None,
        actions_taken: Count = None,
        outcomes_recorded: Count = None,
    ) -> ProgressLog:
        """Keep where the work stands at this moment of a session, to look back on later.

        Notes:
            What is not given is counted since the session began.
        """
        if agent is None or session_id is None:
            raise ValidationError("log_session_progress needs agent and session_id, by name: agent='...'")
        engine, who = self._engine(project_id), self.engine.agent(agent)
        item = None if current_item_id is None else self._record(current_item_id).id
        began = validate.moment("session_start", session_start)
        start = began or work.find_session_start(engine, session_id) or engine.clock()
        since = Where(projects={engine.project}, agents={who}, created_from=start)
        if actions_taken is None:
            actions_taken = work.count_matches(engine, replace(since, kinds={"change"}, tagged={work.KIND}))
        if outcomes_recorded is None:
            outcomes_recorded = work.count_matches(engine, replace(since, kinds={"outcome"}))
        now = self.get_progress_summary(project_id)
        own = [one.id for one in now.current if who in (one.claimed_by, one.agent)]
        body = {
            "total": now.items_total,
            "done": now.items_done,
            "in_progress": now.items_in_progress,
            "blocked": now.items_blocked,
            "current": item or next(iter(own), None),
            "action": clean(current_action),
            "actions": actions_taken,
            "outcomes": outcomes_recorded,
            "session_start": times.to_iso(start),
        }
        record = things.made(engine, things.draft(work.LOG, body, agent=who, session=session_id))
        return decode_record(ProgressLog, write(engine, lambda tx: tx.put(record)), work.LOG_NAMES)

    # -- where and who

    def _engine(self, project: str | None) -> Engine:
        return self.engine if project in (None, self.engine.project) else replace(self.engine, project=project)

    def _agent(self, name: str | None) -> str | None:
        return None if name is None else self.engine.agent(name)

    def _record(self, item_id: str) -> Record:
        """A tracker of one project knows only that one's items; one of none knows all of its memory."""
        for record in self.engine.store.get([validate.name("item_id", item_id)]):
            is_ours = record.project == self.engine.project or not self._bound
            if record.kind == work.KIND and is_ours and record.status is not Standing.RETIRED:
                return record
        raise work.unknown_item(self.engine, item_id)

    def _change(
        self,
        item_id: str,
        by: str | None,
        change: Callable[[Plan], object],
        *,
        reorders: bool = False,
        checks_claim: bool = True,
    ) -> WorkItem:
        """Change an item, unless another agent has claimed it, and return it as it is then."""
        engine = self._engine(self._record(item_id).project)

        def change_item(plan: Plan) -> WorkItem:
            if checks_claim:
                plan.check_claim(item_id)
            change(plan)
            return read_item(plan.get([item_id])[0])

        who = self._agent(None if by is None else validate.name("agent", by))
        return work.write_plan(engine, who or "", change_item, reorders=reorders)


def _check_lease(seconds: float) -> float:
    return validate.number("lease_seconds", seconds, 1.0, _MAX_LEASE_SECONDS)


def _one_of(name: str | None) -> set[str] | None:
    """Return a condition of `Where`: this name, or any."""
    return None if name is None else {name}
