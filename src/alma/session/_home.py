"""Which memory and which project a manager works with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..engine import validate
from ..engine.context import Engine
from ..opening import Holder

if TYPE_CHECKING:
    from ..core import ALMA


class Home(Holder):
    """What the classes of this package share: a memory, and a project in it."""

    def __init__(self, project_id: str | None, alma: ALMA | None) -> None:
        named = None if project_id is None else validate.name("project_id", project_id)
        super().__init__(alma, named)
        self.project_id = named or self.alma.project_id

    def engine(self, project_id: str | None = None) -> Engine:
        named = self.project_id if project_id is None else validate.name("project_id", project_id)
        engine = self.alma.engine
        return engine if named == engine.project else replace(engine, project=named)
