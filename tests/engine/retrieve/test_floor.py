from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alma.engine.retrieve.conversations import FLOOR, RelevanceEvidence

share = st.floats(0.0, 1.0)
evidences = st.builds(
    RelevanceEvidence,
    st.none() | st.floats(-1.0, 1.0),
    st.floats(-1.0, 1.0),
    share,
    share,
    st.booleans(),
    st.booleans(),
)


@given(evidences, share)
def test_more_words_never_silence(evidence: RelevanceEvidence, more: float) -> None:
    if FLOOR.passes(evidence):
        assert FLOOR.passes(evidence._replace(words=max(evidence.words, more)))


@given(evidences, st.floats(-1.0, 1.0))
def test_nearer_never_silences(evidence: RelevanceEvidence, nearer: float) -> None:
    if evidence.cosine is not None and FLOOR.passes(evidence):
        assert FLOOR.passes(evidence._replace(cosine=max(evidence.cosine, nearer)))


@given(evidences)
def test_a_name_that_is_nowhere_only_makes_it_stricter(evidence: RelevanceEvidence) -> None:
    if FLOOR.passes(evidence._replace(has_unknown_name=True)):
        assert FLOOR.passes(evidence._replace(has_unknown_name=False))


@given(evidences)
def test_a_question_about_oneself_is_answered_more_readily(evidence: RelevanceEvidence) -> None:
    if FLOOR.passes(evidence._replace(is_personal=False)):
        assert FLOOR.passes(evidence._replace(is_personal=True))


@given(evidences, share)
def test_strictness_only_silences(evidence: RelevanceEvidence, strictness: float) -> None:
    if FLOOR.passes(evidence, strictness):
        assert FLOOR.passes(evidence)
