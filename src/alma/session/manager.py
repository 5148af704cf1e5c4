"""`SessionManager` under its first module name; it is defined in `alma.session`."""

from . import SessionManager as SessionManager
