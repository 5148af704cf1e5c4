"""A page in a script without spaces is one word of 30,000 characters, and no reason to call a store damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.operations import operations
from alma.stores.sqlite import SQLiteStore

PAGE = "数据库在端口五四三二上运行" * 2_310


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") as made:
        made.add_domain_knowledge("dev", "database", "The database listens on port 5432")
        yield made


def test_it_can_be_searched_for(alma: ALMA) -> None:
    assert len(PAGE) > 30_000
    matches = operations()["search"].call(alma, {"query": f"{PAGE} database"})
    assert [one.memory.domain for one in matches] == ["database"]


def test_it_can_be_retrieved_for(alma: ALMA) -> None:
    alma.retrieve(PAGE, "dev")
    for mode in ("broad", "precise"):
        alma.retrieve(PAGE, "dev", mode=mode)
