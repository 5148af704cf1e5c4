"""Items of a list and what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.rulefiles.block import Item, Words, read_item, read_words, write_item

RULE = ("head", "why")
ALL = (*RULE, "instead")
PIECES = [
    "*Why:* ",
    "_Why:_",
    "*Instead:*",
    "**x:** ",
    ":**",
    "`",
    "\\",
    "<!-- 01234567 012345 -->",
    "a",
    "b ",
    "**",
    "When ",
]
parts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


@given(parts, parts, parts, parts)
def test_every_part_is_found_again(text: str, head: str, why: str, instead: str) -> None:
    words = Words(text, head, why, instead).normalise()
    if not words.text:
        return
    line = write_item(words, "abcd0123")
    assert "\n" not in line
    found = read_item(line.removeprefix("- "), 7)
    assert (found.id, found.base, found.number) == ("abcd0123", words.digest, 7)
    assert read_words(found.markdown, ALL) == words


@given(st.text(max_size=80))
def test_anything_can_be_read(said: str) -> None:
    for parts_of_kind in (ALL, RULE, ()):
        words = read_words(read_item(said, 1).markdown, parts_of_kind)
        # What was read and written once reads the same ever after.
        if words.text:
            assert read_words(read_item(write_item(words, "abcd0123")[2:], 1).markdown, ALL).normalise().text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Use tabs.", Words("Use tabs.")),
        ("**When deploying:** Go slow. *Why:* It broke.", Words("Go slow.", "When deploying", "It broke.")),
        ("__When deploying:__ Go slow. _Why:_ It broke.", Words("Go slow.", "When deploying", "It broke.")),
        ("**Never** push to main", Words("**Never** push to main")),
        ("**Only a head:**", Words("**Only a head:**")),
        ("Say `*Why:*` twice *Why:* a *Why:* b", Words("Say `*Why:*` twice", "", "a b")),
    ],
)
def test_people_write_it_in_their_own_way(said: str, words: Words) -> None:
    assert read_words(said, RULE) == words


def test_a_comment_is_found_where_a_formatter_put_it() -> None:
    assert read_item("Use tabs\n  <!-- 01234567 abcdef -->", 1) == Item("Use tabs", 1, "01234567", "abcdef")
    assert read_item("Use <!-- 01234567 --> tabs", 1) == Item("Use tabs", 1, "01234567", "")
    assert read_item("Use tabs <!-- TODO -->", 1) == Item("Use tabs <!-- TODO -->", 1)
