"""Reading a journal: whatever happened to the file, what was written whole is there once, and its place is exact."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alma.coding.events import Event, parse_journal


def line(name: str, **fields: Any) -> bytes:
    given = {
        "v": 1,
        "id": name,
        "at": 1.5,
        "event": "Stop",
        "session": "s",
        "project": "p",
        "cwd": "/w",
        "agent_id": "",
    }
    return json.dumps({**given, "data": {}, **fields}, separators=(",", ":")).encode()


def ids(journal: bytes) -> list[str]:
    return [event.id for event in parse_journal(journal)[0]]


def test_a_line_is_an_event_with_all_it_says() -> None:
    written = line("a", event="UserPromptSubmit", agent_id="x", data={"prompt": "hé"}) + b"\n"
    expected = Event("a", "UserPromptSubmit", 1.5, "s", "p", "x", {"prompt": "hé"}, len(written), folder="/w")
    assert parse_journal(written) == ([expected], [])


def test_the_first_of_two_lines_with_one_id_counts() -> None:
    found, damaged = parse_journal(line("a", at=1) + b"\n" + line("a", at=2) + b"\n")
    assert [event.at for event in found] == [1]
    assert damaged == []


@pytest.mark.parametrize(
    "bad",
    [
        b'{"v":1,"id":"x","at":1,"eve',
        b"not json",
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        line("x", v=2),
        line("x", id=""),
        line("x", id=7),
        line("x", id=None),
        line("x", event=""),
        line("x", event={}),
        line("x", at="soon"),
        line("x", at=True),
        line("x", at=-1),
        line("x", at=1e300),
        line("x", at=10**400),
        line("x", at=float("nan")),
        line("x", at=float("inf")),
        line("x", data=[]),
        line("x", data="text"),
    ],
    ids=lambda bad: bad[:40].decode("ascii", "replace"),
)
def test_a_damaged_line_is_counted_and_harms_no_other(bad: bytes) -> None:
    found, damaged = parse_journal(line("a") + b"\n" + bad + b"\n" + line("b") + b"\n")
    assert [event.id for event in found] == ["a", "b"]
    assert damaged == [2]


def test_blank_lines_are_no_damage() -> None:
    found, damaged = parse_journal(b"\n \r\n" + line("a") + b"\r\n\n")
    assert [event.id for event in found] == ["a"]
    assert damaged == []


def test_an_unfinished_last_line_waits_for_the_next_reading() -> None:
    first, second = line("a") + b"\n", line("b")
    for cut in range(len(second) + 1):
        assert parse_journal(first + second[:cut]) == parse_journal(first)
    assert ids(first + second + b"\n") == ["a", "b"]


def test_offsets_count_bytes_and_know_windows_line_ends() -> None:
    journal = line("a", data={"prompt": "日本"}) + b"\r\n" + line("b") + b"\n"
    found, _ = parse_journal(journal)
    assert [event.offset for event in found] == [journal.index(b"\n") + 1, len(journal)]
    assert found[0].data == {"prompt": "日本"}


def test_a_whole_line_behind_a_torn_one_is_kept() -> None:
    found, damaged = parse_journal(line("a")[:30] + line("b") + b"\n")
    assert [event.id for event in found] == ["b"]
    assert damaged == [1]


def test_what_looks_like_a_line_inside_a_text_is_none() -> None:
    inner = line("inner").decode()
    found, damaged = parse_journal(
        line("a", data={"prompt": inner}) + b"\n" + line("c", data={"prompt": inner})[:-2] + b"\n"
    )
    assert [event.id for event in found] == ["a"]
    assert damaged == [2]


def test_fields_of_another_type_say_nothing() -> None:
    found, _ = parse_journal(line("a", session=None, project=3, cwd=[], agent_id={}) + b"\n")
    assert (found[0].session, found[0].project, found[0].agent_id) == ("", "", "")


def test_half_a_surrogate_pair_does_not_reach_the_store() -> None:
    found, _ = parse_journal(b'{"v":1,"id":"a","at":1,"event":"Stop","data":{"x\\ud800":["\\uDC00 \\ud83d\\ude00"]}}\n')
    assert found[0].data == {"x\ufffd": ["\ufffd 😀"]}
    json.dumps(found[0].data, ensure_ascii=False).encode("utf-8")


# --- laws -------------------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.builds(line, st.sampled_from("abc")),
    st.builds(lambda one, end: line(one)[:end], st.sampled_from("abc"), st.integers(0, 120)),
    st.binary(max_size=20),
    st.sampled_from([b"", b"{}", b'{"v":1}', b"\r", b"null"]),
)
JOURNALS = st.lists(st.tuples(PIECES, st.sampled_from([b"\n", b"\r\n", b""])), max_size=8).map(
    lambda parts: b"".join(part + end for part, end in parts)
)


@given(st.one_of(st.binary(max_size=300), JOURNALS))
@example(b"\n")
@example(b"")
def test_any_bytes_are_read(journal: bytes) -> None:
    found, damaged = parse_journal(journal)
    assert len({event.id for event in found}) == len(found)
    assert [event.offset for event in found] == sorted({event.offset for event in found})
    assert all(journal[event.offset - 1 : event.offset] == b"\n" for event in found)
    assert damaged == sorted(set(damaged))
    assert all(1 <= number <= journal.count(b"\n") for number in damaged)


@given(JOURNALS, st.integers(0, 600))
def test_a_beginning_is_read_as_it_is_in_the_whole(journal: bytes, cut: int) -> None:
    found, damaged = parse_journal(journal)
    first, first_damaged = parse_journal(journal[:cut])
    assert first == found[: len(first)]
    assert first_damaged == damaged[: len(first_damaged)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.sampled_from(["v", "id", "at", "event", "session", "project", "cwd", "agent_id", "data"]), VALUES
)


@given(st.lists(st.one_of(VALUES, FIELDS), max_size=4))
def test_any_json_is_read(values: list[Any]) -> None:
    journal = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    found, damaged = parse_journal(journal)
    assert len(found) + len(damaged) <= len(values)
