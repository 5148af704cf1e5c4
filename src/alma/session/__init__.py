"""Sessions: going on where the last one left off.

from alma.session import SessionManager

manager = SessionManager("my-project")
context = manager.start_session(agent="Helena", goal="Complete auth testing")
manager.create_handoff("Helena", context.session_id, last_action="completed_oauth_tests", last_outcome="success")
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .initializer import SessionInitializer
    from .manager import SessionManager
    from .types import InitializationResult, LastOutcome, Session, SessionContext, SessionHandoff, SessionState

# A session begins in a fresh process, and who only goes on needs nothing of what expands prompts.
_HOMES = {
    "InitializationResult": "types",
    "LastOutcome": "types",
    "Session": "types",
    "SessionContext": "types",
    "SessionHandoff": "types",
    "SessionInitializer": "initializer",
    "SessionManager": "manager",
    "SessionState": "types",
}

__all__ = [
    "InitializationResult",
    "LastOutcome",
    "Session",
    "SessionContext",
    "SessionHandoff",
    "SessionInitializer",
    "SessionManager",
    "SessionState",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'alma.session' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
