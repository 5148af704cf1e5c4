"""Walking: who is near, and by which ways two hang together. Every walk is bounded, however large a hub is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from ..types.graph import Entity, Path, Relationship, Subgraph
from .rows import EntityFilter, Reading, RelationFilter

_EDGES = 4
"""So many relationships are looked at in one step for each entity that is wanted."""
_MOST_EDGES = 20_000
_MOST_TRIES = 100_000


def traverse(rows: Reading, start: Entity, depth: int, where: RelationFilter, limit: int) -> Subgraph:
    """Step by step, so that the nearest are there when the limit is reached."""
    depths = {start.id: 0}
    edges: dict[str, Relationship] = {}
    frontier: Collection[str] = [start.id]
    truncated = False
    for step in range(1, depth + 1):
        most = min(_EDGES * limit, _MOST_EDGES)
        found = rows.find_relationships(replace(where, ends=frontier), most)
        truncated |= len(found) == most
        reached: dict[str, None] = {}
        for edge in found:
            for end in (edge.subject, edge.object):
                if end not in depths and end not in reached:
                    if len(depths) + len(reached) > limit:
                        truncated = True
                    else:
                        reached[end] = None
        depths |= dict.fromkeys(reached, step)
        edges |= {edge.id: edge for edge in found if edge.subject in depths and edge.object in depths}
        frontier = list(reached)
        if not frontier:
            break
    entities = {one.id: one for one in rows.find_entities(EntityFilter(ids=depths))}
    order = sorted(entities, key=lambda id: (depths[id], id))
    return Subgraph(
        entities=tuple(entities[id] for id in order),
        relationships=tuple(one for one in edges.values() if one.subject in entities and one.object in entities),
        depths={id: depths[id] for id in order},
        truncated=truncated,
    )


def find_paths(rows: Reading, start: Entity, end: Entity, depth: int, where: RelationFilter, limit: int) -> list[Path]:
    if start.id == end.id:
        return [Path((start,), ())]
    edges = _find_between(rows, start.id, end.id, depth, where)
    ways = _ways(edges, start.id, end.id, depth, limit)
    entities = {one.id: one for one in rows.find_entities(EntityFilter(ids={id for nodes, _ in ways for id in nodes}))}
    return [Path(tuple(entities[id] for id in nodes), tuple(along)) for nodes, along in ways]


def _find_between(rows: Reading, start: str, end: str, depth: int, where: RelationFilter) -> dict[str, Relationship]:
    """The relationships that may lie on a way, looked for from both ends: the smaller side takes the next step."""
    edges: dict[str, Relationship] = {}
    sides = {start: ({start}, {start}), end: ({end}, {end})}
    """Of each end: all that is seen, and what was seen last."""
    for _ in range(depth):
        open_sides = [side for side, (_, last) in sides.items() if last]
        if not open_sides or len(edges) >= _MOST_EDGES:
            break
        side = min(open_sides, key=lambda one: (len(sides[one][1]), one != start))
        seen, last = sides[side]
        found = rows.find_relationships(replace(where, ends=last), _MOST_EDGES)
        edges |= {one.id: one for one in found}
        fresh = {id for one in found for id in (one.subject, one.object)} - seen
        sides[side] = (seen | fresh, fresh)
    return edges


Steps = dict[str, list[tuple[str, Relationship]]]


def _ways(
    edges: dict[str, Relationship], start: str, end: str, depth: int, limit: int
) -> list[tuple[list[str], list[Relationship]]]:
    steps: Steps = defaultdict(list)
    for one in sorted(edges.values(), key=lambda edge: edge.id):
        steps[one.subject].append((one.object, one))
        steps[one.object].append((one.subject, one))
    far = {end: 0}
    frontier = [end]
    while frontier:
        reached = [other for id in frontier for other, _ in steps.get(id, ()) if other not in far]
        far |= dict.fromkeys(reached, far[frontier[0]] + 1)
        frontier = list(dict.fromkeys(reached))
    if far.get(start, depth + 1) > depth:
        return []
    found: list[tuple[list[str], list[Relationship]]] = []
    budget = [_MOST_TRIES]
    for length in range(far[start], depth + 1):
        for nodes in _of_length(steps, far, [start], end, length, budget):
            for along in _along(steps, nodes):
                found.append((nodes, along))
                if len(found) == limit:
                    return found
    return found


def _of_length(
    steps: Steps, far: dict[str, int], nodes: list[str], end: str, left: int, budget: list[int]
) -> Iterator[list[str]]:
    """The ways of exactly so many steps; what is too far from the end is not entered."""
    budget[0] -= 1
    if budget[0] < 0:
        return
    if left == 0:
        if nodes[-1] == end:
            yield nodes
        return
    for other in dict.fromkeys(other for other, _ in steps[nodes[-1]]):
        if other not in nodes and far[other] <= left - 1 and (other != end or left == 1):
            yield from _of_length(steps, far, [*nodes, other], end, left - 1, budget)


def _along(steps: Steps, nodes: list[str]) -> Iterator[list[Relationship]]:
    """One for each choice among several relationships between the same two; few, the first of each step first."""
    choices = [[edge for other, edge in steps[one] if other == two] for one, two in pairwise(nodes)]
    yield [some[0] for some in choices]
    for place, some in enumerate(choices):
        for other in some[1:]:
            yield [other if at == place else each[0] for at, each in enumerate(choices)]
