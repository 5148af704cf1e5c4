"""A store that nobody closed."""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where


def test_it_is_closed_when_it_is_gone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    connection = store._db._open_files["first"][0]
    assert connection is not None
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_leaves_what_its_parent_opened_alone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    child = os.fork()
    if child == 0:
        del store
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(store.scan(Where())) == []
    store.close()
