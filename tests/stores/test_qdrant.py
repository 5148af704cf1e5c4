from __future__ import annotations

from alma.ports import Store
from alma.stores.qdrant import QdrantStore
from alma.testing import StoreContract


class TestQdrantFolder(StoreContract):
    histories = 15

    def make_store(self) -> Store:
        return QdrantStore(path=str(self.folder / "qdrant"))

    def open_again(self, store: Store) -> Store:
        return QdrantStore(path=str(self.folder / "qdrant"))
