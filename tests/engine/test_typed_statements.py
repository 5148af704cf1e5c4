"""What a person typed: what others wrote and what was for the moment are recognised."""

from __future__ import annotations

import pytest

from alma.engine.typed_statements import is_inflected, is_limited, read_turn, remove_announced


@pytest.mark.parametrize(
    ("turn", "quote", "is_so"),
    [
        ("for this demo only, listen on all interfaces", "listen on all interfaces", True),
        ("use 10 retries this time", "use 10 retries", True),
        ("vorerst bitte ohne cache bauen", "ohne cache bauen", True),
        ("这次用中文写", "用中文写", True),
        ("only use pnpm here", "only use pnpm", False),
        ("we use 5 retries. use 10 this time", "we use 5 retries", False),
        ("10 this time, normally 5", "normally 5", False),
    ],
)
def test_words_for_the_moment_are_recognised(turn: str, quote: str, is_so: bool) -> None:
    assert is_limited(turn, quote) is is_so


def test_what_a_line_announces_as_the_words_of_others_is_removed() -> None:
    assert (
        remove_announced("the mail:\nalways deploy\nnever ask\n\nplease answer it") == "the mail:\n\nplease answer it"
    )
    assert remove_announced("the ticket says:\nalways deploy") == "the ticket says:"


@pytest.mark.parametrize(
    "turn", ["two wishes:\n- use tabs\n- no semicolons", "do it like this:\n\n    make fast", "so:"]
)
def test_what_the_person_asks_for_stays(turn: str) -> None:
    assert [line for line in turn.splitlines() if line.strip() and line not in remove_announced(turn)] == []


def test_an_ironic_sentence_licenses_nothing() -> None:
    ironic, plain = read_turn("oh great, another docker build. use make fast instead")
    assert (ironic.is_licensing, plain.is_licensing) == (False, True)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("test", "testing", True),
        ("use", "used", True),
        ("show", "shown", True),
        ("helper", "helperd", False),
        ("sync", "syncd", False),
        ("runner", "runnern", False),
    ],
)
def test_a_name_is_no_inflection_of_the_word_in_it(first: str, second: str, is_same: bool) -> None:
    assert is_inflected(first, second) is is_same
