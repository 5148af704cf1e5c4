from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alma.session import handoff


def test_what_others_depend_on_weighs_more_than_what_may_change() -> None:
    heavy = handoff.weigh_decision("Use Postgres instead of MySQL because the schema needs JSON")
    assert heavy > handoff.weigh_decision("Use Postgres") > handoff.weigh_decision("Maybe use Postgres for now")


def test_a_decision_taken_again_counts_more() -> None:
    first, fresh = (
        [{**one, "at": "2026-01-01"} for one in handoff.read_decisions("decisions", texts)]
        for texts in (["Use tabs", "Use Postgres"], ["use tabs."])
    )
    again = handoff.merge_decisions(first, fresh)
    assert [one["what"] for one in again] == ["use tabs.", "Use Postgres"]


def test_failing_tests_come_first() -> None:
    assert list(handoff.sort_tests({"a": True, "b": False, "c": True})) == ["b", "a", "c"]


texts = st.lists(st.text(alphabet="abAB .!", min_size=1).filter(str.strip), max_size=30)


@given(texts, texts)
def test_joined_lists_hold_every_text_once(first: list[str], second: list[str]) -> None:
    found = handoff.join_lines(first, second)
    assert handoff.join_lines(found, first, second) == found
    assert set(found) <= {*first, *second}


@given(st.text())
def test_a_weight_lies_between_nothing_and_everything(text: str) -> None:
    assert 0.0 <= handoff.weigh_decision(text) <= 1.0
