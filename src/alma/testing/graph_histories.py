"""Random histories of a graph, drawn from tiny domains so that names collide, and the comparison with the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from ..errors import ALMAError
from ..graph import Graph
from ..graph.memory import MemoryRows
from ..types.graph import Entity, Relationship
from .fakes import MOMENT, FrozenClock
from .strategies import SearchStrategy, run_examples, st

NAMES = ("Ann", "Bob", "Cy", "Dée", "bob ")
IDS = ("ann", "bob", "cy", "dée")
TYPES = ("knows", "works_at")
KINDS = ("thing", "person", "place")
SOURCES = ("a", "b")
MOMENTS = tuple(MOMENT + timedelta(days=day) for day in (-2, -1, 0, 1))


class Step(NamedTuple):
    verb: str
    act: Callable[[Graph], object]
    told: object


def _some(values: Sequence[str]) -> SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


def entities() -> SearchStrategy[Entity]:
    return st.builds(
        Entity,
        name=st.sampled_from(NAMES),
        type=st.sampled_from(KINDS),
        aliases=_some(("Ann", "Bobby", "C")),
        attributes=st.sampled_from(({}, {"x": 1}, {"x": [2], "y": None})),
        sources=_some(SOURCES),
        confidence=st.sampled_from((0.5, 1.0)),
    )


def relationships() -> SearchStrategy[Relationship]:
    """Mostly usable: two ends that are known, and an end after the beginning."""
    known = st.sampled_from((*IDS, *IDS, *IDS, "nobody"))
    ends = st.tuples(known, known).filter(lambda two: two[0] != two[1])
    spans = st.tuples(st.none() | st.sampled_from(MOMENTS), st.none() | st.sampled_from(MOMENTS))
    usable = spans.filter(lambda two: two[0] is None or two[1] is None or two[0] <= two[1])
    return st.builds(
        lambda two, kind, span, sources, attributes: Relationship(
            two[0], kind, two[1], valid_from=span[0], valid_to=span[1], sources=sources, attributes=attributes
        ),
        ends,
        st.sampled_from(TYPES),
        usable,
        _some(SOURCES),
        st.sampled_from(({}, {"x": 1})),
    )


def steps() -> SearchStrategy[Step]:
    ids = st.sampled_from((*IDS, "nobody"))
    add = st.lists(entities(), min_size=1, max_size=3).map(
        lambda some: Step("add", lambda graph: graph.add_many(some), some)
    )
    relate = st.builds(
        lambda one, over: Step("relate", lambda graph: graph.add_relationship(one, supersede=over), (one, over)),
        relationships(),
        st.booleans(),
    )
    merge = st.tuples(ids, ids).map(lambda two: Step("merge", lambda graph: graph.merge(*two), two))
    delete = ids.map(lambda id: Step("delete", lambda graph: graph.delete_entity(id), id))
    end = st.tuples(st.integers(0, 3), st.sampled_from(MOMENTS)).map(
        lambda two: Step("end", lambda graph: graph.end_relationship(_nth(graph, two[0]), two[1]), two)
    )
    drop = st.integers(0, 3).map(lambda at: Step("drop", lambda graph: graph.delete_relationship(_nth(graph, at)), at))
    forget = st.builds(
        lambda source, at: Step("forget", lambda graph: graph.forget_source(source, ended_at=at), (source, at)),
        st.sampled_from(SOURCES),
        st.none() | st.sampled_from(MOMENTS),
    )
    often = [add, *[relate] * 8, *[end] * 3, merge, merge, drop, delete, forget, forget]
    return st.sampled_from(often).flatmap(lambda one: one)


def _nth(graph: Graph, at: int) -> str:
    held = sorted(one.id for one in graph.relationships(history=True))
    return held[at % len(held)] if held else "rel_none"


def seen(graph: Graph) -> list[object]:
    """All that can be asked of a small graph."""
    answers: list[object] = [graph.find(), graph.find(limit=2), graph.relationships(history=True), graph.stats()]
    answers += [graph.find(name) for name in (*NAMES, "Bobby")] + [graph.find(type=kind) for kind in KINDS]
    answers += [graph.relationships(as_of=moment) for moment in MOMENTS]
    for id in (*IDS, "nobody"):
        for direction in ("out", "in", "both"):
            answers.append(_told(lambda graph=graph, id=id, way=direction: graph.neighbours(id, direction=way)))  # type: ignore[misc]
        answers.append(_told(lambda id=id: graph.neighbours(id, types=["knows"], limit=1)))  # type: ignore[misc]
        answers.append(_told(lambda id=id: graph.traverse(id, depth=3, limit=2)))  # type: ignore[misc]
        answers.append(_told(lambda id=id: graph.paths("bob", id)))  # type: ignore[misc]
    return answers


def _told(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except ALMAError as error:
        return type(error)


def agree(make: Callable[[], Graph], clock: FrozenClock, examples: int) -> None:
    """A fresh graph gives the same answers as the in-memory one, whatever happens to both."""

    def run(history: list[Step]) -> None:
        clock.moment = MOMENT
        graph, model = make(), Graph(MemoryRows(), "p", clock=clock)
        try:
            for one in (graph, model):
                one.add_many([Entity(name, sources=("a",)) for name in NAMES])
            for step in history:
                clock.advance(seconds=1)
                assert _told(lambda step=step: step.act(graph)) == _told(lambda step=step: step.act(model))  # type: ignore[misc]
            assert seen(graph) == seen(model)
        finally:
            graph.close()

    run_examples(run, st.lists(steps(), min_size=4, max_size=14), examples)
