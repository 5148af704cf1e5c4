"""What a drainer does: it drains as long as somebody wants it, with a memory that is opened once.

See `wake` for the duty that comes with taking a wake-up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from . import log, wake
from .locks import held
from .place import Place
from .settings import is_model_allowed

if TYPE_CHECKING:
    from .drain import Memory

EVENT = "Worker"
PATIENCE_SECONDS = 300.0
_PAUSE_SECONDS = 0.2
_TIDY_SECONDS = 86_400.0


def settle(place: Place, drain: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
    """Drain until nobody wants it any more. `drain` says False when it must wait for another drainer."""
    deadline = time.monotonic() + patience
    while wake.claim(place):
        if drain():
            continue
        # While it lies there and is fresh, nobody else starts a process for it.
        wake.want(place)
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSE_SECONDS)


class Duties:
    """The memory of a place, opened when it is first needed, and what is done with it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._memory: Memory | None = None
        self._opening = threading.Lock()

    def drain(self) -> bool:
        from .drain import drain

        report = drain(self._place, memory=self._opened())
        self._note(report.problems)
        return not report.busy

    def has_unread(self) -> bool:
        """Return whether sessions wait that a model may read now."""
        if not is_model_allowed(self._place):
            return False
        from .reading import has_due_session

        return has_due_session(self._place, self._opened())

    def read_sessions(self) -> None:
        """Let the model read the sessions that wait. Why one could not be read is stored with it."""
        from .reading import read_sessions

        read_sessions(self._place, self._opened())

    def recall(self, project: str, session: str, text: str, limit: int) -> list[tuple[str, str]]:
        from .drain import recall

        return recall(self._place, project, session, text, limit, memory=self._opened())

    def tidy(self) -> None:
        """Once a day, whoever does it: let go of what is no longer needed."""
        from .upkeep import tidy

        stamp = os.path.join(self._place.home, "tidied")
        if not _is_old(stamp, _TIDY_SECONDS):
            return
        lock = held(self._place.drain_lock)
        if lock is None:
            return
        with lock:
            # First the stamp: what cannot be tidied is not tried again at every wake-up.
            _stamp(stamp)
            tidy(self._place, self._opened())

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _opened(self) -> Memory:
        from .drain import Memory

        with self._opening:
            if self._memory is None:
                self._memory = Memory(self._place)
            return self._memory

    def _note(self, problems: Iterable[str]) -> None:
        for problem in problems:
            log.note(self._place, EVENT, problem)


def _is_old(path: str, seconds: float) -> bool:
    try:
        return abs(time.time() - os.stat(path).st_mtime) > seconds
    except FileNotFoundError:
        return True


def _stamp(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.utime(path)
