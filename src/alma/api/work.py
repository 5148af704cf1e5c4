"""Work items: what is to be done, in which order, by whom, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from .. import words
from ..core import ALMA
from ..progress import ItemChange, ProgressLog, ProgressSummary, ProgressTracker, Status, Strategy, WorkItem
from ..progress.items import LEASE_SECONDS
from .operation import About, Effect, operation

ItemId = Annotated[str, About("the work item's id")]
Notes = Annotated[str | None, About("a word about it")]
Lease = Annotated[float, About("for so many seconds; then others may have it")]
ItemType = Annotated[str, About("such as task, feature, bug, research_question")]
Priority = Annotated[int, About("0 to 100; the greater, the sooner")]


def _tracker(alma: ALMA) -> ProgressTracker:
    return ProgressTracker(alma=alma, project_id=alma.project_id)


@operation(Effect.ADDS)
def create_work_item(
    alma: ALMA,
    title: Annotated[str, About("what is to be done, in a few words")],
    description: Annotated[str, About("all there is to say about it")] = "",
    item_type: ItemType = "task",
    priority: Priority = 50,
    agent: Annotated[str | None, About("whose it is; without it anybody's")] = None,
    parent_id: Annotated[str | None, About("the item it is a part of")] = None,
    blocked_by: Annotated[list[str] | None, About("ids of items that must be done first")] = None,
    blocks: Annotated[list[str] | None, About("ids of items that wait for this one")] = None,
    tests: Annotated[list[str] | None, About("names of tests that must pass")] = None,
    estimate_minutes: Annotated[float | None, About("how long it may take")] = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
) -> WorkItem:
    """Create a work item to be tracked. With a blocker that is not done it begins as blocked."""
    return _tracker(alma).create_work_item(
        title=title,
        description=description,
        item_type=item_type,
        priority=priority,
        agent=agent,
        parent_id=parent_id,
        blocked_by=blocked_by or (),
        blocks=blocks or (),
        tests=tests or (),
        estimate_minutes=estimate_minutes,
        tags=tags or (),
        metadata=metadata,
    )


@dataclass(frozen=True, slots=True)
class NextItem:
    item: WorkItem | None
    """None: nothing is free to be worked on."""
    waiting: int
    """How many items are open all the same: blocked, being worked on, or another agent's."""


@operation(Effect.CHANGES)
def get_next_item(
    alma: ALMA,
    agent: Annotated[str | None, About("who asks; without it anybody")] = None,
    strategy: Annotated[str, About("what comes first", tuple(Strategy))] = Strategy.PRIORITY,
    claim: Annotated[bool, About("take it for the agent at once, so that nobody else gets it")] = False,
    lease_seconds: Lease = LEASE_SECONDS,
) -> NextItem:
    """What to work on next: nothing that is blocked, being worked on, or another agent's.

    'priority' takes the most urgent, 'blocked_unblock' what frees most, 'quick_win' what is soonest done, 'fifo' the
    oldest. Several agents that work at once should pass `claim`.
    """
    tracker = _tracker(alma)
    item = tracker.get_next_item(agent=agent, strategy=strategy, claim=claim, lease_seconds=lease_seconds)
    if item is not None:
        return NextItem(item, 0)
    counts = tracker.get_progress_summary().by_status
    return NextItem(None, sum(counts[one] for one in (Status.PENDING, Status.IN_PROGRESS, Status.BLOCKED)))


@operation(Effect.CHANGES, idempotent=True)
def update_progress(
    alma: ALMA,
    item_id: ItemId,
    status: Annotated[str, About("what it is now", tuple(Status))],
    notes: Notes = None,
    agent: words.By = None,
) -> WorkItem:
    """Move a work item to another status. Done frees what waited for it; a blocked item cannot be done."""
    return _tracker(alma).update_status(item_id, status, notes, by=agent)


@operation(Effect.CHANGES, idempotent=True)
def update_work_item(
    alma: ALMA,
    item_id: ItemId,
    title: Annotated[str | None, About("a new title")] = None,
    description: Annotated[str | None, About("a new description")] = None,
    item_type: Annotated[str | None, About("another type")] = None,
    priority: Annotated[int | None, About("0 to 100; the greater, the sooner")] = None,
    owner: Annotated[str | None, About("whose it is from now on; '' for anybody's")] = None,
    parent_id: Annotated[str | None, About("the item it is a part of; '' for none")] = None,
    tests: Annotated[list[str] | None, About("names of all its tests")] = None,
    estimate_minutes: Annotated[float | None, About("how long it may take")] = None,
    tags: words.Tags = None,
    metadata: words.Metadata = None,
    agent: words.By = None,
) -> WorkItem:
    """Change what a work item says. Only what is given changes."""
    given = {
        "title": title,
        "description": description,
        "item_type": item_type,
        "priority": priority,
        "tests": tests,
        "estimate_minutes": estimate_minutes,
        "tags": tags,
        "metadata": metadata,
    }
    fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if owner is not None:
        fields["agent"] = owner or None
    if parent_id is not None:
        fields["parent_id"] = parent_id or None
    return _tracker(alma).update_item(item_id, by=agent, **fields)


@operation(Effect.READS)
def get_work_item(alma: ALMA, item_id: ItemId) -> WorkItem:
    """Show one work item."""
    return _tracker(alma).get_item(item_id)


@operation(Effect.READS)
def list_work_items(
    alma: ALMA,
    status: Annotated[list[str] | None, About("only these statuses", tuple(Status))] = None,
    agent: words.AnyAgent = None,
    item_type: Annotated[str | None, About("only items of this type")] = None,
    parent_id: Annotated[str | None, About("only parts of this item")] = None,
    tag: Annotated[str | None, About("only what has this tag")] = None,
    archived: Annotated[bool, About("archived ones, too")] = False,
    limit: words.Limit = 50,
) -> list[WorkItem]:
    """List work items, the most urgent first."""
    return _tracker(alma).list_items(
        status, agent, item_type=item_type, parent_id=parent_id, tag=tag, archived=archived, limit=limit
    )


@operation(Effect.READS)
def search_work_items(
    alma: ALMA, query: Annotated[str, About("words to look for")], limit: words.Limit = 10
) -> list[WorkItem]:
    """Find work items by the words of their titles and descriptions."""
    return _tracker(alma).search(query, limit)


@operation(Effect.READS)
def work_item_history(alma: ALMA, item_id: ItemId) -> list[ItemChange]:
    """Who changed what of a work item, oldest first."""
    return _tracker(alma).history(item_id)


@operation(Effect.CHANGES, idempotent=True)
def add_blocker(
    alma: ALMA,
    item_id: ItemId,
    blocker_id: Annotated[str, About("the item that must be done first")],
    agent: words.By = None,
) -> WorkItem:
    """Let one work item wait for another. A circle is refused."""
    return _tracker(alma).add_blocker(item_id, blocker_id, by=agent)


@operation(Effect.CHANGES)
def remove_blocker(
    alma: ALMA,
    item_id: ItemId,
    blocker_id: Annotated[str, About("the item that it need not wait for")],
    agent: words.By = None,
) -> WorkItem:
    """Let one work item wait for another no longer."""
    return _tracker(alma).remove_blocker(item_id, blocker_id, by=agent)


@operation(Effect.CHANGES, idempotent=True)
def record_test(
    alma: ALMA,
    item_id: ItemId,
    test: Annotated[str, About("the test's name")],
    passing: Annotated[bool, About("whether it passed")],
    agent: words.By = None,
) -> WorkItem:
    """Record how a test of a work item went."""
    return _tracker(alma).record_test(item_id, test, passing, by=agent)


@operation(Effect.CHANGES)
def claim_work_item(alma: ALMA, item_id: ItemId, agent: words.Agent, lease_seconds: Lease = LEASE_SECONDS) -> WorkItem:
    """Take one work item for an agent, so that nobody else gets it; one's own claim is renewed."""
    tracker = _tracker(alma)
    held = tracker.get_item(item_id)
    mine = held.claimed_by is not None and held.claimed_by == alma.engine.agent(agent)
    return (tracker.renew if mine else tracker.claim)(item_id, agent, lease_seconds)


@operation(Effect.CHANGES)
def release_work_item(alma: ALMA, item_id: ItemId, agent: words.Agent, notes: Notes = None) -> WorkItem:
    """Give a claimed work item back unfinished."""
    return _tracker(alma).release(item_id, agent, notes)


@operation(Effect.CHANGES)
def archive_work_item(alma: ALMA, item_id: ItemId, agent: words.By = None) -> WorkItem:
    """Put a work item away. One that others still wait for is refused."""
    return _tracker(alma).archive(item_id, by=agent)


@operation(Effect.CHANGES, idempotent=True)
def restore_work_item(alma: ALMA, item_id: ItemId, agent: words.By = None) -> WorkItem:
    """Take an archived work item back."""
    return _tracker(alma).restore(item_id, by=agent)


@dataclass(frozen=True, slots=True)
class Archived:
    count: int


@operation(Effect.CHANGES, idempotent=True)
def archive_finished(
    alma: ALMA, older_than_days: Annotated[float, About("and not touched for so many days")] = 30.0
) -> Archived:
    """Put away the work items that are done."""
    return Archived(_tracker(alma).archive_finished(older_than_days))


@dataclass(frozen=True, slots=True)
class DeletedItem:
    id: str


@operation(Effect.ERASES)
def delete_work_item(alma: ALMA, item_id: ItemId, agent: words.By = None) -> DeletedItem:
    """Erase a work item and its history. What waited for it waits no longer."""
    _tracker(alma).delete(item_id, by=agent)
    return DeletedItem(item_id)


@operation(Effect.READS)
def progress_summary(alma: ALMA, agent: words.AnyAgent = None) -> ProgressSummary:
    """How far the work is: counts by status, what is in progress, what is blocked."""
    return _tracker(alma).get_progress_summary(agent=agent)


@operation(Effect.READS)
def progress_logs(
    alma: ALMA,
    agent: words.AnyAgent = None,
    session_id: Annotated[str | None, About("only of this session")] = None,
    limit: words.Limit = 50,
) -> list[ProgressLog]:
    """Where sessions stood at moments that they noted, newest first."""
    return _tracker(alma).get_progress_logs(agent, session_id, limit)


@operation(Effect.ADDS)
def log_progress(
    alma: ALMA,
    agent: words.Agent,
    session_id: Annotated[str, About("the session that it is noted in")],
    current_action: Annotated[str, About("what is being done")] = "",
    current_item_id: Annotated[str | None, About("the item worked on; by default the agent's in progress")] = None,
) -> ProgressLog:
    """Keep where the work stands at this moment of a session, to look back on later."""
    return _tracker(alma).log_session_progress(
        agent=agent, session_id=session_id, current_action=current_action, current_item_id=current_item_id
    )
