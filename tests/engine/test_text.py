from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.text import content_words, fingerprint, normalise, passages, shorten, stem, stems


@pytest.mark.parametrize(
    "words",
    [("deploy", "deploys", "deployed", "deploying"), ("test", "tests", "tested", "testing"),
     ("retry", "retries", "retried"), ("run", "running"), ("class",), ("bus",),
     ("cache", "caches", "cached", "caching")],
)  # fmt: skip
def test_forms_of_a_word_meet(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_words_that_carry_meaning() -> None:
    assert content_words("How do the Auth tokens work?") == ["auth", "tokens", "work"]
    assert content_words("to be or not to be") == ["to", "be", "or", "not"]
    assert stems("") == frozenset()


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_a_fingerprint_ignores_case_space_and_a_full_stop() -> None:
    assert fingerprint("Tokens  expire.") == fingerprint("tokens expire")
    assert fingerprint("a", "b") != fingerprint("ab") != fingerprint("b", "a")


@given(st.text(), st.integers(20, 200))
def test_passages_lose_no_word_and_are_short_enough(text: str, most: int) -> None:
    pieces = passages(text, most)
    assert all(0 < len(piece) <= most for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_passages_end_with_sentences() -> None:
    assert passages("One sentence here. Another one there. And a third.", 40) == [
        "One sentence here. Another one there.", "And a third.",
    ]  # fmt: skip


def test_shortening_says_so() -> None:
    assert shorten("a b\n c", 10) == "a b c"
    assert shorten("x" * 20, 10) == "x" * 9 + "…"
