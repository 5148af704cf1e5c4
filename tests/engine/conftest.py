"""Every store, with an embedder that needs no model and without any."""

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

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryStore(),
    "file": FileStore,
    "sqlite": SQLiteStore,
}


@pytest.fixture(params=["memory-hash", "memory-none", "file-hash", "sqlite-hash", "sqlite-none"])
def open_everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., ALMA]]:
    store, _, embedder = request.param.partition("-")
    opened: list[ALMA] = []

    def opener(**options: Any) -> ALMA:
        made = {"embedder": HashEmbedder() if embedder == "hash" else None, "project_id": "test", **options}
        opened.append(ALMA(STORES[store](tmp_path / "alma.db"), **made))
        return opened[-1]

    yield opener
    for alma in opened:
        alma.close()
