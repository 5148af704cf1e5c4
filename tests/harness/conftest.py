from __future__ import annotations

from collections.abc import Iterator

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore


@pytest.fixture
def alma() -> Iterator[ALMA]:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="my-project") as opened:
        yield opened
