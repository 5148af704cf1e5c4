"""The marked part of a file and what is around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ValidationError
from alma.rulefiles.block import END, find_block, list_items_outside, make_begin, place_block

from .conftest import BEGIN

OURS = "## Rules\n\n- one <!-- 01234567 abcdef -->\n  over two lines\n* two"
FILE = f"# Mine\n\n- by hand\n\n{BEGIN}\n{OURS}\n{END}\nAfter\n"


def test_items_title_and_the_rest_are_told_apart() -> None:
    block = find_block(FILE, "f")
    assert block is not None
    assert [(one.markdown, one.number, one.id) for one in block.items] == [
        ("one over two lines", 8, "01234567"),
        ("two", 10, ""),
    ]
    assert block.title == "## Rules"
    assert block.other == ()
    assert [one.markdown for one in list_items_outside(FILE, block)] == ["by hand"]


def test_a_point_below_another_belongs_to_it() -> None:
    """ "But not in models.py" would be a rule of nothing."""
    block = find_block(
        f"{BEGIN}\n- Prefer composition <!-- 01234567 abcdef -->\n  - but not in models.py\n\t* nor in old.py\n"
        f"- Python:\n  - Use ruff\n- last\n  - moved <!-- 12345678 abcdef -->\n{END}",
        "f",
    )
    assert block is not None
    assert [(one.markdown, one.id) for one in block.items] == [
        ("Prefer composition (but not in models.py) (nor in old.py)", "01234567"),
        ("Python:", ""),
        ("Use ruff", ""),
        ("last", ""),
        ("moved", "12345678"),
    ]


def test_what_is_no_item_is_told() -> None:
    block = find_block(f"{BEGIN}\nProse\n\n- one\nmore prose\n{END}", "f")
    assert block is not None
    assert block.other == ((2, "Prose"), (5, "more prose"))


lines = st.lists(st.sampled_from(["a", "- b", "", "```", "# h", "\t", "---", "<!-- x -->", "é\u2028x"]), max_size=6)


@given(lines, lines, st.sampled_from(["\n", "\r\n"]), lines)
def test_what_is_around_stays_as_it_is(before: list[str], after: list[str], end: str, ours: list[str]) -> None:
    if "```" in before + after:
        return
    text = end.join([*before, BEGIN, "old", END, *after])
    block = find_block(text, "f")
    assert block is not None
    fresh = place_block(text, block, ours, "front", BEGIN)
    assert fresh.startswith(text[: block.start])
    assert fresh.endswith(text[block.end :])
    again = find_block(fresh, "f")
    assert again is not None
    assert fresh[again.start : again.end].split(end)[1:-1] == ours
    assert place_block(fresh, again, ours, "", BEGIN) == fresh


@given(lines, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "\n\n"]))
def test_a_new_block_comes_last(before: list[str], end: str, last: str) -> None:
    text = end.join(before) + last.replace("\n", end)
    if "```" in text:
        return
    fresh = place_block(text, None, ["- x"], "---\n---\n", BEGIN)
    assert fresh.startswith(text)
    block = find_block(fresh, "f")
    assert block is not None
    assert place_block(fresh, block, ["- x"], "", BEGIN) == fresh
    assert fresh.startswith("---") or text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{BEGIN}\n- a\n", "does not end"),
        (f"{END}\n", "does not begin"),
        (f"{BEGIN}\n{END}\n{BEGIN}\n{END}", "second time"),
        (f"{BEGIN}\n{BEGIN}\n{END}", "second time"),
        (f"{BEGIN}\n<<<<<<< HEAD\n- a\n{END}", "unresolved merge conflict"),
    ],
)
def test_a_damaged_block_is_an_error_that_names_the_line(text: str, what: str) -> None:
    with pytest.raises(ValidationError, match=rf"AGENTS.md, line \d+: .*{what}"):
        find_block(text, "AGENTS.md")


def test_marks_in_code_are_code() -> None:
    text = f"```\n{BEGIN}\n```\n~~~~\n{END}\n~~~\n{END}\n~~~~\n"
    assert find_block(text, "f") is None
    assert find_block(text + f"{BEGIN}\n```\n{END}\n", "f") is not None
    assert find_block(f"```\nnever closed\n{BEGIN}\n{END}\n", "f") is not None


def test_lists_written_by_hand_are_read_without_code_comments_and_front_matter() -> None:
    front = "---\nitems:\n  - not this\n---\n"
    text = f"{front}# T\n1. first\n2) second\n   goes on\n<!--\n- hidden\n-->\n```\n- code\n```\n- third\n"
    found = list_items_outside(text, None)
    assert [(one.markdown, one.number) for one in found] == [("first", 6), ("second goes on", 7), ("third", 15)]


@given(st.text(alphabet="-*+ \n`~#<!>ab1.\r", max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert all(one.markdown for one in list_items_outside(text, find_block(text, "f")))


@pytest.mark.parametrize("name", ["a b.md", "x-->.md", "$(rm).md"])
def test_a_mark_names_only_plain_files(name: str) -> None:
    assert (
        make_begin("alma rules import", name) == "<!-- alma:begin Edit, add or remove items, then import this file -->"
    )
    assert BEGIN == "<!-- alma:begin Edit, add or remove items, then run: alma rules import AGENTS.md -->"
