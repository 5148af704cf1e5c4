from __future__ import annotations

import subprocess
import sys

import pytest

from alma.embedders.hash import HashEmbedder
from alma.types.record import cosine


def close(a: str, b: str) -> float:
    first, second = HashEmbedder().embed([a, b])
    return cosine(first, second)


def test_name_tells_the_dimension() -> None:
    embedder = HashEmbedder(64)
    assert (embedder.name, embedder.dim, len(embedder.embed(["x"])[0])) == ("hash-64", 64, 64)
    assert HashEmbedder().name == "hash-384"


def test_shared_words_are_close_and_others_are_not() -> None:
    assert close("Use explicit waits instead of sleep", "explicit waits, not sleep") > 0.7
    assert abs(close("Use explicit waits instead of sleep", "Paris museum closes Mondays")) < 0.2


def test_word_forms_are_closer_than_other_words() -> None:
    assert close("testing", "tests") > close("testing", "banana")


def test_case_and_punctuation_do_not_matter() -> None:
    assert close("Hello, World!", "hello world") == pytest.approx(1)


def test_long_text_keeps_its_direction() -> None:
    words = "retry the failed deployment twice "
    assert close(words, words * 100) > 0.98


@pytest.mark.parametrize("text", ["", "?!", "\ud800", "今日は", "a" * 5000])
def test_any_text_has_a_vector(text: str) -> None:
    assert len(HashEmbedder().embed([text])[0]) == 384


@pytest.mark.system
def test_same_vectors_in_another_process() -> None:
    code = "from alma.embedders.hash import HashEmbedder; print(HashEmbedder().embed(['some words here'])[0].hex())"
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert other == HashEmbedder().embed(["some words here"])[0].hex()
