"""Streams: whatever the pieces they come in, the same lines and values come out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.ingestion import Format
from alma.ingestion.formats.common import name_session
from alma.ingestion.streams import JsonStream, parse_time, read_lines, read_objects

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(text: str, size: int = 7, enter: frozenset[str] = frozenset(), **options: Any) -> tuple[list[Any], list[Any]]:
    damaged: list[Any] = []
    found = list(JsonStream(pieces(text, size), lambda *told: damaged.append(told), **options).read(enter))
    return [(one.key, one.number, one.value) for one in found], damaged


@given(listed=st.lists(values, max_size=6), size=st.integers(1, 50), indent=st.sampled_from([None, 2]))
def test_a_list_is_read_in_any_pieces(listed: list[Any], size: int, indent: int | None) -> None:
    found, damaged = read(json.dumps(listed, indent=indent), size)
    assert found == [("", number, value) for number, value in enumerate(json.loads(json.dumps(listed)))]
    assert not damaged


@given(held=st.dictionaries(st.text(max_size=5), values, max_size=5), size=st.integers(1, 50))
def test_an_object_is_read_in_any_pieces(held: dict[str, Any], size: int) -> None:
    found, damaged = read(json.dumps(held), size)
    assert found == [(key, -1, value) for key, value in json.loads(json.dumps(held)).items()]
    assert not damaged


@given(listed=st.lists(values, min_size=1, max_size=5), size=st.integers(1, 50), share=st.floats(0, 1))
def test_a_cut_list_gives_what_is_whole(listed: list[Any], size: int, share: float) -> None:
    """As many of its first elements, and a word about the rest."""
    text = json.dumps(listed)
    cut = text[: int(share * len(text))]
    found, damaged = read(cut, size)
    whole = json.loads(json.dumps(listed))
    taken = [value for _, _, value in found]
    assert len(taken) <= len(whole)
    assert taken[:-1] == whole[: max(len(taken) - 1, 0)]
    assert damaged or cut in ("", text)


def test_lists_are_entered_where_asked() -> None:
    text = json.dumps({"a": [1], "messages": [{"x": 1}, {"x": 2}], "b": 3})
    assert read(text, enter=frozenset({"messages"}))[0] == [
        ("a", -1, [1]),
        ("messages", 0, {"x": 1}),
        ("messages", 1, {"x": 2}),
        ("b", -1, 3),
    ]


def test_after_damage_it_goes_on_at_the_next_element_of_the_same_shape() -> None:
    whole = [{"id": n, "name": "n", "inner": [{"id": 9, "name": "not one"}]} for n in range(4)]
    text = json.dumps(whole).replace('"id": 1,', '"id": 1 oops', 1)
    found, damaged = read(text, 300)
    assert [value["id"] for _, _, value in found if "inner" in value] == [0, 2, 3]
    assert damaged[0][0].startswith("element 1")


@pytest.mark.parametrize(
    "member", ['"title": oops', '"title": "not closed', '"title" "no colon"', '"blob": "' + "x" * 2_000 + '"']
)
def test_after_a_damaged_member_the_lists_asked_for_are_read(member: str) -> None:
    text = f'{{"id": "c", {member}, "messages": [{{"x": 1}}, {{"x": 2}}], "turns": [{{"x": 3}}]}}'
    found, damaged = read(text, 64, frozenset({"messages", "turns"}), limit=1_000)
    assert [(key, value) for key, number, value in found if number >= 0] == [
        ("messages", {"x": 1}),
        ("messages", {"x": 2}),
        ("turns", {"x": 3}),
    ]
    assert len(damaged) == 1


def test_many_damaged_elements_cost_only_themselves() -> None:
    found, damaged = read("[" + '{"id": 1, "a": 2}, {"id": oops}, ' * 900 + "]", 10_000)
    assert (len(found), len(damaged)) == (900, 900)


@pytest.mark.parametrize(("size", "limit"), [(100, 10_000), (500_000, 5_000)])
def test_reading_in_vain_is_bounded(size: int, limit: int) -> None:
    found, damaged = read("[" + '{"id": 1}, {"id": oops}, ' * 20_000 + "]", size, limit=limit)
    assert damaged[-1][1] == "too much is damaged; the rest was not read"
    assert len(found) <= 1_000


def test_an_element_that_is_too_long_is_passed_over() -> None:
    whole = [{"id": n, "name": "x" * (5_000 if n == 1 else 5)} for n in range(3)]
    found, damaged = read(json.dumps(whole), 64, limit=1_000)
    assert [value["id"] for _, _, value in found] == [0, 2]
    assert damaged[0][1] == "longer than 1,000 characters; skipped"


def test_several_texts_may_follow_each_other() -> None:
    assert [value for _, _, value in read('[1, 2]\n{"a": 3} [4]')[0]] == [1, 2, 3, 4]


@given(text=st.text(alphabet="ab\n\r", max_size=60), size=st.integers(1, 9), limit=st.integers(1, 8))
def test_lines_are_the_same_in_any_pieces(text: str, size: int, limit: int) -> None:
    damaged: list[str] = []
    found = list(read_lines(pieces(text, size), lambda place, _: damaged.append(place), limit))
    wanted = [one.removesuffix("\r") for one in text.removesuffix("\n").split("\n")] if text else []
    raw = text.removesuffix("\n").split("\n") if text else []
    assert [line for _, line in found] == [one for one, held in zip(wanted, raw, strict=True) if len(held) <= limit]
    assert [number for number, _ in found] == [n for n, held in enumerate(raw, 1) if len(held) <= limit]
    assert len(damaged) == sum(len(held) > limit for held in raw)


def test_objects_of_lines() -> None:
    damaged: list[tuple[str, str]] = []
    text = '{"a": 1}\n\n[1]\n{"b": \n{"c": "\\ud800"}\n'
    assert list(read_objects([text], lambda *told: damaged.append(told))) == [(1, {"a": 1}), (5, {"c": "\ufffd"})]
    assert [place for place, _ in damaged] == ["line 3", "line 4"]


@given(value=values)
def test_no_value_is_too_strange_for_a_time(value: Any) -> None:
    found = parse_time(value)
    assert found is None or 1000 <= found.year <= 2999


def test_times_of_all_kinds() -> None:
    told = [
        "2026-03-02T09:00:00Z",
        "2026-03-02 10:00:00+01:00",
        1772442000,
        1772442000000,
        "1772442000.000",
        1772442000e6,
    ]
    assert len({parse_time(one) for one in told}) == 1


def test_a_session_is_named_by_its_host_unless_that_is_no_name() -> None:
    assert name_session(Format.CODEX, "019a-b") == "codex:019a-b"
    assert (
        name_session(Format.CODEX, "", "a")
        == name_session(Format.CODEX, None, "a")
        != name_session(Format.CODEX, "", "b")
    )
    for hostile in ("../x", "a/b", "..", "x" * 500, "a\nb"):
        assert hostile not in name_session(Format.CODEX, hostile)
