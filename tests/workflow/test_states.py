"""A state comes back exactly, or it is refused with a sentence that says why."""

from __future__ import annotations

from collections import namedtuple
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ValidationError
from alma.workflow import states

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
STATES = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


def same(a: object, b: object) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are three states."""
    return repr(a) == repr(b)


@given(STATES)
def test_what_can_be_read_is_the_same_and_another_object(state: dict[str, Any]) -> None:
    read = states.read_state(state)
    assert same(read.value, state)
    assert read.value is not state


@given(STATES, STATES)
def test_the_digest_tells_states_apart_and_nothing_else(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert states.read_state(a).digest == states.read_state(dict(reversed(a.items()))).digest
    assert (states.read_state(a).digest == states.read_state(b).digest) == (
        states.to_canonical_json(a) == states.to_canonical_json(b)
    )


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), (0, False), ("1", 1), ([], {}), (None, "null")])
def test_values_of_two_types_have_two_digests(a: object, b: object) -> None:
    assert states.read_state({"x": a}).digest != states.read_state({"x": b}).digest


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ([1], "must be a JSON object, not a list"),
        (None, "must be a JSON object, not null"),
        ({"a": {"b": (1, 2)}}, r"state\.a\.b is a tuple"),
        ({"a": [{1: 2}]}, r"state\.a\[0\] has the key 1"),
        ({"a": float("nan")}, r"state\.a is nan"),
        ({"a": float("-inf")}, r"state\.a is -inf"),
        ({"a": b"x"}, r"state\.a is a bytes"),
        ({"a": {1, 2}}, r"state\.a is a set"),
        ({"a": datetime.now(UTC)}, r"state\.a is a datetime"),
        ({"a": "\ud800"}, "JSON"),
        ({"a": 10**5000}, "JSON"),
        ({"a": namedtuple("Pair", "x y")(1, 2)}, r"state\.a is a Pair"),
    ],
)
def test_what_would_not_come_back_is_refused(state: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        states.read_state(state)


def test_a_state_that_holds_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["self"] = state
    with pytest.raises(ValidationError, match="nested more than 100 levels"):
        states.read_state(state)


def test_too_large_names_the_size_and_the_limit() -> None:
    with pytest.raises(ValidationError, match=r"has 2,008 bytes .* at most 1,000.* artifacts"):
        states.read_state({"a": "é" * 1000}, 1000)
    assert states.read_state({"a": "x" * 92}, 100).size == 100


def test_differences_say_where_and_never_what() -> None:
    before = {"a": {"token": "t0ps3cret"}, "b": ["x", "y"], "k3y": 1}
    after = {"a": {"token": "-"}, "b": ["x", "-"], "-": 1}
    places = states.find_redacted(before, after)
    assert places == ["state.a.token", "state.b[1]", "state.-"]
    assert "t0ps3cret" not in str(states.refuse_secrets(places))
