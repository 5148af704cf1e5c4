from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alma import ALMA
from alma.confidence import ConfidenceEngine
from alma.embedders.hash import HashEmbedder
from alma.errors import ValidationError
from alma.stores.sqlite import SQLiteStore

TASKS = ("Reconcile the ledger of the Lisbon office", "Translate the museum brochure", "Paint the garden fence")
WAYS = ("sort the entries first", "ask the owner")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test", clock=Clock()) as opened:
        yield opened


def history(alma: ALMA, count: int, agent: str = "a") -> None:
    """Each way works on some tasks and fails on others, nearly always."""
    dice = random.Random(1)
    for _ in range(count):
        task, way = dice.randrange(3), dice.randrange(2)
        works = dice.random() < (0.95 if (task + way) % 2 else 0.05)
        alma.learn(agent, TASKS[task], "success" if works else "failure", WAYS[way])


def test_a_history_with_a_pattern_is_predicted_better_than_the_running_rate(alma: ALMA) -> None:
    history(alma, 60)
    told = ConfidenceEngine(alma).calibrate()
    assert told.count == 60
    assert told.brier < 0.6 * told.running_rate_brier
    assert told.accuracy > 0.75
    assert sum(one.count for one in told.bins) == 60
    assert all(one.low <= one.predicted <= one.high for one in told.bins)


def test_chance_is_not_taken_for_a_pattern(alma: ALMA) -> None:
    dice = random.Random(2)
    for _ in range(60):
        alma.learn("a", dice.choice(TASKS), dice.choice(["success", "failure"]), dice.choice(WAYS))
    told = ConfidenceEngine(alma).calibrate()
    assert told.brier > 0.2
    assert told.brier < told.running_rate_brier + 0.06


def test_the_first_outcome_is_predicted_from_nothing(alma: ALMA) -> None:
    history(alma, 1)
    told = ConfidenceEngine(alma).calibrate()
    assert (told.count, told.brier, told.running_rate_brier) == (1, 0.25, 0.25)


def test_without_a_history_there_is_nothing_to_tell(alma: ALMA) -> None:
    told = ConfidenceEngine(alma).calibrate()
    assert (told.count, told.bins) == (0, ())


def test_one_agent_and_the_newest_only(alma: ALMA) -> None:
    history(alma, 6, agent="a")
    history(alma, 4, agent="b")
    assert ConfidenceEngine(alma).calibrate().count == 10
    assert ConfidenceEngine(alma).calibrate(agent="b").count == 4
    assert ConfidenceEngine(alma).calibrate(limit=3).count == 3
    with pytest.raises(ValidationError, match="limit"):
        ConfidenceEngine(alma).calibrate(limit=0)


def test_progress_is_told(alma: ALMA) -> None:
    history(alma, 3)
    seen: list[tuple[int, int]] = []
    ConfidenceEngine(alma).calibrate(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
