"""The interface of a store under its first module name; it is defined in `alma.ports`."""

from ..ports import Store as StorageBackend

__all__ = ["StorageBackend"]
