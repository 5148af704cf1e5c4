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
    from .confidence import ConfidenceEngine, ConfidenceSignal, OpportunitySignal, RiskSignal
    from .domains import DomainMemoryFactory, DomainSchema, EntityType, RelationshipType
    from .errors import (
        ALMAError,
        ConfigError,
        EmbeddingError,
        ModelError,
        NotFoundError,
        ScopeError,
        StorageError,
        ValidationError,
    )
    from .harness import Agent, Context, Harness, MemorySchema, Setting, create_harness
    from .memory import ALMA
    from .progress import ProgressLog, ProgressSummary, ProgressTracker, WorkItem
    from .session import (
        InitializationResult,
        SessionContext,
        SessionHandoff,
        SessionInitializer,
        SessionManager,
    )
    from .types import (
        AntiPattern,
        DomainKnowledge,
        Episode,
        FeedbackSignal,
        Heuristic,
        Memory,
        MemoryScope,
        MemorySlice,
        MemoryType,
        Outcome,
        Rule,
        Turn,
        UserPreference,
    )

__version__ = "1.0.0"

# Importing alma costs nothing until a name is used: short-lived processes pay for what they need.
_NAMES = {
    "aio": "AsyncALMA",
    "confidence": "ConfidenceEngine ConfidenceSignal OpportunitySignal RiskSignal",
    "domains": "DomainMemoryFactory DomainSchema EntityType RelationshipType",
    "errors": "ALMAError ConfigError EmbeddingError ModelError NotFoundError ScopeError StorageError ValidationError",
    "harness": "Agent Context Harness MemorySchema Setting create_harness",
    "memory": "ALMA",
    "progress": "ProgressLog ProgressSummary ProgressTracker WorkItem",
    "session": "InitializationResult SessionContext SessionHandoff SessionInitializer SessionManager",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ALMA", "ALMAError", "Agent", "AntiPattern", "AsyncALMA", "ConfidenceEngine", "ConfidenceSignal", "ConfigError",
    "Context", "DomainKnowledge", "DomainMemoryFactory", "DomainSchema", "EmbeddingError", "EntityType", "Episode",
    "FeedbackSignal", "Harness", "Heuristic", "InitializationResult", "Memory", "MemorySchema", "MemoryScope",
    "MemorySlice", "MemoryType", "ModelError", "NotFoundError", "OpportunitySignal", "Outcome", "ProgressLog",
    "ProgressSummary", "ProgressTracker", "RelationshipType", "RiskSignal", "Rule", "ScopeError", "SessionContext",
    "SessionHandoff", "SessionInitializer", "SessionManager", "Setting", "StorageError", "Turn", "UserPreference",
    "ValidationError", "WorkItem", "__version__", "create_harness",
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
