"""PairedStore: rows in one store, their vectors for searching in a vector database.

The rows are complete, vectors included: they decide what is stored, rank exactly, and can be used without the vector
database again. A write adds the passages, then the rows, then removes the old passages, so that after a crash every row
still has its passages. What a crash leaves behind is reported by `check` and removed by `repair`.

The rows contain a note with a name for themselves, which is not shown. The vector database keeps the name, too, so that
it is not used for other rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from secrets import token_hex
from typing import cast

from ..errors import ConfigError, ConflictError, ValidationError
from ..ports import Checkable, Countable, Repairable, Store
from ..types.query import Hit, Where
from ..types.record import Record, Vector
from ..types.times import now
from .documents import (
    ROWS,
    Document,
    Documents,
    check_process,
    copy_passages,
    describe_problems,
    find_nearest,
    has_passages,
    remove_passages,
    repair_passages,
    write_passages,
)
from .memory import ROWS_NOTE, own_record

_MARK = "paired"  # The key of the document that says the vectors of which rows were copied.
_SAMPLE, _MOST_SEEN = 20, 500  # So many of the newest records are looked for when the store is opened.
_OPTIONAL = (
    *("match", "match_by_kind", "match_all", "count", "snapshot", "backup", "vacuum", "revision", "stats", "path"),
)
_ONE_PROCESS = "one process can open the folder of the vectors; use the url of a server"


class PairedStore:
    """Rows in one store, vectors in a database of documents. Vectors that it lacks are copied when the store is opened.

    That is so the first time, and when the newest records were written without it. `repair` finds all that is missing.
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
                setattr(self, name, self._count_records if name == "count" else getattr(rows, name))
        self._note = _name_rows(rows)
        name = self._note.body["value"]
        marks = [mark.fields["stamp"] for mark in documents.read(ROWS, [_MARK])]
        if marks not in ([], [name]):
            raise ConfigError(
                "the vector database holds the vectors of another store; set `collection` in vector_options to another "
                "name, or delete these vectors if that store does not exist any more"
            )
        newest = islice((record for record in rows.scan(Where(), _MOST_SEEN) if record.vectors), _SAMPLE)
        if not marks or not has_passages(documents, newest):
            copy_passages(documents, rows.scan(Where()), rows.get)
            documents.write(ROWS, [Document(_MARK, {"stamp": name})])

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
        most = None if limit is None else limit + 1
        return islice((record for record in self.rows.scan(where, most) if record.id != ROWS_NOTE), limit)

    def _count_records(self, where: Where) -> Mapping[tuple[str, str, str], int]:
        counts = dict(cast(Countable, self.rows).count(where))
        if where.accepts(self._note):
            counts[self._note.kind, self._note.agent, self._note.status] -= 1
        return {group: count for group, count in counts.items() if count}

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


def _name_rows(rows: Store) -> Record:
    """Return the note that names the rows. It is added if there is none."""
    if not rows.get([ROWS_NOTE]):
        moment, body = now(), {"value": token_hex(8)}
        note = Record(id=ROWS_NOTE, kind="marker", project="", created_at=moment, updated_at=moment, body=body)
        with suppress(ConflictError):  # Another process may add it at the same moment.
            rows.put([note])
    return rows.get([ROWS_NOTE])[0]
