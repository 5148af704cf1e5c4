"""`DomainMemoryFactory`: schemas by name, and memories that follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, update_wrapper
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ..errors import ConfigError, NotFoundError, ValidationError, unknown
from ..types.scope import MemoryScope, Scopes
from . import governing
from .schema import PRESETS, DomainSchema, from_config, preset

if TYPE_CHECKING:
    from ..core import ALMA
    from ..ports import Embedder, Store

P = ParamSpec("P")
R = TypeVar("R")

_STORE_NAMES = ("sqlite", "memory", "file", "postgres", "qdrant", "pinecone", "chroma", "azure")


class _EitherWay(Generic[P, R]):
    """A method that works on the class too, where there is no memory to keep anything in."""

    def __init__(self, function: Callable[Concatenate[DomainMemoryFactory | None, P], R]) -> None:
        self._function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, factory: DomainMemoryFactory | None, owner: type[DomainMemoryFactory]) -> Callable[P, R]:
        return partial(self._function, factory)


class DomainMemoryFactory:
    """Makes memories for any domain.

    Schemas that are created on a factory are kept in a memory, where other processes find them: the one given, or the
    one that is configured here. On the class itself (`DomainMemoryFactory.create_schema(...)`) nothing is kept.
    """

    def __init__(self, alma: ALMA | None = None) -> None:
        self._alma = alma
        self._opened: ALMA | None = None

    def close(self) -> None:
        """Let go of the memory, if this factory opened it; those it created belong to whoever asked for them."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- schemas

    @_EitherWay
    def create_schema(self: DomainMemoryFactory | None, name: str, config: Mapping[str, Any]) -> DomainSchema:
        """A schema from its parts, such as `entity_types` and `learning_categories`.

        One of the same name that was kept before makes way; one of a preset's name stands before the preset.
        """
        schema = from_config(name, config)
        if self is not None:
            governing.save_schema(self._memory().engine, schema)
        return schema

    @_EitherWay
    def list_schemas(self: DomainMemoryFactory | None) -> list[str]:
        """The names of the presets and of the schemas that are kept here."""
        return list(dict.fromkeys((*PRESETS, *(self._kept() if self else ()))))

    @_EitherWay
    def get_schema(self: DomainMemoryFactory | None, name: str) -> DomainSchema:
        """The schema of that name, kept or preset."""
        found = self._kept() if self is not None else {}
        if name in found:
            return found[name]
        if name not in PRESETS:
            raise ValidationError(unknown("schema", name, dict.fromkeys((*PRESETS, *found))))
        return preset(name)

    def delete_schema(self, name: str) -> None:
        """Take a kept schema off the list; projects that are governed by it go on being so."""
        governing.remove_schema(self._memory().engine, name)

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
            governing.govern(alma, chosen)
            if chosen.name not in PRESETS or chosen != preset(chosen.name):
                governing.save_schema(alma.engine, chosen)
            governing.assign(alma.engine, chosen)
        except BaseException:
            self._drop(alma)
            raise
        return alma

    def open_alma(
        self,
        project_id: str,
        storage: Store | str | PathLike[str] | None = None,
        *,
        embedder: Embedder | None = None,
        agents: Iterable[MemoryScope] | None = None,
    ) -> ALMA:
        """The memory of a project that was created with a schema, following it again."""
        alma = self._open(project_id, storage, embedder, agents)
        if governing.schema_of(alma) is None:
            self._drop(alma)
            raise NotFoundError(
                f"project {project_id!r} has no schema; create_alma(schema, {project_id!r}) gives it one"
            )
        return governing.govern_as_kept(alma)

    def _open(
        self,
        project_id: str,
        storage: Store | str | PathLike[str] | None,
        embedder: Embedder | None,
        agents: Iterable[MemoryScope] | None,
    ) -> ALMA:
        from ..app import open_default, open_quickstart
        from ..core import ALMA

        if storage is None and self._alma is not None:
            engine = self._alma.engine
            shared = engine.encoder.embedder if engine.encoder else None
            declared = engine.scopes.agents.values() if agents is None else agents
            return ALMA(
                engine.store,
                embedder or shared,
                project_id=project_id,
                agents=declared,
                settings=engine.settings,
                clock=engine.clock,
            )
        if storage is None or isinstance(storage, str | PathLike):
            if storage in _STORE_NAMES:
                raise ValidationError(
                    f"storage must be a folder or a store, not {storage!r}; a configuration file says which sort of "
                    "store to use"
                )
            alma = open_default(project_id) if storage is None else open_quickstart(project_id, storage)
            if agents is not None:
                alma.engine = replace(alma.engine, scopes=Scopes({scope.agent_name: scope for scope in agents}))
            return alma
        return ALMA(storage, embedder, project_id=project_id, agents=agents or ())

    def _drop(self, alma: ALMA) -> None:
        if self._alma is None or alma.engine.store is not self._alma.engine.store:
            alma.close()

    # -- where schemas are kept

    def _memory(self) -> ALMA:
        if self._alma is not None:
            return self._alma
        if self._opened is None:
            from ..app import open_default

            self._opened = open_default()
        return self._opened

    def _kept(self) -> dict[str, DomainSchema]:
        """To look for schemas is no reason to make a memory."""
        if self._alma is None and self._opened is None:
            from ..app import find_config

            try:
                exists = find_config().is_file()
            except ConfigError:
                exists = (Path(".alma") / "alma.db").exists()
            if not exists:
                return {}
        return governing.find_schemas(self._memory().engine)
