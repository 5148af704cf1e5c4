"""The store azure, over a loopback server that follows the published protocol of Azure Cosmos DB for NoSQL."""

from __future__ import annotations

from itertools import count

from tests.stores.cosmos_server import KEY, CosmosServer

from alma.ports import Store
from alma.stores.azure import CosmosStore
from alma.testing import StoreContract

_names = count()


class TestCosmosStore(StoreContract):
    """The whole contract. Every store has a partition of its own on one server."""

    histories = 6
    server: CosmosServer

    @classmethod
    def setup_class(cls) -> None:
        cls.server = CosmosServer()

    @classmethod
    def teardown_class(cls) -> None:
        cls.server.close()

    def make_store(self) -> Store:
        self.name = f"test{next(_names)}"
        return CosmosStore(endpoint=self.server.url, key=KEY, partition=self.name)

    def open_again(self, store: Store) -> Store:
        return CosmosStore(endpoint=self.server.url, key=KEY, partition=self.name)
