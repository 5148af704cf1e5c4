"""ChromaStore: records in Chroma, in a folder of this process or on a Chroma server.

Chroma always keeps a vector, so a row has one number that means nothing. Contents are metadata, because Chroma would
index each three letters of its own kind of document. An upsert adds to the metadata that is there: every field is
written each time, and an empty list, which Chroma refuses, as a list of one empty text. There are no conditional
writes: a folder is locked, and on a server the writer keeps a lease.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from ..errors import ConfigError, MissingExtraError, StorageError, UnavailableError
from ..types.query import split_batches
from .documents import ROWS, Condition, Document, DocumentStore, lock_folder

os.environ["ANONYMIZED_TELEMETRY"] = "False"
try:
    import chromadb
    from chromadb.api.client import Client
    from chromadb.config import Settings
    from chromadb.errors import ChromaError, NotFoundError
    from httpx import HTTPError
except ImportError as error:
    raise MissingExtraError("chromadb", "chroma", "The store chroma") from error

T = TypeVar("T")
_BATCH = 500
_MANY, _MANY_TERMS = 5000, 200  # Conditions with more names, or terms, are left out: Chroma's SQL takes no more.
_ROW_INDEX = {"space": "l2", "ef_construction": 8, "max_neighbors": 2}
_PASSAGE_INDEX = {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32}


class ChromaStore(DocumentStore):
    """A store in Chroma: `path` is a folder, `url` a server; `headers` are sent to the server."""

    def __init__(
        self,
        *,
        path: str = "",
        url: str = "",
        collection: str = "alma",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        trust: bool = False,
    ) -> None:
        """With `trust`, a folder is opened even if git tracks files in it or another user owns it."""
        super().__init__(ChromaDocuments(path, url, collection, headers or {}, timeout, trust=trust))


class ChromaDocuments:
    """The documents of a Chroma server or folder."""

    def __init__(
        self,
        path: str,
        url: str,
        collection: str,
        headers: Mapping[str, str],
        timeout: float,
        *,
        trust: bool = False,
    ) -> None:
        if bool(url) == bool(path):
            raise ConfigError("chroma needs either the url of a server or the path of a folder")
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}", collection):
            raise ConfigError(f"the collection {collection!r} must consist of letters, digits, and ._- after the first")
        self._collection = collection
        self._collections: dict[int, chromadb.Collection] = {}
        self.is_locked = not url
        with ExitStack() as stack:
            if url:
                self._place = f"the Chroma server {urlsplit(url).hostname}"
            else:
                folder = Path(path).expanduser()
                self._place = f"the Chroma folder {folder}"
                stack.enter_context(lock_folder(folder, trust=trust))
            self._client = self._call(_connect, path and str(folder), url, headers, timeout)
            stack.callback(_disconnect, self._client)
            self._stack = stack.pop_all()

    def list_spaces(self) -> list[int]:
        """Return the dimensions for which there is a collection."""
        names = (one.name.rpartition("-") for one in self._call(self._client.list_collections))
        return [int(space) for name, _, space in names if name == self._collection and space.isdecimal() and int(space)]

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add or replace documents."""
        collection = self._open_collection(space, create=True)
        for batch in split_batches(documents, _BATCH):
            metadatas: Any = [
                {
                    **{name: [""] if value == [] else value for name, value in one.fields.items()},
                    "content": one.content,
                }
                for one in batch
            ]
            keys = [one.key for one in batch]
            # Numbers that differ make an index of rows that is quick to build.
            vectors: Any = [list(one.vector) or [int(one.key[:6].encode().hex(), 16) / 2**48] for one in batch]
            self._call(collection.upsert, keys, embeddings=vectors, metadatas=metadatas)

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys."""
        collection = self._open_collection(space)
        documents: list[Document] = []
        for batch in split_batches(keys if collection else (), _BATCH):
            documents += _list_documents(self._call(collection.get, list(batch), include=["metadatas"]))
        return documents

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys."""
        collection = self._open_collection(space)
        for batch in split_batches(keys if collection else (), _BATCH):
            self._call(collection.delete, list(batch))

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield the documents that meet the conditions."""
        collection = self._open_collection(space)
        if collection:
            where = _make_filter(conditions)
            yield from _list_documents(self._call(collection.get, where=where, include=["metadatas"]))

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the nearest documents that meet the conditions."""
        collection = self._open_collection(space)
        if not collection:
            return []
        options = {"n_results": limit, "where": _make_filter(conditions), "include": ["metadatas", "distances"]}
        answer: Any = self._call(collection.query, [list(vector)], **options)
        single = {name: answer[name][0] for name in ("ids", "metadatas")}
        scores = [1.0 - distance for distance in answer["distances"][0]]
        nearest = list(zip(_list_documents(single), scores, strict=True))
        if len(nearest) < limit:
            # Among many equal vectors the index does not find everything. The rest is added, as far away.
            nearest += [(one, -1.0) for one in self.find(space, conditions) if one.key not in single["ids"]]
        return nearest

    def close(self) -> None:
        """Close the client and unlock the folder."""
        self._stack.close()

    def _open_collection(self, space: int, *, create: bool = False) -> Any:
        """Return the collection of a space, or None if there is none yet."""
        if space not in self._collections:
            name, options = f"{self._collection}-{space}", {"embedding_function": None}
            try:
                if create:
                    index: Any = {"hnsw": _ROW_INDEX if space == ROWS else _PASSAGE_INDEX}
                    action = self._client.get_or_create_collection
                    self._collections[space] = self._call(action, name, configuration=index, **options)
                else:
                    self._collections[space] = self._call(self._client.get_collection, name, **options)
            except NotFoundError:
                return None
        return self._collections[space]

    def _call(self, action: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call the client; what it raises becomes a StorageError."""
        try:
            return action(*args, **options)
        except NotFoundError:
            raise
        except (ChromaError, HTTPError, ValueError, OSError) as error:
            hint = "check the folder and its permissions" if self.is_locked else "check its url, and that it runs"
            kind = UnavailableError if isinstance(error, (HTTPError, OSError)) and not self.is_locked else StorageError
            raise kind(f"{self._place} failed: {error}; {hint}") from error


def _connect(folder: str, url: str, headers: Mapping[str, str], timeout: float) -> Client:
    settings = Settings(anonymized_telemetry=False)
    if folder:
        client = chromadb.PersistentClient(folder, settings)
    else:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 8000)
        client = chromadb.HttpClient(parts.hostname or url, port, is_secure, dict(headers), settings)
        cast(Any, client)._server._session.timeout = timeout  # Chroma would wait forever.
    return cast(Client, client)


def _disconnect(client: Client) -> None:
    """Close a client and its connections, which Chroma would leave open."""
    owners: list[Any] = [client, client._admin_client]
    for one in owners:
        if hasattr(one._server, "_session"):
            one._server._session.close()
    client.close()


def _make_filter(conditions: Sequence[Condition]) -> Any:
    terms: list[dict[str, Any]] = []
    for field, names, at_least, at_most in conditions:
        if names is None:
            terms += [{field: {"$gte": at_least}}] if at_least is not None else []
            terms += [{field: {"$lte": at_most}}] if at_most is not None else []
        elif field not in ("links", "tags"):
            terms += [{field: {"$in": list(names)}}] if len(names) <= _MANY else []
        elif len(names) <= _MANY_TERMS:
            options = [{field: {"$contains": name}} for name in names]
            terms.append({"$or": options} if len(options) > 1 else options[0])
    if len(terms) > 1:
        return {"$and": terms}
    return terms[0] if terms else None


def _list_documents(answer: Any) -> list[Document]:
    documents = []
    for key, metadata in zip(answer["ids"], answer["metadatas"], strict=True):
        fields = dict(metadata)
        documents.append(Document(key, fields, fields.pop("content")))
    return documents
