"""The operations on confidence as functions, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..confidence import ConfidenceEngine, Progress, Report
from .memories import __getattr__ as __getattr__

if TYPE_CHECKING:
    from ..core import ALMA


def calibrate(alma: ALMA, agent: str | None, limit: int, progress: Progress) -> Report:
    return ConfidenceEngine(alma).calibrate(agent, limit, progress)
