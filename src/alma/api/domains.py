"""The operations on domains as functions, for the command line."""

from ..domains import Domain as Domain
from .memories import __getattr__ as __getattr__
