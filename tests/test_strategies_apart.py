"""Through `ALMA.learn`: distinct strategies are counted apart, and one strategy in another wording is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.types import Heuristic

pytestmark = pytest.mark.system

ACTIONS = ("Restart", "Stop", "Start", "Close", "Reopen", "Lock", "Unlock", "Import", "Export", "Rebuild")
OBJECTS = (
    "the ticket",
    "the service",
    "the database",
    "the cache",
    "the index",
    "the account",
    "the report",
    "the branch",
    "the queue",
    "the worker",
)
MEANS = (
    "with --force",
    "without --force",
    "where x > 0",
    "where x < 0",
    "until it is done",
    "unless it is done",
    "before the deploy",
    "after the deploy",
    "from A to B",
    "from B to A",
)


@pytest.fixture
def alma() -> Iterator[ALMA]:
    with ALMA(MemoryStore(), HashEmbedder()) as opened:
        yield opened


def learned(alma: ALMA) -> dict[str, int]:
    found = alma.list("heuristic", limit=10_000)
    return {one.strategy: one.occurrence_count for one in found if isinstance(one, Heuristic)}


def test_a_thousand_distinct_strategies_are_counted_exactly(alma: ALMA) -> None:
    strategies = [" ".join(parts) for parts in product(ACTIONS, OBJECTS, MEANS)]
    counts = {strategy: 3 + at % 3 for at, strategy in enumerate(strategies)}
    alma.learn_many(
        {"agent": "dev", "task": "Maintain the system", "outcome": "success", "strategy_used": strategy}
        for strategy, count in counts.items()
        for _ in range(count)
    )
    assert learned(alma) == counts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploy with --force", "Deploy without --force"),
        ("Keep rows where x > 0", "Keep rows where x < 0"),
        ("Close the ticket", "Reopen the ticket"),
        ("Wait until the lock is free", "Do not wait until the lock is free"),
        ("Retry until it succeeds", "Retry until it fails"),
        ("Migrate from MySQL to Postgres", "Migrate from Postgres to MySQL"),
        ("Edit src/app.py", "Edit src/App.py"),
        ("Use sleep(5) before clicking", "Don't use sleep(5) before clicking"),
    ],
)
def test_opposites_are_counted_apart(alma: ALMA, one: str, other: str) -> None:
    for strategy in (one, other, one, other):
        alma.learn("dev", "Maintain the system", "success", strategy)
    assert not learned(alma)
    alma.learn("dev", "Maintain the system", "success", one)
    assert learned(alma) == {one: 3}


def test_light_rewordings_are_counted_together(alma: ALMA) -> None:
    for strategy in ("Run the tests before merging", "Before merging, ran the tests", "run tests before merging."):
        alma.learn("dev", "Merge the pull request", "success", strategy)
    assert Counter(learned(alma).values()) == {3: 1}


def test_a_strategy_is_recognised_for_another_task_of_its_sort(alma: ALMA) -> None:
    for task in ("Deploy the auth service", "Deploy auth service", "Deploy the auth service to production"):
        alma.learn("dev", task, "success", "Blue-green deployment")
    assert learned(alma) == {"Blue-green deployment": 3}
