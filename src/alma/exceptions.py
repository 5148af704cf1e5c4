"""The errors of alma under their first module name and their first names; see `alma.errors`."""

from .errors import *  # noqa: F403
from .errors import ALMAError, ConfigError, ScopeError

ConfigurationError = ConfigError
ScopeViolationError = ScopeError
# Errors that alma no longer tells apart.
RetrievalError = ExtractionError = ALMAError
