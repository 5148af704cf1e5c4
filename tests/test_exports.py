"""The public surface: what `import alma` promises, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import alma
import alma.errors
import alma.types

PUBLIC = [
    "ALMA",
    "ALMAError",
    "Agent",
    "AntiPattern",
    "AsyncALMA",
    "ConfidenceEngine",
    "ConfidenceSignal",
    "ConfigError",
    "Context",
    "DomainKnowledge",
    "DomainMemoryFactory",
    "DomainSchema",
    "EmbeddingError",
    "EntityType",
    "Episode",
    "FeedbackSignal",
    "Harness",
    "Heuristic",
    "InitializationResult",
    "Memory",
    "MemorySchema",
    "MemoryScope",
    "MemorySlice",
    "MemoryType",
    "ModelError",
    "NotFoundError",
    "OpportunitySignal",
    "Outcome",
    "ProgressLog",
    "ProgressSummary",
    "ProgressTracker",
    "RelationshipType",
    "RiskSignal",
    "Rule",
    "ScopeError",
    "SessionContext",
    "SessionHandoff",
    "SessionInitializer",
    "SessionManager",
    "Setting",
    "StorageError",
    "Turn",
    "UserPreference",
    "ValidationError",
    "WorkItem",
    "__version__",
    "create_harness",
]


def test_the_public_names_are_these() -> None:
    assert alma.__all__ == PUBLIC
    assert [name for name in PUBLIC if getattr(alma, name, None) is None] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="ALMAA"):
        alma.ALMAA  # noqa: B018


def test_every_exported_type_exists() -> None:
    assert [name for name in alma.types.__all__ if not hasattr(alma.types, name)] == []


def test_every_error_is_an_alma_error_and_in_the_drawn_tree() -> None:
    errors = [
        value for value in vars(alma.errors).values() if isinstance(value, type) and value.__module__ == "alma.errors"
    ]
    assert all(issubclass(error, alma.ALMAError) for error in errors)
    assert alma.errors.__doc__ is not None
    assert [error.__name__ for error in errors if error.__name__ not in alma.errors.__doc__] == []


@pytest.mark.system
@pytest.mark.parametrize("statement", ["import alma", "from alma import ALMA", "import alma.types"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    heavy = ["numpy", "onnxruntime", "tokenizers", "httpx", "rich", "yaml", "asyncio", "pydantic"]
    code = f"{statement}; import sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.quality
def test_importing_costs_little_more_than_python_itself() -> None:
    from benchmarks.speed import cpu_of

    usual = "import asyncio, http.server, logging.config, sqlite3, unittest.mock, xml.dom.minidom"
    rounds: list[list[float]] = []
    # Other processes only add to a time, so the lowest counts, and a machine that is busy gets more rounds.
    while len(rounds) < 40:
        rounds.append([cpu_of(code, 1) for code in ("pass", usual, "from alma import ALMA")])
        start, standard, own = (min(times) for times in zip(*rounds, strict=True))
        # On a machine as fast as most the standard modules take 0.08 s; a slower one may take longer for both.
        limit = max(0.10, 1.2 * (standard - start))
        if len(rounds) >= 9 and own - start < limit:
            break
    assert own - start < limit
