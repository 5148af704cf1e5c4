from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ModelOutputError, ValidationError
from alma.models.client import check, problems

RULES = {
    "type": "object",
    "properties": {
        "rules": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "rule": {"type": "string", "maxLength": 10},
                    "reach": {"type": "string", "enum": ["once", "always"]},
                    "why": {"type": ["string", "null"]},
                },
                "required": ["rule", "reach"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["rules"],
}


def test_what_fits_has_no_problems():
    assert problems({"rules": [{"rule": "use pnpm", "reach": "once", "why": None}]}, RULES) == []
    assert problems({"rules": [], "more": 1}, RULES) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "$: must be object, not array"),
        ({}, "$: 'rules' is missing"),
        ({"rules": "x"}, "$.rules: must be array, not string"),
        ({"rules": [{}] * 3}, "$.rules: must have at most 2 items, not 3"),
        ({"rules": [{"rule": 3, "reach": "once"}]}, "$.rules[0].rule: must be string, not integer"),
        ({"rules": [{"rule": "x" * 11, "reach": "once"}]}, "$.rules[0].rule: must have at most 10 characters, not 11"),
        (
            {"rules": [{"rule": "x", "reach": "ever"}]},
            '$.rules[0].reach: must be one of "once", "always"',
        ),
        ({"rules": [{"rule": "x", "reach": "once", "do": 1}]}, "$.rules[0]: has 'do', which was not requested"),
        ({"rules": [{"rule": "x", "reach": "once", "why": 1}]}, "$.rules[0].why: must be string or null, not integer"),
    ],
)
def test_each_problem_is_named_with_its_place(value, problem):
    assert problems(value, RULES) == [problem]


def test_all_problems_are_found_and_the_first_are_told():
    value = {"rules": [{"rule": 1, "reach": 2}, {"rule": 3, "reach": 4, "do": 5}]}
    assert len(problems(value, RULES)) == 5
    with pytest.raises(ModelOutputError, match=r"rules\[0\].rule: .*; and 2 more$"):
        check(value, RULES)


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (True, "integer", False),
        (True, "number", False),
        (True, "boolean", True),
        (1, "boolean", False),
        (1, "number", True),
        (1.0, "integer", True),
        (1.5, "integer", False),
        (None, "null", True),
        ("", "string", True),
    ],
)
def test_types_are_those_of_json(value, kind, fits):
    assert (problems(value, {"type": kind}) == []) is fits


def test_true_is_not_one_among_the_choices():
    assert problems(True, {"enum": [1, 2]})
    assert problems(1, {"enum": [True]})
    assert not problems(1.0, {"enum": [1]})


def test_other_properties_may_have_a_shape():
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert problems({"a": 1}, schema) == []
    assert problems({"a": "x"}, schema) == ["$.a: must be integer, not string"]


def test_a_keyword_that_is_not_checked_is_an_error_not_a_promise():
    with pytest.raises(ValidationError, match="unknown keyword 'maxLenght' in a schema. Did you mean 'maxLength'?"):
        problems("x", {"maxLenght": 3})
    with pytest.raises(ValidationError, match="unknown type 'text' in a schema"):
        problems("x", {"type": "text"})


def test_what_a_model_said_is_not_repeated():
    """It may repeat what people said, and a problem may be logged."""
    value = {"rules": ["my words", {"rule": "my words are long", "reach": "my words", "my words": 1}]}
    found = problems(value, RULES)
    assert len(found) == 4
    assert "my words" not in "".join(found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_nothing_asked_is_always_given_and_any_value_can_be_looked_at(value):
    assert problems(value, {}) == []
    assert isinstance(problems(value, RULES), list)
    assert problems(value, {"enum": [value]}) == []
