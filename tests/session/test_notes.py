from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alma.session import handoff


def test_failing_tests_come_first() -> None:
    assert list(handoff.sort_tests({"a": True, "b": False, "c": True})) == ["b", "a", "c"]


texts = st.lists(st.text(alphabet="abAB .!", min_size=1).filter(str.strip), max_size=30)


@given(texts, texts)
def test_joined_lists_hold_every_text_once(first: list[str], second: list[str]) -> None:
    found = handoff.join_lines(first, second)
    assert handoff.join_lines(found, first, second) == found
    assert set(found) <= {*first, *second}
