"""The store for teams and servers: PostgreSQL with pgvector."""
