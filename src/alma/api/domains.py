"""Domains: what kind of work a memory is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from .. import words
from ..core import ALMA
from ..domains import DomainMemoryFactory, DomainSchema, assign, govern, schema_of
from .operation import About, Effect, operation

Name = Annotated[str, About("the schema's name")]


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    description: str
    preset: bool
    """Shipped with alma, and not changed here."""
    in_use: bool
    """This project follows it."""


@operation(Effect.READS)
def list_domains(alma: ALMA) -> list[Domain]:
    """List the domain schemas: the presets and those that were created here."""
    factory = DomainMemoryFactory(alma)
    used = schema_of(alma)
    schemas = {name: factory.get_schema(name) for name in factory.list_schemas()}
    # Taken off the list, a schema still governs the projects that follow it.
    if used is not None:
        schemas.setdefault(used.name, used)
    return [
        Domain(one.name, one.description, _shipped(one), used is not None and used.name == one.name)
        for one in schemas.values()
    ]


def _shipped(schema: DomainSchema) -> bool:
    presets = DomainMemoryFactory
    return schema.name in presets.list_schemas() and presets.get_schema(schema.name) == schema


@operation(Effect.READS)
def get_domain(alma: ALMA, name: Name) -> DomainSchema:
    """Show one domain schema."""
    factory, used = DomainMemoryFactory(alma), schema_of(alma)
    if used is not None and used.name == name and name not in factory.list_schemas():
        return used
    return factory.get_schema(name)


@operation(Effect.CHANGES, idempotent=True)
def create_domain(
    alma: ALMA,
    name: Name,
    description: Annotated[str, About("what the domain is about")] = "",
    entity_types: Annotated[
        list[dict[str, Any]] | None, About("sorts of things, each with name, and perhaps description and attributes")
    ] = None,
    relationship_types: Annotated[
        list[dict[str, Any]] | None, About("each with name, source_type and target_type")
    ] = None,
    learning_categories: Annotated[list[str] | None, About("what may be learned; without them everything")] = None,
    excluded_categories: Annotated[list[str] | None, About("what may not be learned")] = None,
    min_occurrences_for_heuristic: Annotated[
        int | None, About("so many similar outcomes make a strategy (default 3)")
    ] = None,
    confidence_decay_days: Annotated[
        float | None, About("after so many days unused a memory counts half as recent (default 30)")
    ] = None,
    metadata: words.Metadata = None,
) -> DomainSchema:
    """Create a domain schema: what there is, what may be learned, and how fast it fades. One of that name makes way."""
    given = {key: value for key, value in locals().items() if key not in ("alma", "name") and value is not None}
    return DomainMemoryFactory(alma).create_schema(name, given)


@operation(Effect.CHANGES, idempotent=True)
def use_domain(alma: ALMA, name: Name) -> DomainSchema:
    """Let this project follow a domain schema from now on: it gates what may be learned."""
    schema = get_domain(alma, name)
    # The first holds for this memory from now on, the second remembers it for those who open this project later.
    govern(alma, schema)
    assign(alma.engine, schema)
    return schema


@dataclass(frozen=True, slots=True)
class DeletedDomain:
    name: str


@operation(Effect.ERASES)
def delete_domain(alma: ALMA, name: Name) -> DeletedDomain:
    """Take a schema that was created here off the list. Projects that follow it go on doing so."""
    DomainMemoryFactory(alma).delete_schema(name)
    return DeletedDomain(name)
