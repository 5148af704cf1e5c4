"""The operations on workflows as functions, for the command line."""

from ..workflow import memory as _memory  # noqa: F401 - declares them
from .memories import __getattr__ as __getattr__
