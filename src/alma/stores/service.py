"""What databases behind a web service share: limits on the size of documents, and errors.

The content of a row that is too large is kept in pieces, in a space of their own. The pieces are written under a new
token, then the row that names the token, and then the old pieces are removed. So after a crash every row has its
pieces. Pieces without a row are removed by a repair; if one process writes at a time, also by the next write of the
same key. With several writers they may be those of a row that another process is about to write.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeVar

from ..errors import BusyError, StorageError, UnavailableError
from ..types.query import split_batches
from .documents import ROWS, Condition, Conditional, Document, Documents, DocumentStore

PIECES = -1  # The space of pieces. They have no vectors.
_ANYTHING = "*"  # Stands for the value of a field that is too long to be searched.
_TRIES, _PAUSE_SECONDS = 20, 0.1

T = TypeVar("T")
Fields = Mapping[str, str | int | list[str]]


class BoundedDocuments:
    """A database whose documents have limits: so many bytes of content, and so many of fields.

    A field that is too long matches every condition about it, so `find` and `search` may yield more than they should.
    Passages are not split: their content is short, and one that is too long is an error of the database.
    """

    def __init__(self, inner: Documents, content_bytes: int, field_bytes: int) -> None:
        self._inner, self._content_bytes, self._field_bytes = inner, content_bytes, field_bytes
        self.is_locked = inner.is_locked

    def list_spaces(self) -> list[int]:
        """Return the spaces of passages that exist."""
        return self._inner.list_spaces()

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add documents, or replace those with the same keys."""
        if space != ROWS:
            self._inner.write(space, [replace(one, fields=self._shorten_fields(one.fields)) for one in documents])
            return
        rows = self._write_pieces(documents)
        self._inner.write(ROWS, rows)
        self._remove_pieces(rows)

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys, without vectors; unknown keys are left out."""
        return self._join_pieces(self._inner.read(space, keys))

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys, and their pieces."""
        self._inner.remove(space, keys)
        if space == ROWS:
            self._remove_pieces([Document(key, {}) for key in keys])

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield all documents that meet the conditions, without vectors."""
        rows = iter(self._inner.find(space, _widen_conditions(conditions)))
        while batch := list(islice(rows, 100)):
            yield from self._join_pieces(batch)

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest by cosine that meet the conditions, best first."""
        return self._inner.search(space, vector, _widen_conditions(conditions), limit)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def _write_pieces(self, documents: Sequence[Document]) -> list[Document]:
        """Write the pieces of large documents and return the rows to write after them."""
        rows: list[Document] = []
        pieces: list[Document] = []
        for document in documents:
            fields = self._shorten_fields(document.fields)
            if fields == document.fields and measure(document.content) <= self._content_bytes:
                rows.append(document)
                continue
            text = b64encode(zlib.compress(json.dumps([dict(document.fields), document.content]).encode())).decode()
            parts = [text[start : start + self._content_bytes] for start in range(0, len(text), self._content_bytes)]
            head = {**fields, "token": secrets.token_hex(8), "pieces": len(parts)}
            rows.append(replace(document, fields=head, content=""))
            for key, part in zip(_name_pieces(rows[-1]), parts, strict=True):
                pieces.append(Document(key, {"row": document.key}, part))
        if pieces:
            self._inner.write(PIECES, pieces)
        return rows

    def _remove_pieces(self, rows: Sequence[Document]) -> None:
        """Remove all pieces of these rows that they do not name. Nobody else may write meanwhile."""
        for batch in split_batches(rows, 1000):
            condition = Condition("row", tuple(row.key for row in batch))
            current = {key for row in batch for key in _name_pieces(row)}
            if old := [piece.key for piece in self._inner.find(PIECES, [condition]) if piece.key not in current]:
                self._inner.remove(PIECES, old)

    def _join_pieces(self, rows: Sequence[Document]) -> list[Document]:
        """Return whole documents. A row whose pieces are replaced meanwhile is read again."""
        whole: list[Document] = []
        for _ in range(_TRIES):
            names = {row.key: _name_pieces(row) for row in rows}
            keys = [key for some in names.values() for key in some]
            parts = {piece.key: piece.content for piece in self._inner.read(PIECES, keys)} if keys else {}
            missing = []
            for row in rows:
                if not all(key in parts for key in names[row.key]):
                    missing.append(row.key)
                elif names[row.key]:
                    packed = b64decode("".join(parts[key] for key in names[row.key]))
                    fields, content = json.loads(zlib.decompress(packed))
                    whole.append(replace(row, fields=fields, content=content))
                else:
                    whole.append(row)
            if not missing:
                return whole
            time.sleep(_PAUSE_SECONDS)
            rows = self._inner.read(ROWS, missing)
        raise StorageError(f"parts of {len(missing)} large records are missing; restore these records from a backup")

    def find_leftovers(self) -> list[str]:
        """Return the keys of pieces that no row names: a crash left them behind."""
        current = {key for row in self._inner.find(ROWS, []) for key in _name_pieces(row)}
        return [piece.key for piece in self._inner.find(PIECES, []) if piece.key not in current]

    def _shorten_fields(self, fields: Fields) -> Fields:
        """Replace the longest values until the rest fits."""
        short = dict(fields)
        while measure(short) > self._field_bytes:
            name = max(short, key=lambda name: measure(short[name]))
            short[name] = [_ANYTHING] if isinstance(short[name], list) else _ANYTHING
        return short


class BoundedStore(DocumentStore):
    """A store whose large records are kept in pieces."""

    def __init__(self, documents: BoundedDocuments) -> None:
        super().__init__(documents)
        self._bounded = documents

    def check(self) -> list[str]:
        """Return what a crash left behind, one sentence each."""
        problems, count = super().check(), len(self._bounded.find_leftovers())
        return [*problems, f"{count} parts belong to no record; repair the store"] if count else problems

    def repair(self) -> int:
        """Complete or remove what a crash left behind, and return how much it was. Nobody else may write meanwhile."""
        with self._open(to_write=True):
            count, keys = super().repair(), self._bounded.find_leftovers()
            self._bounded.remove(PIECES, keys)
            return count + len(keys)


class ConditionalDocuments(Documents, Conditional, Protocol):
    """A database that also compares before it writes."""


class BoundedConditionalDocuments(BoundedDocuments):
    """The same for a database that compares before it writes."""

    def __init__(self, inner: ConditionalDocuments, content_bytes: int, field_bytes: int) -> None:
        super().__init__(inner, content_bytes, field_bytes)
        self._conditional = inner

    def replace_rows(self, rows: Sequence[tuple[Document, str]]) -> list[str]:
        """Write each row if the stored one has the stamp beside it; return the keys of rows that are not written."""
        heads = self._write_pieces([document for document, _ in rows])
        stamps = [stamp for _, stamp in rows]
        old = self._inner.read(ROWS, [row.key for row in heads])
        refused = self._conditional.replace_rows(list(zip(heads, stamps, strict=True)))
        unused = [row for row in heads if row.key in refused]
        self._remove_named([*unused, *(row for row in old if row.key not in refused)])
        return refused

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys, and the pieces that they name."""
        old = self._inner.read(ROWS, keys) if space == ROWS else []
        self._inner.remove(space, keys)
        self._remove_named(old)

    def remove_rows(self, stamps: Mapping[str, str]) -> None:
        """Remove the rows whose stored stamp is the expected one, and their pieces."""
        old = [row for row in self._inner.read(ROWS, [*stamps]) if row.fields["stamp"] == stamps[row.key]]
        self._conditional.remove_rows(stamps)
        self._remove_named(old)

    def _remove_named(self, rows: Sequence[Document]) -> None:
        """Remove the pieces that these rows name."""
        if keys := [key for row in rows for key in _name_pieces(row)]:
            self._inner.remove(PIECES, keys)


def name_part(store: str, space: int) -> str:
    """Return the name of the part of a database that holds a space of a store."""
    kinds = {ROWS: "rows", PIECES: "pieces"}
    return f"{store}.{kinds.get(space, 'passages')}"


def make_error(service: str, status: int, reason: str, secret: str) -> StorageError:
    """Return the error for an answer of a service. Its text does not contain the secret."""
    if status in (401, 403):
        return StorageError(f"{service} refused the key; check the options of the store, and the rights of the key")
    if status == 404:
        return StorageError(f"a part of the store was deleted in {service} while it was open; try again")
    if status == 429:
        return BusyError(f"{service} limits the rate of requests; try again later, or pay for more of them")
    text = reason.replace(secret, "***").strip().rstrip(".")
    if status in (408, 410, 449) or status >= 500:
        return UnavailableError(f"{service} is not available (status {status}: {text}); try again later")
    return StorageError(f"{service} refused a request (status {status}): {text}")


def split_by_size(items: Iterable[T], most: int, most_bytes: int) -> Iterator[list[T]]:
    """Yield the items in batches of at most so many and at most so many bytes as JSON."""
    batch: list[T] = []
    size = 0
    for item in items:
        length = measure(item)
        if batch and (len(batch) == most or size + length > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def measure(value: object) -> int:
    """Return how many bytes a value takes as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _name_pieces(row: Document) -> list[str]:
    """Return the keys of a row's pieces, in order."""
    return [f"{row.key}-{row.fields['token']}-{number}" for number in range(int(str(row.fields.get("pieces", 0))))]


def _widen_conditions(conditions: Sequence[Condition]) -> list[Condition]:
    return [one._replace(names=(*one.names, _ANYTHING)) if one.names else one for one in conditions]
