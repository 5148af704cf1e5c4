"""A text must not take the place of another that says more. The pairs were split before the first rule was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.reading.losses import can_be_quoted, find_losses

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "losses.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("is_aside", [False, True])
def test_losses_are_found_and_rewordings_pass(is_aside: bool) -> None:
    rows = [row for row in ROWS if row["aside"] is is_aside]
    unnoticed = [row for row in rows if row["is_lost"] and not find_losses(row["kept"], row["dropped"])]
    refused = [row for row in rows if not row["is_lost"] and find_losses(row["kept"], row["dropped"])]
    assert unnoticed == []
    assert len(refused) <= 0.05 * len(rows)


@pytest.mark.parametrize(
    ("kept", "dropped", "losses"),
    [
        ("Retry after 5 minutes", "Retry after 30 s", ["30 s"]),
        ("Retry after 5 minutes", "Never retry after 5 minutes", ["Never retry"]),
        ("Never retry", "Retry", ["Never retry (added)"]),
        ("The window opens at 8 pm", "The window opens at 8 am", ["8 am"]),
        ("The window opens at 8pm", "The window opens at 8 pm", []),
        ("The window opens at 20:00", "The window opens at 8 pm", []),
        ("Wait for 120 seconds", "Wait for 2 minutes", []),
        ("It opens at 2 am", "It opens at 2", []),
        ("Answer within 30 days", "Answer within 30", []),
        ("Ask for the keys of Paylane", "Ask for Paylane's keys", []),
        ("Deploy to production", "Deploy to prod", []),
        ("Use 3 of 5 nodes", "Use 5 of 3 nodes", ["3 nodes"]),
        ("备份在两点运行", "备份不在两点运行", ["a text that is long or in a language that is not read"]),
        ("备份在两点运行", "备份在两点运行。", []),
        ("Write to /var/log/app/errors", "Write to /var/log/app", ["/var/log/app"]),
        ("Write to config.yaml", "Write to `config.yaml`.", []),
        ("Ask O’Brien about Blue-Green", "Ask O'Brien about Blue-Green", []),
        ("The lease ends on 2031-06-30", "The lease ends on 2030-06-30", ["2030-06-30"]),
        ("Jobs run in ap-south-2", "Jobs run in ap-south-1", ["ap-south-1"]),
        ("Dial 202-4411", "Dial 202-4410", ["202-4410"]),
        ("Seat 4-6 people", "Seat 4–8 people", ["4–8"]),
        ("Text is in UTF-8", "Text is in utf-8", []),
        ("Use the model x-4-large", "Use the model x-4-small", ["x-4-small"]),
        ("Keep logs for 90 days", "Logs have a 90-day limit", []),
        ("Due on May 3", "Due on the 3rd of May", []),
        ("They sit in 7C", "They sit in 7B", ["7B"]),
        ("They sit in room 7C", "They sit in room 7", ["7"]),
        ("It takes 2m rows", "It takes 2k rows", ["2k"]),
        ("The proxy speaks HTTPS", "The proxy speaks HTTP", ["HTTP"]),
        ("The proxy speaks HTTP", "The proxy speaks HTTPS", ["HTTPS"]),
        ("The database is fast", "The DB is fast", []),
    ],
)
def test_what_is_lost_is_named(kept: str, dropped: str, losses: list[str]) -> None:
    assert find_losses(kept, dropped) == losses


@pytest.mark.parametrize(
    ("kept", "dropped", "losses"),
    [
        ("They sit in 7C", "They sit in 7B", ["7B"]),
        ("It takes 2m rows", "It takes 2k rows", ["2k"]),
        ("Run 3 replicas", "Run three instances", []),
        ("Ship it if the checks pass", "Ship it unless the checks pass", ["unless"]),
        ("Ship it unless the checks pass", "Ship it if the checks pass", ["unless"]),
        ("Owners may merge", "Only owners may merge", ["Only"]),
        ("Only owners may merge", "Nobody but owners may merge", []),
    ],
)
def test_what_is_lost_is_named_when_a_model_found_them_the_same(kept: str, dropped: str, losses: list[str]) -> None:
    assert find_losses(kept, dropped, is_read=True) == losses


@pytest.mark.parametrize(
    ("text", "other", "is_allowed"),
    [
        ("Reviews take two days", "Reviews by Mia take two days", True),
        ("Keep 2 replicas", "Run two instances in Frankfurt", True),
        ("Announce it in #ops", "Tell #ops about it", True),
        ("Answer within 30 days", "Answer within 30 working days in Paris", True),
        ("Wait for 30 seconds", "Wait for 30 minutes", False),
        ("Deploy from Berlin", "Deploy from Paris", False),
        ("Push with --force", "Push the branch", False),
        ("Never deploy on a Friday", "Deploy on Fridays", False),
        ("Ship it if the checks pass", "Ship it unless the checks pass", False),
        ("Owners may merge", "Only owners may merge", False),
        ("Certificates end in 2030-06", "Certificates end in 2031-06", False),
        ("Without VPN there is no way in", "You get in only with the tunnel up", True),
    ],
)
def test_texts_whose_details_compete_are_not_quoted_together(text: str, other: str, is_allowed: bool) -> None:
    assert can_be_quoted(text, other) is is_allowed
    assert can_be_quoted(other, text) is is_allowed


@given(st.text(st.characters(max_codepoint=0x24F), max_size=80))
def test_nothing_is_lost_when_a_text_stays(text: str) -> None:
    assert find_losses(text, text) == []
    assert find_losses(f"{text}\n\ntoday", text) == []


def test_long_texts_are_read_in_time() -> None:
    for text in ("„ " * 50_000, "not " * 25_000, "`" * 100_000, "-" * 100_000, "A.b/" * 25_000):
        assert find_losses(text, text) == []
