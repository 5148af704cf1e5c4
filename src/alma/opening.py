"""Which memory a feature works with: the one it is given, or the one that is configured here, which it then closes."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .memory import ALMA


class Holder:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
