"""Where a memory belongs, and how far one may look.

What a workflow learns carries a tag for its workflow, its run and its node; looking within one of them is looking for
the tag. A tenant's memories are a project of their own beside the shared one, so that also what is distilled from them
stays with the tenant: a tag on an outcome would not be on the heuristic that follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.validate import name as checked_name
from ..errors import ScopeError, ValidationError
from ..ports import Searchable, Store
from ..types.query import Hit, Where
from ..types.record import Record
from ..types.vector import Vector
from .types import Scope


def identifier(label: str, value: object) -> str:
    """A name chosen by the caller. One that would be redacted could no longer be told from others."""
    given = checked_name(label, value)
    if clean(given) != given:
        raise ValidationError(f"{label} looks like a secret and would not be kept as it is; choose another name")
    return given


def optional_identifier(label: str, value: object) -> str:
    return "" if value is None or value == "" else identifier(label, value)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a workflow something belongs; what is empty is not known or does not matter."""

    workflow: str = ""
    run: str = ""
    node: str = ""

    def tags(self) -> tuple[str, ...]:
        """What a memory of this place carries, so that it is found from every scope around it."""
        out = []
        if self.workflow:
            out.append(_tag("workflow", self.workflow))
        if self.run:
            out.append(_tag("run", self.run))
        if self.node and self.workflow:
            out.append(_tag("workflow", self.workflow, self.node))
        if self.node and self.run:
            out.append(_tag("run", self.run, self.node))
        return tuple(out)

    def within(self, scope: Scope) -> tuple[str, ...]:
        """The tag that all memories in the scope carry; none for those that are wider than a workflow."""
        if scope not in (Scope.NODE, Scope.RUN, Scope.WORKFLOW):
            return ()
        if scope is Scope.RUN:
            return (_tag("run", self._needed(scope, "run")),)
        if scope is Scope.WORKFLOW:
            return (_tag("workflow", self._needed(scope, "workflow")),)
        node = self._needed(scope, "node")
        if self.run:
            return (_tag("run", self.run, node),)
        return (_tag("workflow", self._needed(scope, "workflow"), node),)

    def _needed(self, scope: Scope, part: str) -> str:
        value: str = getattr(self, part)
        if not value:
            either = "run_id or workflow_id" if scope is Scope.NODE and part == "workflow" else f"{part}_id"
            raise ValidationError(f"the scope {str(scope)!r} needs {either}")
        return value


def _tag(*parts: str) -> str:
    head, *rest = parts
    made = f"{head}:" + "/".join(part.replace("%", "%25").replace("/", "%2F") for part in rest)
    if clean(made) != made:
        raise ValidationError(f"{head}_id and node_id together look like a secret; choose other names")
    return made


def tenant_project(project: str, tenant: str) -> str:
    """The project that a tenant's memories are in."""
    return f"{project}@{tenant.replace('%', '%25').replace('@', '%40')}"


def for_tenant(engine: Engine, tenant: str) -> Engine:
    return replace(engine, project=tenant_project(engine.project, tenant)) if tenant else engine


def one_tenant(bound: str, asked: str) -> str:
    if bound and asked and bound != asked:
        raise ScopeError(f"this memory is of tenant {bound!r} and may not look into that of {asked!r}")
    return bound or asked


def looking(engine: Engine, tenant: str, scope: Scope) -> Engine:
    """The engine that finds what the scope holds, and nothing else."""
    own = for_tenant(engine, tenant)
    if scope is Scope.TENANT and not tenant:
        raise ValidationError("the scope 'tenant' needs tenant_id")
    if scope not in (Scope.TENANT, Scope.GLOBAL):
        return own
    projects = frozenset({engine.project}) if scope is Scope.GLOBAL else frozenset()
    # Where agents are declared, each says itself whom it shares with, whatever the scope.
    return replace(own, store=widened(own.store, own.project, projects, everyone=not engine.scopes.agents))


class Wider:
    """A store that also looks into other projects, and at the memories of all agents, when one project is asked for."""

    def __init__(self, store: Store, project: str, more: frozenset[str], everyone: bool) -> None:
        self._store = store
        self._project = project
        self._more = more
        self._everyone = everyone

    def _widened(self, where: Where) -> Where:
        if where.projects is None or self._project not in where.projects:
            return where
        agents = None if self._everyone else where.agents
        return replace(where, projects=self._more | set(where.projects), agents=agents)

    def put(self, records: Sequence[Record]) -> None:
        self._store.put(records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        return self._store.get(ids)

    def delete(self, ids: Sequence[str]) -> int:
        return self._store.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        return self._store.scan(self._widened(where), limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        return self._store.nearest(vector, self._widened(where), limit)

    def close(self) -> None:
        self._store.close()


class WiderSearchable(Wider):
    def __init__(
        self, store: Store, searchable: Searchable, project: str, more: frozenset[str], everyone: bool
    ) -> None:
        super().__init__(store, project, more, everyone)
        self._searchable = searchable

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        return self._searchable.match(words, self._widened(where), limit)


def widened(store: Store, project: str, more: frozenset[str], everyone: bool) -> Store:
    if isinstance(store, Searchable):
        return WiderSearchable(store, store, project, more, everyone)
    return Wider(store, project, more, everyone)
