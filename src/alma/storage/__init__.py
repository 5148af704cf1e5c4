"""Stores under their first name: `StorageBackend` is what every store can do, `create` opens one by its name."""

from ..ports import Store as StorageBackend
from ..stores import create

__all__ = ["StorageBackend", "create"]
