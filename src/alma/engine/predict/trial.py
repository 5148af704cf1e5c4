"""One thing that was tried and how it went, seen from the task and the strategy at hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trial:
    id: str
    """The record it comes from."""
    strategy: str
    task: str
    value: float
    """1 success, 0.5 partial, 0 failure."""
    days: float
    """How long ago."""
    alike: float
    """How like its task is to the task at hand; 1 is the same."""
    own: bool
    """Whether it was the strategy at hand, in whatever words."""
    kin: float = 0.0
    """How like its strategy is to the strategy at hand, when it is another one."""
    error: str = ""
    said: bool = False
    """Nobody tried it: a person said that it works, or that it does not."""
