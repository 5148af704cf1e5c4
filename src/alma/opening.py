"""What is closed at the end of a `with` block, and which memory a feature works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .memory import ALMA


class Closeable:
    """A context manager that closes itself."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OwnsMemory(Closeable):
    """What works with a memory. One that it opened itself it also closes; one that was given stays open.

    `owned` says that a given one is to be closed as well.
    """

    def __init__(self, alma: ALMA | None, project_id: str | None = None, *, owned: bool = False) -> None:
        self.owned = owned or alma is None
        if alma is None:
            from .app import open_default

            alma = open_default(project_id)
        self.alma = alma

    def close(self) -> None:
        """Let go of the memory, if it was opened here."""
        if self.owned:
            self.alma.close()
