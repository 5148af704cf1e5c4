"""The classes of domain schemas under their first module name; they are defined in `alma.domains`."""

from . import DomainSchema as DomainSchema
from . import EntityType as EntityType
from . import RelationshipType as RelationshipType
