"""Changes in a JSON text: only what is meant changes, and taking it back leaves every byte as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ConfigError
from alma.jsonc import append, drop, load, put

pytestmark = pytest.mark.system

KEYS = st.sampled_from(["a", "b", "enabledPlugins", 'é"x'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text('a{}[],:"\\\n é', max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
PATHS = st.lists(st.sampled_from(["a", "b", "enabledPlugins", "new"]), min_size=1, max_size=2)


@st.composite
def written(draw: st.DrawFn) -> str:
    """An object as somebody may have written it."""
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    indent = draw(st.sampled_from([None, 2, 4, "\t"]))
    separators = None if indent is not None else draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False) + draw(
        st.sampled_from(["", "\n"])
    )
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def inner(value: dict[str, Any], path: Sequence[str]) -> dict[str, Any] | None:
    """The object that the last key of a path belongs in; None when something else is in the way."""
    for key in path[:-1]:
        found = value.setdefault(key, {})
        if not isinstance(found, dict):
            return None
        value = found
    return value


@given(written(), PATHS, VALUES)
def test_a_value_is_put_where_it_belongs_and_dropped_without_a_trace(text: str, path: list[str], value: Any) -> None:
    before, wanted = json.loads(text), json.loads(text)
    home = inner(wanted, path)
    if home is None:
        with pytest.raises(ConfigError, match=f"`{path[0]}` must be a JSON object"):
            put(text, path, value)
        return
    is_new = path[-1] not in home
    home[path[-1]] = value
    changed = put(text, path, value)
    assert json.loads(changed) == wanted
    if is_new:
        back = drop(changed, path)
        assert (back if path[0] in before else drop(back, path[:1])) == text


@given(written(), PATHS)
def test_what_is_not_there_is_dropped_by_leaving_all_as_it_is(text: str, path: list[str]) -> None:
    wanted = json.loads(text)
    home: Any = wanted
    for key in path[:-1]:
        home = home.get(key, {}) if isinstance(home, dict) else {}
    had = isinstance(home, dict) and home.pop(path[-1], home) is not home
    dropped = drop(text, path)
    assert json.loads(dropped) == wanted
    assert had or dropped == text


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from([None, 2, "\t"]), st.data())
def test_an_item_is_dropped_from_an_array_and_nothing_else(items: list[Any], indent: Any, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(items) - 1))
    text = json.dumps({"a": [{"b": items}, 1]}, indent=indent)
    assert json.loads(drop(text, ("a", 0, "b", place))) == {"a": [{"b": items[:place] + items[place + 1 :]}, 1]}
    assert drop(text, ("a", 0, "b", len(items))) == text
    assert drop(append(text, ("a",), {"x": 1}), ("a", 2)) == text


def test_a_comment_beside_an_item_that_is_dropped_stays() -> None:
    text = '{\n  "a": [\n    1, // one\n    2\n  ]\n}\n'
    assert drop(text, ("a", 1)) == '{\n  "a": [\n    1 // one\n  ]\n}\n'


def test_it_is_written_the_way_the_file_is() -> None:
    text = '{\r\n\t"env": {"A": "1"},\r\n\t"model": "opus"\r\n}'
    assert put(text, ("enabledPlugins", "x@y"), True) == (
        '{\r\n\t"env": {"A": "1"},\r\n\t"model": "opus",\r\n\t"enabledPlugins": {\r\n\t\t"x@y": true\r\n\t}\r\n}'
    )
    assert put(text, ("env", "B"), "2") == '{\r\n\t"env": {"A": "1", "B": "2"},\r\n\t"model": "opus"\r\n}'


@pytest.mark.parametrize("text", ['{"a": 1,}', "", "[1]", "null", '\ufeff{"a": 1}', '{"a": 1} x'])
def test_what_is_no_json_object_is_refused_with_the_name_of_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match="settings.json .*nothing was changed"):
        load(text, "settings.json", remarks=False)
