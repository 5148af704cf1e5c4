"""States of branches become one, key by key; what does not fit changes nothing."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ValidationError
from alma.workflow import REDUCERS, merge_states, states

NUMBERS = st.integers(-5, 5) | st.floats(-1e300, 1e300) | st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0])
VALUES = {
    "sum": NUMBERS,
    "max": NUMBERS,
    "min": NUMBERS,
    "union": st.lists(st.integers(-3, 3) | st.booleans() | st.floats(-2, 2) | st.text("ab", max_size=2) | st.none()),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_commutative_reducer_does_not_care_about_the_order_of_branches(name: str) -> None:
    @given(st.lists(VALUES[name], min_size=1, max_size=4))
    def check(values: list[Any]) -> None:
        merged = {
            states.to_canonical_json(merge_states([{"x": value} for value in order], {"x": name}))
            for order in itertools.permutations(values)
        }
        assert len(merged) == 1

    check()


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=4))
def test_max_and_min_of_texts_do_not_care_either(values: list[str]) -> None:
    merged = merge_states([{"a": value, "b": value} for value in values], {"a": "max", "b": "min"})
    assert merged == {"a": max(values), "b": min(values)}


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3)), min_size=1, max_size=4))
def test_equal_branches_merge_to_what_they_are_whatever_the_default(branches: list[dict[str, int]]) -> None:
    one = branches[0]
    for default in (None, "last", "first", "max", "min"):
        assert merge_states([one, one, one], default=default) == one


@given(
    st.dictionaries(st.sampled_from("vwxyz"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("vw"), st.integers(4, 6)),
    st.dictionaries(st.sampled_from("xyz"), st.integers(4, 6)),
)
def test_branches_that_change_other_keys_never_conflict(
    base: dict[str, int], left: dict[str, int], right: dict[str, int]
) -> None:
    assert merge_states([base | left, base | right], base=base) == base | left | right


@pytest.mark.parametrize(
    ("name", "values", "merged"),
    [
        ("append", [1, [2], "x"], [1, [2], "x"]),
        ("extend", [[1, 2], [2, 3], []], [1, 2, 2, 3]),
        ("union", [[10, 2], [2, "b"], ["a", True, 1]], [1, 2, 10, "a", "b", True]),
        ("sum", [1, 2, 3], 6),
        ("sum", [0.1, 0.2, 0.3], 0.6),
        ("sum", [1e16, 1.0, -1e16], 1.0),
        ("sum", [2**70, 1], 2**70 + 1),
        ("max", [1, 3.5, 2], 3.5),
        ("min", ["b", "a"], "a"),
        ("min", [True, False], False),
        ("last", [1, None], None),
        ("first", [1, 2], 1),
        ("merge_dict", [{"a": 1, "n": {"x": 1}}, {"n": {"y": 2}}, {"a": 3}], {"a": 3, "n": {"x": 1, "y": 2}}),
        (len, [[1], [2], [3]], 3),
        (any, [False, True], True),
        (lambda values: sorted(values)[len(values) // 2], [5, 1, 3], 3),
    ],
)  # fmt: skip
def test_reducers(name: Any, values: list[Any], merged: object) -> None:
    found = merge_states([{"x": value} for value in values], {"x": name})
    assert found == {"x": merged}
    assert type(found["x"]) is type(merged)


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        (
            "sum",
            [1, "2"],
            r"the reducer of key 'x' does not fit its values: .* value is \"2\" \(text\); nothing was merged",
        ),
        ("sum", [1, True], r"value is true \(boolean\)"),
        ("sum", [1.7e308, 1.7e308], "does not fit"),
        ("extend", [[1], 2], "expected list, but one value is 2"),
        ("union", [None, [1]], "expected list, but one value is null"),
        ("max", [1, "2"], r"1 \(number\) and \"2\" \(text\) cannot be compared"),
        ("merge_dict", [{"a": 1}, [1]], "expected object"),
    ],
)
def test_a_reducer_that_does_not_fit_says_so(name: str, values: list[Any], told: str) -> None:
    given = [{"x": value, "kept": [1]} for value in values]
    before = copy.deepcopy(given)
    with pytest.raises(ValidationError, match=told):
        merge_states(given, {"x": name})
    assert given == before


def test_an_unknown_reducer_names_the_valid_ones() -> None:
    with pytest.raises(
        ValidationError, match=r"unknown reducer 'apend' for key 'x'. Did you mean 'append'\? Valid: append"
    ):
        merge_states([{"x": 1}], {"x": "apend"})
    with pytest.raises(ValidationError, match="unknown default reducer"):
        merge_states([{"x": 1}], default="sume")
    with pytest.raises(ValidationError, match="reducers must be an object"):
        merge_states([{"x": 1}], ["sum"])  # type: ignore[arg-type]


def test_a_contested_key_without_a_reducer_is_named_and_nothing_is_dropped() -> None:
    with pytest.raises(
        ValidationError, match=r"'x' is 1 \(number\) in branch 'a' and 2 \(number\) in branch 'b'.*merge_dict"
    ):
        merge_states({"a": {"x": 1}, "b": {"x": 2}})
    assert merge_states({"a": {"x": 1}, "b": {"x": 2}}, default="last") == {"x": 2}
    assert merge_states({"a": {"x": 1}, "b": {"y": 2}}) == {"x": 1, "y": 2}


def test_from_a_common_beginning_only_changes_count() -> None:
    base = {"kept": 1, "left": 1, "gone": 1, "both": 1}
    merged = merge_states([{"kept": 1, "left": 2, "both": 5}, {"kept": 1, "left": 1, "gone": 1, "both": 5}], base=base)
    assert merged == {"kept": 1, "left": 2, "both": 5}
    with pytest.raises(ValidationError, match=r"'gone' is removed in state 1 and 2 \(number\)"):
        merge_states([{}, {"gone": 2}], base={"gone": 1})


def test_the_result_shares_nothing_with_what_was_given() -> None:
    inner = [1]
    merged = merge_states([{"x": inner}], {"x": "last"})
    inner.append(2)
    assert merged == {"x": [1]}


def test_what_a_function_returns_must_be_json() -> None:
    with pytest.raises(ValidationError, match=r"state\.x is a set"):
        merge_states([{"x": 1}], {"x": set})


@pytest.mark.parametrize("given", [[], {}, "ab", 3])
def test_no_states_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match="states"):
        merge_states(given)


def test_the_reducers_are_those_that_are_documented() -> None:
    assert set(REDUCERS) == {"append", "extend", "union", "sum", "max", "min", "last", "first", "merge_dict"}
