"""Memory for any domain: what there is in it, what its agents may learn, and how fast what was learned fades.

from alma.domains import DomainMemoryFactory, get_research_schema

factory = DomainMemoryFactory()
alma = factory.create_alma(get_research_schema(), "my-research-project")

A schema that somebody wrote is kept once for all projects of a store, under its name. The one that a project is
governed by is kept with the project.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache, partial, update_wrapper
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast

from . import words
from .engine import validate
from .engine.admit import clean
from .engine.context import Engine
from .engine.transaction import Transaction, scan_records, write
from .errors import ConfigError, NotFoundError, ValidationError, unknown
from .opening import Closeable
from .operations import About, Effect, Group
from .text import digest
from .types import times
from .types.kinds import EVERYWHERE
from .types.query import MemoryScope, Scopes, plain
from .types.record import Status, new_id

if TYPE_CHECKING:
    from .memory import ALMA
    from .ports import Embedder, Store

T = TypeVar("T")

SCHEMA_KIND = "domain_schema"
PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")
_LOG = logging.getLogger("alma")
# An agent that is declared for no domain in particular works in every one.
_ANY_DOMAIN = ("", "general")


@dataclass(frozen=True, slots=True)
class EntityType:
    """A sort of thing in the domain, such as a paper or a lead."""

    name: str
    description: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationshipType:
    """How things of one type stand to things of another, such as an experiment that supports a hypothesis."""

    name: str
    source_type: str
    target_type: str


@dataclass(frozen=True, slots=True)
class DomainEntity:
    """A thing that fits its schema."""

    type: str
    attributes: Mapping[str, Any]

    @property
    def text(self) -> str:
        lists = {name: value if isinstance(value, list) else [value] for name, value in self.attributes.items()}
        parts = [f"{name.replace('_', ' ')}: {', '.join(map(str, values))}" for name, values in lists.items()]
        return self.type.replace("_", " ") + (f" ({', '.join(parts)})" if parts else "")

    def as_knowledge(self) -> dict[str, Any]:
        """The arguments with which `ALMA.add_domain_knowledge` keeps it, but for the agent and the category."""
        return {"fact": self.text, "tags": (f"entity:{self.type}",), "metadata": {"entity": asdict(self)}}


@dataclass(frozen=True, slots=True)
class DomainRelationship:
    """Two things and how they stand to each other, as the schema allows it."""

    type: str
    source: DomainEntity
    target: DomainEntity

    @property
    def text(self) -> str:
        return f"{self.source.text} {self.type.replace('_', ' ')} {self.target.text}"

    def as_knowledge(self) -> dict[str, Any]:
        tags = tuple(dict.fromkeys((f"entity:{self.source.type}", f"entity:{self.target.type}")))
        return {"fact": self.text, "tags": tags, "metadata": {"relationship": asdict(self)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSchema:
    """What memory is like in one domain."""

    id: str
    name: str
    description: str = ""
    entity_types: tuple[EntityType, ...] = ()
    relationship_types: tuple[RelationshipType, ...] = ()
    learning_categories: tuple[str, ...] = ()  # What may be learned; empty: everything that is not excluded.
    excluded_categories: tuple[str, ...] = ()
    min_occurrences_for_heuristic: int = 3
    # After so many days without use or confirmation a memory counts half as recent.
    confidence_decay_days: float = 30.0
    created_at: datetime = field(default_factory=times.now)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate.name("name", self.name)
        known = [one.name for one in self.entity_types]
        if twice := [one for one in known if known.count(one) > 1]:
            raise ValidationError(f"entity types of {self.name}: {twice[0]!r} is there twice")
        learned, excluded = (set(map(plain, names)) for names in (self.learning_categories, self.excluded_categories))
        if both := learned & excluded:
            raise ValidationError(f"{', '.join(sorted(both))}: both a learning category and an excluded one")
        for relation in self.relationship_types:
            for end in (relation.source_type, relation.target_type):
                if end not in known:
                    valid = ", ".join(known) or "none, since the schema has no entity types"
                    what = f"unknown entity type {end!r} in the relationship {relation.name!r}"
                    raise ValidationError(f"{what}. Valid: {valid}.")
        validate.whole("min_occurrences_for_heuristic", self.min_occurrences_for_heuristic, 1, 1000)
        days = validate.number("confidence_decay_days", self.confidence_decay_days, 0.01)
        object.__setattr__(self, "confidence_decay_days", days)

    def allows(self, category: str) -> bool:
        """Whether something of this category may be learned; case and space around it make no difference."""
        if plain(category) in map(plain, self.excluded_categories):
            return False
        return not self.learning_categories or plain(category) in map(plain, self.learning_categories)

    def entity_type(self, name: str) -> EntityType:
        types = {one.name: one for one in self.entity_types}
        if name not in types:
            raise ValidationError(unknown(f"entity type of {self.name}", name, types))
        return types[name]

    def entity(self, type_: str, /, **attributes: Any) -> DomainEntity:
        """A thing of this domain: `schema.entity("lead", stage="new")`. What the schema does not know is refused."""
        kind, checked = self.entity_type(type_), validate.metadata(attributes)
        for name, value in checked.items():
            if name not in kind.attributes:
                raise ValidationError(unknown(f"attribute of {kind.name!r}", name, kind.attributes))
            if isinstance(value, dict) or value in (None, ""):
                raise ValidationError(f"{name} must be a text, a number or a list of them, not {value!r}")
        return DomainEntity(kind.name, checked)

    def relationship(self, type_: str, /, source: DomainEntity, target: DomainEntity) -> DomainRelationship:
        """Two things and how they stand to each other; their types must be those that the schema gives."""
        if RelationshipType(type_, source.type, target.type) not in self.relationship_types:
            valid = [f"{one.name}: {one.source_type} → {one.target_type}" for one in self.relationship_types]
            raise ValidationError(unknown("relationship", f"{type_}: {source.type} → {target.type}", valid))
        return DomainRelationship(type_, source, target)


# -- as plain data: what a person writes in Python or YAML, what a file of this package holds, what is stored

CONFIG = tuple(one.name for one in fields(DomainSchema) if one.name not in ("id", "name", "created_at"))


def _read_names(label: str, value: Any) -> tuple[str, ...]:
    return tuple(validate.name(label, one) for one in validate.items(label, value or (), "names"))


def _read_text(label: str, value: Any) -> str:
    return validate.optional_text(label, value) or ""


def _read_section(label: str, value: Any, valid: Iterable[str]) -> dict[str, Any]:
    for name in validate.mapping(label, value):
        if name not in valid:
            raise ValidationError(unknown(f"key in {label}", name, valid))
    return dict(value)


def _read_rows(kind: type[T], label: str, value: Any) -> tuple[T, ...]:
    """Read rows: `{"name": "lead", "attributes": [...]}`, `{"lead": {"attributes": [...]}}`, or only a name."""
    known = [one.name for one in fields(cast(Any, kind))]
    readers = {"description": _read_text, "attributes": _read_names}
    rows = []
    for at, row in enumerate(validate.items(label, value or ())):
        place = f"{label}[{at}]"
        if not isinstance(row, kind):
            if isinstance(row, Mapping) and len(row) == 1 and "name" not in row:
                [(name, rest)] = row.items()
                row = {**validate.mapping(place, rest), "name": name}
            given = _read_section(place, {"name": row} if isinstance(row, str) else row, known)
            row = kind(**{one: readers.get(one, validate.name)(f"{place}.{one}", given.get(one)) for one in known})
        rows.append(row)
    return tuple(rows)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "description": _read_text,
    "entity_types": partial(_read_rows, EntityType),
    "relationship_types": partial(_read_rows, RelationshipType),
    "learning_categories": _read_names,
    "excluded_categories": _read_names,
    "metadata": lambda _, value: validate.metadata(value),
}


def from_config(name: str, config: Mapping[str, Any], **fields: Any) -> DomainSchema:
    """A schema from what a person wrote, without secrets; a part that is not known is an error that lists what is."""
    given = _read_section(f"schema {name!r}", config, ("name", *CONFIG))
    checked = validate.name("name", name)
    if given.pop("name", checked) != checked:
        raise ValidationError(f"the schema is called {checked!r} here and {config['name']!r} in its config")
    parts = {part: clean(value) for part, value in given.items()}
    parts |= {part: read(part, parts.get(part)) for part, read in _READERS.items()}
    return DomainSchema(**({"id": new_id("dom"), "name": checked} | parts | fields))


def to_json(schema: DomainSchema) -> dict[str, Any]:
    """Everything, as `from_json` reads it."""
    return cast(dict[str, Any], json.loads(json.dumps(asdict(schema), default=times.to_iso)))


def from_json(data: Mapping[str, Any]) -> DomainSchema:
    parts = {name: value for name, value in data.items() if name in CONFIG}
    return from_config(data["name"], parts, id=data["id"], created_at=times.from_iso(data["created_at"]))


@lru_cache(maxsize=len(PRESETS))
def preset(name: str) -> DomainSchema:
    """One of the schemas that come with alma."""
    from importlib.resources import files

    import yaml

    if name not in PRESETS:
        raise ValidationError(unknown("schema", name, PRESETS))
    data = yaml.safe_load((files(__package__) / "domain_presets" / f"{name}.yaml").read_text(encoding="utf-8"))
    since = validate.moment("since", data.pop("since"))
    return from_config(name, data, id=f"dom_{name}", created_at=since)


# -- a schema at work: what it allows, asked at the one door for writing, and its thresholds


@dataclass(frozen=True, slots=True)
class SchemaScopes(Scopes):
    """The declared agents within a schema; without any, every name is an agent that may learn what the schema says."""

    schema: DomainSchema

    def of(self, agent: str) -> MemoryScope:
        """Return what an agent may learn there: what is declared for it, as far as the schema allows it.

        One that is declared only for what the schema does not know may learn nothing that has a category.
        """
        scope, schema = Scopes.of(self, agent), self.schema
        declared = _list_declared(scope, schema)
        known = tuple(one for one in declared if schema.allows(one))
        strange = () if known else declared
        forbidden = tuple(dict.fromkeys((*scope.cannot_learn, *schema.excluded_categories, *strange)))
        allowed = known or strange or schema.learning_categories
        return replace(scope, can_learn=allowed, cannot_learn=forbidden, domain=schema.name)


def _list_declared(scope: MemoryScope, schema: DomainSchema) -> tuple[str, ...]:
    """What is declared for another domain says nothing about this one, but for what the agent must never learn."""
    return scope.can_learn if plain(scope.domain) in (*_ANY_DOMAIN, plain(schema.name)) else ()


def apply_schema(alma: ALMA, schema: DomainSchema, *, strict: bool = True) -> ALMA:
    """From now on this memory follows the schema: what may be learned, from when on, and how fast it fades.

    A declared agent that could learn nothing there is an error or, unless `strict`, a warning.
    """
    engine = alma.engine
    valid = ", ".join(schema.learning_categories) or f"anything but {', '.join(schema.excluded_categories)}"
    for name, scope in engine.scopes.agents.items():
        declared = _list_declared(scope, schema)
        if not declared or any(map(schema.allows, declared)):
            continue
        wrong = (
            f"agent {name!r} may learn {', '.join(declared)}, and the schema {schema.name!r} knows none of that. "
            f"It knows: {valid}."
        )
        if strict:
            raise ValidationError(wrong)
        _LOG.warning("%s Until one of both is changed, it learns nothing that has a category.", wrong)
    settings = replace(
        engine.settings,
        min_occurrences_for_heuristic=schema.min_occurrences_for_heuristic,
        recency_half_life_days=schema.confidence_decay_days,
    )
    alma.engine = replace(engine, scopes=SchemaScopes(engine.scopes.agents, schema), settings=settings)
    return alma


def apply_stored_schema(alma: ALMA) -> ALMA:
    """The same with the schema that is kept for the memory's project, where there is one.

    Agents are declared in a file that anybody edits later. One that does not fit is only warned of: the memory must
    open, if only to follow another schema.
    """
    schema = schema_of(alma)
    return alma if schema is None else apply_schema(alma, schema, strict=False)


def schema_of(alma: ALMA) -> DomainSchema | None:
    """The schema that governs a memory, or that is kept for its project."""
    if isinstance(alma.engine.scopes, SchemaScopes):
        return alma.engine.scopes.schema
    for record in alma.engine.store.get([_make_id("project", alma.engine.project)]):
        if record.kind == SCHEMA_KIND and record.status is Status.ACTIVE:
            return from_json(record.body["schema"])
    return None


# -- keeping


def _make_id(*parts: str) -> str:
    return f"dom_{digest(*parts, size=13)}"


def _store_schema(engine: Engine, schema: DomainSchema, *, project: bool = False) -> None:
    """Keep a schema for all projects of a store under its name, or as the one that a project is governed by."""
    id = _make_id("project", engine.project) if project else _make_id("name", schema.name)
    place = engine if project else replace(engine, project=EVERYWHERE)
    body = {"name": schema.name, "schema": to_json(schema)}

    def step(tx: Transaction) -> None:
        record = tx.find(id)
        if record is None:
            tx.add(SCHEMA_KIND, body, id=id)
        elif record.body != body or record.status is not Status.ACTIVE:
            fresh = tx.change(record, body, status=Status.ACTIVE)
            tx.add_history(fresh, "replaced", before=record.body)

    write(place, step)


# -- schemas by name, and memories that follow them


class _ClassOrInstanceMethod(Generic[T]):
    """A method that works on the class too, where there is no memory to keep anything in."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, factory: Any, owner: type) -> Callable[..., T]:
        return partial(self._function, factory)


class DomainMemoryFactory(Closeable):
    """Makes memories for any domain.

    Schemas that are created on a factory are kept in a memory, where other processes find them: the one given, or the
    one that is configured here. On the class itself (`DomainMemoryFactory.create_schema(...)`) nothing is kept.
    """

    def __init__(self, alma: ALMA | None = None) -> None:
        self._alma = alma
        self._opened: ALMA | None = None

    def close(self) -> None:
        """Close the memory if this factory opened it. Memories that it created belong to their callers."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # -- schemas

    @_ClassOrInstanceMethod
    def create_schema(self: DomainMemoryFactory | None, name: str, config: Mapping[str, Any]) -> DomainSchema:
        """A schema from its parts, such as `entity_types` and `learning_categories`.

        One of the same name that was kept before makes way; one of a preset's name stands before the preset.
        """
        schema = from_config(name, config)
        if self is not None:
            _store_schema(self._memory().engine, schema)
        return schema

    @_ClassOrInstanceMethod
    def list_schemas(self: DomainMemoryFactory | None) -> list[str]:
        """The names of the presets and of the schemas that are kept here."""
        return list(dict.fromkeys((*PRESETS, *(self.find_stored_schemas() if self else ()))))

    @_ClassOrInstanceMethod
    def get_schema(self: DomainMemoryFactory | None, name: str) -> DomainSchema:
        """The schema of that name, kept or preset."""
        own = self.find_stored_schemas() if self else {}
        if name not in own and name not in PRESETS:
            raise ValidationError(unknown("schema", name, dict.fromkeys((*PRESETS, *own))))
        return own.get(name) or preset(name)

    def delete_schema(self, name: str) -> None:
        """Take a kept schema off the list; projects that are governed by it go on being so."""

        def step(tx: Transaction) -> None:
            record = tx.find(_make_id("name", name))
            if record is None or record.status is not Status.ACTIVE:
                raise NotFoundError(f"no schema {name!r} is kept here; those that come with alma cannot be removed")
            tx.update(record, status=Status.RETIRED)

        write(self._memory().engine, step)

    get_coding_schema = staticmethod(partial(preset, "coding"))
    get_research_schema = staticmethod(partial(preset, "research"))
    get_sales_schema = staticmethod(partial(preset, "sales"))
    get_general_schema = staticmethod(partial(preset, "general"))
    get_customer_support_schema = staticmethod(partial(preset, "customer_support"))
    get_content_creation_schema = staticmethod(partial(preset, "content_creation"))

    # -- memories

    def create_alma(
        self,
        schema: DomainSchema | str,
        project_id: str,
        storage: Store | str | PathLike[str] | None = None,
        *,
        embedder: Embedder | None = None,
        agents: Iterable[MemoryScope] | None = None,
    ) -> ALMA:
        """A memory of a project that follows a schema, and remembers that it does.

        Without `storage` it is the memory that is configured here (SQLite in the folder `.alma` when nothing is), so
        that a `ProgressTracker` or `SessionManager` of the same project shares it; of a factory with a memory of its
        own, it is another project of that one's store, and they are closed together. `storage` names another folder
        for a SQLite memory, or is a store, which then goes with `embedder` (none: words alone are searched). `agents`
        are those of this memory, in place of the configured ones.
        """
        chosen = self.get_schema(schema) if isinstance(schema, str) else schema
        if not isinstance(chosen, DomainSchema):
            raise ValidationError(f"schema must be a DomainSchema or the name of one, not {type(schema).__name__}")
        alma = self._open(project_id, storage, embedder, agents)
        try:
            apply_schema(alma, chosen)
            if not _is_preset(chosen):
                _store_schema(alma.engine, chosen)
            _store_schema(alma.engine, chosen, project=True)
        except BaseException:
            self._drop(alma)
            raise
        return alma

    def open_alma(self, project_id: str, storage: Store | str | PathLike[str] | None = None, **options: Any) -> ALMA:
        """The memory of a project that was created with a schema, following it again. `options` are those of
        `create_alma`."""
        alma = self._open(project_id, storage, **options)
        if schema_of(alma) is None:
            self._drop(alma)
            raise NotFoundError(
                f"project {project_id!r} has no schema; create_alma(schema, {project_id!r}) gives it one"
            )
        return apply_stored_schema(alma)

    def _open(
        self,
        project_id: str,
        storage: Store | str | PathLike[str] | None,
        embedder: Embedder | None = None,
        agents: Iterable[MemoryScope] | None = None,
    ) -> ALMA:
        from .app import open_default, open_quickstart
        from .memory import ALMA

        if storage is None and self._alma is not None:
            engine = self._alma.engine
            return ALMA(
                engine.store,
                embedder or (engine.encoder.embedder if engine.encoder else None),
                project_id=project_id,
                agents=engine.scopes.agents.values() if agents is None else agents,
                settings=engine.settings,
                clock=engine.clock,
            )
        if storage is not None and not isinstance(storage, str | PathLike):
            return ALMA(storage, embedder, project_id=project_id, agents=agents or ())
        alma = open_default(project_id) if storage is None else open_quickstart(project_id, storage)
        if agents is not None:
            alma.engine = replace(alma.engine, scopes=Scopes({scope.agent_name: scope for scope in agents}))
        return alma

    def _drop(self, alma: ALMA) -> None:
        if self._alma is None or alma.engine.store is not self._alma.engine.store:
            alma.close()

    # -- where schemas are kept

    def _memory(self) -> ALMA:
        if self._alma is not None:
            return self._alma
        if self._opened is None:
            from .app import open_default

            self._opened = open_default()
        return self._opened

    def find_stored_schemas(self) -> dict[str, DomainSchema]:
        """Return the schemas that were created here, by name. To look for schemas is no reason to make a memory."""
        if self._alma is None and self._opened is None:
            from .app import find_config

            try:
                exists = find_config().is_file()
            except ConfigError:
                exists = (Path(".alma") / "alma.db").exists()
            if not exists:
                return {}
        records = scan_records(
            replace(self._memory().engine, project=EVERYWHERE), SCHEMA_KIND, statuses={Status.ACTIVE}
        )
        return {record.body["name"]: from_json(record.body["schema"]) for record in reversed(records)}


get_coding_schema = DomainMemoryFactory.get_coding_schema
get_research_schema = DomainMemoryFactory.get_research_schema
get_sales_schema = DomainMemoryFactory.get_sales_schema
get_general_schema = DomainMemoryFactory.get_general_schema
get_customer_support_schema = DomainMemoryFactory.get_customer_support_schema
get_content_creation_schema = DomainMemoryFactory.get_content_creation_schema


# -- as operations of a memory

operation = Group("domains")
Name = Annotated[str, About("the schema's name")]
Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    description: str
    preset: bool  # Shipped with alma, and not changed here.
    in_use: bool  # This project follows it.
    schema: DomainSchema | None = None
    """All its parts, where one was asked for by its name."""


@dataclass(frozen=True, slots=True)
class DeletedDomain:
    name: str


@operation(Effect.READS)
def list_domains(
    alma: Any, name: Annotated[str | None, About("show only this schema, in full")] = None
) -> list[Domain]:
    """List domain schemas, both presets and your own; or show one."""
    factory, used = DomainMemoryFactory(alma), schema_of(alma)
    schemas = {one: factory.get_schema(one) for one in factory.list_schemas()}
    # Taken off the list, a schema still governs the projects that follow it.
    if used is not None:
        schemas.setdefault(used.name, used)
    if name is not None and name not in schemas:
        raise ValidationError(unknown("schema", name, schemas))
    wanted = schemas.values() if name is None else [schemas[name]]
    in_use = used.name if used else None
    return [
        Domain(one.name, one.description, _is_preset(one), one.name == in_use, one if name else None) for one in wanted
    ]


@operation(Effect.CHANGES, idempotent=True)
def create_domain(
    alma: Any,
    name: Name,
    description: Annotated[str, About("what the domain is about")] = "",
    entity_types: Annotated[
        Rows | None, About("entity types, each with name, optionally description and attributes")
    ] = None,
    relationship_types: Annotated[
        Rows | None, About("relationship types, each with name, source_type and target_type")
    ] = None,
    learning_categories: Annotated[Iterable[str] | None, About("categories that may be learned; default: all")] = None,
    excluded_categories: Annotated[Iterable[str] | None, About("categories that may not be learned")] = None,
    min_occurrences_for_heuristic: Annotated[
        int | None, About("similar outcomes that form a strategy (default 3)")
    ] = None,
    confidence_decay_days: Annotated[
        float | None, About("days until an unused memory counts half as recent (default 30)")
    ] = None,
    metadata: words.Metadata = None,
    replace_existing: Annotated[bool, About("replace an existing schema of this name")] = False,
) -> DomainSchema:
    """Create a domain schema: entity types, what may be learned, and how fast memories fade."""
    given = {key: value for key, value in locals().items() if key in CONFIG and value is not None}
    schema, existing = from_config(name, given), DomainMemoryFactory(alma).find_stored_schemas().get(name)
    if existing is None and name in PRESETS and not replace_existing:
        raise ValidationError(f"{name!r} is a preset; pass `replace_existing` to replace it, or choose another name")
    if existing is None or replace_existing:
        _store_schema(alma.engine, schema)
        return schema
    if replace(schema, id=existing.id, created_at=existing.created_at) != existing:
        raise ValidationError(f"schema {name!r} already exists and differs; pass `replace_existing` to replace it")
    return existing


@operation(Effect.CHANGES, idempotent=True)
def use_domain(alma: Any, name: Name) -> DomainSchema:
    """Apply a domain schema to this project. It decides what may be learned from now on."""
    [domain] = list_domains(alma, name)
    schema = cast(DomainSchema, domain.schema)
    # The first holds for this memory from now on, the second remembers it for those who open this project later.
    apply_schema(alma, schema)
    _store_schema(alma.engine, schema, project=True)
    return schema


@operation(Effect.ERASES)
def delete_domain(alma: Any, name: Name) -> DeletedDomain:
    """Delete a domain schema you created. Projects that use it keep using it."""
    DomainMemoryFactory(alma).delete_schema(name)
    return DeletedDomain(name)


def _is_preset(schema: DomainSchema) -> bool:
    return schema.name in PRESETS and schema == preset(schema.name)
