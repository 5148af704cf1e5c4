from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine import upkeep as module
from alma.errors import EmbedderMismatchError, EmbeddingError
from alma.stores.sqlite import SQLiteStore
from alma.types import Where
from alma.types.record import Vector


class Breaking(HashEmbedder):
    """Fails after some texts, as an endpoint does when the network goes."""

    def __init__(self, dim: int, good_for: int) -> None:
        super().__init__(dim)
        self.left = good_for

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.left -= len(texts)
        if self.left < 0:
            raise EmbeddingError("the endpoint is gone")
        return super().embed(texts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ALMA(SQLiteStore(tmp_path / "a.db"), HashEmbedder(64)) as alma:
        alma.add_many(
            {"type": "domain_knowledge", "agent": "dev", "domain": "d", "fact": f"{n} is the number of a fact"}
            for n in range(40)
        )
        for _ in range(3):
            alma.learn("dev", "Deploy auth service", "success", "Canary")
    return tmp_path / "a.db"


def test_vectors_of_two_embedders_are_never_mixed(path: Path) -> None:
    with ALMA(SQLiteStore(path), HashEmbedder(128)) as alma:
        with pytest.raises(EmbedderMismatchError, match=r"hash-64.*hash-128.*alma reindex"):
            alma.retrieve("Fact 3", "dev")
        with pytest.raises(EmbedderMismatchError):
            alma.learn("dev", "Deploy", "success", "Canary")
        assert alma.get_stats()["by_type"]["outcome"] == 3


def test_it_moves_everything_and_shows_progress(path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with ALMA(SQLiteStore(path), HashEmbedder(128)) as alma:
        moved = alma.reindex(lambda done, total: steps.append((done, total)))
        assert moved == 45  # 40 facts, 3 outcomes, a heuristic and its strategy group
        assert steps[-1] == (45, 45)
        assert {r.embedder for r in alma.engine.store.scan(Where()) if r.vectors} == {"hash-128"}
        assert alma.retrieve("Deploy auth service", "dev").heuristics
        assert alma.learn("dev", "Deploy auth service", "success", "Canary")
        assert alma.reindex() == 0


def test_it_goes_on_where_it_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 8)
    with ALMA(SQLiteStore(path), Breaking(128, good_for=20)) as alma, pytest.raises(EmbeddingError):
        alma.reindex()
    with ALMA(SQLiteStore(path), HashEmbedder(64)) as alma:
        assert alma.retrieve("Fact 3", "dev").total_items  # the old embedder still reads
    with ALMA(SQLiteStore(path), HashEmbedder(128)) as alma:
        assert 0 < alma.reindex() < 45
        assert alma.retrieve("3 is the number of a fact", "dev").domain_knowledge[0].fact[:2] == "3 "


class Other(HashEmbedder):
    """Another model of the same length."""

    def __init__(self) -> None:
        super().__init__(64)
        self.name = "other-64"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return super().embed([text[::-1] for text in texts])


def test_half_way_the_vectors_of_two_models_are_not_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 8)

    def stop(done: int, total: int) -> None:
        if done >= 16:
            raise KeyboardInterrupt

    with ALMA(SQLiteStore(path), Other()) as alma, pytest.raises(KeyboardInterrupt):
        alma.reindex(stop)
    with ALMA(SQLiteStore(path), HashEmbedder(64)) as alma:
        for why in alma.retrieve("Fact 3", "dev", top_k=40).explain():
            [record] = alma.engine.store.get([why.memory_id])
            assert (why.cosine is None) == (record.embedder == "other-64")


def test_memories_stored_by_words_alone_get_vectors_later(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "b.db")) as alma:
        alma.add_domain_knowledge("dev", "d", "Tokens expire")
    with ALMA(SQLiteStore(tmp_path / "b.db"), HashEmbedder()) as alma:
        assert alma.retrieve("Tokens expire", "dev").explain()[0].cosine is None
        assert alma.reindex() == 1
        assert alma.retrieve("Tokens expire", "dev").explain()[0].cosine == pytest.approx(1, abs=0.01)
