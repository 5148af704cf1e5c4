"""The reference store: a dict and a lock. Every other store must behave like this one."""

from __future__ import annotations

import copy
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache
from heapq import nlargest
from typing import Any, TypeVar

from ..errors import ConflictError, StorageError, ValidationError
from ..forks import hold_at_fork
from ..types.query import Hit, Where, rank_nearest
from ..types.record import NONE, Evidence, Provenance, Record, Status, Vector, to_json
from ..types.times import from_micros, utc

ROWS_NOTE = "mrk_vectors"
"""The id of the marker that names the rows whose vectors are in another database. It is never encrypted."""


class DictStore(ABC):
    """The reference implementation of a store, over a dict of records."""

    @abstractmethod
    def _open(self, *, to_write: bool = False) -> AbstractContextManager[dict[str, Record]]:
        """Yield the current records, which must not be changed; `to_write` locks out other writers."""

    @abstractmethod
    def _keep(self, records: Mapping[str, Record | None]) -> None:
        """Store all of these, or none; None deletes a record. Called inside `_open(to_write=True)`."""

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        fresh = [own_record(record) for record in records]
        with self._open(to_write=True) as stored:
            versions = {record.id: stored[record.id].version for record in fresh if record.id in stored}
            if changed := keep_latest(fresh, versions):
                self._keep(changed)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        with self._open() as stored:
            return [copy_record(stored[id]) for id in ids if id in stored]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed."""
        with self._open(to_write=True) as stored:
            deleted = {id: None for id in ids if id in stored}
            if deleted:
                self._keep(deleted)
            return len(deleted)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first."""
        with self._open() as stored:
            matching = [record for record in stored.values() if where.accepts(record)]
            most = len(matching) if limit is None else limit
            return map(copy_record, nlargest(most, matching, key=lambda record: (record.created_at, record.id)))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        with self._open() as stored:
            return rank_nearest(vector, filter(where.accepts, stored.values()), limit)


class MemoryStore(DictStore):
    """A store in memory, which is lost when the process ends."""

    limits: Mapping[str, str] = {
        "persistent": "the records end with the process; use sqlite",
        "many writers": "no other process can open the records; use sqlite",
    }

    def __init__(self) -> None:
        self._records: dict[str, Record] | None = {}
        self._revision = 0
        self._lock = hold_at_fork(threading.RLock())

    def close(self) -> None:
        """Close the store and discard its records."""
        with self._lock:
            self._records = None

    @contextmanager
    def _open(self, *, to_write: bool = False) -> Iterator[dict[str, Record]]:
        with self._lock:
            if self._records is None:
                raise StorageError("the store is closed; open it again")
            yield self._records

    def revision(self) -> int:
        """Return a number that goes up with every write."""
        with self._open():
            return self._revision

    def _keep(self, records: Mapping[str, Record | None]) -> None:
        with self._open() as stored:
            self._revision += 1
            for id, record in records.items():
                if record is None:
                    del stored[id]
                else:
                    stored[id] = record


T = TypeVar("T")


def keep_latest(records: Iterable[Record], versions: Mapping[str, int]) -> dict[str, Record]:
    """Return the last of the records by id; raise ConflictError for one that is not newer than that before it.

    `versions` are the versions that are stored.
    """
    versions, latest = dict(versions), {}
    for record in records:
        if record.id in versions and record.version <= versions[record.id]:
            raise refuse_version(record, versions[record.id])
        versions[record.id], latest[record.id] = record.version, record
    return latest


def refuse_version(record: Record, version: int) -> ConflictError:
    """Return the error for a record whose version is not newer than the stored one."""
    return ConflictError(
        f"{record.id}: another process changed it first (version {version} is stored); read it again and retry"
    )


def refuse_record(record: Record, problem: object) -> ValidationError:
    """Return the error for a record that cannot be stored."""
    reason = str(problem)
    if "JSON compliant" in reason:
        reason = "NaN and infinity are not JSON values"
    elif "JSON serializable" in reason:
        reason = f"it contains a value that is not JSON ({reason.removeprefix('Object of type ').split()[0]})"
    return ValidationError(f"{record.id!r} cannot be stored: {reason}")


def own_record(record: Record) -> Record:
    """Return a copy that no caller can change, or ValidationError if it holds something no store could keep."""
    try:
        for moment in (record.created_at, record.updated_at, record.valid_from, record.valid_to):
            if moment is not None:
                utc(moment)
        text = json.dumps(to_json(record), ensure_ascii=False, allow_nan=False)
        text.encode()
        return replace(record, body=json.loads(text)["body"])
    except (TypeError, ValueError) as problem:
        raise refuse_record(record, problem) from problem


@lru_cache(maxsize=4096)
def _load_provenance(text: str) -> Provenance:
    return Provenance.from_json(json.loads(text))


_decode_json = json.JSONDecoder().raw_decode
_STATUSES = {str(status): status for status in Status}


def _load_object(text: str) -> Any:
    """Return what JSON text means, in half of the time of `json.loads`: a retrieval reads some hundred bodies."""
    value, end = _decode_json(text)
    return value if end == len(text) else json.loads(text)


def decode_columns(columns: dict[str, Any]) -> None:
    """Decode the times, the status and the JSON in the columns of a record, where they are."""
    for name in ("created_at", "updated_at", "valid_from", "valid_to"):
        if columns[name] is not None:
            columns[name] = from_micros(columns[name])
    columns["status"] = _STATUSES[columns["status"]]
    columns["body"] = _load_object(columns["body"])
    columns["provenance"] = _load_provenance(columns["provenance"])
    evidence = columns["evidence"]
    columns["evidence"] = NONE if evidence == "{}" else Evidence.from_json(json.loads(evidence))


def copy_record(record: Record) -> Record:
    """Return a record that a caller may keep and change without changing this one."""
    return replace(record, body=_copy_value(record.body)) if record.body else record


def _copy_value(value: Any) -> Any:
    """Return a copy of a JSON value; several times as fast as `copy.deepcopy`, which also looks for cycles."""
    if isinstance(value, dict):
        return {key: _copy_value(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_copy_value(part) for part in value]
    return value if isinstance(value, str | int | float | None) else copy.deepcopy(value)
