"""Which memory a manager works with: one it is given, or the configured one, which it then closes itself."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..engine import validate
from ..engine.context import Engine

if TYPE_CHECKING:
    from ..core import ALMA


class Home:
    """What the classes of this package share: a memory, a project in it, and letting go of it."""

    def __init__(self, project_id: str | None, alma: ALMA | None) -> None:
        named = None if project_id is None else validate.name("project_id", project_id)
        self._opened = alma is None
        if alma is None:
            from ..app import open_default

            alma = open_default(named)
        self.alma = alma
        self.project_id = named or alma.project_id

    def engine(self, project_id: str | None = None) -> Engine:
        named = self.project_id if project_id is None else validate.name("project_id", project_id)
        engine = self.alma.engine
        return engine if named == engine.project else replace(engine, project=named)

    def close(self) -> None:
        """Let go of the memory, if it was opened here."""
        if self._opened:
            self.alma.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
