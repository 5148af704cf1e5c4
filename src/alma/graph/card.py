"""What is known about one entity, on one card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..engine import validate
from ..engine.search import by_words
from ..engine.view import view
from ..errors import NotFoundError
from ..text import words
from ..types.graph import Entity, Neighbour, Relationship
from ..types.kinds import Memory, MemoryType
from ..types.query import Where
from ..types.record import Status
from ..types.times import to_iso
from .checks import limit as checked
from .graph import Graph
from .registry import create_graph_store

if TYPE_CHECKING:
    from ..core import ALMA

_ENDED = 50


@dataclass(frozen=True, slots=True)
class Card:
    """One entity: how it hangs together with others now, what has ended, and the facts that name it."""

    entity: Entity
    now: tuple[Neighbour, ...]
    ended: tuple[Relationship, ...]
    facts: tuple[Memory, ...] = ()

    def __str__(self) -> str:
        """A few lines for a person to read."""
        called = f", also called {', '.join(self.entity.aliases)}" if self.entity.aliases else ""
        lines = [f"{self.entity.name} ({self.entity.type}){called}"]
        for one in self.now:
            kind, name = one.relationship.type, one.entity.name
            is_outward = one.relationship.subject == self.entity.id
            lines.append(f"  {kind} {name}" if is_outward else f"  {name} {kind} this")
        lines += [f"  until {str(to_iso(one.valid_to))[:10]}: {one.type} {one.object}" for one in self.ended]
        lines += [f"  · {getattr(one, 'fact', '')}" for one in self.facts]
        return "\n".join(lines)


def about(
    name: str,
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    as_of: datetime | str | None = None,
    limit: int = 20,
    project_id: str | None = None,
) -> Card:
    """What is known about whoever or whatever has this name, alias or id: the newest, when several have it.

    The facts that name it are those of the memory; with a graph and no memory there are none.
    """
    wanted = validate.name("name", name)
    most = checked(limit)
    opened = alma
    if alma is None and graph is None:
        from ..app import open_default

        opened = open_default(project_id)
    try:
        into = graph or create_graph_store("sqlite", alma=opened, project_id=project_id)
        entity = _named(into, wanted)
        now = into.neighbours(entity.id, as_of=as_of, limit=most)
        current = {one.relationship.id for one in now}
        past = into.relationships(entity.id, history=True, limit=_ENDED)
        ended = tuple(one for one in past if one.valid_to is not None and one.id not in current)
        facts = () if opened is None else _facts(opened, into.project_id, (entity.name, *entity.aliases), most)
        return Card(entity, tuple(now), ended, facts)
    finally:
        if alma is None and opened is not None:
            opened.close()


def _named(graph: Graph, name: str) -> Entity:
    found = graph.find(name, limit=1)
    if found:
        return found[0]
    try:
        return graph.get(name)
    except NotFoundError:
        raise NotFoundError(
            f"nobody and nothing is called {name!r} in the graph of project {graph.project_id!r}; "
            "alma.graph.update() reads what is new into it"
        ) from None


def _facts(alma: ALMA, project: str, names: Sequence[str], limit: int) -> tuple[Memory, ...]:
    engine = alma.engine
    where = Where(kinds={MemoryType.DOMAIN_KNOWLEDGE}, projects={project}, statuses={Status.ACTIVE})
    found: dict[str, Memory] = {}
    for name in names:
        wanted = set(words(name))
        hits = by_words(engine.store, name, where, limit)
        for record in engine.store.get([hit.id for hit in hits]):
            if wanted <= set(words(record.text)):
                found.setdefault(record.id, view(record, engine.clock()))
    return tuple(found.values())[:limit]
