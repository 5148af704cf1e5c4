"""A text must not take the place of another that says more. The pairs were split before the first rule was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.reading.losses import find_losses

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
        ("Use 3 of 5 nodes", "Use 5 of 3 nodes", ["3 nodes"]),
        ("备份在两点运行", "备份不在两点运行", ["a text that is long or in a language that is not read"]),
        ("备份在两点运行", "备份在两点运行。", []),
        ("Write to /var/log/app/errors", "Write to /var/log/app", ["/var/log/app"]),
        ("Write to config.yaml", "Write to `config.yaml`.", []),
        ("Ask O’Brien about Blue-Green", "Ask O'Brien about Blue-Green", []),
    ],
)
def test_what_is_lost_is_named(kept: str, dropped: str, losses: list[str]) -> None:
    assert find_losses(kept, dropped) == losses


@given(st.text(st.characters(max_codepoint=0x24F), max_size=80))
def test_nothing_is_lost_when_a_text_stays(text: str) -> None:
    assert find_losses(text, text) == []
    assert find_losses(f"{text}\n\ntoday", text) == []


def test_long_texts_are_read_in_time() -> None:
    for text in ("„ " * 50_000, "not " * 25_000, "`" * 100_000, "-" * 100_000, "A.b/" * 25_000):
        assert find_losses(text, text) == []
