"""The store for teams and servers: PostgreSQL with pgvector."""

from ...errors import MissingExtraError

try:
    from .store import PostgresStore
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "psycopg":
        raise
    raise MissingExtraError("psycopg", "postgres", "The store in PostgreSQL") from error

__all__ = ["PostgresStore"]
