"""The success factor of lessons looks forward."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore
from alma.types.record import Vector

pytestmark = pytest.mark.system

Open = Callable[..., ALMA]
LISBON = "Reconcile the ledger of the Lisbon office"
SORTING, GUESSING, ASKING = "sort the entries by date first", "guess the missing totals", "ask the auditor twice"


class Counted(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.passes += 1
        return super().embed(texts)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


def learned(alma: ALMA, strategy: str, results: str, task: str = LISBON) -> None:
    for one in results:
        alma.learn("a", task, "success" if one == "+" else "failure", strategy)


def test_of_two_heuristics_the_one_that_will_do_better_here_comes_first(open_everywhere: Open) -> None:
    alma = open_everywhere()
    learned(alma, SORTING, "++++++")
    learned(alma, ASKING, "++-+-+")
    found = alma.retrieve(LISBON, "a", types=["heuristic", "outcome"])
    assert [one.strategy for one in found.heuristics] == [SORTING, ASKING]
    why = {one.memory_id: one for one in found.explain()}
    first, second = (why[one.id].factors["success"].value for one in found.heuristics)
    assert first > 0.85
    assert second < 0.75


def test_the_expectation_is_explained(open_everywhere: Open) -> None:
    alma = open_everywhere()
    learned(alma, SORTING, "+++++")
    learned(alma, GUESSING, "----")
    found = alma.retrieve(LISBON, "a")
    told = {one.memory_id: str(one) for one in found.explain()}
    [heuristic], [warning] = found.heuristics, found.anti_patterns
    assert "predicted success 0." in told[heuristic.id]
    assert "predicted failure 0." in told[warning.id]
    assert all("expected" not in told[one.id] for one in found.outcomes)


def test_what_a_person_says_is_not_foretold_without_results(open_everywhere: Open) -> None:
    alma = open_everywhere()
    alma.add_heuristic("a", LISBON, SORTING)
    [why] = alma.retrieve(LISBON, "a").explain()
    assert "expected" not in why.reason
    assert why.factors["success"].value == 0.5


def test_a_lesson_that_fails_lately_sinks(open_everywhere: Open) -> None:
    alma = open_everywhere(clock=Clock())
    learned(alma, SORTING, "+++++++++++")
    before = alma.retrieve(LISBON, "a").explain()[0].factors["success"].value
    learned(alma, SORTING, "---")
    found = alma.retrieve(LISBON, "a")
    [heuristic] = found.heuristics
    after = next(one for one in found.explain() if one.memory_id == heuristic.id)
    assert after.factors["success"].value < before - 0.15


def test_it_takes_no_further_pass_of_the_embedder(tmp_path: Path) -> None:
    embedder = Counted()
    with ALMA(SQLiteStore(tmp_path / "alma.db"), embedder, project_id="test") as alma:
        learned(alma, SORTING, "++++")
        embedder.passes = 0
        assert alma.retrieve("Reconcile the ledger of Lisbon", "a").heuristics
    assert embedder.passes == 1


@pytest.mark.parametrize("embedder", ["HashEmbedder()", "None"])
def test_it_does_not_load_numpy_for_itself(tmp_path: Path, embedder: str) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder() if "H" in embedder else None, project_id="t") as alma:
        learned(alma, SORTING, "++++")
        learned(alma, GUESSING, "----", "Reconcile the ledger of the Porto office")
    code = f"""
import sys
from pathlib import Path
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore
with ALMA(SQLiteStore(Path({str(tmp_path / "alma.db")!r})), {embedder}, project_id="t") as alma:
    assert alma.retrieve({LISBON!r}, "a").heuristics
    assert "alma.engine.predict" in sys.modules
    assert {embedder} is not None or "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
