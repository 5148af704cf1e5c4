"""The operations on sessions as functions, for the command line."""

from .. import context as _context  # noqa: F401 - declares operations of the group
from ..session.initializer import Initialized as Initialized
from .memories import __getattr__ as __getattr__
