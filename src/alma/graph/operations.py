"""The graph: who and what is known, how they hang together, and since when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from .. import words
from ..answers import copy_fields
from ..errors import NotFoundError
from ..memory import ALMA
from ..operations import About, Effect, Group
from ..types.graph import Direction, Entity, GraphStats, Neighbour, Path, Relationship, Subgraph, Suggestion
from ..types.kinds import Memory

if TYPE_CHECKING:
    from . import Graph

operation = Group("graph")

Name = Annotated[str, About("a name, an alias or an id")]
AsOf = Annotated[str | None, About("as it was at this moment, such as 2026-05-07")]
Types = Annotated[list[str] | None, About("only relations of these types")]
Depth = Annotated[int, About("at most so many steps")]


def _graph(alma: ALMA) -> Graph:
    from . import create_graph_store

    return create_graph_store("sqlite", alma=alma, project_id=alma.project_id)


@dataclass(frozen=True, slots=True)
class GraphBuilt:
    records: int
    read: int
    entities: int
    relationships: int
    ended: int
    reader: str
    """Which reader was at work, and whether the model failed."""


@operation(Effect.ADDS, idempotent=True)
def build_graph(
    alma: ALMA,
    everything: Annotated[bool, About("read all again, and not only what changed since the last time")] = False,
    progress: Callable[[int, int], None] | None = None,
) -> GraphBuilt:
    """Read who and what the facts, rules and conversations name, and how they hang together, into the graph.

    Done again it adds nothing. What a replaced or deleted memory said ends or goes with it.
    """
    from . import build, update

    made = (build if everything else update)(alma, progress=progress)
    return copy_fields(GraphBuilt, made)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCard:
    entity: Entity
    now: list[Neighbour]
    """How it hangs together with others."""
    ended: list[Relationship]
    facts: list[Memory]
    """Those that name it."""
    text: str


@operation(Effect.READS)
def about_entity(alma: ALMA, name: Name, as_of: AsOf = None, limit: words.Limit = 20) -> EntityCard:
    """What is known about somebody or something: relations now and before, and the facts that name it."""
    from . import about

    card = about(name, alma, as_of=as_of, limit=limit)
    return EntityCard(
        entity=card.entity, now=list(card.now), ended=list(card.ended), facts=list(card.facts), text=str(card)
    )


@operation(Effect.READS)
def find_entities(
    alma: ALMA,
    name: Annotated[str | None, About("a name or an alias; without it the newest")] = None,
    type: Annotated[str | None, About("such as person, organisation, file, package")] = None,
    limit: words.Limit = 50,
) -> list[Entity]:
    """Find whom and what the graph knows."""
    return list(_graph(alma).find(name, type=type, limit=limit))


@operation(Effect.READS)
def traverse_graph(
    alma: ALMA,
    name: Name,
    depth: Depth = 2,
    direction: Annotated[str, About("from it, to it, or both", tuple(Direction))] = Direction.BOTH,
    types: Types = None,
    as_of: AsOf = None,
    limit: words.Limit = 100,
) -> Subgraph:
    """What can be reached from an entity, nearest first."""
    graph = _graph(alma)
    return graph.traverse(_id(graph, name), depth, direction=direction, types=types, as_of=as_of, limit=limit)


@operation(Effect.READS)
def find_paths(
    alma: ALMA,
    start: Name,
    end: Name,
    depth: Depth = 4,
    types: Types = None,
    as_of: AsOf = None,
    limit: words.Limit = 10,
) -> list[Path]:
    """How two entities hang together, the shortest way first."""
    graph = _graph(alma)
    return list(graph.paths(_id(graph, start), _id(graph, end), depth=depth, types=types, as_of=as_of, limit=limit))


@operation(Effect.CHANGES, idempotent=True)
def merge_entities(
    alma: ALMA,
    keep: Name,
    others: Annotated[list[str], About("who or what is the same: names, aliases or ids")],
) -> Entity:
    """Make several entities one: 'Bob' and 'Robert Smith'. Their relations and names become its own."""
    graph = _graph(alma)
    kept = _id(graph, keep)
    gone = [one for one in (_id(graph, name) for name in others) if one != kept]
    return graph.merge(kept, *gone) if gone else graph.get(kept)


@operation(Effect.READS)
def suggest_merges(alma: ALMA, limit: words.Limit = 20) -> list[Suggestion]:
    """Which entities may be one and the same."""
    return list(_graph(alma).suggest_merges(limit))


@operation(Effect.READS)
def graph_stats(alma: ALMA) -> GraphStats:
    """How much the graph holds, by type."""
    return _graph(alma).stats()


def _id(graph: Graph, name: str) -> str:
    """By id, else by name: the newest of that name."""
    found = graph.find(name, limit=1)
    if found:
        return str(found[0].id)
    try:
        return str(graph.get(name).id)
    except NotFoundError:
        raise NotFoundError(
            f"the graph knows nobody and nothing called {name!r}; build_graph reads what is new"
        ) from None
