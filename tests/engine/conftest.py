"""Every store, with an embedder that needs no model and without any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore


@pytest.fixture(params=["hash", "none"])
def open_everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., ALMA]]:
    """Open memories on SQLite, with and without an embedder."""
    opened: list[ALMA] = []

    def opener(**options: Any) -> ALMA:
        made = {"embedder": HashEmbedder() if request.param == "hash" else None, "project_id": "test", **options}
        opened.append(ALMA(SQLiteStore(tmp_path / "alma.db"), **made))
        return opened[-1]

    yield opener
    for alma in opened:
        alma.close()
