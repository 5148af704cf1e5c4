"""Memory for any domain: what there is in it, and what its agents may learn.

from alma.domains import DomainMemoryFactory, get_research_schema

factory = DomainMemoryFactory()
alma = factory.create_alma(get_research_schema(), "my-research-project")
"""

from __future__ import annotations

from .factory import DomainMemoryFactory
from .governing import KIND as SCHEMA_KIND
from .governing import assign, govern, govern_as_kept, schema_of
from .schema import DomainSchema, Entity, EntityType, Relationship, RelationshipType

get_coding_schema = DomainMemoryFactory.get_coding_schema
get_research_schema = DomainMemoryFactory.get_research_schema
get_sales_schema = DomainMemoryFactory.get_sales_schema
get_general_schema = DomainMemoryFactory.get_general_schema
get_customer_support_schema = DomainMemoryFactory.get_customer_support_schema
get_content_creation_schema = DomainMemoryFactory.get_content_creation_schema

__all__ = [
    "SCHEMA_KIND",
    "DomainMemoryFactory",
    "DomainSchema",
    "Entity",
    "EntityType",
    "Relationship",
    "RelationshipType",
    "assign",
    "get_coding_schema",
    "get_content_creation_schema",
    "get_customer_support_schema",
    "get_general_schema",
    "get_research_schema",
    "get_sales_schema",
    "govern",
    "govern_as_kept",
    "schema_of",
]
