"""alma: memory that learns.

from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")
memories = alma.retrieve(task="Fix the login bug", agent="developer")
alma.learn(agent="developer", task="Fix login bug", outcome="success", strategy_used="Cleared session cache")
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, which costs a hook more time than it has
if TYPE_CHECKING:
    from .aio import AsyncALMA
    from .errors import ALMAError
    from .harness import Agent, Context, Harness, MemorySchema, Setting, create_harness
    from .memory import ALMA
    from .types import (
        AntiPattern,
        DomainKnowledge,
        Episode,
        FeedbackSignal,
        Heuristic,
        Memory,
        MemorySlice,
        MemoryType,
        Outcome,
        Rule,
        Turn,
        UserPreference,
    )

__version__ = "1.0.0"

# Importing alma costs nothing until a name is used: short-lived processes pay for what they need.
_HARNESS = ("Agent", "Context", "Harness", "MemorySchema", "Setting", "create_harness")
_HOMES = {"ALMA": "memory", "ALMAError": "errors", "AsyncALMA": "aio", **dict.fromkeys(_HARNESS, "harness")}

__all__ = [
    "ALMA", "ALMAError", "Agent", "AntiPattern", "AsyncALMA", "Context", "DomainKnowledge", "Episode",
    "FeedbackSignal", "Harness", "Heuristic", "Memory", "MemorySchema", "MemorySlice", "MemoryType", "Outcome",
    "Rule", "Setting", "Turn", "UserPreference", "__version__", "create_harness",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'alma' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"alma.{_HOMES.get(name, 'types')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
