"""The store in PostgreSQL."""

from __future__ import annotations

import pytest

from alma.stores.postgres import PostgresStore
from alma.testing import StoreContract
from tests.stores.postgres_server import create_database


class PostgresContract(StoreContract):
    histories = 10
    options = {}
    store_class = PostgresStore

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_server(cls, postgres_server):
        cls.server = postgres_server

    def make_store(self):
        self.dsn = create_database(self.server.dsn)
        return self.store_class(self.dsn, **self.options)

    def open_again(self, store):
        return self.store_class(self.dsn, **self.options)


class TestPostgres(PostgresContract):
    pass
