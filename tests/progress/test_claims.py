from __future__ import annotations

import threading
from pathlib import Path

import pytest

from alma import ALMA
from alma.errors import ValidationError
from alma.progress import ProgressTracker
from benchmarks import claims

pytestmark = pytest.mark.system


@pytest.fixture
def tracker(alma: ALMA) -> ProgressTracker:
    return ProgressTracker(alma=alma)


@pytest.mark.parametrize("finish", [False, True])
def test_processes_never_get_the_same_item(tmp_path: Path, finish: bool) -> None:
    """The full size is `python -m benchmarks.claims`."""
    found = claims.run(tmp_path, processes=4, items=40, strategy="priority", finish=finish)
    assert found.holds, found


def test_threads_never_get_the_same_item(tracker: ProgressTracker) -> None:
    tracker.create_work_items({"title": str(number)} for number in range(40))
    got: list[str] = []

    def work(name: str) -> None:
        # The clock of these tests goes on by a second whenever it is read; no lease is to run out meanwhile.
        while item := tracker.claim_next(name, lease_seconds=1_000_000):
            got.append(item.id)

    workers = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(got) == len(set(got)) == 40


def test_to_claim_is_to_begin(tracker: ProgressTracker) -> None:
    low = tracker.create_work_item(title="low", priority=1)
    high = tracker.create_work_item(title="high", priority=2)
    got = tracker.get_next_item(agent="Victor", claim=True)
    assert got is not None
    assert (got.id, got.status, got.claimed_by, got.attempt_count) == (high.id, "in_progress", "Victor", 1)
    assert tracker.get_next_item(agent="Helena").id == low.id
    assert tracker.claim_next("Helena").id == low.id
    assert tracker.claim_next("Helena") is None
    assert tracker.update_status(high.id, "in_progress", by="Victor").attempt_count == 1


def test_nothing_is_claimed_for_nobody(tracker: ProgressTracker) -> None:
    with pytest.raises(ValidationError, match="`claim` needs an agent"):
        tracker.get_next_item(claim=True)
    with pytest.raises(ValidationError, match="lease_seconds"):
        tracker.claim_next("Victor", 0)


def test_another_agents_items_are_not_taken(tracker: ProgressTracker) -> None:
    tracker.create_work_item(title="hers", agent="Helena", priority=99)
    anybodys = tracker.create_work_item(title="anybody's")
    assert tracker.claim_next("Victor").id == anybodys.id
    assert tracker.claim_next("Victor") is None


def test_a_lease_that_ran_out_frees_the_item(tracker: ProgressTracker, clock) -> None:
    item = tracker.create_work_item(title="long")
    tracker.claim_next("Victor", lease_seconds=600)
    assert tracker.get_next_item() is None
    clock.pass_days(1)
    assert tracker.get_next_item().id == item.id
    taken = tracker.claim_next("Helena")
    assert (taken.id, taken.claimed_by, taken.attempt_count) == (item.id, "Helena", 2)
    # Victor is taken to have worked until his lease ended, and not for the whole day.
    assert 590_000 < taken.time_spent_ms <= 600_000
    with pytest.raises(ValidationError, match="claimed by 'Helena'"):
        tracker.update_status(item.id, "done", by="Victor")
    assert tracker.update_status(item.id, "done", by="Helena").claimed_by is None


def test_who_was_slow_but_alone_may_finish(tracker: ProgressTracker, clock) -> None:
    item = tracker.create_work_item(title="long")
    tracker.claim_next("Victor", lease_seconds=60)
    clock.pass_days(1)
    done = tracker.update_status(item.id, "done", by="Victor")
    assert done.status == "done"
    assert done.time_spent_ms > 86_000_000


def test_a_claim_is_renewed_and_released(tracker: ProgressTracker, clock) -> None:
    item = tracker.create_work_item(title="long")
    first = tracker.claim_next("Victor", 600)
    clock.pass_days(0.005)
    later = tracker.renew(item.id, "Victor", 600)
    assert later.claimed_until > first.claimed_until
    assert tracker.claim(item.id, "Victor", 1200).attempt_count == 1
    for other in (tracker.renew, tracker.release, tracker.claim):
        with pytest.raises(ValidationError, match="claimed"):
            other(item.id, "Helena")
    back = tracker.release(item.id, "Victor", "too hard")
    assert (back.status, back.claimed_by, back.claimed_until) == ("pending", None, None)
    assert tracker.history(item.id)[-1].why == "too hard"


def test_a_chosen_item_is_claimed(tracker: ProgressTracker) -> None:
    blocker = tracker.create_work_item(title="first")
    item = tracker.create_work_item(title="then", blocked_by=[blocker.id])
    with pytest.raises(ValidationError, match="waits for"):
        tracker.claim(item.id, "Victor")
    assert tracker.claim(blocker.id, "Victor").claimed_by == "Victor"
    begun = tracker.create_work_item(title="by hand")
    tracker.update_status(begun.id, "in_progress")
    with pytest.raises(ValidationError, match="already in_progress"):
        tracker.claim(begun.id, "Victor")
    tracker.update_status(begun.id, "done")
    with pytest.raises(ValidationError, match="is already done; set it to pending"):
        tracker.claim(begun.id, "Victor")


def test_being_blocked_ends_a_claim(tracker: ProgressTracker) -> None:
    item, blocker = tracker.create_work_item(title="a"), tracker.create_work_item(title="b")
    tracker.claim(item.id, "Victor")
    blocked = tracker.update_item(item.id, blocked_by=[blocker.id])
    assert (blocked.status, blocked.claimed_by) == ("blocked", None)
