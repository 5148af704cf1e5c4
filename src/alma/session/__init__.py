"""Sessions: going on where the last one left off.

from alma.session import SessionManager

manager = SessionManager("my-project")
context = manager.start_session(agent="Helena", goal="Complete auth testing")
manager.create_handoff("Helena", context.session_id, last_action="completed_oauth_tests", last_outcome="success")
"""

from __future__ import annotations

from .handoff import InitializationResult, LastOutcome, Session, SessionContext, SessionHandoff, SessionState
from .manager import SessionManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .initializer import SessionInitializer

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
    # A session begins in a fresh process, and most need nothing of what expands prompts.
    if name != "SessionInitializer":
        raise AttributeError(f"module 'alma.session' has no attribute {name!r}")
    from .initializer import SessionInitializer

    return SessionInitializer
