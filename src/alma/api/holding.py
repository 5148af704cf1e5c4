"""The memory behind the server: opened when it is first needed, so that the server answers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core import ALMA

Opener = Callable[[], "ALMA"]


class Held:
    """One memory for all calls, whichever thread they run in."""

    def __init__(self, opener: Opener, *, may_approve: bool = True) -> None:
        """`may_approve`: whether calls may make active what came from outside content."""
        self._opener = opener
        self.may_approve = may_approve
        self._lock = threading.Lock()
        self._alma: ALMA | None = None

    def get(self) -> ALMA:
        """What could not be opened is tried again the next time: somebody may have mended it."""
        with self._lock:
            if self._alma is None:
                self._alma = self._opener()
                self._alma.engine = replace(self._alma.engine, may_approve=self.may_approve)
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
