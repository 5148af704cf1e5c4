from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.engine.retrieve._parts import parts


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many days between my visit to the museum and the concert?", ("my visit to the museum", "the concert")),
        ("Which did I buy first, the kayak or the tent pegs?", ("the kayak", "the tent pegs")),
        ("Did I finish 'The Hobbit' and 'Dune Messiah'?", ("The Hobbit", "Dune Messiah")),
        ("How old was I when my brother was born?", ("How old was I", "my brother was born")),
        ("What is the name of my dog?", ()),
        ("", ()),
    ],
)
def test_each_thing_asked_about_is_a_part(question: str, expected: tuple[str, ...]) -> None:
    assert parts(question) == expected


@given(st.text(max_size=300))
def test_parts_are_pieces_of_the_question(question: str) -> None:
    assert all(part in question for part in parts(question))
