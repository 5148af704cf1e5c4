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
from ..engine.search import by_words
from ..engine.validate import name as checked_name
from ..errors import ScopeError, ValidationError
from ..ports import Store
from ..types.query import Hit, Where
from ..types.record import Record
from ..types.vector import Vector
from .types import Scope


def check_id(label: str, value: object) -> str:
    """Return a name chosen by the caller. One that would be redacted could no longer be told from others."""
    name = checked_name(label, value)
    if clean(name) != name:
        raise ValidationError(f"{label} looks like a secret and would not be kept as it is; choose another name")
    return name


def check_ids(**ids: object) -> list[str]:
    """Return optional names, empty where there is none."""
    return ["" if value is None or value == "" else check_id(label, value) for label, value in ids.items()]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a workflow something belongs; what is empty is not known or does not matter."""

    workflow: str = ""
    run: str = ""
    node: str = ""

    def list_tags(self) -> tuple[str, ...]:
        """Return what a memory of this place carries, so that it is found from every scope around it."""
        around = [(name, getattr(self, name)) for name in ("workflow", "run") if getattr(self, name)]
        nodes = [(*names, self.node) for names in around if self.node]
        return tuple(_make_tag(*names) for names in (*around, *nodes))

    def find_tags(self, scope: Scope) -> tuple[str, ...]:
        """Return the tag that all memories in the scope carry; none for scopes that are wider than a workflow."""
        if scope not in (Scope.NODE, Scope.RUN, Scope.WORKFLOW):
            return ()
        node = ["node"] if scope is Scope.NODE else []
        around = ("run" if self.run else "workflow") if node else str(scope)
        for part in (*node, around):
            if not getattr(self, part):
                needed = "run_id or workflow_id" if node and part == "workflow" else f"{part}_id"
                raise ValidationError(f"the scope {str(scope)!r} needs {needed}")
        return (_make_tag(around, *(getattr(self, part) for part in (around, *node))),)


def _make_tag(head: str, *names: str) -> str:
    tag = f"{head}:" + "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)
    if clean(tag) != tag:
        raise ValidationError(f"{head}_id and node_id together look like a secret; choose other names")
    return tag


def for_tenant(engine: Engine, tenant: str) -> Engine:
    """Return the engine of the project that a tenant's memories are in."""
    name = f"{engine.project}@{tenant.replace('%', '%25').replace('@', '%40')}"
    return replace(engine, project=name) if tenant else engine


def choose_tenant(bound: str, asked: str) -> str:
    if bound and asked and bound != asked:
        raise ScopeError(f"this memory is of tenant {bound!r} and may not look into that of {asked!r}")
    return bound or asked


def widen_engine(engine: Engine, tenant: str, scope: Scope) -> Engine:
    """Return the engine that finds what the scope holds, and nothing else."""
    own = for_tenant(engine, tenant)
    if scope is Scope.TENANT and not tenant:
        raise ValidationError("the scope 'tenant' needs tenant_id")
    if scope not in (Scope.TENANT, Scope.GLOBAL):
        return own
    projects = frozenset({own.project, engine.project} if scope is Scope.GLOBAL else {own.project})
    # Where agents are declared, each says itself whom it shares with, whatever the scope.
    return replace(own, store=WideStore(own.store, own.project, projects, everyone=not engine.scopes.agents))


@dataclass(frozen=True, slots=True)
class WideStore:
    """A store that also looks into other projects, and at the memories of all agents, when one project is asked for."""

    store: Store
    project: str
    projects: frozenset[str]
    everyone: bool

    def _widen(self, where: Where) -> Where:
        if where.projects is None or self.project not in where.projects:
            return where
        agents = None if self.everyone else where.agents
        return replace(where, projects=self.projects | set(where.projects), agents=agents)

    def put(self, records: Sequence[Record]) -> None:
        self.store.put(records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        return self.store.get(ids)

    def delete(self, ids: Sequence[str]) -> int:
        return self.store.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        return self.store.scan(self._widen(where), limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        return self.store.nearest(vector, self._widen(where), limit)

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        return by_words(self.store, words, self._widen(where), limit)

    def close(self) -> None:
        self.store.close()
