from __future__ import annotations

import pytest

from alma import ALMA
from alma.errors import ValidationError
from alma.progress import ProgressTracker


@pytest.fixture
def tracker(alma: ALMA) -> ProgressTracker:
    return ProgressTracker(alma=alma)


def order(tracker: ProgressTracker, strategy: str) -> list[str]:
    titles = []
    while item := tracker.get_next_item(strategy=strategy):
        titles.append(item.title)
        tracker.update_status(item.id, "done")
    return titles


def test_by_priority_then_age(tracker: ProgressTracker) -> None:
    tracker.create_work_items(
        [{"title": "b", "priority": 5}, {"title": "a", "priority": 9}, {"title": "c", "priority": 5}]
    )
    assert order(tracker, "priority") == ["a", "b", "c"]


def test_first_in_first_out(tracker: ProgressTracker) -> None:
    tracker.create_work_items([{"title": "b", "priority": 5}, {"title": "a", "priority": 9}])
    assert order(tracker, "fifo") == ["b", "a"]


def test_what_frees_most_counts_those_who_wait_for_those_who_wait(tracker: ProgressTracker) -> None:
    tracker.create_work_items(
        [
            {"id": "two", "title": "frees two", "priority": 90},
            {"title": "x", "blocked_by": ["two"]},
            {"title": "y", "blocked_by": ["two"]},
            {"id": "three", "title": "frees three", "priority": 1},
            {"id": "p", "title": "p", "blocked_by": ["three"]},
            {"id": "q", "title": "q", "blocked_by": ["p"]},
            {"title": "r", "blocked_by": ["q", "p"]},
            {"title": "frees none", "priority": 99},
        ]
    )
    assert tracker.get_next_item(strategy="blocked_unblock").title == "frees three"
    assert tracker.get_next_item(strategy="priority").title == "frees none"
    tracker.update_status("three", "done")
    assert tracker.get_next_item(strategy="blocked_unblock").title == "frees two"


def test_quick_wins_go_by_estimate_and_by_what_others_took(tracker: ProgressTracker, clock) -> None:
    bug = tracker.create_work_item(title="an earlier bug", item_type="bug")
    tracker.update_status(bug.id, "in_progress")
    clock.pass_days(10 / 1440)
    tracker.update_status(bug.id, "done")
    tracker.create_work_items(
        [
            {"title": "nobody knows", "priority": 99},
            {"title": "an hour", "estimate_minutes": 60},
            {"title": "a bug", "item_type": "bug"},
            {"title": "a minute", "estimate_minutes": 1, "priority": 0},
        ]
    )
    assert order(tracker, "quick_win") == ["a minute", "a bug", "an hour", "nobody knows"]


def test_a_whole_comes_after_its_parts(tracker: ProgressTracker) -> None:
    whole = tracker.create_work_item(title="whole", priority=99)
    tracker.create_work_item(title="part", parent_id=whole.id, priority=1)
    assert order(tracker, "priority") == ["part", "whole"]


def test_nothing_that_is_under_way_held_or_over_is_suggested(tracker: ProgressTracker) -> None:
    for status in ("in_progress", "blocked", "review", "done", "failed"):
        tracker.update_status(tracker.create_work_item(title=status).id, status)
    assert tracker.get_next_item() is None


def test_an_unknown_strategy_names_the_valid_ones(tracker: ProgressTracker) -> None:
    with pytest.raises(ValidationError, match="priority, blocked_unblock, quick_win, fifo"):
        tracker.get_next_item(strategy="random")
