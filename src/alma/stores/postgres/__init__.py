"""The store for teams and servers: PostgreSQL with pgvector."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
