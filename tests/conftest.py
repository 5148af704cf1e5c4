from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore


class Clock:
    """A clock that goes a second further each time it is read, and further when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Opener = Callable[..., ALMA]


@pytest.fixture(params=["memory", "sqlite"])
def open_alma(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    """Opens memories on the model store and on the product's, with the embedder that needs no model."""
    opened: list[ALMA] = []

    def opener(**options: Any) -> ALMA:
        options = {"clock": clock, "project_id": "test", **options}
        store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "alma.db")
        embedder = options.pop("embedder", HashEmbedder())
        opened.append(ALMA(store, embedder, **options))
        return opened[-1]

    yield opener
    for alma in opened:
        alma.close()


@pytest.fixture
def alma(open_alma: Opener) -> ALMA:
    return open_alma()
