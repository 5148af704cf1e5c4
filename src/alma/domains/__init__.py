"""Domain schemas: the entities of a domain, what its agents may learn, and how fast memories lose weight.

from alma.domains import DomainMemoryFactory, get_research_schema

factory = DomainMemoryFactory()
alma = factory.create_alma(get_research_schema(), "my-research-project")

A custom schema is stored by name, once for all projects of a store. The schema that a project follows is stored with
the project.
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

from .. import words
from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.transaction import Transaction, scan_records, write
from ..errors import ConfigError, NotFoundError, ValidationError, unknown
from ..opening import Closeable
from ..operations import About, Effect, Group
from ..text import digest
from ..types import times
from ..types.kinds import EVERYWHERE
from ..types.query import MemoryScope, Scopes, plain
from ..types.record import Record, Status, new_id

if TYPE_CHECKING:
    from ..memory import ALMA
    from ..ports import Embedder, Store

T = TypeVar("T")

SCHEMA_KIND = "domain_schema"
PRESETS = ("coding", "research", "sales", "general", "customer_support", "content_creation")
_LOG = logging.getLogger("alma")
# The domains of an agent that is not declared for a particular one: it works in every domain.
_ANY_DOMAIN = ("", "general")


@dataclass(frozen=True, slots=True)
class EntityType:
    """A type of entity in the domain, such as a paper or a lead."""

    name: str
    description: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationshipType:
    """A type of relationship between two entity types, such as an experiment that supports a hypothesis."""

    name: str
    source_type: str
    target_type: str


@dataclass(frozen=True, slots=True)
class DomainEntity:
    """An entity that fits its schema."""

    type: str
    attributes: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The entity as text, such as `lead (stage: new)`."""
        lists = {name: value if isinstance(value, list) else [value] for name, value in self.attributes.items()}
        parts = [f"{name.replace('_', ' ')}: {', '.join(map(str, values))}" for name, values in lists.items()]
        return self.type.replace("_", " ") + (f" ({', '.join(parts)})" if parts else "")

    def as_knowledge(self) -> dict[str, Any]:
        """Return arguments for `ALMA.add_domain_knowledge` that store the entity; add agent and domain."""
        return {"fact": self.text, "tags": (f"entity:{self.type}",), "metadata": {"entity": asdict(self)}}


@dataclass(frozen=True, slots=True)
class DomainRelationship:
    """A relationship between two entities that the schema allows."""

    type: str
    source: DomainEntity
    target: DomainEntity

    @property
    def text(self) -> str:
        """The relationship as text: source, type and target."""
        return f"{self.source.text} {self.type.replace('_', ' ')} {self.target.text}"

    def as_knowledge(self) -> dict[str, Any]:
        """Return arguments for `ALMA.add_domain_knowledge` that store the relationship; add agent and domain."""
        tags = tuple(dict.fromkeys((f"entity:{self.source.type}", f"entity:{self.target.type}")))
        return {"fact": self.text, "tags": tags, "metadata": {"relationship": asdict(self)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSchema:
    """The entity types, learning categories and thresholds of one domain."""

    id: str
    name: str
    description: str = ""
    entity_types: tuple[EntityType, ...] = ()
    relationship_types: tuple[RelationshipType, ...] = ()
    learning_categories: tuple[str, ...] = ()  # What may be learned; if empty, everything that is not excluded.
    excluded_categories: tuple[str, ...] = ()
    min_occurrences_for_heuristic: int = 3
    # After this many days without use or confirmation, a memory counts as half as recent.
    confidence_decay_days: float = 30.0
    created_at: datetime = field(default_factory=times.now)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate.name("name", self.name)
        type_names = [one.name for one in self.entity_types]
        if twice := [one for one in type_names if type_names.count(one) > 1]:
            raise ValidationError(f"schema {self.name!r} has the entity type {twice[0]!r} twice; remove one")
        learned, excluded = (set(map(plain, names)) for names in (self.learning_categories, self.excluded_categories))
        if both := learned & excluded:
            raise ValidationError(
                f"schema {self.name!r} has categories that are both learned and excluded: {', '.join(sorted(both))}; "
                "remove them from one of the lists"
            )
        for relation in self.relationship_types:
            for end in (relation.source_type, relation.target_type):
                if end not in type_names:
                    valid = ", ".join(type_names) or "none, because the schema has no entity types"
                    what = f"unknown entity type {end!r} in the relationship {relation.name!r}"
                    raise ValidationError(f"{what}. Valid: {valid}.")
        validate.whole("min_occurrences_for_heuristic", self.min_occurrences_for_heuristic, 1, 1000)
        days = validate.number("confidence_decay_days", self.confidence_decay_days, 0.01)
        object.__setattr__(self, "confidence_decay_days", days)

    def allows(self, category: str) -> bool:
        """Return whether memories of this category may be learned; case and surrounding spaces are ignored."""
        return MemoryScope(self.name, self.learning_categories, self.excluded_categories).is_allowed(category)

    def entity_type(self, name: str) -> EntityType:
        """Return the entity type with this name; raise ValidationError if there is none."""
        types = {one.name: one for one in self.entity_types}
        if name not in types:
            raise ValidationError(unknown(f"entity type of {self.name}", name, types))
        return types[name]

    def entity(self, type_: str, /, **attributes: Any) -> DomainEntity:
        """Return an entity such as `schema.entity("lead", stage="new")`.

        Raises ValidationError for a type or attribute that is not in the schema.
        """
        kind, checked = self.entity_type(type_), validate.metadata("attributes", attributes)
        for name, value in checked.items():
            if name not in kind.attributes:
                raise ValidationError(unknown(f"attribute of {kind.name!r}", name, kind.attributes))
            if isinstance(value, dict) or value in (None, ""):
                raise ValidationError(f"{name} must be a text, a number or a list of these, not {value!r}")
        return DomainEntity(kind.name, checked)

    def relationship(self, type_: str, /, source: DomainEntity, target: DomainEntity) -> DomainRelationship:
        """Return a relationship between two entities; raise ValidationError if the schema does not allow it."""
        if RelationshipType(type_, source.type, target.type) not in self.relationship_types:
            valid = [f"{one.name}: {one.source_type} → {one.target_type}" for one in self.relationship_types]
            raise ValidationError(unknown("relationship", f"{type_}: {source.type} → {target.type}", valid))
        return DomainRelationship(type_, source, target)


# -- reading and writing schemas as plain data: Python mappings, YAML presets and stored records

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
    field_names = [one.name for one in fields(cast(Any, kind))]
    readers = {"description": _read_text, "attributes": _read_names}
    rows = []
    for at, row in enumerate(validate.items(label, value or ())):
        place = f"{label}[{at}]"
        if not isinstance(row, kind):
            if isinstance(row, Mapping) and len(row) == 1 and "name" not in row:
                [(name, rest)] = row.items()
                row = {**validate.mapping(place, rest), "name": name}
            values = _read_section(place, {"name": row} if isinstance(row, str) else row, field_names)
            readings = {one: readers.get(one, validate.name)(f"{place}.{one}", values.get(one)) for one in field_names}
            row = kind(**readings)
        rows.append(row)
    return tuple(rows)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "description": _read_text,
    "entity_types": partial(_read_rows, EntityType),
    "relationship_types": partial(_read_rows, RelationshipType),
    "learning_categories": _read_names,
    "excluded_categories": _read_names,
    "metadata": validate.metadata,
}


def from_config(name: str, config: Mapping[str, Any], **fields: Any) -> DomainSchema:
    """Return a schema from its configuration, without secrets; raise ValidationError for an unknown key."""
    values = _read_section(f"schema {name!r}", config, ("name", *CONFIG))
    checked = validate.name("name", name)
    if values.pop("name", checked) != checked:
        raise ValidationError(
            f"the schema is named {checked!r}, but its configuration names it {config['name']!r}; use one name"
        )
    parts = {part: clean(value) for part, value in values.items()}
    parts |= {part: read(part, parts.get(part)) for part, read in _READERS.items()}
    return DomainSchema(**({"id": new_id("dom"), "name": checked} | parts | fields))


def to_json(schema: DomainSchema) -> dict[str, Any]:
    """Return a schema as JSON values that `from_json` reads."""
    return cast(dict[str, Any], json.loads(json.dumps(asdict(schema), default=times.to_iso)))


def from_json(data: Mapping[str, Any]) -> DomainSchema:
    """Return the schema that `to_json` wrote."""
    parts = {name: value for name, value in data.items() if name in CONFIG}
    return from_config(data["name"], parts, id=data["id"], created_at=times.from_iso(data["created_at"]))


@lru_cache(maxsize=len(PRESETS))
def preset(name: str) -> DomainSchema:
    """Return one of the schemas that come with alma."""
    from importlib.resources import files

    import yaml

    if name not in PRESETS:
        raise ValidationError(unknown("schema", name, PRESETS))
    data = yaml.safe_load((files("alma") / "domain_presets" / f"{name}.yaml").read_text(encoding="utf-8"))
    since = validate.moment("since", data.pop("since"))
    return from_config(name, data, id=f"dom_{name}", created_at=since)


# -- applying a schema: its categories are checked on every write, and its thresholds replace the settings


@dataclass(frozen=True, slots=True)
class SchemaScopes(Scopes):
    """The scopes of agents under a schema; without declared agents, every name may learn what the schema allows."""

    schema: DomainSchema

    def of(self, agent: str) -> MemoryScope:
        """Return the scope of an agent: its declared categories, as far as the schema allows them.

        An agent whose declared categories are all outside the schema may not learn anything that has a category.
        """
        scope, schema = Scopes.of(self, agent), self.schema
        declared = _list_declared(scope, schema)
        valid = tuple(one for one in declared if schema.allows(one))
        foreign = () if valid else declared
        forbidden = tuple(dict.fromkeys((*scope.cannot_learn, *schema.excluded_categories, *foreign)))
        allowed = valid or foreign or schema.learning_categories
        return replace(scope, can_learn=allowed, cannot_learn=forbidden, domain=schema.name)


def _list_declared(scope: MemoryScope, schema: DomainSchema) -> tuple[str, ...]:
    """Return the categories that an agent is declared to learn; none if it is declared for another domain."""
    return scope.can_learn if plain(scope.domain) in (*_ANY_DOMAIN, plain(schema.name)) else ()


def apply_schema(alma: ALMA, schema: DomainSchema, *, strict: bool = True) -> ALMA:
    """Let a memory follow a schema from now on: its categories, thresholds and decay. Return the memory.

    A declared agent that could not learn anything under the schema is an error if `strict`, otherwise a warning.
    """
    engine = alma.engine
    valid = ", ".join(schema.learning_categories) or f"anything but {', '.join(schema.excluded_categories)}"
    for name, scope in engine.scopes.agents.items():
        declared = _list_declared(scope, schema)
        if not declared or any(map(schema.allows, declared)):
            continue
        wrong = (
            f"agent {name!r} is declared to learn {', '.join(declared)}, but the schema {schema.name!r} allows none of "
            f"these. It allows: {valid}."
        )
        if strict:
            raise ValidationError(wrong)
        _LOG.warning("%s Change the agent or the schema; until then the agent learns nothing with a category.", wrong)
    settings = replace(
        engine.settings,
        min_occurrences_for_heuristic=schema.min_occurrences_for_heuristic,
        recency_half_life_days=schema.confidence_decay_days,
    )
    alma.engine = replace(
        engine, scopes=SchemaScopes(engine.scopes.agents, schema, teams=engine.scopes.teams), settings=settings
    )
    return alma


def apply_stored_schema(alma: ALMA) -> ALMA:
    """Let a memory follow the schema that is stored for its project, if there is one. Return the memory.

    An agent that does not fit the schema causes only a warning, because agents are declared in a file that may be
    edited later: the memory must still open, if only to follow another schema.
    """
    schema = schema_of(alma)
    return alma if schema is None else apply_schema(alma, schema, strict=False)


def schema_of(alma: ALMA) -> DomainSchema | None:
    """Return the schema that a memory follows, or that is stored for its project; None if there is none."""
    if isinstance(alma.engine.scopes, SchemaScopes):
        return alma.engine.scopes.schema
    record = find_schema_record(alma.engine.store, alma.engine.project)
    if record is not None and record.kind == SCHEMA_KIND and record.status is Status.ACTIVE:
        return from_json(record.body["schema"])
    return None


def find_schema_record(store: Store, project: str) -> Record | None:
    """Return the record of the schema that a project follows, or None."""
    return next(iter(store.get([_make_id("project", project)])), None)


# -- storing


def _make_id(*parts: str) -> str:
    return f"dom_{digest(*parts, size=13)}"


def _store_schema(engine: Engine, schema: DomainSchema, *, project: bool = False) -> None:
    """Store a schema by name for all projects of a store, or as the schema that a project follows."""
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
    """A method that can also be called on the class, where there is no memory to store anything in."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, factory: Any, owner: type) -> Callable[..., T]:
        return partial(self._function, factory)


class DomainMemoryFactory(Closeable):
    """Creates domain schemas, and memories that follow them.

    Schemas that are created on an instance are stored in its memory (the one passed, or the configured one), where
    other processes find them. On the class itself (`DomainMemoryFactory.create_schema(...)`) nothing is stored.
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
        """Create and return a schema from its parts, such as `entity_types` and `learning_categories`.

        It overwrites a stored schema of the same name, and takes precedence over a preset of the same name.
        """
        schema = from_config(name, config)
        if self is not None:
            _store_schema(self._memory().engine, schema)
        return schema

    @_ClassOrInstanceMethod
    def list_schemas(self: DomainMemoryFactory | None) -> list[str]:
        """Return the names of the presets and of the stored schemas."""
        return list(dict.fromkeys((*PRESETS, *(self.find_stored_schemas() if self else ()))))

    @_ClassOrInstanceMethod
    def get_schema(self: DomainMemoryFactory | None, name: str) -> DomainSchema:
        """Return the schema with that name, stored or preset."""
        own = self.find_stored_schemas() if self else {}
        if name not in own and name not in PRESETS:
            raise ValidationError(unknown("schema", name, dict.fromkeys((*PRESETS, *own))))
        return own.get(name) or preset(name)

    def delete_schema(self, name: str) -> None:
        """Delete a stored schema; projects that follow it keep following it."""

        def step(tx: Transaction) -> None:
            record = tx.find(_make_id("name", name))
            if record is None or record.status is not Status.ACTIVE:
                if name in PRESETS:
                    raise NotFoundError(f"schema {name!r} is a preset and cannot be deleted")
                stored = self.find_stored_schemas()
                none = f"there is no schema {name!r}; no schema of your own is stored"
                raise NotFoundError(unknown("schema", name, stored) if stored else none)
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
        """Open the memory of a project, let it follow a schema from now on, and return it.

        Without `storage` it is the configured memory (by default SQLite in the folder `.alma`), so that a
        `ProgressTracker` or `SessionManager` of the same project shares it. If the factory has its own memory, it is
        another project in that memory's store, and both are closed together. `storage` is a folder for a SQLite
        memory, or a store to use with `embedder` (without one, only words are searched). `agents` replaces the
        configured agents.
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
        """Open the memory of a project that was created with a schema, and let it follow that schema again.

        `options` are those of `create_alma`.
        """
        alma = self._open(project_id, storage, **options)
        if schema_of(alma) is None:
            self._drop(alma)
            raise NotFoundError(
                f"project {project_id!r} has no schema; create its memory with create_alma(schema, {project_id!r})"
            )
        return apply_stored_schema(alma)

    def _open(
        self,
        project_id: str,
        storage: Store | str | PathLike[str] | None,
        embedder: Embedder | None = None,
        agents: Iterable[MemoryScope] | None = None,
    ) -> ALMA:
        from ..app import open_default, open_quickstart
        from ..memory import ALMA

        if storage is None and self._alma is not None:
            engine = self._alma.engine
            return ALMA(
                engine.store,
                embedder or (engine.encoder.embedder if engine.encoder else None),
                project_id=project_id,
                agents=engine.scopes.agents.values() if agents is None else agents,
                teams=engine.scopes.teams,
                settings=engine.settings,
                clock=engine.clock,
            )
        if storage is not None and not isinstance(storage, str | PathLike):
            return ALMA(storage, embedder, project_id=project_id, agents=agents or ())
        alma = open_default(project_id) if storage is None else open_quickstart(project_id, storage)
        if agents is not None:
            declared = {scope.agent_name: scope for scope in agents}
            alma.engine = replace(alma.engine, scopes=Scopes(declared, teams=alma.engine.scopes.teams))
        return alma

    def _drop(self, alma: ALMA) -> None:
        if self._alma is None or alma.engine.store is not self._alma.engine.store:
            alma.close()

    # -- where schemas are stored

    def _memory(self) -> ALMA:
        if self._alma is not None:
            return self._alma
        if self._opened is None:
            from ..app import open_default

            self._opened = open_default()
        return self._opened

    def find_stored_schemas(self) -> dict[str, DomainSchema]:
        """Return the stored schemas by name, without creating a memory if there is none."""
        if self._alma is None and self._opened is None:
            from ..app import find_config

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
    """A domain schema in a list, or with all its parts."""

    name: str
    description: str
    preset: bool  # Whether it comes with alma and was not changed.
    in_use: bool  # Whether this project follows it.
    schema: DomainSchema | None = None  # The whole schema, if it was requested by name.


@dataclass(frozen=True, slots=True)
class DeletedDomain:
    """The name of a domain schema that was deleted."""

    name: str


@operation(Effect.READS)
def list_domains(
    alma: Any, name: Annotated[str | None, About("show only this schema, in full")] = None
) -> list[Domain]:
    """List domain schemas, both presets and your own; or show one."""
    factory, used = DomainMemoryFactory(alma), schema_of(alma)
    schemas = {one: factory.get_schema(one) for one in factory.list_schemas()}
    # A deleted schema is still listed in the projects that follow it.
    if used is not None:
        schemas.setdefault(used.name, used)
    if name is not None and name not in schemas:
        raise ValidationError(unknown("schema", name, schemas))
    chosen = schemas.values() if name is None else [schemas[name]]
    in_use = used.name if used else None
    return [
        Domain(one.name, one.description, _is_preset(one), one.name == in_use, one if name else None) for one in chosen
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
    learning_categories: Annotated[Iterable[str] | None, About("categories that may be learned (default: all)")] = None,
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
    config = {key: value for key, value in locals().items() if key in CONFIG and value is not None}
    schema, existing = from_config(name, config), DomainMemoryFactory(alma).find_stored_schemas().get(name)
    if existing is None and name in PRESETS and not replace_existing:
        raise ValidationError(f"{name!r} is a preset; pass `replace_existing` to replace it, or choose another name")
    if existing is None or replace_existing:
        _store_schema(alma.engine, schema)
        return schema
    if replace(schema, id=existing.id, created_at=existing.created_at) != existing:
        raise ValidationError(
            f"there is already another schema {name!r}; choose another name, or overwrite it with replace_existing"
        )
    return existing


@operation(Effect.CHANGES, idempotent=True)
def use_domain(alma: Any, name: Name) -> DomainSchema:
    """Apply a domain schema to this project. It decides what may be learned from now on."""
    [domain] = list_domains(alma, name)
    schema = cast(DomainSchema, domain.schema)
    # Apply it to this memory, and store it for processes that open this project later.
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
