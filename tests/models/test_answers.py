from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ModelOutputError
from alma.models.client import drop_nulls, make_strict, parse_json, problems
from alma.reading.model import load_prompt


@pytest.mark.parametrize("schema", [load_prompt(name)["schema"] for name in ("rules", "tasks", "entities", "gists")])
def test_what_we_ask_for_can_be_demanded(schema):
    assert make_strict(schema) is not None


def everywhere(schema):
    yield schema
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from everywhere(inner)


NAMES = st.sampled_from("abc")


@st.composite
def shapes(draw, depth=2, root=False):
    """A schema with a value that fits it."""
    kind = "object" if root else draw(st.sampled_from(["object", "array", "leaf"] if depth else ["leaf"]))
    if kind == "leaf":
        return draw(
            st.sampled_from(
                [
                    ({"type": "string", "maxLength": 9}, "x"),
                    ({"type": "integer"}, 3),
                    ({"type": "boolean"}, False),
                    ({"type": ["string", "null"]}, None),
                    ({"type": "string", "enum": ["p", "q"]}, "q"),
                    ({"enum": [1, None]}, None),
                ]
            )
        )
    if kind == "array":
        schema, value = draw(shapes(depth - 1))
        return {"type": "array", "items": schema, "maxItems": 3}, [value] * draw(st.integers(0, 3))
    named = draw(st.dictionaries(NAMES, shapes(depth - 1), min_size=1, max_size=3))
    required = [name for name in named if draw(st.booleans())]
    present = {name for name in named if name in required or draw(st.booleans())}
    schema: dict[str, Any] = {"type": "object", "properties": {name: held[0] for name, held in named.items()}}
    schema["required"] = required
    return schema, {name: held[1] for name, held in named.items() if name in present}


def filled(value, schema):
    """As a service that enforces the strict form would answer: null for what is left out."""
    if isinstance(value, list):
        return [filled(item, schema["items"]) for item in value]
    if isinstance(value, dict):
        named = schema["properties"]
        return {name: filled(value[name], named[name]) if name in value else None for name in named}
    return value


@given(shapes(root=True))
def test_what_the_strict_form_lets_through_fits_the_schema_again(shape):
    schema, value = shape
    demanded = make_strict(schema)
    assert demanded is not None
    for one in everywhere(demanded):
        assert "maxLength" not in one
        if one.get("type") == "object" or "properties" in one:
            assert one["required"] == list(one["properties"])
            assert one["additionalProperties"] is False
    assert problems(filled(value, schema), demanded) == []
    assert problems(drop_nulls(filled(value, schema), schema), schema) == []
    assert problems(value, schema) == []


@given(shapes(root=True))
def test_what_was_there_stays_there(shape):
    schema, value = shape
    kept = drop_nulls(value, schema)
    assert problems(kept, schema) == []
    assert kept == value or json.dumps(value).count("null") >= json.dumps(kept).count("null")


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_a_named_error(text):
    with suppress(ModelOutputError):
        json.dumps(parse_json(text))
