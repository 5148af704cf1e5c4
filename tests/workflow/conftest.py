"""A workflow memory over every store that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import FrozenClock
from alma.workflow import WorkflowMemory

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryStore(),
    "file": FileStore,
    "sqlite": SQLiteStore,
}


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=list(STORES))
def alma(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Iterator[ALMA]:
    with ALMA(STORES[request.param](tmp_path / "alma.db"), HashEmbedder(), project_id="p", clock=clock) as opened:
        yield opened


@pytest.fixture
def workflow(alma: ALMA) -> WorkflowMemory:
    return WorkflowMemory(alma)
