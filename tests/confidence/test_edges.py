"""What people do not do on purpose: long texts, other scripts, stores without vectors or with foreign ones, crowds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alma import ALMA
from alma.confidence import ConfidenceEngine
from alma.embedders.hash import HashEmbedder
from alma.errors import EmbedderMismatchError, ValidationError
from alma.ports import Store
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Hit, Where
from alma.types.record import Record, Vector

TASK, WAY = "Reconcile the ledger of the Lisbon office", "sort the entries by date first"


class Renamed(HashEmbedder):
    """Another embedder, whose vectors happen to have the same length."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "another"


class Counting:
    """Counts what is read from a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def put(self, records: Sequence[Record]) -> None:
        self._store.put(records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        found = self._store.get(ids)
        self.read += len(found)
        return found

    def delete(self, ids: Sequence[str]) -> int:
        return self._store.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        for record in self._store.scan(where, limit):
            self.read += 1
            yield record

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        return self._store.nearest(vector, where, limit)

    def close(self) -> None:
        self._store.close()


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test") as opened:
        yield opened


def test_a_strategy_that_is_named_twice_stands_once(alma: ALMA) -> None:
    ranked = ConfidenceEngine(alma).rank_strategies([WAY, "ask", WAY], TASK, "a", explore=True)
    assert sorted(name for name, _ in ranked) == ["ask", WAY]


def test_very_long_texts_are_assessed_by_their_beginning(alma: ALMA) -> None:
    task, way = "Reconcile ledgers. " * 5000, "sort first, then compare. " * 3000
    for _ in range(4):
        alma.learn("a", task, "success", way)
    assert ConfidenceEngine(alma).assess_strategy(way, task, "a").predicted_success > 0.7


def test_what_is_longer_than_any_memory_is_refused(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match="context has"):
        ConfidenceEngine(alma).assess_strategy(WAY, "x" * 200_000, "a")


@pytest.mark.parametrize(
    ("task", "good", "bad"),
    [
        ("对里斯本办公室的账目进行核对", "先按日期排序", "猜测缺失的总数"),
        ("Сверить книгу лиссабонского офиса", "сначала упорядочить по дате", "угадать недостающие итоги"),
        ("مطابقة دفتر مكتب لشبونة", "الفرز حسب التاريخ أولاً", "تخمين المجاميع الناقصة"),
        ("🧾 ➕ 🏢", "🔢", "🎲"),
    ],
)
@pytest.mark.parametrize("embedder", [HashEmbedder(), None], ids=["vectors", "words"])
def test_other_scripts_are_told_apart(
    tmp_path: Path, embedder: HashEmbedder | None, task: str, good: str, bad: str
) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), embedder, project_id="test") as alma:
        for _ in range(5):
            alma.learn("a", task, "success", good)
            alma.learn("a", task, "failure", bad)
        ranked = ConfidenceEngine(alma).rank_strategies([bad, good], task, "a")
    assert [name for name, _ in ranked] == [good, bad]
    assert ranked[0][1].predicted_success > 0.75
    assert ranked[1][1].predicted_success < 0.25


def test_vectors_of_another_embedder_are_not_compared(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test") as alma:
        alma.learn("a", TASK, "success", WAY)
    with (
        ALMA(SQLiteStore(tmp_path / "alma.db"), Renamed(), project_id="test") as alma,
        pytest.raises(EmbedderMismatchError, match="alma reindex"),
    ):
        ConfidenceEngine(alma).assess_strategy(WAY, TASK, "a")


def test_a_store_with_vectors_can_be_asked_without_an_embedder(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test") as alma:
        for _ in range(5):
            alma.learn("a", TASK, "failure", WAY)
    with ALMA(SQLiteStore(tmp_path / "alma.db"), None, project_id="test") as alma:
        assert ConfidenceEngine(alma).assess_strategy(WAY, TASK, "a").recommendation == "avoid"


def test_however_much_was_learned_little_is_read(tmp_path: Path) -> None:
    counting = Counting(SQLiteStore(tmp_path / "alma.db"))
    reads = []
    with ALMA(counting, HashEmbedder(), project_id="test") as alma:
        engine = ConfidenceEngine(alma)
        for step in range(3):
            alma.learn_many(
                {"agent": "a", "task": f"Ledger {step} of town {at % 40}", "strategy_used": f"way {at % 9}"}
                | {"outcome": "success" if at % 3 else "failure"}
                for at in range(400)
            )
            counting.read = 0
            engine.assess_strategy("way 3", "Ledger 1 of town 7", "a")
            reads.append(counting.read)
    assert reads[2] < 400
    assert reads[2] <= 1.2 * reads[1]


def test_outcomes_may_be_learned_meanwhile(alma: ALMA) -> None:
    def learn() -> None:
        for at in range(60):
            alma.learn("a", f"{TASK}, part {at % 7}", "success" if at % 4 else "failure", WAY)

    engine = ConfidenceEngine(alma)
    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(learn)
        while not learning.done():
            signal = engine.assess_strategy(WAY, TASK, "a")
            assert 0.0 < signal.interval[0] <= signal.predicted_success <= signal.interval[1] < 1.0
        learning.result()
    assert engine.assess_strategy(WAY, TASK, "a").occurrence_count == 60


def test_calibration_without_vectors(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), None, project_id="test") as alma:
        for at in range(20):
            alma.learn("a", TASK, "success" if at % 2 else "failure", WAY if at % 2 else "guess")
        told = ConfidenceEngine(alma).calibrate(agent="a")
    assert told.count == 20
    assert told.brier < 0.1
