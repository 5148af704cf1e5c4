"""Records in a database of documents and vectors. Qdrant, Chroma, Pinecone and Cosmos DB each implement `Documents`.

A record is one document (its row) and one more for each of its vectors (its passages). The key of a passage names the
version of its row. A write adds the new passages, then replaces the row, then removes the old passages, so that after a
crash every row still has its passages, and passages without a row are ignored and removed by the next repair.

Conditions select a superset: moments are whole seconds, and values of the body are not indexed. The records that come
back are checked with `Where.accepts`, and ranked by their own vectors.

A database that is `Conditional` takes several writers. Any other has one: it is locked like a folder, or the writer
keeps a lease, a document with the time when it ends.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import nsmallest
from itertools import groupby, islice
from math import ceil, floor
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Protocol, cast, runtime_checkable

from ..errors import BusyError, ConflictError, CorruptStoreError, StorageError
from ..files import make_private_folder, try_lock
from ..forks import hold_at_fork
from ..trust_register import check_store
from ..types.query import Hit, Where, rank_nearest, split_batches
from ..types.record import Record, Vector, from_json, to_json, unit
from .memory import keep_latest, own_record

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
NAMED, NUMBERED = tuple(_NAMES.values()), ("created", "begins", "ends")
"""The fields that conditions are about: texts or lists of texts, and whole numbers."""


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

        Return the keys of the rows that were changed meanwhile and are not written. A row that was written and then
        replaced by another process is one that has the new row's `stamp` in the list of its field `trail`.
        """
        ...

    def remove_rows(self, stamps: Mapping[str, str]) -> None:
        """Remove the rows with these keys whose field `stamp` is still the text beside the key."""


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
            limits = (second, None) if is_least else (None, second)
            conditions.append(Condition(field, None, *limits))
    return conditions


# --- passages


def make_key(id: str) -> str:
    """Return the key of the row of a record."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def name_passages(record: Record) -> dict[str, Vector]:
    """Return the vector of each passage by its key, which differs with the version, the vector and the fields."""
    prefix = f"{make_key(record.id)}-{record.version}"
    fields = repr(list_fields(record)).encode("utf-8", "surrogatepass")
    passages = {}
    for vector in filter(None, record.vectors):
        # The cosine of a zero vector is 0. Of the two directions of an axis one is at least as near.
        for one in (vector,) if any(vector) else (b"\x01" + vector[1:], b"\xff" + vector[1:]):
            passages[f"{prefix}-{blake2b(one + fields, digest_size=8).hexdigest()}"] = one
    return passages


def write_passages(documents: Documents, records: Iterable[Record]) -> None:
    """Write the passages of these records."""
    spaces = defaultdict(list)
    for record in records:
        fields, content = list_fields(record), json.dumps(record.id)
        for key, vector in name_passages(record).items():
            spaces[len(vector)].append(Document(key, fields, content, unit(vector)))
    for space, passages in spaces.items():
        documents.write(space, passages)


def remove_passages(documents: Documents, records: Iterable[Record], keep: Iterable[Record] = ()) -> None:
    """Remove the passages of these records, except those of the records to keep."""
    needed = {key for record in keep for key in name_passages(record)}
    for space, keys in list_passages(records).items():
        if unneeded := [key for key in keys if key not in needed]:
            documents.remove(space, unneeded)


def list_passages(records: Iterable[Record]) -> dict[int, list[str]]:
    """Return the keys of the passages of these records, by space."""
    spaces = defaultdict(list)
    for record in records:
        for key, vector in name_passages(record).items():
            spaces[len(vector)].append(key)
    return spaces


def compare_passages(documents: Documents, records: Iterable[Record]) -> tuple[list[str], dict[int, list[str]]]:
    """Return the ids of the records that lack passages, and the keys of passages without a record, by space."""
    present = {space: {one.key for one in documents.find(space, [])} for space in documents.list_spaces()}
    incomplete = []
    for record in records:
        passages = name_passages(record)
        if any(key not in present.get(len(vector), ()) for key, vector in passages.items()):
            incomplete.append(record.id)
        for key, vector in passages.items():
            present.get(len(vector), set()).discard(key)
    return incomplete, {space: sorted(keys) for space, keys in present.items() if keys}


def describe_problems(documents: Documents, records: Iterable[Record]) -> list[str]:
    """Return what a crash left behind, one sentence each."""
    incomplete, leftovers = compare_passages(documents, records)
    problems = [f"{id!r} cannot be found by its vectors; repair the store" for id in incomplete]
    count = sum(map(len, leftovers.values()))
    return [*problems, f"{count} vectors belong to no record; repair the store"] if count else problems


def has_passages(documents: Documents, records: Iterable[Record]) -> bool:
    """Return whether all passages of these records exist."""
    return all(len(documents.read(space, keys)) == len(keys) for space, keys in list_passages(records).items())


def copy_passages(documents: Documents, records: Iterable[Record], get: Read) -> tuple[int, dict[int, list[str]]]:
    """Write the passages that are missing; return of how many records, and the keys of passages without a record."""
    incomplete, leftovers = compare_passages(documents, records)
    for ids in split_batches(incomplete, _BATCH):
        write_passages(documents, get(ids))
    return len(incomplete), leftovers


def repair_passages(documents: Documents, records: Iterable[Record], get: Read) -> int:
    """Write the passages that are missing, remove those without a record, and return how many were affected."""
    count, leftovers = copy_passages(documents, records, get)
    for space, keys in leftovers.items():
        documents.remove(space, keys)
    return count + sum(map(len, leftovers.values()))


Read = Callable[[Sequence[str]], list[Record]]
_BATCH = 500
_CLEARLY = 1e-4  # Scores of a database may be wrong by less than this.


def find_nearest(documents: Documents, vector: Vector, where: Where, limit: int, get: Read) -> list[Hit]:
    """Return the nearest records: more passages are asked for until the rest is clearly further away."""
    conditions = compile_conditions(where)
    if limit <= 0 or not vector or not can_match(conditions):
        return []
    scores: dict[str, float] = {}
    seen: set[str] = set()
    count = 2 * limit + 16
    while True:
        if any(vector):
            passages = documents.search(len(vector), unit(vector), conditions, count)
            is_complete = len(passages) < count
        else:
            passages, is_complete = [(one, 0.0) for one in documents.find(len(vector), conditions)], True
        ids = {json.loads(passage.content) for passage, _ in passages} - seen
        seen |= ids
        scores.update(rank_nearest(vector, filter(where.accepts, get(list(ids))), len(ids)))
        hits = nsmallest(limit, (Hit(*item) for item in scores.items()), key=lambda hit: (-hit.score, hit.id))
        if is_complete or (len(hits) == limit and passages[-1][1] < hits[-1].score - _CLEARLY):
            return hits
        count *= 4


def can_match(conditions: Sequence[Condition]) -> bool:
    """Return whether any document can meet the conditions: an empty list of names matches nothing."""
    return all(condition.names != () for condition in conditions)


# --- the store

_TRAIL = 8  # So many writers may replace a row before the one that wrote it reads it again.
_LEASE = "lease"
_LEASE_SECONDS = 60
_SETTLE_SECONDS = 0.05  # Of two processes that write a lease at once, the second one has it after this time.


class DocumentStore:
    """Records in a database of documents. Words are ranked by the engine."""

    limits: Mapping[str, str] = {
        "atomic": "when the process or the connection fails during a put of several records, some may be written; "
        "use sqlite or postgres if you need atomic writes",
        "many writers": "one process at a time can write; use `alma serve` for several, or storage: postgres",
    }

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._lock = hold_at_fork(threading.RLock())
        self._is_closed = False
        self._process = os.getpid()
        self._token = token_hex(8)
        self._leased_at: tuple[float, float] | None = None  # By both clocks: one stops while the machine sleeps.
        self._has_many_writers = isinstance(documents, Conditional) and not documents.is_locked
        if self._has_many_writers:
            self.limits = {name: text for name, text in self.limits.items() if name != "many writers"}

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records. All versions are checked before anything is written."""
        fresh = [own_record(record) for record in records]
        with self._open(to_write=True) as documents:
            rows = {row.key: row for row in documents.read(ROWS, _make_keys(one.id for one in fresh))}
            stored = {key: decode_record(row) for key, row in rows.items()}
            latest = keep_latest(fresh, {record.id: record.version for record in stored.values()})
            changed = {make_key(id): record for id, record in latest.items()}
            if not changed:
                return
            write_passages(documents, changed.values())
            self._replace_rows(changed, rows)
            remove_passages(documents, stored.values())

    def _replace_rows(self, changed: Mapping[str, Record], stored: Mapping[str, Document]) -> None:
        """Replace the stored rows, then add the new ones; ConflictError if another process was faster."""
        if not isinstance(self.documents, Conditional):
            self.documents.write(ROWS, [_make_row(key, record) for key, record in changed.items()])
            return
        rows = {key: _add_stamp(_make_row(key, record), stored.get(key)) for key, record in changed.items()}
        written: list[str] = []
        for keys in ([key for key in rows if key in stored], [key for key in rows if key not in stored]):
            expected = [(rows[key], _read_stamp(stored[key]) if key in stored else "") for key in keys]
            lost = self.documents.replace_rows(expected) if keys else []
            written += [key for key in keys if key not in lost]
            if not lost:
                continue
            undo = [(stored[key], _read_stamp(rows[key])) for key in written if key in stored]
            if undo:
                self.documents.replace_rows(undo)
            if added := {key: _read_stamp(rows[key]) for key in written if key not in stored}:
                self.documents.remove_rows(added)
            present = self.get([record.id for record in changed.values()])
            remove_passages(self.documents, changed.values(), keep=present)
            ids = ", ".join(changed[key].id for key in lost)
            raise ConflictError(f"{ids}: another process changed it first; read it again and retry")

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        with self._open() as documents:
            rows = {row.key: row for row in documents.read(ROWS, _make_keys(ids))}
        return [decode_record(rows[key]) for key in map(make_key, ids) if key in rows]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed. The passages go first: a retry ends it."""
        with self._open(to_write=True) as documents:
            stored = self.get(list(dict.fromkeys(ids)))
            remove_passages(documents, stored)
            if stored:
                documents.remove(ROWS, [make_key(record.id) for record in stored])
            return len(stored)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first."""
        conditions = compile_conditions(where)
        with self._open() as documents:
            rows = (
                [row for row in documents.find(ROWS, conditions) if row.key != _LEASE] if can_match(conditions) else []
            )
        rows.sort(key=_read_second, reverse=True)
        return islice(_decode_rows(rows, where), limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        with self._open() as documents:
            return find_nearest(documents, vector, where, limit, self.get)

    def check(self) -> list[str]:
        """Return what a crash left behind, one sentence each."""
        with self._open() as documents:
            return describe_problems(documents, self.scan(Where()))

    def repair(self) -> int:
        """Complete or remove what a crash left behind, and return how much it was. Nobody else may write meanwhile."""
        with self._open(to_write=True) as documents:
            return repair_passages(documents, self.scan(Where()), self.get)

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._leased_at is not None and self._process == os.getpid():
                # Where the server is gone, the lease ends by itself.
                with suppress(StorageError):
                    if self._read_lease()[0] == self._token:
                        self.documents.remove(ROWS, [_LEASE])
            self.documents.close()

    @contextmanager
    def _open(self, *, to_write: bool = False) -> Iterator[Documents]:
        with self._lock if to_write else nullcontext():
            if self._is_closed:
                raise StorageError("the store is closed; open it again")
            check_process(self.documents, self._process)
            if to_write and not self._has_many_writers and not self.documents.is_locked:
                self._renew_lease()
            yield self.documents

    def _renew_lease(self) -> None:
        """Become, or stay, the only writer."""
        if self._process != os.getpid():  # The lease belongs to the process that forked this one.
            self._process, self._token, self._leased_at = os.getpid(), token_hex(8), None
        now = time.monotonic(), time.time()
        if self._leased_at and all(0 <= a - b < _LEASE_SECONDS / 3 for a, b in zip(now, self._leased_at, strict=True)):
            return
        owner, seconds = self._read_lease()
        if owner != self._token and seconds > 0:
            raise BusyError(
                f"another process writes (its lease ends in {seconds:.0f} s); {self.limits['many writers']}"
            )
        fields: dict[str, str | int | list[str]] = {"stamp": self._token, "until": ceil(now[1] + _LEASE_SECONDS)}
        self.documents.write(ROWS, [Document(_LEASE, fields)])
        if owner != self._token or seconds <= 0:
            time.sleep(_SETTLE_SECONDS)
            if self._read_lease()[0] != self._token:
                raise BusyError(f"another process began to write; {self.limits['many writers']}")
        self._leased_at = now

    def _read_lease(self) -> tuple[str, float]:
        """Return whose lease is stored, and for how many seconds it is valid."""
        for lease in self.documents.read(ROWS, [_LEASE]):
            seconds = int(cast(int, lease.fields["until"])) - time.time()
            # A lease that ends later than any can was written by a clock that was wrong.
            return str(lease.fields["stamp"]), seconds if seconds <= 2 * _LEASE_SECONDS else 0.0
        return "", 0.0


def check_process(documents: Documents, process: int) -> None:
    """Raise BusyError if the database is locked and was opened by another process, before a fork."""
    if documents.is_locked and process != os.getpid():
        raise BusyError(f"the store was opened before a fork; {DocumentStore.limits['many writers']}")


def lock_folder(folder: Path, *, trust: bool = False) -> ExitStack:
    """Create the folder of a database that one process can open, and lock it until the stack is closed.

    A folder in which git tracks files or that another user owns is refused, unless it is trusted.
    """
    check_store(folder, trust=trust)
    try:
        make_private_folder(folder)
        lock = try_lock(folder / "alma.lock")
    except OSError as error:
        raise StorageError(f"the folder {folder} cannot be written ({error.strerror}); choose another") from error
    if lock is None:
        raise BusyError(f"another process uses {folder}; {DocumentStore.limits['many writers']}, or a server's url")
    return lock


def decode_record(row: Document) -> Record:
    """Return the record that a row holds."""
    try:
        return from_json(json.loads(row.content))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStoreError(f"the document {row.key} is not a record; delete it or restore a backup") from error


def _make_row(key: str, record: Record) -> Document:
    content = json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":"))
    return Document(key, list_fields(record), content)


def _add_stamp(row: Document, stored: Document | None) -> Document:
    """Return the row with a stamp of its own, and the stamps of the rows that it replaces."""
    stamp, trail = token_hex(8), [] if stored is None else list(cast("list[str]", stored.fields["trail"]))
    return replace(row, fields={**row.fields, "stamp": stamp, "trail": [stamp, *trail][:_TRAIL]})


def _make_keys(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(make_key, ids)))


def _read_stamp(row: Document) -> str:
    return str(row.fields["stamp"])


def _read_second(row: Document) -> int:
    return int(cast(int, row.fields["created"]))


def _decode_rows(rows: Sequence[Document], where: Where) -> Iterator[Record]:
    """Yield the records of rows that come by their seconds, those of one second in order."""
    for _, group in groupby(rows, key=_read_second):
        records = filter(where.accepts, map(decode_record, group))
        yield from sorted(records, key=lambda record: (record.created_at, record.id), reverse=True)
