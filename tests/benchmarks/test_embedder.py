from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks._embedder import Remembering, finishing

from alma.embedders.hash import HashEmbedder
from alma.types.record import Vector


class Counting(HashEmbedder):
    def __init__(self, name: str = "counting") -> None:
        super().__init__(dim=16)
        self.name = name
        self.seen: list[str] = []
        self.closed = False

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.seen += texts
        return super().embed(texts)

    def close(self) -> None:
        self.closed = True


def test_a_text_is_embedded_once_and_has_the_vector_it_would_have() -> None:
    inner = Counting()
    embedder = Remembering(inner)
    vectors = [embedder.embed(["red fox", "blue whale", "red fox"]), embedder.embed(["blue whale"])]
    assert inner.seen == ["red fox", "blue whale"]
    assert vectors == [
        HashEmbedder(16).embed(["red fox", "blue whale", "red fox"]),
        HashEmbedder(16).embed(["blue whale"]),
    ]
    assert (embedder.name, embedder.dim, embedder.passage_chars) == ("counting", 16, inner.passage_chars)


def test_it_counts_what_was_asked_and_what_was_made() -> None:
    embedder = Remembering(Counting())
    embedder.embed(["a fox", "a whale"])
    embedder.embed(["a fox", "a heron"])
    assert (embedder.spent.asked, embedder.spent.fresh) == (4, 3)
    assert embedder.spent.seconds > 0


def test_a_question_is_embedded_each_time() -> None:
    inner = Counting()
    embedder = Remembering(inner)
    for _ in range(2):
        with embedder.forgetful():
            embedder.embed(["where is the fox"])
    assert len(inner.seen) == 2
    embedder.embed(["where is the fox"])
    assert len(inner.seen) == 3


def test_closing_a_memory_leaves_it_open_for_the_next(tmp_path: Path) -> None:
    inner = Counting()
    with finishing(Remembering(inner, tmp_path / "vectors.db")) as embedder:
        embedder.close()
        assert not inner.closed
        embedder.embed(["still here"])
    assert inner.closed


def test_a_file_keeps_vectors_for_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    with finishing(Remembering(Counting(), file)) as first:
        vectors = first.embed(["red fox", "blue whale"])
    inner = Counting()
    with finishing(Remembering(inner, file)) as second:
        assert second.embed(["red fox", "blue whale"]) == vectors
    assert inner.seen == []


def test_a_file_never_gives_one_model_the_vectors_of_another(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    with finishing(Remembering(Counting("one"), file)) as first:
        first.embed(["red fox"])
    inner = Counting("other")
    with finishing(Remembering(inner, file)) as second:
        second.embed(["red fox"])
    assert inner.seen == ["red fox"]
