"""`ALMA` under its first module name; it is defined in `alma.memory`."""

from .memory import ALMA as ALMA
