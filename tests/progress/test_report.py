from __future__ import annotations

import pytest

from alma import ALMA
from alma.engine.transaction import write
from alma.errors import NotFoundError, ValidationError
from alma.progress import ProgressTracker
from alma.types import times


@pytest.fixture
def tracker(alma: ALMA) -> ProgressTracker:
    return ProgressTracker(alma=alma)


def test_a_summary_counts_every_item_once(tracker: ProgressTracker) -> None:
    for status in ("pending", "in_progress", "blocked", "review", "done", "done", "failed"):
        tracker.update_status(tracker.create_work_item(title=status, agent="Victor").id, status)
    tracker.create_work_item(title="hers", agent="Helena")
    found = tracker.get_progress_summary()
    assert found.items_total == sum(found.by_status.values()) == 8
    assert (found.items_done, found.items_in_progress, found.items_blocked) == (2, 1, 1)
    assert [found.by_status[one] for one in ("pending", "review", "failed")] == [2, 1, 1]
    assert found.completion_percentage == 25.0
    assert [item.title for item in found.current] == ["in_progress"]
    assert [item.title for item in found.blocked] == ["blocked"]
    hers = tracker.get_progress_summary(agent="Helena")
    assert (hers.items_total, hers.completion_percentage) == (1, 0.0)


def test_a_summary_of_nothing(tracker: ProgressTracker) -> None:
    found = tracker.get_progress_summary()
    assert (found.items_total, found.completion_percentage, found.current) == (0, 0.0, ())


def test_a_log_counts_what_the_session_did(tracker: ProgressTracker, alma: ALMA) -> None:
    before = tracker.create_work_item(title="before")
    tracker.update_status(before.id, "done", by="Victor")
    first = tracker.log_session_progress(agent="Victor", session_id="s1", current_action="starts")
    assert (first.actions_taken, first.outcomes_recorded, first.items_done) == (0, 0, 1)
    item = tracker.create_work_item(title="now", agent="Victor")
    tracker.update_status(item.id, "in_progress", by="Victor")
    tracker.update_item(item.id, priority=3, by="Helena")
    alma.learn("Victor", "now", "success", "Do it")
    second = tracker.log_session_progress(agent="Victor", session_id="s1")
    assert second.session_start == first.session_start
    assert (second.actions_taken, second.outcomes_recorded) == (1, 1)
    assert (second.items_total, second.items_in_progress, second.current_item_id) == (2, 1, item.id)
    assert tracker.get_progress_logs(session_id="s1") == [second, first]
    assert tracker.get_progress_logs(agent="Helena") == []


def test_a_log_begins_when_its_session_did(tracker: ProgressTracker, alma: ALMA, clock) -> None:
    begun = clock()
    body = {"goal": "", "started_at": times.to_iso(begun)}
    session = write(alma.engine, lambda tx: tx.add("session", body, agent="Victor"))
    clock.pass_days(1)
    assert tracker.log_session_progress(agent="Victor", session_id=session.id).session_start == begun


def test_a_log_of_an_unknown_session_names_those_there_are(tracker: ProgressTracker, alma: ALMA) -> None:
    body = {"goal": "", "started_at": times.to_iso(times.now()), "state": "open"}
    session = write(alma.engine, lambda tx: tx.add("session", body, agent="Victor"))
    theirs = write(alma.engine, lambda tx: tx.add("session", body, agent="Helena"))
    for unknown in ("ses_typo", theirs.id):
        with pytest.raises(NotFoundError, match=rf"no session '{unknown}'.*latest sessions: {session.id} \(open\)"):
            tracker.log_session_progress(agent="Victor", session_id=unknown)
    assert tracker.get_progress_logs() == []
    assert tracker.log_session_progress(agent="Victor", session_id=session.id).session_id == session.id


def test_a_log_needs_an_agent_and_a_session(tracker: ProgressTracker) -> None:
    with pytest.raises(ValidationError, match="pass `agent` and session_id"):
        tracker.log_session_progress("Victor", "s")
    with pytest.raises(NotFoundError):
        tracker.log_session_progress(agent="Victor", session_id="s", current_item_id="wrk_no")
