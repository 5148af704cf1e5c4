"""The tests of a memory that is open here, run against one that is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests import test_core
from tests.conftest import Clock
from tests.test_core import TestFeedback, TestLearning, TestSharing, TestUpkeep

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.remote import RemoteALMA
from alma.stores.sqlite import SQLiteStore

from .conftest import HOST, Within, make_site

__all__ = ["TestFeedback", "TestLearning", "TestSharing", "TestUpkeep"]


class TestTelling(test_core.TestTelling):
    test_what_is_trusted_less_changes_nothing_that_is_trusted_more = None  # type: ignore[assignment]
    """Over the network nobody speaks as a person."""


class TestSingleMemories(test_core.TestSingleMemories):
    test_nothing_of_a_deleted_fact_is_left = None  # type: ignore[assignment]
    """It looks into the store itself."""


@pytest.fixture
def open_alma(tmp_path: Path, clock: Clock) -> Iterator[Any]:
    with ExitStack() as stack:

        def opener(**options: Any) -> RemoteALMA:
            given = {"clock": clock, "project_id": "test", **options}
            file = SQLiteStore(tmp_path / "alma.db")
            held = stack.enter_context(ALMA(file, given.pop("embedder", HashEmbedder()), **given))
            folder = Path(stack.enter_context(TemporaryDirectory(dir=tmp_path)))
            site = make_site(folder, alma=held)
            return stack.enter_context(ALMA.connect(f"https://{HOST}", site.secrets["admin"], transport=Within(site)))

        yield opener
