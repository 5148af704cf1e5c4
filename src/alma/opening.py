"""Base classes for objects that are closed at the end of a `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .memory import ALMA


class Closeable:
    """A context manager that closes itself."""

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OwnsMemory(Closeable):
    """Base of features that work with a memory. A memory they open is closed with them; one that is passed stays open.

    With `owned`, a memory that is passed is closed too.
    """

    def __init__(self, alma: ALMA | None, project_id: str | None = None, *, owned: bool = False) -> None:
        self.owned = owned or alma is None
        if alma is None:
            from .app import open_default

            alma = open_default(project_id)
        self.alma = alma

    def close(self) -> None:
        """Close the memory, if it was opened here."""
        if self.owned:
            self.alma.close()
