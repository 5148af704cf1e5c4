"""The store that is used unless another is asked for: one SQLite file that holds records, words and vectors."""

from .store import SQLiteStore

__all__ = ["SQLiteStore"]
