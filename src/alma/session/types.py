"""The classes of sessions under their first module name; they are defined in `alma.session.handoff`."""

from .handoff import InitializationResult as InitializationResult
from .handoff import SessionContext as SessionContext
from .handoff import SessionHandoff as SessionHandoff
