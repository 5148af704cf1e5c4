"""Preferences: the newest of a category first, each dated, and replaced only by an explicit key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from alma import ALMA
from alma.stores.memory import MemoryStore
from alma.testing import FakeEmbedder, FrozenClock

START = datetime(2026, 3, 1, tzinfo=UTC)
CONTRADICTIONS = [
    ("Indent with tabs", "Indent with spaces"),
    ("Answer in English", "Answer in German"),
    ("Keep answers short", "Give long, detailed answers"),
    ("Use a dark theme", "Use a light theme"),
    ("Call me Ana", "Call me Dr. Lopez"),
    ("Never add emojis", "Emojis are welcome"),
]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
def alma(clock: FrozenClock) -> Iterator[ALMA]:
    with ALMA(MemoryStore(), FakeEmbedder(), clock=clock) as opened:
        yield opened


def shown(alma: ALMA, task: str = "Write a function") -> list[str]:
    return [one.preference for one in alma.retrieve(task, "dev", user_id="ana").preferences]


@pytest.mark.parametrize("task", ["Write a function", "Indent with tabs", "Answer in English, keep answers short"])
@pytest.mark.parametrize(("old", "new"), CONTRADICTIONS)
def test_the_newest_of_a_category_comes_first(alma: ALMA, clock: FrozenClock, old: str, new: str, task: str) -> None:
    alma.add_user_preference("ana", "style", old)
    clock.advance(days=1)
    alma.add_user_preference("ana", "other", "Something else about style")
    alma.add_user_preference("ana", "style", new)
    order = shown(alma, task)
    assert set(order) == {old, new, "Something else about style"}, "nothing is lost"
    assert order.index(new) < order.index(old)
    prompt = alma.retrieve(task, "dev", user_id="ana").to_prompt()
    assert f"{new} (2026-03-02)" in prompt
    assert f"{old} (2026-03-01" in prompt


def test_one_that_is_stated_again_is_the_newest(alma: ALMA, clock: FrozenClock) -> None:
    for preference in ("Indent with tabs", "Indent with spaces", "Indent with tabs"):
        alma.add_user_preference("ana", "style", preference)
        clock.advance(days=1)
    assert shown(alma) == ["Indent with tabs", "Indent with spaces"]
    assert "Indent with tabs (2026-03-03)" in alma.retrieve("Write", "dev", user_id="ana").to_prompt()


def test_an_attribute_replaces_its_predecessor_and_nothing_else(alma: ALMA) -> None:
    old = alma.add_user_preference("ana", "code_style", "Indent with tabs", attribute="indentation")
    alma.add_user_preference("ana", "code_style", "Prefer single quotes", attribute="quotes")
    alma.add_user_preference("ana", "code_style", "Write short functions")
    alma.add_user_preference("ben", "code_style", "Indent with 8 spaces", attribute="indentation")
    alma.add_user_preference("ana", "prose_style", "Indent each paragraph", attribute="indentation")
    new = alma.add_user_preference("ana", "code_style", "Indent with 4 spaces", attribute="indentation")
    assert new.attribute == "indentation"
    assert alma.get(old.id).status == "superseded"
    assert alma.history(old.id)[-1]["verb"] == "superseded"
    assert sorted(shown(alma)) == [
        "Indent each paragraph",
        "Indent with 4 spaces",
        "Prefer single quotes",
        "Write short functions",
    ]
    assert len(alma.list("user_preference", user_id="ben")) == 1


def test_the_same_value_may_be_given_to_two_attributes(alma: ALMA) -> None:
    for attribute in ("dark_mode", "compact_mode"):
        alma.add_user_preference("ana", "ui", "Yes", attribute=attribute)
    assert shown(alma) == ["Yes", "Yes"]
    alma.add_user_preference("ana", "ui", "No", attribute="dark_mode")
    assert sorted(shown(alma)) == ["No", "Yes"]
