"""The memory behind the server: opened when it is first needed, so that the server answers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core import ALMA

Opener = Callable[[], "ALMA"]


class Held:
    """One memory for all calls, whichever thread they run in."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._alma: ALMA | None = None

    def get(self) -> ALMA:
        """What could not be opened is tried again the next time: somebody may have mended it."""
        with self._lock:
            if self._alma is None:
                self._alma = self._opener()
            return self._alma

    def close(self) -> None:
        with self._lock:
            if self._alma is not None:
                self._alma.close()
            self._alma = None


def configured(config: str | None) -> Opener:
    """Opens what the file describes; without one, what is configured here as for the command line."""

    def opened() -> ALMA:
        from ..app import open_memory, read_config

        _, described = read_config(config)
        return open_memory(described)

    return opened
