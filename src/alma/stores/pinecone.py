"""Records in Pinecone: an index for rows, and one for each dimension of vectors.

Pinecone is eventually consistent. After a write of rows this process waits until its reads reflect the write; other
processes may see it later. A put of several records is not all or none, and one process at a time can write.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError, MissingExtraError, StorageError, UnavailableError
from ..forks import hold_at_fork
from ..types.query import split_batches
from .documents import ROWS, Condition, Document
from .service import BoundedDocuments, BoundedStore, make_error, name_part, split_by_size

try:
    import pinecone
    from pinecone import Index, Pinecone
except ImportError as error:
    raise MissingExtraError("pinecone", "pinecone", "The store pinecone") from error

# The service takes 40 KB of metadata with a vector, and 2 MB and 1,000 vectors in a request; it answers with 4 MB.
_CONTENT_BYTES, _FIELD_BYTES = 30_000, 8_000
_BATCH, _BATCH_BYTES = 100, 1_500_000
_MOST_HITS, _MOST_NAMES = 10_000, 10_000
_POLL_SECONDS, _CREATION_SECONDS = 0.1, 300


class PineconeStore(BoundedStore):
    """Records in Pinecone. `index` is the beginning of the names of its indexes, `namespace` that of its namespaces.

    `host` is the address of the control plane, if it is not that of the public service. `patience` is how many
    seconds to wait until a write of this process is visible to its own reads.
    """

    def __init__(
        self,
        *,
        api_key: str = "",
        host: str = "",
        index: str = "alma",
        namespace: str = "alma",
        cloud: str = "aws",
        region: str = "us-east-1",
        patience: float = 30.0,
    ) -> None:
        documents = PineconeDocuments(api_key, host, index, namespace, cloud, region, patience)
        super().__init__(BoundedDocuments(documents, _CONTENT_BYTES, _FIELD_BYTES))


class PineconeDocuments:
    """Documents in Pinecone. The fields and the content of a document are the metadata of its vector."""

    is_locked = False

    def __init__(
        self, api_key: str, host: str, index: str, namespace: str, cloud: str, region: str, patience: float
    ) -> None:
        if not api_key:
            raise ConfigError("Pinecone needs the option api_key; write api_key: ${PINECONE_API_KEY}")
        if not re.fullmatch(r"[a-z0-9-]{1,30}", index):
            raise ConfigError(f"the index {index!r} must consist of lower-case letters, digits and -, 30 at most")
        self._api_key, self._host, self._name, self._namespace = api_key, host, index, namespace
        self._deployment = {"deployment_type": "managed", "cloud": cloud, "region": region}
        self._patience = patience
        self._lock = hold_at_fork(threading.Lock())
        self._process, self._is_closed = 0, False
        self._indexes: dict[str, Index] = {}
        try:
            self._open_index(ROWS)
        except BaseException:
            self.close()
            raise

    def list_spaces(self) -> list[int]:
        """Return the spaces of passages that exist."""
        with self._lock, self._report_errors():
            names = [index.name.removeprefix(f"{self._name}-") for index in self._connect().indexes.list()]
        return [int(name) for name in names if name.isdecimal()]

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add documents, or replace those with the same keys."""
        vectors: Iterator[dict[str, Any]] = (
            {"id": one.key, "values": [*one.vector] or [1.0], "metadata": {**one.fields, "_content": one.content}}
            for one in documents
        )
        for batch in split_by_size(vectors, _BATCH, _BATCH_BYTES):
            self._upsert(space, batch)

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys, without vectors; unknown keys are left out."""
        if (index := self._open_index(space)) is None:
            return []
        documents: list[Document] = []
        for batch in split_batches(keys, _BATCH):
            with self._report_errors():
                vectors = index.fetch(ids=batch, namespace=name_part(self._namespace, space)).vectors
            documents += [_make_document(vector) for vector in vectors.values()]
        return documents

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys; unknown keys are ignored."""
        if (index := self._open_index(space)) is None:
            return
        for batch in split_batches(keys, _BATCH):
            with self._report_errors():
                index.delete(ids=batch, namespace=name_part(self._namespace, space))
        if space == ROWS:
            self._wait_until(lambda: not self.read(ROWS, keys))

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield all documents that meet the conditions, without vectors."""
        if (index := self._open_index(space)) is None:
            return
        tests, namespace, token = _compile_filter(conditions), name_part(self._namespace, space), None
        while True:
            with self._report_errors():
                page = index.fetch_by_metadata(filter=tests, namespace=namespace, limit=_BATCH, pagination_token=token)
            yield from map(_make_document, page.vectors.values())
            token = page.pagination.next if page.pagination else None
            if not token:
                return

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest by cosine that meet the conditions, best first; at most 10,000."""
        if (index := self._open_index(space)) is None:
            return []
        has_room = limit <= _BATCH  # The answer to a larger question has room for ids only.
        with self._report_errors():
            hits = index.query(
                vector=[*vector],
                top_k=min(limit, _MOST_HITS),
                filter=_compile_filter(conditions),
                namespace=name_part(self._namespace, space),
                include_metadata=has_room,
            ).matches
        documents = map(_make_document, hits) if has_room else self.read(space, [hit.id for hit in hits])
        by_key = {document.key: document for document in documents}
        return [(by_key[hit.id], hit.score) for hit in hits if hit.id in by_key]

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._process == os.getpid() and not self._is_closed:
                self._forget_indexes()
                self._client.close()
            self._is_closed = True

    def _forget_indexes(self) -> None:
        for name in list(self._indexes):
            self._indexes.pop(name).close()

    def _upsert(self, space: int, vectors: Sequence[Mapping[str, Any]]) -> None:
        index, namespace = self._open_index(space, to_write=True), name_part(self._namespace, space)
        assert index is not None
        with self._report_errors():
            answer = index.upsert(vectors=vectors, namespace=namespace).response_info
        position = answer.lsn_committed if answer else None

        def is_visible() -> bool:
            with self._report_errors():
                answer = index.query(vector=[1.0], top_k=1, namespace=namespace).response_info
            return position is None or not answer or answer.lsn_reconciled is None or answer.is_reconciled(position)

        if space == ROWS and position is not None:
            self._wait_until(is_visible)

    def _wait_until(self, is_visible: Callable[[], bool]) -> None:
        """Wait until a write is visible to reads. If that takes too long, go on: the write is durable."""
        deadline = time.monotonic() + self._patience
        while not is_visible() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _connect(self) -> Pinecone:
        if self._is_closed:
            raise StorageError("the store is closed; open it again")
        if self._process != os.getpid():  # Connections must not be shared with the process that forked this one.
            self._client = Pinecone(api_key=self._api_key, host=self._host or None)
            self._process, self._indexes = os.getpid(), {}
        return self._client

    def _open_index(self, space: int, *, to_write: bool = False) -> Index | None:
        """Return the index of a space. To write it is created if it does not exist; to read there is None."""
        name, dimension = (f"{self._name}-{space}", space) if space > ROWS else (f"{self._name}-rows", 1)
        with self._lock, self._report_errors():
            client = self._connect()
            if name in self._indexes:
                return self._indexes[name]
            if not client.indexes.exists(name):
                if not to_write:
                    return None
                schema = {"fields": {"_values": {"type": "dense_vector", "dimension": dimension, "metric": "cosine"}}}
                client.indexes.create(name=name, schema=schema, deployment=self._deployment, timeout=_CREATION_SECONDS)
            model = client.indexes.describe(name)
            shapes = [
                (getattr(one, "dimension", 0), getattr(one, "metric", "")) for one in model.schema.fields.values()
            ]
            if shapes != [(dimension, "cosine")]:
                raise ConfigError(
                    f"the Pinecone index {name} must have one vector of dimension {dimension} with the metric cosine; "
                    "delete it, or set the option index to another name"
                )
            return self._indexes.setdefault(name, client.index(host=model.host or ""))

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        """Turn errors of the service into those of alma, without the API key."""
        try:
            yield
        except pinecone.ApiError as error:
            if error.status_code == 404:
                self._forget_indexes()
            raise make_error("Pinecone", error.status_code, error.message, self._api_key) from None
        except (pinecone.PineconeConnectionError, pinecone.PineconeTimeoutError) as error:
            text = f"Pinecone cannot be reached ({type(error).__name__}); check the network and the option host"
            raise UnavailableError(text) from None
        except pinecone.PineconeError as error:
            raise make_error("Pinecone", 400, str(error), self._api_key) from None


def _make_document(vector: Any) -> Document:
    # The service keeps all numbers as floats.
    fields = {name: int(one) if isinstance(one, float) else one for name, one in (vector.metadata or {}).items()}
    content = str(fields.pop("_content", ""))
    return Document(vector.id, fields, content)


def _compile_filter(conditions: Sequence[Condition]) -> dict[str, Any]:
    """Return the conditions in the filter language. It takes 10,000 names; more do not filter."""
    tests: list[dict[str, Any]] = [{"_content": {"$exists": True}}]
    for field, names, at_least, at_most in conditions:
        if names is not None and len(names) <= _MOST_NAMES:
            tests.append({field: {"$in": [*names]}})
        limits = (("$gte", at_least), ("$lte", at_most))
        tests += [{field: {operator: limit}} for operator, limit in limits if limit is not None]
    return {"$and": tests}
