"""The former home of `ALMA`, which is in `alma.memory`."""

from .memory import ALMA, Forgotten

__all__ = ["ALMA", "Forgotten"]
