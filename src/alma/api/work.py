"""The operations on work items as functions, for the command line."""

from ..progress import tracker as _tracker  # noqa: F401 - declares them
from .memories import __getattr__ as __getattr__
