from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from alma.engine.retrieve.fuse import FLOOR, Sign

share = st.floats(0.0, 1.0)
signs = st.builds(
    Sign, st.none() | st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), share, share, st.booleans(), st.booleans()
)


@given(signs, share)
def test_more_words_never_silence(sign: Sign, more: float) -> None:
    if FLOOR.passes(sign):
        assert FLOOR.passes(replace(sign, words=max(sign.words, more)))


@given(signs, st.floats(-1.0, 1.0))
def test_nearer_never_silences(sign: Sign, nearer: float) -> None:
    if sign.cosine is not None and FLOOR.passes(sign):
        assert FLOOR.passes(replace(sign, cosine=max(sign.cosine, nearer)))


@given(signs)
def test_a_name_that_is_nowhere_only_makes_it_stricter(sign: Sign) -> None:
    if FLOOR.passes(replace(sign, strange=True)):
        assert FLOOR.passes(replace(sign, strange=False))


@given(signs)
def test_a_question_about_oneself_is_answered_more_readily(sign: Sign) -> None:
    if FLOOR.passes(replace(sign, personal=False)):
        assert FLOOR.passes(replace(sign, personal=True))


@given(signs, share)
def test_strictness_only_silences(sign: Sign, strictness: float) -> None:
    if FLOOR.passes(sign, strictness):
        assert FLOOR.passes(sign)
