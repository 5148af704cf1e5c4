"""QdrantStore: records in Qdrant, on a server or in a folder (the client's local mode, for small memories).

The rows are one collection without vectors; passages are in one collection for each dimension. A write waits until it
is applied. Rows are replaced by conditional upserts (Qdrant 1.16), so several processes can share a server.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, uuid5

from ..errors import BusyError, ConfigError, MissingExtraError, StorageError, UnavailableError
from ..retry import BACKOFF, call_with_retries
from ..types.query import split_batches
from .documents import NAMED, NUMBERED, ROWS, Condition, Document, DocumentStore, lock_folder

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
except ImportError as error:
    raise MissingExtraError("qdrant-client", "qdrant", "The store qdrant") from error

T = TypeVar("T")
_BATCH = 256
_RETRIES = 2
_PAGE, _LOCAL_PAGE = 1000, 1_000_000  # Local mode looks at all points for each page.
_EFFORT = 256  # How many neighbours HNSW looks at; small filtered sets are compared exactly by Qdrant's own plan.


class QdrantStore(DocumentStore):
    """A store in Qdrant: `url` is a server, `path` a folder, or ":memory:" for tests."""

    def __init__(
        self,
        *,
        url: str = "",
        path: str = "",
        api_key: str = "",
        collection: str = "alma",
        timeout: int = 30,
        trust: bool = False,
    ) -> None:
        """With `trust`, a folder is opened even if git tracks files in it or another user owns it."""
        super().__init__(QdrantDocuments(url, path, api_key, collection, timeout, trust=trust))
        if path == ":memory:":
            self.limits = {**self.limits, "persistent": "the records end with the process; name a folder or a server"}


class QdrantDocuments:
    """The documents of a Qdrant server or folder."""

    def __init__(
        self, url: str, path: str, api_key: str, collection: str, timeout: int, *, trust: bool = False
    ) -> None:
        if bool(url) == bool(path):
            raise ConfigError("qdrant needs either the url of a server or the path of a folder")
        if not re.fullmatch(r"[\w-]{1,100}", collection):
            raise ConfigError(f"the collection {collection!r} must consist of letters, digits, _ and -")
        self.is_locked = not url
        self._page = _PAGE if url else _LOCAL_PAGE
        self._collection = collection
        self._known: set[str] = set()
        # The local mode is not safe for threads. A fork need not wait for this lock: a child may not use the folder.
        self._guard = threading.RLock() if self.is_locked else nullcontext()
        with ExitStack() as stack:
            if url:
                self._place = f"the Qdrant server {urlsplit(url).hostname}"
                options: dict[str, Any] = {"url": url, "api_key": api_key or None, "timeout": timeout}
            elif path == ":memory:":
                self._place, options = "Qdrant in memory", {"location": path}
            else:
                folder = Path(path).expanduser()
                self._place, options = f"the Qdrant folder {folder}", {"path": str(folder)}
                stack.enter_context(lock_folder(folder, trust=trust))
            options["force_disable_check_same_thread"] = True
            self._client = self._call(QdrantClient, **options, check_compatibility=False)
            stack.callback(self._client.close)
            self._stack = stack.pop_all()

    def list_spaces(self) -> list[int]:
        """Return the dimensions for which there is a collection."""
        names = [one.name for one in self._call(self._client.get_collections).collections]
        spaces = (
            name.removeprefix(f"{self._collection}-") for name in names if name.startswith(f"{self._collection}-")
        )
        return [int(space) for space in spaces if space.isdecimal() and int(space) != ROWS]

    def write(self, space: int, documents: Sequence[Document], condition: models.Filter | None = None) -> None:
        """Add or replace documents; with a condition, replace only those that meet it."""
        name = self._find_collection(space) or self._create_collection(space)
        for batch in split_batches(documents, _BATCH):
            points = [
                models.PointStruct(
                    id=id,
                    vector=list(one.vector) if space != ROWS else {},
                    payload={**one.fields, "document": one.key, "content": one.content},
                )
                for id, one in zip(_make_ids([one.key for one in batch]), batch, strict=True)
            ]
            self._call(self._client.upsert, name, points, wait=True, update_filter=condition)

    def replace_rows(self, rows: Sequence[tuple[Document, str]]) -> list[str]:
        """Write the rows whose stored stamp is the expected one; return the keys of the others."""
        # Stamps are unique, so that one filter serves for all rows; a point that does not exist is always inserted.
        condition = Condition("stamp", tuple({"", *(expected for _, expected in rows)}))
        self.write(ROWS, [row for row, _ in rows], self._make_filter([condition]))
        stored: dict[str, Any] = {row.key: row.fields["trail"] for row in self.read(ROWS, [one.key for one, _ in rows])}
        return [one.key for one, _ in rows if one.key in stored and one.fields["stamp"] not in stored[one.key]]

    def remove_rows(self, stamps: Mapping[str, str]) -> None:
        """Remove the rows whose stored stamp is the expected one. Stamps are unique: keys are not needed to select."""
        if name := self._find_collection(ROWS):
            selection = self._make_filter([Condition("stamp", tuple(stamps.values()))])
            self._call(self._client.delete, name, selection, wait=True)

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys."""
        name = self._find_collection(space)
        documents: list[Document] = []
        for batch in split_batches(keys if name else (), _BATCH):
            documents += map(_make_document, self._call(self._client.retrieve, name, _make_ids(batch)))
        return documents

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys."""
        name = self._find_collection(space)
        for batch in split_batches(keys if name else (), _BATCH):
            selector = models.PointIdsList(points=_make_ids(batch))
            self._call(self._client.delete, name, selector, wait=True)

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield the documents that meet the conditions."""
        name, selection, offset = self._find_collection(space), self._make_filter(conditions), None
        while name:
            points, offset = self._call(self._client.scroll, name, selection, limit=self._page, offset=offset)
            yield from map(_make_document, points)
            if offset is None:
                return

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the nearest documents that meet the conditions."""
        name = self._find_collection(space)
        if not name:
            return []
        effort, selection = models.SearchParams(hnsw_ef=_EFFORT), self._make_filter(conditions)
        options = {"query_filter": selection, "search_params": effort, "limit": limit}
        points = self._call(self._client.query_points, name, list(vector), **options).points
        return [(_make_document(point), point.score) for point in points]

    def close(self) -> None:
        """Close the client and unlock the folder."""
        with self._guard:
            self._stack.close()

    def _find_collection(self, space: int) -> str:
        """Return the name of the collection of a space; empty if there is none yet."""
        name = f"{self._collection}-{space}"
        if name not in self._known and self._call(self._client.collection_exists, name):
            self._known.add(name)
        return name if name in self._known else ""

    def _create_collection(self, space: int) -> str:
        name = f"{self._collection}-{space}"
        vectors: Any = {} if space == ROWS else models.VectorParams(size=space, distance=models.Distance.COSINE)
        try:
            self._call(self._client.create_collection, name, vectors_config=vectors)
        except StorageError:
            # Another process may have created it at the same moment.
            if not self._find_collection(space):
                raise
        kinds = {**dict.fromkeys((*NAMED, "stamp"), "keyword"), **dict.fromkeys(NUMBERED, "integer")}
        for field, kind in kinds.items() if not self.is_locked else ():
            self._call(self._client.create_payload_index, name, field, kind)
        self._known.add(name)
        return name

    def _make_filter(self, conditions: Sequence[Condition]) -> models.Filter | None:
        must: list[Any] = []
        for field, names, at_least, at_most in conditions:
            if names is not None:
                must.append(models.FieldCondition(key=field, match=models.MatchAny(any=list(names))))
            else:
                limits = models.Range(gte=at_least, lte=at_most)
                must.append(models.FieldCondition(key=field, range=limits))
        return models.Filter(must=must) if must else None

    def _call(self, action: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call the client; what it raises becomes a StorageError. A server that cannot be reached is tried again."""
        try:
            with self._guard, warnings.catch_warnings() if self.is_locked else nullcontext():
                if self.is_locked:
                    # It advises against more than 20,000 points, and says that it always compares all of them.
                    warnings.filterwarnings("ignore", "Local mode")
                call = partial(action, *args, **options)
                return call_with_retries(call, ResponseHandlingException, _RETRIES, lambda n, _: BACKOFF * 2**n)
        except ResponseHandlingException as error:
            raise UnavailableError(
                f"{self._place} cannot be reached ({error}); check the url and that it runs"
            ) from error
        except ResourceExhaustedResponse as error:
            raise BusyError(f"{self._place} limits the rate of requests; try again later") from error
        except UnexpectedResponse as error:
            hint = "check the api_key" if error.status_code in (401, 403) else "see the log of the server"
            kind = UnavailableError if error.status_code == 408 or (error.status_code or 0) >= 500 else StorageError
            raise kind(f"{self._place} refused: {error.status_code} {error.reason_phrase}; {hint}") from error
        except (RuntimeError, ValueError, OSError) as error:
            raise StorageError(f"{self._place} failed: {error}") from error


def _make_ids(keys: Sequence[str]) -> list[Any]:
    return [str(uuid5(NAMESPACE_OID, key)) for key in keys]


def _make_document(point: Any) -> Document:
    fields = dict(point.payload)
    return Document(fields.pop("document"), fields, fields.pop("content"))
