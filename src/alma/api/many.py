"""The operations of `ALMA` on many memories as functions, for the command line."""

from .memories import __getattr__ as __getattr__
