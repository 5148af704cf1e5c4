"""What `learn_from` understands of plain sentences without a model; `held_out` was not used while it was built."""

from __future__ import annotations

import pytest
from benchmarks.sentences import read_as_fact, read_locally, read_sentences, score_sentences


@pytest.mark.quality
@pytest.mark.parametrize(("half", "least"), [("development", 0.9), ("held_out", 0.6)])
def test_plain_sentences_are_typed(half: str, least: float) -> None:
    rows = read_sentences(half)
    score = score_sentences(rows, read_locally)
    assert score.share >= least
    assert score.share >= score_sentences(rows, read_as_fact).share + 0.3


@pytest.mark.quality
def test_what_teaches_nothing_is_not_learned_from() -> None:
    assert score_sentences(read_sentences(), read_locally).false_alarms <= 1
