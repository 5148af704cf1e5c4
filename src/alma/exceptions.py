"""The errors of alma under their first name; see `alma.errors`."""

from .errors import *  # noqa: F403
