"""The model: a dict and a lock. Every other store must agree with this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from ..errors import StorageError
from ..forks import hold_at_fork
from ..types.query import Hit, Where
from ..types.record import Record
from ..types.vector import Vector
from . import _plain


class MemoryStore:
    def __init__(self) -> None:
        self._records: dict[str, Record] | None = {}
        self._lock = hold_at_fork(threading.RLock())

    def put(self, records: Sequence[Record]) -> None:
        fresh = [_plain.owned(record) for record in records]
        with self._lock:
            held = self._held()
            changed = {record.id: held[record.id] for record in fresh if record.id in held}
            for record in fresh:
                _plain.accept(changed, record)
            held.update(changed)

    def get(self, ids: Sequence[str]) -> list[Record]:
        with self._lock:
            held = self._held()
            return [_plain.copied(held[id]) for id in ids if id in held]

    def delete(self, ids: Sequence[str]) -> int:
        with self._lock:
            held = self._held()
            return sum(held.pop(id, None) is not None for id in set(ids))

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        with self._lock:
            return map(_plain.copied, _plain.scan(self._held().values(), where, limit))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        with self._lock:
            return _plain.nearest(self._held().values(), vector, where, limit)

    def close(self) -> None:
        with self._lock:
            self._records = None

    def _held(self) -> dict[str, Record]:
        if self._records is None:
            raise StorageError("the store is closed; open it again")
        return self._records
