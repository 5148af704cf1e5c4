"""A schema at work: what it allows, asked at the one door for writing; its thresholds; and where schemas are kept.

A schema that somebody wrote is kept once for all projects of a store, under its name. The one that a project is
governed by is kept with the project.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..engine import things
from ..engine.admit import change, revise
from ..engine.context import Engine
from ..engine.transaction import commit
from ..errors import NotFoundError, ValidationError
from ..types.record import Record, Status
from ..types.rules import EVERYWHERE
from ..types.scope import MemoryScope, Scopes, plain
from .schema import DomainSchema, from_json, to_json

if TYPE_CHECKING:
    from ..core import ALMA

KIND = "domain_schema"
_LOG = logging.getLogger("alma")
# An agent that is declared for no domain in particular works in every one.
_ANY_DOMAIN = ("", "general")


@dataclass(frozen=True, slots=True)
class SchemaScopes(Scopes):
    """The declared agents within a schema; without any, every name is an agent that may learn what the schema says."""

    schema: DomainSchema

    def of(self, agent: str) -> MemoryScope:
        return limit_scope(Scopes.of(self, agent), self.schema)


def limit_scope(scope: MemoryScope, schema: DomainSchema) -> MemoryScope:
    """Return what an agent may learn there: what is declared for it, as far as the schema allows it.

    One that is declared only for what the schema does not know may learn nothing that has a category.
    """
    declared = _declared_categories(scope, schema)
    known = tuple(one for one in declared if schema.allows(one))
    strange = () if known else declared
    forbidden = tuple(dict.fromkeys((*scope.cannot_learn, *schema.excluded_categories, *strange)))
    allowed = known or strange or schema.learning_categories
    return replace(scope, can_learn=allowed, cannot_learn=forbidden, domain=schema.name)


def _declared_categories(scope: MemoryScope, schema: DomainSchema) -> tuple[str, ...]:
    """What is declared for another domain says nothing about this one, but for what the agent must never learn."""
    return scope.can_learn if plain(scope.domain) in (*_ANY_DOMAIN, plain(schema.name)) else ()


def find_misfits(scopes: Scopes, schema: DomainSchema) -> list[str]:
    """Return a sentence for each declared agent that could learn nothing there."""
    valid = ", ".join(schema.learning_categories) or f"anything but {', '.join(schema.excluded_categories)}"
    declared = {name: _declared_categories(scope, schema) for name, scope in scopes.agents.items()}
    return [
        f"agent {name!r} may learn {', '.join(own)}, and the schema {schema.name!r} knows none of that. "
        f"It knows: {valid}."
        for name, own in declared.items()
        if own and not any(map(schema.allows, own))
    ]


def govern(alma: ALMA, schema: DomainSchema) -> ALMA:
    """From now on this memory follows the schema: what may be learned, from when on, and how fast it fades."""
    for wrong in find_misfits(alma.engine.scopes, schema):
        raise ValidationError(wrong)
    return _follow_schema(alma, schema)


def _follow_schema(alma: ALMA, schema: DomainSchema) -> ALMA:
    engine = alma.engine
    settings = replace(
        engine.settings,
        min_occurrences_for_heuristic=schema.min_occurrences_for_heuristic,
        recency_half_life_days=schema.confidence_decay_days,
    )
    alma.engine = replace(engine, scopes=SchemaScopes(engine.scopes.agents, schema), settings=settings)
    return alma


def govern_as_kept(alma: ALMA) -> ALMA:
    """The same with the schema that is kept for the memory's project, where there is one.

    Agents are declared in a file that anybody edits later. One that does not fit is only warned of: the memory must
    open, if only to follow another schema.
    """
    schema = schema_of(alma)
    if schema is None:
        return alma
    for wrong in find_misfits(alma.engine.scopes, schema):
        _LOG.warning("%s Until one of both is changed, it learns nothing that has a category.", wrong)
    return _follow_schema(alma, schema)


def schema_of(alma: ALMA) -> DomainSchema | None:
    """The schema that governs a memory, or that is kept for its project."""
    if isinstance(alma.engine.scopes, SchemaScopes):
        return alma.engine.scopes.schema
    for record in alma.engine.store.get([_id("project", alma.engine.project)]):
        if record.kind == KIND and record.status is Status.ACTIVE:
            return from_json(record.body["schema"])
    return None


# -- keeping


def _id(*parts: str) -> str:
    return f"dom_{hashlib.blake2b(chr(31).join(parts).encode(), digest_size=13).hexdigest()}"


def save_schema(engine: Engine, schema: DomainSchema) -> None:
    """For all projects of the store, under its name; one of that name that was there before makes way."""
    _put_schema(replace(engine, project=EVERYWHERE), _id("name", schema.name), schema)


def assign(engine: Engine, schema: DomainSchema) -> None:
    """As the one that the engine's project is governed by."""
    _put_schema(engine, _id("project", engine.project), schema)


def _put_schema(engine: Engine, id: str, schema: DomainSchema) -> None:
    body = {"name": schema.name, "schema": to_json(schema)}

    def attempt() -> tuple[None, list[Record]]:
        for record in engine.store.get([id]):
            if record.body == body and record.status is Status.ACTIVE:
                return None, []
            fresh = things.altered(engine, record, body, status=Status.ACTIVE)
            return None, [fresh, change(engine, fresh, "replaced", before=record.body)]
        return None, [things.made(engine, things.draft(KIND, body), id=id)]

    commit(engine, attempt)


def find_schemas(engine: Engine) -> dict[str, DomainSchema]:
    """The schemas that people wrote, by name, in the order they came."""
    everywhere = replace(engine, project=EVERYWHERE)
    records = things.scan(everywhere, KIND, statuses={Status.ACTIVE})
    return {record.body["name"]: from_json(record.body["schema"]) for record in reversed(records)}


def remove_schema(engine: Engine, name: str) -> None:
    """Take a kept schema off the list; projects that are governed by it go on being so."""

    def attempt() -> tuple[None, list[Record]]:
        for record in engine.store.get([_id("name", name)]):
            if record.status is Status.ACTIVE:
                return None, [revise(engine, record, status=Status.RETIRED)]
        raise NotFoundError(f"no schema {name!r} is kept here; those that come with alma cannot be removed")

    commit(engine, attempt)
