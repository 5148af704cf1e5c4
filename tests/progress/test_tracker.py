from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alma import ALMA
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.progress import ProgressTracker, Status, WorkItem
from alma.types.query import MemoryScope, Where

CONFIG = "alma:\n  project_id: my-project\n  storage: sqlite\n  embedding_provider: hash\n"

AS_PRINTED = """
from alma.progress import ProgressTracker

tracker = ProgressTracker("my-project")

# Create work items
item = tracker.create_work_item(
    title="Fix authentication bug",
    description="Login fails on mobile devices",
    priority=80,
    agent="Victor",
)

# Update status
tracker.update_status(item.id, "in_progress")

# Get next task (by priority, quick wins, or unblock others)
next_task = tracker.get_next_item(strategy="priority")
print(item.title, next_task)
"""


@pytest.fixture
def tracker(alma: ALMA) -> ProgressTracker:
    return ProgressTracker(alma=alma)


def make(tracker: ProgressTracker, title: str = "Write it", **fields: object) -> WorkItem:
    return tracker.create_work_item(title=title, **fields)  # type: ignore[arg-type]


def workspace(folder: Path) -> Path:
    (folder / ".alma").mkdir()
    (folder / ".alma" / "config.yaml").write_text(CONFIG)
    return folder


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- as it is described


@pytest.mark.system
def test_progress_tracking_as_printed(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    assert run(AS_PRINTED, folder).strip() == "Fix authentication bug None"
    told = (
        "from alma.progress import ProgressTracker\nprint(ProgressTracker('my-project').get_progress_summary().current)"
    )
    assert "Fix authentication bug" in run(told, folder)


def test_the_api_of_the_requirements(tracker: ProgressTracker, alma: ALMA) -> None:
    """Methods that name the project they are about, on items made by hand."""
    free = ProgressTracker(alma=alma)
    created = free.create_work_item(
        WorkItem(id="", project_id="other", agent="Victor", title="Read", item_type="research_question", priority=7)
    )
    assert isinstance(created, str)
    made = free.get_item(created)
    assert (made.project_id, made.agent, made.item_type, made.status) == (
        "other",
        "Victor",
        "research_question",
        "pending",
    )
    assert free.get_next_item("other", "Victor", "priority") == made
    assert free.get_next_item("other", "Helena", "priority") is None
    assert free.update_status(made.id, "in_progress", "reading")
    assert free.get_progress_summary("other", "Victor").items_in_progress == 1
    log = free.log_session_progress("other", "Victor", "session-1")
    assert (log.project_id, log.items_total, log.current_item_id) == ("other", 1, made.id)
    assert free.get_progress_summary().items_total == 0


def test_a_tracker_of_one_project_does_not_touch_another(alma: ALMA) -> None:
    item = make(ProgressTracker("one", alma))
    with pytest.raises(NotFoundError, match="no work item"):
        ProgressTracker("two", alma).update_status(item.id, "done")


def test_it_closes_only_what_it_opened(alma: ALMA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProgressTracker("p", alma) as borrowed:
        make(borrowed)
    assert len(ProgressTracker("p", alma).list_items()) == 1
    monkeypatch.chdir(workspace(tmp_path))
    with ProgressTracker("p") as own:
        make(own)
    from alma.errors import StorageError

    with pytest.raises(StorageError):
        own.list_items()


# -- status


def test_work_is_timed_and_counted(tracker: ProgressTracker, clock) -> None:
    item = make(tracker)
    begun = tracker.update_status(item.id, "in_progress")
    assert (begun.attempt_count, begun.time_spent_ms, begun.completed_at) == (1, 0, None)
    clock.pass_days(1)
    reviewed = tracker.update_status(item.id, "review")
    assert 86_400_000 < reviewed.time_spent_ms < 86_500_000
    tracker.update_status(item.id, "in_progress")
    clock.pass_days(1)
    done = tracker.update_status(item.id, "done")
    assert 2 * 86_400_000 < done.time_spent_ms < 2 * 86_500_000
    assert (done.attempt_count, done.started_at) == (2, begun.started_at)
    assert done.completed_at is not None
    again = tracker.update_status(item.id, "pending")
    assert (again.completed_at, again.attempt_count, again.time_spent_ms) == (None, 2, done.time_spent_ms)


def test_an_unknown_status_names_the_valid_ones(tracker: ProgressTracker) -> None:
    item = make(tracker)
    with pytest.raises(ValidationError, match="pending, in_progress, blocked, review, done, failed"):
        tracker.update_status(item.id, "banana")
    assert tracker.get_item(item.id) == item


def test_a_blocked_item_cannot_be_done(tracker: ProgressTracker) -> None:
    blocker = make(tracker)
    item = make(tracker, blocked_by=[blocker.id])
    for status in ("done", "review", "in_progress", "pending"):
        with pytest.raises(ValidationError, match=blocker.id):
            tracker.update_status(item.id, status)
    assert tracker.get_item(item.id) == item
    assert tracker.update_status(item.id, "failed").status == "failed"


def test_a_move_that_is_not_allowed_names_those_that_are(tracker: ProgressTracker) -> None:
    item = tracker.update_status(make(tracker).id, "blocked", "staging is down")
    with pytest.raises(ValidationError, match="is blocked and cannot be set to done. Valid now: pending, in_progress"):
        tracker.update_status(item.id, "done")
    assert tracker.get_item(item.id).notes == "staging is down"


def test_the_same_status_again_is_a_note(tracker: ProgressTracker) -> None:
    item = tracker.update_status(make(tracker).id, "in_progress")
    noted = tracker.update_status(item.id, "in_progress", "half way")
    assert (noted.attempt_count, noted.notes) == (1, "half way")
    assert tracker.history(item.id)[-1].why == "half way"
    assert tracker.update_item(item.id, priority=3).notes == "half way"
    assert tracker.update_item(item.id, notes="").notes == tracker.get_item(item.id).notes == ""


# -- blockers


def test_finishing_a_blocker_unblocks(tracker: ProgressTracker) -> None:
    first, second = make(tracker, "first"), make(tracker, "second")
    item = make(tracker, "later", blocked_by=[first.id, second.id])
    assert (item.status, item.waiting_for) == ("blocked", (first.id, second.id))
    assert tracker.get_item(first.id).blocks == (item.id,)
    tracker.update_status(first.id, "done")
    assert (tracker.get_item(item.id).status, tracker.get_item(item.id).waiting_for) == ("blocked", (second.id,))
    tracker.update_status(second.id, "done")
    assert tracker.get_item(item.id).status == "pending"
    assert tracker.get_item(item.id).blocked_by == (first.id, second.id)


def test_a_blocker_taken_up_again_blocks_again(tracker: ProgressTracker) -> None:
    blocker = make(tracker)
    item = make(tracker, blocked_by=[blocker.id])
    tracker.update_status(blocker.id, "done")
    tracker.update_status(item.id, "in_progress")
    tracker.update_status(blocker.id, "in_progress")
    assert tracker.get_item(item.id).status == "blocked"
    tracker.update_status(blocker.id, "done")
    assert tracker.get_item(item.id).status == "pending"


def test_a_failed_blocker_still_blocks(tracker: ProgressTracker) -> None:
    blocker = make(tracker)
    item = make(tracker, blocked_by=[blocker.id])
    tracker.update_status(blocker.id, "failed")
    assert tracker.get_item(item.id).status == "blocked"


def test_what_somebody_holds_is_not_freed_by_others(tracker: ProgressTracker) -> None:
    item, blocker = make(tracker), make(tracker)
    tracker.update_status(item.id, "blocked", "waits for the customer")
    tracker.update_item(item.id, blocked_by=[blocker.id])
    tracker.update_status(blocker.id, "done")
    assert tracker.get_item(item.id).status == "blocked"
    assert tracker.update_status(item.id, "pending").status == "pending"


def test_blocked_by_blockers_said_again_is_still_freed(tracker: ProgressTracker) -> None:
    blocker = make(tracker)
    item = make(tracker, blocked_by=[blocker.id])
    tracker.update_status(item.id, "blocked", "as I said")
    tracker.update_status(blocker.id, "done")
    assert tracker.get_item(item.id).status == "pending"


def test_blockers_are_added_and_removed_on_both_sides(tracker: ProgressTracker) -> None:
    item, blocker = make(tracker), make(tracker)
    tracker.update_status(item.id, "in_progress")
    blocked = tracker.update_item(item.id, blocked_by=[blocker.id])
    assert (blocked.status, blocked.blocked_by) == ("blocked", (blocker.id,))
    assert tracker.update_item(item.id, blocked_by=[blocker.id]) == blocked
    freed = tracker.update_item(item.id, unblocked_by=[blocker.id])
    assert (freed.status, freed.blocked_by, freed.waiting_for) == ("pending", (), ())
    assert tracker.get_item(blocker.id).blocks == ()
    with pytest.raises(ValidationError, match="not blocked by"):
        tracker.update_item(item.id, unblocked_by=[blocker.id])


def test_a_circle_is_refused_and_nothing_changes(tracker: ProgressTracker) -> None:
    a = make(tracker, "A")
    b = make(tracker, "B", blocked_by=[a.id])
    c = make(tracker, "C", blocked_by=[b.id])
    before = tracker.list_items()
    with pytest.raises(ValidationError, match="'A' → 'C' → 'B' → 'A'"):
        tracker.update_item(a.id, blocked_by=[c.id])
    with pytest.raises(ValidationError, match="cycle"):
        tracker.update_item(a.id, blocked_by=[a.id])
    assert tracker.list_items() == before


def test_a_circle_of_parents_is_refused(tracker: ProgressTracker) -> None:
    top = make(tracker, "top")
    part = make(tracker, "part", parent_id=top.id)
    with pytest.raises(ValidationError, match="cycle"):
        tracker.update_item(top.id, parent_id=part.id)
    with pytest.raises(ValidationError, match="cycle"):
        tracker.update_item(top.id, parent_id=top.id)
    # The whole waits for its parts, so a part that waits for the whole would wait for itself.
    with pytest.raises(ValidationError, match="cycle"):
        tracker.update_item(part.id, blocked_by=[top.id])
    with pytest.raises(ValidationError, match="cycle"):
        make(tracker, parent_id=top.id, blocked_by=[top.id])
    assert [item.title for item in tracker.list_items()] == ["top", "part"]


def test_an_unknown_blocker_or_parent_is_an_error(tracker: ProgressTracker) -> None:
    for fields in ({"blocked_by": ["wrk_no"]}, {"blocks": ["wrk_no"]}, {"parent_id": "wrk_no"}):
        with pytest.raises(NotFoundError, match="wrk_no"):
            make(tracker, **fields)
    assert tracker.list_items() == []


def test_new_items_can_block_old_ones(tracker: ProgressTracker) -> None:
    old = tracker.update_status(make(tracker).id, "in_progress")
    new = make(tracker, "first this", blocks=[old.id])
    assert tracker.get_item(old.id).status == "blocked"
    assert tracker.get_item(new.id).blocks == (old.id,)


# -- making, reading, changing


def test_several_are_made_at_once_or_none(tracker: ProgressTracker) -> None:
    made = tracker.create_work_items(
        [{"id": "a", "title": "A"}, {"title": "B", "blocked_by": ["a"], "priority": 90}, WorkItem(title="C")]
    )
    assert [item.status for item in made] == ["pending", "blocked", "pending"]
    with pytest.raises(ValidationError, match="already in use"):
        tracker.create_work_items([{"title": "D"}, {"id": "a", "title": "again"}])
    with pytest.raises(ValidationError, match="unknown field 'titel' of a work item. Did you mean 'title'"):
        tracker.create_work_items([{"titel": "D"}])
    assert len(tracker.list_items()) == 3


def test_a_work_item_made_by_hand_keeps_its_past(tracker: ProgressTracker, clock) -> None:
    item = WorkItem(
        title="Imported", status="done", time_spent_ms=60_000, attempt_count=3, tests=("unit",), tests_passing=True,
        completed_at=clock(), tags=("old",), metadata={"from": "elsewhere"},
    )  # fmt: skip
    made = tracker.get_item(tracker.create_work_item(item))
    for name in ("title", "status", "time_spent_ms", "attempt_count", "tests", "tests_passing", "completed_at", "tags"):
        assert getattr(made, name) == getattr(item, name), name
    with pytest.raises(ValidationError, match="not both"):
        tracker.create_work_item(item, priority=3)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"title": ""}, "title is empty"),
        ({"title": "x" * 501}, "at most 500"),
        ({"title": "x", "priority": 101}, "from 0 to 100"),
        ({"title": "x", "priority": True}, "from 0 to 100"),
        ({"title": "x", "description": 5}, "must be a string"),
        ({"title": "x", "tests": "unit"}, "list of names"),
        ({"title": "x", "metadata": {"a": object()}}, "JSON"),
        ({"title": "x", "estimate_minutes": -1}, "a number from 0 to 10,000,000, not -1"),
        ({"title": "x", "blocked_by": "wrk"}, "list of names"),
        ({"description": "no title"}, "title"),
    ],
)
def test_what_cannot_be_an_item(tracker: ProgressTracker, fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        tracker.create_work_item(**fields)  # type: ignore[arg-type]
    assert tracker.list_items() == []


def test_a_title_by_its_place_is_refused_with_the_call_that_works(tracker: ProgressTracker) -> None:
    with pytest.raises(ValidationError, match=r"item must be a WorkItem.*pass title='Write it'"):
        tracker.create_work_item("Write it")  # type: ignore[arg-type]


def test_fields_are_changed_and_others_refused(tracker: ProgressTracker) -> None:
    item = make(tracker, tags=["old"])
    parent = make(tracker, "whole")
    changed = tracker.update_item(
        item.id, title="Better", priority=9, owner="Victor", parent_id=parent.id, tags=["new"], by="Helena"
    )
    assert (changed.title, changed.priority, changed.agent, changed.parent_id, changed.tags) == (
        "Better", 9, "Victor", parent.id, ("new",),
    )  # fmt: skip
    assert tracker.list_items(agent="Victor") == [changed]
    freed = tracker.update_item(item.id, owner="", parent_id="")
    assert (freed.agent, freed.parent_id) == (None, None)
    with pytest.raises(ValidationError, match="nothing to update"):
        tracker.update_item(item.id)


def test_items_are_listed_by_what_they_are(tracker: ProgressTracker) -> None:
    low, high = make(tracker, "low", priority=1, item_type="bug"), make(tracker, "high", priority=99, tags=["ui"])
    part = make(tracker, "part", parent_id=high.id)
    tracker.update_status(low.id, "in_progress")
    titles = lambda **given: [item.title for item in tracker.list_items(**given)]  # noqa: E731
    assert titles() == ["high", "part", "low"]
    assert titles(status="in_progress") == ["low"]
    assert titles(status=["pending", "done"]) == ["high", "part"]
    assert titles(item_type="bug") == ["low"]
    assert titles(parent_id=high.id) == [part.title]
    assert titles(tag="ui") == ["high"]
    assert titles(limit=1) == ["high"]
    with pytest.raises(ValidationError, match="unknown status"):
        tracker.list_items("banana")


def test_items_are_found_by_their_words(tracker: ProgressTracker) -> None:
    login = make(tracker, "Fix the login form", description="It fails on phones")
    make(tracker, "Write release notes")
    assert [item.id for item in tracker.list_items(query="phones that cannot log in")] == [login.id]
    tracker.update_item(login.id, description="It fails in Safari")
    assert tracker.list_items(query="phones") == []
    assert [item.id for item in tracker.list_items(query="safari")] == [login.id]


def test_tests_pass_when_each_does(tracker: ProgressTracker) -> None:
    item = make(tracker, tests=["unit", "browser"])
    assert not tracker.update_item(item.id, test_results={"unit": True}).tests_passing
    assert tracker.update_item(item.id, test_results={"browser": True}).tests_passing
    failing = tracker.update_item(item.id, test_results={"load": False})
    assert (failing.tests, failing.tests_passing) == (("unit", "browser", "load"), False)
    fewer = tracker.update_item(item.id, tests=["unit"])
    assert (fewer.tests_passing, fewer.test_results) == (True, {"unit": True})
    with pytest.raises(ValidationError, match="true or false"):
        tracker.update_item(item.id, test_results={"unit": "yes"})  # type: ignore[arg-type]


def test_secrets_are_taken_out(tracker: ProgressTracker) -> None:
    secret = "ghp_" + "a1B2" * 9
    item = make(tracker, f"Use {secret}", description=f"token={secret}", metadata={"password": "hunter2hunter2"})
    tracker.update_status(item.id, "in_progress", f"with {secret}")
    tracker.update_item(item.id, title=f"Still {secret}")
    kept = "".join(str(record) for record in tracker.engine.store.scan(Where()))
    assert secret not in kept
    assert "hunter2hunter2" not in kept


def test_declared_agents_are_known_by_any_case(open_alma) -> None:
    tracker = ProgressTracker(alma=open_alma(agents=[MemoryScope("victor")]))
    assert make(tracker, agent="Victor").agent == "victor"
    with pytest.raises(ScopeError, match="unknown agent"):
        make(tracker, agent="Nobody")


# -- history and putting away


def test_history_says_who_changed_what_when(tracker: ProgressTracker, clock) -> None:
    item = make(tracker)
    tracker.update_status(item.id, "in_progress", by="Victor")
    tracker.update_status(item.id, "done", "it was the cache", by="Victor")
    tracker.update_item(item.id, priority=3, by="Helena")
    told = tracker.history(item.id)
    assert [(line.verb, line.by) for line in told] == [
        ("created", ""), ("status", "Victor"), ("status", "Victor"), ("edited", "Helena"),
    ]  # fmt: skip
    assert told[2].why == "it was the cache"
    assert (told[2].before["status"], told[2].after["status"]) == ("in_progress", "done")
    assert (told[3].before, told[3].after) == ({"priority": 50}, {"priority": 3})
    assert [line.at for line in told] == sorted(line.at for line in told)


def test_the_history_of_a_freed_item_says_why(tracker: ProgressTracker) -> None:
    blocker = make(tracker, "Fix it")
    item = make(tracker, blocked_by=[blocker.id])
    tracker.update_status(blocker.id, "done", by="Victor")
    last = tracker.history(item.id)[-1]
    assert (last.verb, last.why, last.by) == ("unblocked", f"{blocker.id} is done", "Victor")


def test_archived_items_are_out_of_the_way(tracker: ProgressTracker) -> None:
    item, other = make(tracker), make(tracker, "other")
    assert tracker.update_item(item.id, archived=True).archived
    assert tracker.list_items() == [other]
    assert len(tracker.list_items(archived=True)) == 2
    assert tracker.get_progress_summary().items_total == 1
    assert tracker.get_next_item() == other
    with pytest.raises(ValidationError, match="archived; restore it first"):
        tracker.update_status(item.id, "done")
    for change in ({"title": "Write more"}, {"tests": ["unit"]}, {"test_results": {"unit": True}}, {"priority": 1}):
        with pytest.raises(ValidationError, match="archived; restore it first"):
            tracker.update_item(item.id, **change)  # type: ignore[arg-type]
    assert tracker.get_item(item.id).title == "Write it"
    assert tracker.update_item(item.id, archived=False, priority=7).priority == 7
    with pytest.raises(ValidationError, match="'Write it' is not archived; its status is pending"):
        tracker.update_item(item.id, archived=False)
    assert tracker.update_status(item.id, "done").status == Status.DONE


def test_what_others_wait_for_cannot_be_archived(tracker: ProgressTracker) -> None:
    blocker = make(tracker)
    item = make(tracker, blocked_by=[blocker.id])
    with pytest.raises(ValidationError, match=item.id):
        tracker.update_item(blocker.id, archived=True)
    tracker.update_status(blocker.id, "done")
    assert tracker.update_item(blocker.id, archived=True).archived


def test_what_was_done_long_ago_is_archived(tracker: ProgressTracker, clock) -> None:
    old = tracker.update_status(make(tracker).id, "done")
    clock.pass_days(40)
    recent = tracker.update_status(make(tracker).id, "done")
    assert tracker.archive_finished(30) == 1
    assert tracker.get_item(old.id).archived
    assert not tracker.get_item(recent.id).archived


def test_deleting_leaves_nothing_behind(tracker: ProgressTracker) -> None:
    item = make(tracker, "Something private")
    waiting = make(tracker, "waiting", blocked_by=[item.id])
    first = make(tracker, "first", blocks=[item.id])
    part = make(tracker, "part", parent_id=item.id)
    tracker.update_item(item.id, description="quite private", by="Victor")
    tracker.delete(item.id)
    assert (tracker.get_item(waiting.id).status, tracker.get_item(waiting.id).blocked_by) == ("pending", ())
    assert tracker.get_item(first.id).blocks == ()
    assert tracker.get_item(part.id).parent_id is None
    for ask in (tracker.get_item, tracker.history, tracker.delete, lambda id: tracker.update_status(id, "done")):
        with pytest.raises(NotFoundError):
            ask(item.id)
    assert {one.title for one in tracker.list_items(archived=True)} == {"waiting", "first", "part"}
    assert tracker.list_items(query="private") == []
    kept = [str(record) for record in tracker.engine.store.scan(Where(kinds={"work_item", "change"}))]
    assert not any("private" in text for text in kept)


def test_two_items_of_one_call_cannot_have_the_same_id(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    with pytest.raises(ValidationError, match="the id 'a' is already in use"):
        tracker.create_work_items([{"id": "a", "title": "one"}, {"id": "a", "title": "two"}])
    assert tracker.list_items() == []


def test_a_test_needs_a_name(tracker: ProgressTracker) -> None:
    item = make(tracker)
    for name in ("", 1):
        with pytest.raises(ValidationError, match="test "):
            tracker.update_item(item.id, test_results={name: True})  # type: ignore[dict-item]
    assert tracker.get_item(item.id).tests == ()


def test_an_empty_search_and_filters_beside_an_id_are_refused(tracker: ProgressTracker) -> None:
    item = make(tracker)
    with pytest.raises(ValidationError, match="query is empty"):
        tracker.list_items(query="")
    with pytest.raises(ValidationError, match="pass item_id to show one item, or filters to list items, not both"):
        tracker.list_items("failed", item_id=item.id)
