"""The store Pinecone, over a loopback server that follows the service's published protocol."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.stores.loopback import Answer, serve
from tests.stores.pinecone_server import KEY, PineconeServer, fail

from alma.ports import Store
from alma.stores.pinecone import PineconeStore
from alma.testing import StoreContract

_names = count()


class TestPineconeStore(StoreContract):
    """The whole contract. Every store has a namespace of its own on one server."""

    histories = 6
    server: PineconeServer

    @classmethod
    def setup_class(cls) -> None:
        cls.server = PineconeServer()

    @classmethod
    def teardown_class(cls) -> None:
        cls.server.close()

    def make_store(self) -> Store:
        self.name = f"test{next(_names)}"
        return PineconeStore(api_key=KEY, host=self.server.url, namespace=self.name)

    def open_again(self, store: Store) -> Store:
        return PineconeStore(api_key=KEY, host=self.server.url, namespace=self.name)
