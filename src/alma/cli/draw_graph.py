"""Entities and how they hang together, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..types.graph import Entity, GraphStats, Path, Relationship, Subgraph, Suggestion
from .marks import bar, counted, fit, sentence
from .shapes import Column, Line, Shape, line, table

if TYPE_CHECKING:
    from ..graph.operations import EntityCard

Names = Mapping[str, str]


def entities(found: Sequence[Entity]) -> Shape:
    if not found:
        return line("nobody and nothing of that name", "dim")
    made = table(Column("name"), Column("type", "dim", wrap=False), "also called", Column("id", "dim"))
    for one in found:
        made.add(line(fit(one.name), "bold"), one.type, fit(", ".join(one.aliases)), fit(one.id))
    return made


def card(found: EntityCard) -> Iterator[Shape]:
    own = found.entity
    yield _named(own)
    if own.aliases:
        yield line(f"also called {fit(', '.join(own.aliases))}", "dim")
    names = {own.id: own.name, **{one.entity.id: one.entity.name for one in found.now}}
    yield from (line("  ") + _arrow(one.relationship, names) for one in found.now)
    yield from (line("  ") + _arrow(one, names, "dim") for one in found.ended)
    yield from (line(f"  · {fit(sentence(one))}") + line(f"  {one.id}", "dim") for one in found.facts)
    if not (found.now or found.ended or found.facts):
        yield line("  nothing else is known", "dim")


def _named(one: Entity) -> Line:
    return line(fit(one.name), "bold") + line(f"  {one.type}", "dim")


def _arrow(one: Relationship, names: Names, style: str = "cyan") -> Line:
    """`Tom ──works_at──▶ Globex  since 2026-03-01`."""
    subject, object = (fit(names.get(end, end), 80) for end in (one.subject, one.object))
    return line(subject, style) + line(f" ──{one.type}──▶ ") + line(object, style) + line(_times(one), "dim")


def _times(one: Relationship) -> str:
    since = f"  since {one.valid_from:%Y-%m-%d}" if one.valid_from else ""
    return since + (f"  until {one.valid_to:%Y-%m-%d}" if one.valid_to else "")


def around(found: Subgraph) -> Iterator[Shape]:
    if not found.relationships:
        yield from map(_named, found.entities[:1])
        yield line("  hangs together with nobody and nothing", "dim")
        return
    names = {one.id: one.name for one in found.entities}
    steps = 0
    for one in sorted(found.relationships, key=lambda edge: _distance(edge, found)):
        if _distance(one, found) != steps:
            steps = _distance(one, found)
            yield line(f"{counted(steps, 'step')} away", "bold")
        yield line("  ") + _arrow(one, names)
    if found.truncated:
        yield line("there is more; --limit shows it", "dim")


def _distance(one: Relationship, found: Subgraph) -> int:
    return max(found.depths.get(one.subject, 0), found.depths.get(one.object, 0))


def found_paths(found: Sequence[Path], start: str, end: str) -> Iterator[Shape]:
    if not found:
        yield line(f"nothing is known that joins {start!r} and {end!r}; --depth looks further", "dim")
    for way in found:
        yield _way(way)


def _way(path: Path) -> Line:
    told = line(fit(path.entities[0].name, 80), "cyan")
    for one, before, after in zip(path.relationships, path.entities, path.entities[1:], strict=False):
        arrow = f" ──{one.type}──▶ " if one.subject == before.id else f" ◀──{one.type}── "
        told = told + line(arrow) + line(fit(after.name, 80), "cyan")
    return told


def suggestions(found: Sequence[Suggestion]) -> Iterator[Shape]:
    if not found:
        yield line("no two look alike", "dim")
        return
    made = table(Column("like", right=True), "keep", "and", "why")
    for one in found:
        made.add(f"{one.score:.2f}", _named(one.keep), _named(one.other), fit(one.why))
    yield made
    yield line("alma graph merge KEEP OTHER makes two of them one", "dim")


def figures(found: GraphStats) -> Iterator[Shape]:
    what = f"{counted(found.entities, 'entity', 'entities')}, {counted(found.relationships, 'relation')}"
    yield line(f"{what} ({found.current} hold now)", "bold")
    if not found.entities:
        yield line("`alma graph build` reads memories into it", "dim")
    for title, types in (("entities", found.entity_types), ("relations", found.relationship_types)):
        if types:
            made = table(title, Column("count", right=True), "")
            most = max(types.values())
            for name, number in sorted(types.items(), key=lambda pair: (-pair[1], pair[0])):
                made.add(name, str(number), line(bar(number, most), "cyan"))
            yield made
