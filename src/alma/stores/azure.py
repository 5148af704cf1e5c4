"""Records in Azure Cosmos DB for NoSQL: a container for rows, and one for each dimension of vectors.

All items of a store have one partition key, so that a put of up to 100 records is one transaction. A row is replaced
only if its etag has not changed since it was compared, so several processes can write and no increment is lost.
"""

from __future__ import annotations

import os
import re
import threading
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError, MissingExtraError, StorageError, UnavailableError, unknown
from ..forks import hold_at_fork
from ..types.query import split_batches
from .documents import ROWS, Condition, Document
from .service import BoundedConditionalDocuments, BoundedStore, make_error, name_part, split_by_size

try:
    from azure.core.exceptions import AzureError
    from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey, exceptions
except ImportError as error:
    raise MissingExtraError("azure-cosmos", "azure", "The store azure") from error

# The service takes items and transactions of 2 MB, 100 operations in a transaction, and 6,000 names in an `IN`.
_CONTENT_BYTES, _FIELD_BYTES = 1_000_000, 100_000
_BATCH, _BATCH_BYTES = 100, 1_800_000
_MOST_HITS, _MOST_NAMES = 50_000, 6_000
_INDEXES = ("quantizedFlat", "diskANN", "flat")
_LISTS = ("links", "tags")


class CosmosStore(BoundedStore):
    """Records in Azure Cosmos DB. `container` is the beginning of the names of its containers.

    `partition` keeps stores in the same containers apart. `index` is the kind of vector index for new containers.
    """

    def __init__(
        self,
        *,
        endpoint: str = "",
        key: str = "",
        database: str = "alma",
        container: str = "alma",
        partition: str = "alma",
        index: str = "quantizedFlat",
    ) -> None:
        documents = CosmosDocuments(endpoint, key, database, container, partition, index)
        super().__init__(BoundedConditionalDocuments(documents, _CONTENT_BYTES, _FIELD_BYTES))


class CosmosDocuments:
    """Documents in Azure Cosmos DB."""

    is_locked = False

    def __init__(self, endpoint: str, key: str, database: str, container: str, partition: str, index: str) -> None:
        for name, value in (("endpoint", endpoint), ("key", key)):
            if not value:
                raise ConfigError(f"Cosmos DB needs the option {name}; write {name}: ${{COSMOS_{name.upper()}}}")
        for name in (database, container):
            if not re.fullmatch(r"[\w-]{1,200}", name):
                raise ConfigError(f"{name!r} must consist of letters, digits, _ and -")
        if index not in _INDEXES:
            raise ConfigError(unknown("vector index", index, _INDEXES))
        self._endpoint, self._key, self._index = endpoint, key, index
        self._database_name, self._name, self._partition = database, container, partition
        self._lock = hold_at_fork(threading.Lock())
        self._process, self._is_closed = 0, False
        self._containers: dict[str, ContainerProxy] = {}
        try:
            self._open_container(ROWS)
        except BaseException:
            self.close()
            raise

    def list_spaces(self) -> list[int]:
        """Return the spaces of passages that exist."""
        with self._lock, self._report_errors():
            containers = [one["id"].removeprefix(f"{self._name}-") for one in self._connect().list_containers()]
        return [int(name) for name in containers if name.isdecimal()]

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add documents, or replace those with the same keys."""
        for batch in self._split_items(space, documents):
            if not self._run_batch(space, [("upsert", (item,)) for item in batch]):
                raise make_error("Cosmos DB", 449, "another process wrote the same items", self._key)

    def replace_rows(self, rows: Sequence[tuple[Document, str]]) -> list[str]:
        """Write each row if the stored one has the stamp beside it; return the keys of rows that are not written.

        100 rows of 2 MB in all are one transaction: if one of them was changed, none of them is written.
        """
        stamps = {document.key: stamp for document, stamp in rows}
        lost: list[str] = []
        for batch in self._split_items(ROWS, [document for document, _ in rows]):
            keys = tuple(item["id"] for item in batch)
            stored = {one["id"]: one for one in self._query(ROWS, "c.id, c.fields, c._etag", [Condition("id", keys)])}
            if any(stamps[key] != (stored[key]["fields"]["stamp"] if key in stored else "") for key in keys):
                lost += keys
                continue
            operations = [
                ("replace", (item["id"], item), {"if_match_etag": stored[item["id"]]["_etag"]})
                if item["id"] in stored
                else ("create", (item,))
                for item in batch
            ]
            try:
                lost += () if self._run_batch(ROWS, operations) else keys
            except StorageError:  # If only the answer was lost, the rows are written.
                trails: dict[str, Any] = {one.key: one.fields["trail"] for one in self.read(ROWS, keys)}
                if not all(item["fields"]["stamp"] in trails.get(item["id"], ()) for item in batch):
                    raise
        return lost

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys, without vectors; unknown keys are left out."""
        batches = split_batches(keys, 1000)
        return [document for batch in batches for document in self.find(space, [Condition("id", tuple(batch))])]

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys; unknown keys are ignored."""
        for batch in split_batches(keys, _BATCH):
            self._delete_items(space, [Condition("id", tuple(batch))])

    def remove_rows(self, stamps: Mapping[str, str]) -> None:
        """Remove the rows whose stored stamp is the expected one."""
        for batch in split_batches([*stamps], _BATCH):
            expected = tuple(stamps[key] for key in batch)
            self._delete_items(ROWS, [Condition("id", tuple(batch)), Condition("stamp", expected)])

    def _delete_items(self, space: int, conditions: Sequence[Condition]) -> None:
        is_done = False
        while not is_done:  # A transaction fails if another process changes or removes one of its items first.
            stored = self._query(space, "c.id, c._etag", conditions)
            deletions = [("delete", (item["id"],), {"if_match_etag": item["_etag"]}) for item in stored]
            is_done = not deletions or self._run_batch(space, deletions)

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield all documents that meet the conditions, without vectors."""
        return map(_make_document, self._query(space, "c.id, c.fields, c.content", conditions))

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest by cosine that meet the conditions, best first; at most 50,000."""
        distance = "VectorDistance(c.vector, @vector)"
        selection = f"TOP @limit c.id, c.fields, c.content, {distance} AS score"
        values = {"@limit": min(limit, _MOST_HITS), "@vector": [*vector]}
        items = self._query(space, selection, conditions, f" ORDER BY {distance}", values)
        return [(_make_document(item), item["score"]) for item in items]

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._process == os.getpid() and not self._is_closed:
                self._client.close()
            self._is_closed = True

    def _split_items(self, space: int, documents: Sequence[Document]) -> Iterator[list[dict[str, Any]]]:
        """Yield the documents as items, in batches that fit into a transaction."""
        part = {"part": name_part(self._partition, space)}
        items = (
            {"id": one.key, **part, "fields": dict(one.fields), "content": one.content}
            | ({"vector": [*one.vector]} if one.vector else {})
            for one in documents
        )
        return split_by_size(items, _BATCH, _BATCH_BYTES)

    def _query(
        self,
        space: int,
        selection: str,
        conditions: Sequence[Condition],
        order: str = "",
        values: Mapping[str, object] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the items that a query selects. Values are parameters, never part of its text."""
        values = dict(values or {})
        text = f"SELECT {selection} FROM c WHERE {_compile_conditions(conditions, values)}{order}"
        if (container := self._open_container(space)) is None:
            return
        with self._report_errors():
            yield from container.query_items(
                query=text,
                parameters=[{"name": name, "value": value} for name, value in values.items()],
                partition_key=name_part(self._partition, space),
            )

    def _run_batch(self, space: int, operations: Sequence[Any]) -> bool:
        """Run operations as a transaction; return whether it was, or an item was changed by another process first."""
        container = self._open_container(space, to_write=True)
        assert container is not None
        with self._report_errors():
            try:
                container.execute_item_batch(operations, partition_key=name_part(self._partition, space))
            except exceptions.CosmosBatchOperationError as error:
                if error.status_code in (404, 409, 412):
                    return False
                raise
        return True

    def _connect(self) -> DatabaseProxy:
        if self._is_closed:
            raise StorageError("the store is closed; open it again")
        if self._process != os.getpid():  # Connections must not be shared with the process that forked this one.
            self._client = CosmosClient(self._endpoint, self._key, enable_compact_utf8_item_writes=True)
            self._process, self._containers = os.getpid(), {}
            self._database = self._client.create_database_if_not_exists(self._database_name)
        return self._database

    def _open_container(self, space: int, *, to_write: bool = False) -> ContainerProxy | None:
        """Return the container of a space. To write it is created if it does not exist; to read there is None."""
        name, dimension = (f"{self._name}-{space}", space) if space > ROWS else (f"{self._name}-rows", 0)
        with self._lock, self._report_errors():
            database = self._connect()
            if name in self._containers:
                return self._containers[name]
            container = database.get_container_client(name)
            try:
                properties = container.read()
            except exceptions.CosmosResourceNotFoundError:
                if not to_write:
                    return None
                paths = {"includedPaths": [{"path": "/fields/*"}], "excludedPaths": [{"path": "/*"}]}
                vector = {"path": "/vector", "dataType": "float32", "distanceFunction": "cosine", "dimensions": space}
                options: dict[str, Any] = {"indexing_policy": paths}
                if dimension:
                    paths["vectorIndexes"] = [{"path": "/vector", "type": self._index}]
                    options["vector_embedding_policy"] = {"vectorEmbeddings": [vector]}
                container = database.create_container_if_not_exists(name, PartitionKey("/part"), **options)
                properties = container.read()
            vectors = properties.get("vectorEmbeddingPolicy", {}).get("vectorEmbeddings", [])
            if [one["dimensions"] for one in vectors] != [dimension] * (dimension > 0):
                raise ConfigError(
                    f"the Cosmos DB container {name} must have vectors of dimension {dimension}; "
                    "delete it, or set the option container to another name"
                )
            return self._containers.setdefault(name, container)

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        """Turn errors of the service into those of alma, without the key."""
        try:
            yield
        except exceptions.CosmosHttpResponseError as error:
            if error.status_code == 404:
                self._containers.clear()
            raise make_error("Cosmos DB", error.status_code or 500, error.http_error_message or "", self._key) from None
        except Base64Error:
            raise ConfigError("the option key is not a key of Cosmos DB: those are base64") from None
        except AzureError as error:
            text = f"Cosmos DB cannot be reached ({type(error).__name__}); check the network and the option endpoint"
            raise UnavailableError(text) from None


def _make_document(item: Mapping[str, Any]) -> Document:
    return Document(item["id"], item["fields"], item["content"])


def _compile_conditions(conditions: Sequence[Condition], values: dict[str, object]) -> str:
    """Return the conditions in the language of queries, and add their values. More than 6,000 names do not filter."""
    tests = ["true"]

    def bind(value: object) -> str:
        name = f"@p{len(values)}"
        values[name] = value
        return name

    for field, names, at_least, at_most in conditions:
        path = "c.id" if field == "id" else f'c.fields["{field}"]'
        if names is not None and len(names) <= _MOST_NAMES:
            listed = ", ".join(map(bind, names))
            exists = f"EXISTS(SELECT VALUE one FROM one IN {path} WHERE one IN ({listed}))"
            tests.append(exists if field in _LISTS else f"{path} IN ({listed})")
        limits = ((">=", at_least), ("<=", at_most))
        tests += [f"{path} {operator} {bind(limit)}" for operator, limit in limits if limit is not None]
    return " AND ".join(tests)
