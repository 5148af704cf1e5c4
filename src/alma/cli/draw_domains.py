"""Domain schemas, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..schema import plain
from .marks import fit
from .shapes import Column, Line, Shape, line, table

if TYPE_CHECKING:
    from ..api.domains import Domain
    from ..api.values import DomainSchema


def domains_table(found: Sequence[Domain]) -> Shape:
    made = table(Column("", wrap=False), Column("domain", wrap=False), "about", Column("", "dim", wrap=False))
    for one in found:
        mark = line("▶", "green") if one.in_use else line("")
        origin = "preset" if one.preset else "created here"
        made.add(mark, line(one.name, "bold"), line(fit(one.description)), origin + (", in use" if one.in_use else ""))
    return made


def schema_card(schema: DomainSchema) -> Iterator[Shape]:
    yield line(schema.name, "bold") + line(f"  {schema.id}", "dim")
    if schema.description:
        yield line(fit(schema.description))
    if schema.entity_types:
        yield line("\nentities", "bold")
        yield _entities(schema)
    if schema.relationship_types:
        yield line("\nrelationships", "bold")
        yield from map(_arrow, [(one.source_type, one.name, one.target_type) for one in schema.relationship_types])
    yield line("\nlearning", "bold")
    grid = table(Column(style="dim", wrap=False), Column())
    for name, value in _gates(schema):
        grid.add(f"  {name}", value)
    yield grid


def _entities(schema: DomainSchema) -> Shape:
    grid = table(Column(wrap=False), Column())
    for one in schema.entity_types:
        about = line(f"{one.description}  " if one.description else "")
        grid.add(line(f"  ■ {one.name}", "cyan"), about + line(", ".join(one.attributes), "dim"))
    return grid


def _arrow(relation: tuple[str, str, str]) -> Line:
    source, name, target = relation
    return line(f"  {source}", "cyan") + line(f" ──{name}──▶ ") + line(target, "cyan")


def _gates(schema: DomainSchema) -> Iterator[tuple[str, Line]]:
    yield "may be learned", line(", ".join(schema.learning_categories) or "everything", "green")
    if schema.excluded_categories:
        yield "may not", line(", ".join(schema.excluded_categories), "red")
    yield "a strategy forms at", line(f"{schema.min_occurrences_for_heuristic} similar outcomes")
    yield "half as recent after", line(f"{schema.confidence_decay_days:g} days unused")
    if schema.metadata:
        yield "metadata", line(str(plain(schema.metadata)))
