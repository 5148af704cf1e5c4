"""Notes about retrievals that could not be written at once, because somebody else was writing.

A retrieval waits a few hundredths of a second for a writer, not longer. Its note then waits here, in this process, and
is written together with whatever is written next, at the latest when the memory is closed. Nothing is lost silently:
what cannot be written then either is logged with its id.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence

from ..errors import BusyError, StorageError
from ..forks import hold_at_fork
from ..ports import Store
from ..types.record import Record

_LOG = logging.getLogger("alma")
_CLOSING_SECONDS = 1.0


class Notes:
    def __init__(self) -> None:
        self._waiting: dict[str, Record] = {}
        self._taken: set[str] = set()
        self._lock = hold_at_fork(threading.Lock())
        self._pid = os.getpid()

    def add(self, note: Record) -> None:
        with self._lock:
            self._leave_to_parent()
            self._waiting[note.id] = note

    def has(self, id: str, project: str) -> bool:
        """Whether a note waits. Ask before the store: a note leaves only after it was stored."""
        with self._lock:
            self._leave_to_parent()
            return id in self._waiting and self._waiting[id].project == project

    def take(self, project: str | None = None) -> list[Record]:
        """Return the notes of a project, or of all, that nobody else is writing. They wait here until `settle`."""
        if not self._waiting:
            return []
        with self._lock:
            self._leave_to_parent()
            waiting = [note for id, note in self._waiting.items() if id not in self._taken]
            notes = [note for note in waiting if project is None or note.project == project]
            self._taken.update(note.id for note in notes)
            return notes

    def settle(self, notes: Sequence[Record], *, stored: bool) -> None:
        if not notes:
            return
        with self._lock:
            for note in notes:
                self._taken.discard(note.id)
                if stored:
                    self._waiting.pop(note.id, None)

    def flush(self, store: Store) -> None:
        """Write what waits before the store is closed; log what cannot be written."""
        deadline = time.monotonic() + _CLOSING_SECONDS
        while notes := self.take():
            try:
                store.put(notes)
                self.settle(notes, stored=True)
            except StorageError as error:
                if isinstance(error, BusyError) and time.monotonic() < deadline:
                    self.settle(notes, stored=False)
                    continue
                _log_lost(notes, error)
                self.settle(notes, stored=True)

    def _leave_to_parent(self) -> None:
        if self._pid != os.getpid():
            self._waiting, self._taken, self._pid = {}, set(), os.getpid()


def _log_lost(notes: Sequence[Record], error: StorageError) -> None:
    names = ", ".join(note.id for note in notes)
    _LOG.warning("these retrievals could not be recorded: %s (%s)", names, error)
