"""Records in a database of documents and vectors. Qdrant, Chroma, Pinecone and Cosmos DB each implement `Documents`.

A record is one document (its row) and one more for each of its vectors (its passages). The key of a passage names the
version of its row. A write adds the new passages, then replaces the row, then removes the old passages, so that after a
crash every row still has its passages, and passages without a row are ignored and removed by the next repair.

Conditions select a superset: moments are whole seconds, and values of the body are not indexed. The records that come
back are checked with `Where.accepts`, and ranked by their own vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import NamedTuple, Protocol, runtime_checkable

from ..types.query import Where
from ..types.record import Record

ROWS = 0  # The space of rows; that of passages is the dimension of their vectors.
_BEGINNING, _END = -(2**36), 2**38  # Before and after all moments, in seconds: where a time of validity is open.
_NAMES = {
    "kinds": "kind",
    "projects": "project",
    "agents": "agent",
    "users": "user",
    "sessions": "session",
    "statuses": "status",
    "keys": "key",
    "embedders": "embedder",
    "linked": "links",
    "tagged": "tags",
}


class Condition(NamedTuple):
    """A field is (or, if it is a list, contains) any of the names; or it is a number within the limits."""

    field: str
    names: tuple[str, ...] | None = None
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What a database keeps under a key. `fields` can be searched: texts, lists of texts, whole numbers."""

    key: str
    fields: Mapping[str, str | int | list[str]]
    content: str = ""
    vector: Sequence[float] = ()


class Documents(Protocol):
    """A database of documents. A space holds documents whose vectors have one dimension; `ROWS` have none.

    Keys are ASCII letters, digits and hyphens. Zero vectors are never written or searched.
    """

    is_locked: bool  # No other process can open the database while this one has it open, as with a local folder.

    def list_spaces(self) -> list[int]:
        """Return the spaces of passages that exist."""
        ...

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add documents, or replace those with the same keys; durable on return."""

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys, in any order, without vectors; unknown keys are left out."""
        ...

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys; unknown keys are ignored."""

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield all documents that meet the conditions, in any order, without vectors."""
        ...

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest by cosine that meet the conditions, best first: filter, then rank."""
        ...

    def close(self) -> None:
        """Close the connection."""


@runtime_checkable
class Conditional(Protocol):
    """A database that compares before it writes, so that several processes can write and no increment is lost."""

    def replace_rows(self, rows: Sequence[tuple[Document, str]]) -> list[str]:
        """Write each row if the field `stamp` of the stored one is the text beside it (empty: if none is stored).

        Return the keys of the rows that were changed meanwhile and are not written.
        """
        ...


def list_fields(record: Record) -> dict[str, str | int | list[str]]:
    """Return the fields of a record that conditions are about."""
    return {
        **{name: str(getattr(record, name)) for name in _NAMES.values() if name not in ("links", "tags")},
        "links": list(record.links),
        "tags": list(record.tags),
        "created": floor(record.created_at.timestamp()),
        "begins": _BEGINNING if record.valid_from is None else floor(record.valid_from.timestamp()),
        "ends": _END if record.valid_to is None else floor(record.valid_to.timestamp()),
    }


def compile_conditions(where: Where) -> list[Condition]:
    """Return conditions that every record meets which `where` accepts."""
    names = {field: getattr(where, name) for name, field in _NAMES.items()}
    conditions = [
        Condition(field, tuple(str.__str__(name) for name in values))
        for field, values in names.items()
        if values is not None
    ]
    for field, moment, is_least in (
        ("created", where.created_from, True),
        ("created", where.created_to, False),
        ("begins", where.valid_at, False),
        ("ends", where.valid_at, True),
    ):
        if moment is not None:
            second = floor(moment.timestamp())
            limits = {"at_least": second} if is_least else {"at_most": second}
            conditions.append(Condition(field, **limits))
    return conditions
