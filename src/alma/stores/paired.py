"""PairedStore: rows in one store, their vectors for searching in a vector database.

The rows are complete, vectors included: they decide what is stored, rank exactly, and can be used without the vector
database again. A write adds the passages, then the rows, then removes the old passages, so that after a crash every row
still has its passages. What a crash leaves behind is reported by `check` and removed by `repair`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from ..errors import ConflictError, ValidationError
from ..ports import Checkable, Repairable, Store
from ..types.query import Hit, Where
from ..types.record import Record, Vector
from .documents import (
    ROWS,
    Document,
    Documents,
    check_process,
    describe_problems,
    find_nearest,
    remove_passages,
    repair_passages,
    write_passages,
)
from .memory import own_record

_MARK = "paired"  # The key of the document that says that the vectors of all rows were copied.
_BATCH = 500
_OPTIONAL = ("match", "count", "snapshot", "backup", "vacuum", "revision", "stats", "path")
_ONE_PROCESS = "one process can open the folder of the vectors; use the url of a server"


class PairedStore:
    """Rows in one store, vectors in a database of documents. The first time, the vectors of all rows are copied.

    What else the rows can do is passed on: words, counts, snapshots, backups and vacuum are theirs alone.
    """

    def __init__(self, rows: Store, documents: Documents) -> None:
        self.rows = rows
        self._documents = documents
        self._process = os.getpid()
        self.limits = dict(getattr(rows, "limits", {}))
        if documents.is_locked:
            self.limits.setdefault("many writers", _ONE_PROCESS)
        for name in _OPTIONAL:
            if hasattr(rows, name):
                setattr(self, name, getattr(rows, name))
        if not documents.read(ROWS, [_MARK]):
            records = rows.scan(Where())
            while batch := list(islice(records, _BATCH)):
                write_passages(documents, batch)
            documents.write(ROWS, [Document(_MARK, {"stamp": _MARK})])

    @property
    def documents(self) -> Documents:
        """Return the database of the vectors; BusyError after a fork, if it belongs to one process."""
        check_process(self._documents, self._process)
        return self._documents

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none if the rows do so."""
        fresh = {record.id: own_record(record) for record in records}
        stored = self.rows.get(list(fresh))
        write_passages(self.documents, fresh.values())
        try:
            self.rows.put(records)
        except (ConflictError, ValidationError):
            remove_passages(self.documents, fresh.values(), keep=self.rows.get(list(fresh)))
            raise
        remove_passages(self.documents, stored)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        return self.rows.get(ids)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed. The passages go first: a retry ends it."""
        remove_passages(self.documents, self.rows.get(list(dict.fromkeys(ids))))
        return self.rows.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first."""
        return self.rows.scan(where, limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first. In a snapshot the rows are those of its moment."""
        return find_nearest(self.documents, vector, where, limit, self.rows.get)

    def check(self) -> list[str]:
        """Return the problems of the rows, and which vectors are missing or left over."""
        problems = self.rows.check() if isinstance(self.rows, Checkable) else []
        return [*problems, *describe_problems(self.documents, self.rows.scan(Where()))]

    def repair(self) -> int:
        """Repair the rows if they can; write missing vectors and remove others; return how many there were."""
        count = self.rows.repair() if isinstance(self.rows, Repairable) else 0
        return count + repair_passages(self.documents, self.rows.scan(Where()), self.rows.get)

    def close(self) -> None:
        """Close both."""
        try:
            self._documents.close()
        finally:
            self.rows.close()
