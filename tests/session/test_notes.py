from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from alma.session import notes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_others_depend_on_weighs_more_than_what_may_change() -> None:
    heavy = notes.weigh("Use Postgres instead of MySQL because the schema needs JSON")
    assert heavy > notes.weigh("Use Postgres") > notes.weigh("Maybe use Postgres for now")


def test_a_decision_taken_again_counts_more() -> None:
    first = notes.read_decisions(["Use tabs", "Use Postgres"], NOW)
    again = notes.merge_decisions(first, notes.read_decisions(["use tabs."], NOW))
    assert [one["what"] for one in again] == ["use tabs.", "Use Postgres"]


def test_failing_tests_come_first() -> None:
    assert list(notes.sort_tests({"a": True, "b": False, "c": True})) == ["b", "a", "c"]


texts = st.lists(st.text(alphabet="abAB .!", min_size=1).filter(str.strip), max_size=30)


@given(texts, texts)
def test_joined_lists_hold_every_text_once(first: list[str], second: list[str]) -> None:
    found = notes.join_lines(first, second)
    assert notes.join_lines(found, first, second) == found
    assert set(found) <= {*first, *second}
    assert notes.remove_lines(found, found) == []


@given(st.text())
def test_a_weight_lies_between_nothing_and_everything(text: str) -> None:
    assert 0.0 <= notes.weigh(text) <= 1.0
