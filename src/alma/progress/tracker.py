"""`ProgressTracker`: what is to be done, by whom, in which order, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..codec import decode_record
from ..engine import things, validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words
from ..engine.transaction import write
from ..errors import ValidationError
from ..opening import Holder
from ..types import times
from ..types.query import Where
from ..types.record import Record
from ..types.record import Status as Standing
from .items import (
    EDITABLE,
    KIND,
    LEASE_SECONDS,
    LOG,
    LOG_NAMES,
    RELATIONS,
    SET_BY_STORE,
    ItemChange,
    Plan,
    ProgressLog,
    ProgressSummary,
    Status,
    Strategy,
    WorkItem,
    check_fields,
    check_flag,
    check_new_item,
    claim_next_item,
    count_matches,
    find_session_start,
    join_tests,
    list_by_urgency,
    rank_free_items,
    read_item,
    select_items,
    unknown_item,
    write_plan,
)  # fmt: skip

if TYPE_CHECKING:
    from ..core import ALMA

_MAX_LIMIT = 1_000_000
_MAX_COUNT = 10**9
_MAX_DAYS = 36_500.0
_MAX_LEASE_SECONDS = 30 * 86_400.0
_DEFAULTS = {"item_type": "task", "priority": 50}


class ProgressTracker(Holder):
    """Tracks the work items of a project.

    Without a memory it opens the one that is configured here, and `close` (or leaving its `with` block) closes it.
    `by` says who makes a change; it is kept in the item's history, and an agent cannot change what another has claimed.
    """

    def __init__(self, project_id: str | None = None, alma: ALMA | None = None) -> None:
        super().__init__(alma, project_id)
        self.engine = self.alma.engine
        self.engine = self._engine(project_id)
        self._bound = project_id is not None

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
        given: list[dict[str, Any]] = []
        for item in validate.many("items", items):
            if isinstance(item, WorkItem):
                own = (part.name for part in fields(item) if part.name not in SET_BY_STORE)
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
        engine = self._engine(next(iter(projects), None))
        drafts = []
        for one in given:
            agent = _check_agent(engine, one.pop("agent", None)) or ""
            tags = validate.names("tags", one.pop("tags", None))
            drafts.append((check_new_item(one), agent, tags))
        relates = any(body.get(name) for body, _, _ in drafts for name in RELATIONS)

        def create(plan: Plan) -> list[WorkItem]:
            ids = [plan.create(*draft) for draft in drafts]
            return [read_item(record) for record in plan.get(ids)]

        return write_plan(engine, "", create, reorders=relates)

    def get_item(self, item_id: str) -> WorkItem:
        """One item by its id, archived or not."""
        return read_item(self._record(item_id))

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
        where = select_items(
            engine,
            None if wanted is None else [validate.choice("status", one, Status) for one in wanted],
            archived=archived,
            agents=_one_of(_check_agent(engine, agent)),
            linked=_one_of(None if parent_id is None else validate.name("parent_id", parent_id)),
            tagged=_one_of(None if tag is None else validate.name("tag", tag)),
        )
        most = None if limit is None else validate.whole("limit", limit, 1, _MAX_LIMIT)
        items = [item for item in list_by_urgency(engine, where) if parent_id in (None, item.parent_id)]
        return [item for item in items if item_type in (None, item.item_type)][:most]

    def search(self, query: str, limit: int = 10, *, project_id: str | None = None) -> list[WorkItem]:
        """Items whose title or description shares words with the query, best first."""
        engine = self._engine(project_id)
        most = validate.whole("limit", limit, 1, 1000)
        hits = by_words(engine.store, validate.text("query", query), select_items(engine), most)
        return [read_item(record) for record in engine.store.get([hit.id for hit in hits])]

    # -- changing

    def update_status(self, item_id: str, status: str, notes: str | None = None, *, by: str | None = None) -> WorkItem:
        """Move an item to 'pending', 'in_progress', 'blocked', 'review', 'done' or 'failed'.

        The allowed moves are listed in `alma.progress`. Done frees what waited for it; taken up again, it blocks that
        again.
        """
        target, why = validate.choice("status", status, Status), _check_note(notes)
        return self._change(item_id, by, lambda plan: plan.set_status(item_id, target, why))

    def update_item(self, item_id: str, *, by: str | None = None, **fields: Any) -> WorkItem:
        """Change title, description, item_type, priority, agent, parent_id, tests, estimate_minutes, tags, metadata."""
        place: dict[str, Any] = {}
        if "agent" in fields:
            engine = self._engine(self._record(item_id).project)
            place["agent"] = _check_agent(engine, fields.pop("agent")) or ""
        if "tags" in fields:
            place["tags"] = tuple(map(clean, validate.names("tags", fields.pop("tags"))))
        if not fields and not place:
            raise ValidationError(f"nothing to update: pass some of {', '.join((*EDITABLE, 'agent', 'tags'))}")
        changes = check_fields(fields, EDITABLE)

        def edit(plan: Plan) -> None:
            plain = {name: value for name, value in changes.items() if name != "parent_id"}
            if "tests" in plain:
                plain |= join_tests(plain["tests"], plan.body(item_id)["test_results"])
            plan.alter(item_id, "edited", plain, **place)
            if "parent_id" in changes:
                plan.set_parent(item_id, changes["parent_id"])

        return self._change(item_id, by, edit, reorders="parent_id" in changes)

    def add_blocker(self, item_id: str, blocker_id: str, *, by: str | None = None) -> WorkItem:
        """From now on the item waits for the other; a circle is refused."""
        blocker = validate.name("blocker_id", blocker_id)
        return self._change(item_id, by, lambda plan: plan.add_blocker(item_id, blocker), reorders=True)

    def remove_blocker(self, item_id: str, blocker_id: str, *, by: str | None = None) -> WorkItem:
        """The item no longer waits for the other."""
        blocker = validate.name("blocker_id", blocker_id)
        return self._change(item_id, by, lambda plan: plan.remove_blocker(item_id, blocker), reorders=True)

    def record_test(self, item_id: str, test: str, passing: bool, *, by: str | None = None) -> WorkItem:
        """How a test of the item went; a new name is added to its tests."""
        result = {str(clean(validate.name("test", test))): check_flag("passing", passing)}

        def record(plan: Plan) -> None:
            body = plan.body(item_id)
            plan.alter(item_id, "tested", join_tests((*body["tests"], *result), body["test_results"] | result))

        return self._change(item_id, by, record, checks_claim=False)

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
        """What to work on next: nothing that is blocked, being worked on, or another agent's.

        `strategy` is 'priority', 'blocked_unblock' (what frees most), 'quick_win' or 'fifo'. With `claim` the item is
        taken for `agent` and in progress at once, and nobody else gets it.
        """
        engine = self._engine(project_id)
        chosen, who = validate.choice("strategy", strategy, Strategy), _check_agent(engine, agent)
        if not claim:
            return next(iter(rank_free_items(engine, who, chosen)), None)
        if who is None:
            raise ValidationError("claim=True needs the agent that claims: get_next_item(agent='...', claim=True)")
        return claim_next_item(engine, who, chosen, _check_lease(lease_seconds))

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

    def claim(self, item_id: str, agent: str, lease_seconds: float = LEASE_SECONDS) -> WorkItem:
        """Take this item, as `claim_next` takes the next."""
        seconds = _check_lease(lease_seconds)
        return self._change(item_id, agent, lambda plan: plan.claim(item_id, seconds))

    def renew(self, item_id: str, agent: str, lease_seconds: float = LEASE_SECONDS) -> WorkItem:
        """Keep a claim for that long from now."""
        seconds = _check_lease(lease_seconds)
        return self._change(item_id, agent, lambda plan: plan.renew(item_id, seconds), checks_claim=False)

    def release(self, item_id: str, agent: str, notes: str | None = None) -> WorkItem:
        """Give a claimed item back unfinished."""
        why = _check_note(notes)

        def release(plan: Plan) -> None:
            plan.check_own(item_id)
            plan.move(item_id, Status.PENDING, "released", why)

        return self._change(item_id, agent, release, checks_claim=False)

    # -- how far it is

    def get_progress_summary(self, project_id: str | None = None, agent: str | None = None) -> ProgressSummary:
        """Counts by status, what is in progress and what is blocked; of all items or of one agent's."""
        engine = self._engine(project_id)
        who = _check_agent(engine, agent)
        places = {one: select_items(engine, [one], agents=_one_of(who)) for one in Status}
        counts = {str(one): count_matches(engine, where) for one, where in places.items()}
        return ProgressSummary(
            project_id=engine.project,
            agent=who,
            items_total=sum(counts.values()),
            by_status=counts,
            current=tuple(list_by_urgency(engine, places[Status.IN_PROGRESS])),
            blocked=tuple(list_by_urgency(engine, places[Status.BLOCKED])),
            created_at=engine.clock(),
        )

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
        who, session = engine.agent(validate.name("agent", agent)), validate.name("session_id", session_id)
        item = None if current_item_id is None else self._record(current_item_id).id
        action = _check_note(current_action)
        start = validate.moment("session_start", session_start)
        start = start or find_session_start(engine, session) or engine.clock()
        since = Where(projects={engine.project}, agents={who}, created_from=start)

        def read_count(name: str, count: int | None, **conditions: Any) -> int:
            if count is None:
                return count_matches(engine, replace(since, **conditions))
            return validate.whole(name, count, 0, _MAX_COUNT)

        actions = read_count("actions_taken", actions_taken, kinds={"change"}, tagged={KIND})
        outcomes = read_count("outcomes_recorded", outcomes_recorded, kinds={"outcome"})
        now = self.get_progress_summary(project_id)
        own = [one.id for one in now.current if who in (one.claimed_by, one.agent)]
        body = {
            "total": now.items_total,
            "done": now.items_done,
            "in_progress": now.items_in_progress,
            "blocked": now.items_blocked,
            "current": item or next(iter(own), None),
            "action": action,
            "actions": actions,
            "outcomes": outcomes,
            "session_start": times.to_iso(start),
        }
        record = things.made(engine, things.draft(LOG, body, agent=who, session=session))
        return decode_record(ProgressLog, write(engine, lambda tx: tx.put(record)), LOG_NAMES)

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
        agents = _one_of(_check_agent(engine, agent))
        sessions = _one_of(None if session_id is None else validate.name("session_id", session_id))
        most = validate.whole("limit", limit, 1, _MAX_LIMIT)
        records = things.scan(engine, LOG, most, agents=agents, sessions=sessions)
        return [decode_record(ProgressLog, record, LOG_NAMES) for record in records]

    def history(self, item_id: str) -> list[ItemChange]:
        """Who changed what of an item, oldest first."""
        record = self._record(item_id)
        lines = things.scan(self._engine(record.project), "change", linked={record.id})[::-1]
        changes = [decode_record(ItemChange, line, {"at": "created_at"}, by=line.body.get("by", "")) for line in lines]
        return [ItemChange(at=record.created_at, by="", verb="created"), *changes]

    # -- putting away

    def archive(self, item_id: str, *, by: str | None = None) -> WorkItem:
        """Put an item away; it is neither listed nor counted. One that others still wait for is refused."""
        return self._change(item_id, by, lambda plan: plan.archive(item_id))

    def restore(self, item_id: str, *, by: str | None = None) -> WorkItem:
        """Take an archived item back."""

        def restore(plan: Plan) -> None:
            plan.alter(item_id, "restored", {}, status=Standing.ACTIVE)

        return self._change(item_id, by, restore, checks_claim=False)

    def archive_finished(self, older_than_days: float = 30.0, *, project_id: str | None = None) -> int:
        """Archive what is done and was not touched for that long; how many."""
        engine = self._engine(project_id)
        days = validate.number("older_than_days", older_than_days, 0.0, _MAX_DAYS)
        before = engine.clock() - timedelta(days=days)
        done = engine.store.scan(select_items(engine, [Status.DONE]))
        ids = [record.id for record in done if record.updated_at < before][::-1]

        def archive(plan: Plan) -> int:
            due = [one for one in plan.get(ids) if one.body["status"] == Status.DONE and one.status is Standing.ACTIVE]
            for record in due:
                plan.archive(record.id)
            return len(due)

        return write_plan(engine, "", archive)

    def delete(self, item_id: str, *, by: str | None = None) -> None:
        """Erase an item and its history. What waited for it waits no longer; its parts stand on their own."""
        engine = self._engine(self._record(item_id).project)
        write_plan(engine, _check_agent(engine, by) or "", lambda plan: plan.erase(item_id), reorders=True)
        engine.store.delete([line.id for line in things.scan(engine, "change", linked={item_id})])

    # -- where and who

    def _engine(self, project_id: str | None) -> Engine:
        name = self.engine.project if project_id is None else validate.name("project_id", project_id)
        return self.engine if name == self.engine.project else replace(self.engine, project=name)

    def _record(self, item_id: str) -> Record:
        """A tracker of one project knows only that one's items; one of none knows all of its memory."""
        id = validate.name("item_id", item_id)
        for record in self.engine.store.get([id]):
            is_ours = record.project == self.engine.project or not self._bound
            if record.kind == KIND and is_ours and record.status is not Standing.RETIRED:
                return record
        raise unknown_item(self.engine, id)

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

        return write_plan(engine, _check_agent(engine, by) or "", change_item, reorders=reorders)


def _check_agent(engine: Engine, agent: object) -> str | None:
    return None if agent is None else engine.agent(validate.name("agent", agent))


def _check_note(text: str | None) -> str:
    return str(clean(validate.optional_text("notes", text) or ""))


def _check_lease(seconds: float) -> float:
    return validate.number("lease_seconds", seconds, 1.0, _MAX_LEASE_SECONDS)


def _one_of(name: str | None) -> set[str] | None:
    """Return a condition of `Where`: this name, or any."""
    return None if name is None else {name}
