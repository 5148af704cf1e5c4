"""What holds whatever is done to the items, and whoever does it at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.errors import NotFoundError, ValidationError
from alma.progress import ProgressTracker, Status, WorkItem
from alma.progress.items import AHEAD, TRANSITIONS
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.system

NAMES = "abcd"


def check(items: list[WorkItem]) -> None:
    by_id = {item.id: item for item in items}
    for item in items:
        assert set(item.blocks) == {other.id for other in items if item.id in other.blocked_by}
        assert set(item.waiting_for) == {id for id in item.blocked_by if by_id[id].status is not Status.DONE}
        assert not (item.waiting_for and item.status in AHEAD), "waits and goes on"
        assert item.parent_id is None or item.parent_id in by_id
        assert (item.completed_at is not None) == (item.status is Status.DONE)
        assert (item.claimed_by is None) or item.status is Status.IN_PROGRESS
    assert not circles(by_id)


def circles(by_id: dict[str, WorkItem]) -> bool:
    waits = {id: {*item.blocked_by, *(o.id for o in by_id.values() if o.parent_id == id)} for id, item in by_id.items()}
    while waits:
        ready = {id for id, others in waits.items() if not others & waits.keys()}
        if not ready:
            return True
        waits = {id: others for id, others in waits.items() if id not in ready}
    return False


name = st.sampled_from(NAMES)
action = st.one_of(
    st.tuples(st.just("update_status"), name, st.sampled_from(list(Status))),
    st.tuples(st.just("block"), name, name),
    st.tuples(st.just("unblock"), name, name),
    st.tuples(st.just("claim"), name, st.sampled_from(["v", "h"])),
    st.tuples(st.just("delete"), name),
    st.tuples(st.just("archive"), name),
    st.tuples(st.just("restore"), name),
    st.tuples(st.just("parent"), name, name),
    st.tuples(st.just("create"), name, name),
)


def act(tracker: ProgressTracker, what: str, *given: str) -> None:
    calls: dict[str, Callable[..., object]] = {
        "parent": lambda one, other: tracker.update_item(one, parent_id=other),
        "block": lambda one, other: tracker.update_item(one, blocked_by=[other]),
        "unblock": lambda one, other: tracker.update_item(one, unblocked_by=[other]),
        "archive": lambda one: tracker.update_item(one, archived=True),
        "restore": lambda one: tracker.update_item(one, archived=False),
        # A deleted id is not given out again.
        "create": lambda one, other: tracker.create_work_item(title=one, blocked_by=[other], parent_id=one),
    }
    calls.get(what, getattr(tracker, what, None))(*given)


@settings(max_examples=50, deadline=None)
@given(st.lists(action, max_size=25))
def test_the_plan_stays_sound(actions: list[tuple[str, ...]]) -> None:
    with ALMA(MemoryStore(), project_id="p") as alma:
        tracker = ProgressTracker(alma=alma)
        tracker.create_work_items({"id": one, "title": one} for one in NAMES)
        for what, *given in actions:
            before = tracker.list_items(archived=True)
            try:
                act(tracker, what, *given)
            except (ValidationError, NotFoundError):
                assert tracker.list_items(archived=True) == before, "refused and changed"
            check(tracker.list_items(archived=True))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(name, name), max_size=8), st.sampled_from(["priority", "blocked_unblock", "fifo"]))
def test_whoever_takes_one_after_the_other_finishes_all(edges: list[tuple[str, str]], strategy: str) -> None:
    with ALMA(MemoryStore(), project_id="p") as alma:
        tracker = ProgressTracker(alma=alma)
        tracker.create_work_items({"id": one, "title": one} for one in NAMES)
        for at, (one, other) in enumerate(edges):
            try:
                act(tracker, "parent" if at % 3 == 2 else "block", one, other)
            except ValidationError:
                continue
        done = []
        while item := tracker.claim_next("v", strategy=strategy):
            tracker.update_status(item.id, "done")
            done.append(item.id)
        assert sorted(done) == list(NAMES)


def test_the_table_of_moves_is_the_one_that_holds(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    for before in Status:
        for after in Status:
            item = tracker.create_work_item(title=f"{before} {after}")
            tracker.update_status(item.id, before)
            if after is before or after in TRANSITIONS[before]:
                assert tracker.update_status(item.id, after).status is after
            else:
                with pytest.raises(ValidationError):
                    tracker.update_status(item.id, after)


def test_the_table_in_the_words_is_the_table() -> None:
    from alma.progress import items

    rows = [line.split("|")[1:3] for line in str(items.__doc__).splitlines() if line.startswith("| ")][1:]
    told = {Status(row[0].strip()): tuple(Status(one.strip()) for one in row[1].split(",")) for row in rows}
    assert told == {name: tuple(moves) for name, moves in TRANSITIONS.items()}


COMMON = """
import sys
from alma import ALMA
from alma.errors import ValidationError
from alma.progress import ProgressTracker
from alma.stores.sqlite import SQLiteStore
tracker = ProgressTracker(alma=ALMA(SQLiteStore(sys.argv[1]), project_id="p"))
print("ready", flush=True)
sys.stdin.readline()
"""


def at_once(path: Path, scripts: list[str]) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COMMON + script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for script in scripts
    ]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


def test_blockers_that_are_finished_at_once_free_what_waited_for_all(tmp_path: Path) -> None:
    """Each sees the other still open; if both believed that, nobody would free it."""
    path = tmp_path / "alma.db"
    with ALMA(SQLiteStore(path), project_id="p") as alma:
        tracker = ProgressTracker(alma=alma)
        for turn in range(20):
            made = tracker.create_work_items({"id": f"{one}{turn}", "title": one} for one in "abc")
            tracker.create_work_item(title=f"later {turn}", blocked_by=[item.id for item in made])
        finish = "for turn in range(20):\n    tracker.update_status(f'{one}{turn}', 'done')\n"
        at_once(path, [f"one = {one!r}\n{finish}" for one in "abc"])
        assert tracker.get_progress_summary().items_blocked == 0
        check(tracker.list_items())


def test_two_halves_of_a_circle_are_not_made_at_once(tmp_path: Path) -> None:
    """Each half is right by itself, and they touch no common item."""
    path = tmp_path / "alma.db"
    with ALMA(SQLiteStore(path), project_id="p") as alma:
        tracker = ProgressTracker(alma=alma)
        for turn in range(20):
            tracker.create_work_items({"id": f"{one}{turn}", "title": one} for one in NAMES)
            tracker.update_item(f"b{turn}", blocked_by=[f"c{turn}"])
            tracker.update_item(f"d{turn}", blocked_by=[f"a{turn}"])
        halves = [("a", "b"), ("c", "d")]
        link = """
for turn in range(20):
    try:
        tracker.update_item(f"{one}{turn}", blocked_by=[f"{other}{turn}"])
    except ValidationError:
        pass
"""
        at_once(path, [f"one, other = {one!r}, {other!r}\n{link}" for one, other in halves])
        items = tracker.list_items()
        check(items)
        assert sum(len(item.blocked_by) for item in items) == 60
