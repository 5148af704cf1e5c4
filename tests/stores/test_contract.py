from __future__ import annotations

import pytest

from alma.ports import Store
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore, cache, search, store, vectors
from alma.testing import StoreContract, capabilities


class TestMemoryStore(StoreContract):
    histories = 10

    def make_store(self) -> Store:
        return MemoryStore()


class TestFileStore(StoreContract):
    histories = 20

    def make_store(self) -> Store:
        return FileStore(self.folder / "memory.jsonl")

    def open_again(self, store: Store) -> Store:
        return FileStore(self.folder / "memory.jsonl")


class TestSQLiteStore(StoreContract):
    histories = 30

    def make_store(self) -> Store:
        return SQLiteStore(self.folder / "memory.db")

    def open_again(self, store: Store) -> Store:
        return SQLiteStore(self.folder / "memory.db")


def test_capabilities_tell_the_stores_apart(tmp_path):
    stores = {MemoryStore(): "atomic", FileStore(tmp_path / "f"): "persistent atomic many"}
    stores[SQLiteStore(tmp_path / "s")] = "words count check persistent atomic many"
    for one, names in stores.items():
        one.close()
        assert " ".join(name.split()[0] for name, can in capabilities(one).items() if can) == names
        assert capabilities(type(one)) == capabilities(one)


class TestSQLiteStoreWithLittleRoom(TestSQLiteStore):
    """The same with blocks of four vectors and hardly any word rare, so that every path is taken."""

    histories = 40

    def setup_method(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(vectors, "BLOCK", 4)
        self._patch.setattr(search, "BUDGET", 1)
        self._patch.setattr(store, "_FEW_CELLS", 1)
        self._patch.setattr(store, "_MANY_SCOPES", 1)
        self._patch.setattr(cache, "_FIRST_BATCH", 1)
        self._patch.setattr(cache, "_GROWTH", 2)
        self._patch.setattr(search, "FEW", 1)
        super().setup_method()

    def teardown_method(self) -> None:
        super().teardown_method()
        self._patch.undo()
