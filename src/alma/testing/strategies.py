"""Random histories, drawn from tiny domains so that values collide, and the comparison with the in-memory models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from ..graph import Graph
from ..graph.memory import MemoryRows
from ..ports import Checkable, Searchable, Store
from ..stores.memory import MemoryStore
from ..types.graph import Entity, Relationship
from ..types.query import Where
from ..types.record import Evidence, Origin, Provenance, Record, Status, Trust
from .fakes import MOMENT, FrozenClock

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise ImportError("alma.testing.strategies needs the package `hypothesis`: pip install hypothesis") from error


def run_examples(
    run: Callable[[Any], None], values: SearchStrategy[Any], examples: int, *, shrink: bool = True
) -> None:
    """Run a check on random values, the same way on every machine."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    checks = list(HealthCheck)
    bounds = settings(max_examples=examples, deadline=None, database=None, phases=phases, suppress_health_check=checks)
    settings(bounds, report_multiple_bugs=False)(given(values)(run))()


def _call(target: object, verb: str, *args: object, **options: object) -> object:
    """Return what a method returns, or the type of what it raises."""
    try:
        result = getattr(target, verb)(*args, **options)
        return list(result) if isinstance(result, Iterator) else result
    except Exception as error:  # noqa: BLE001 - that both raise the same is what is compared
        return type(error)


def _some(values: Sequence[Any], *, unique: bool = False) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=unique).map(tuple)


# --- stores

IDS = ("a", "b", "c", "d", "é")
WORDS = ("alpha", "beta", "gamma")
TEXTS = ("", "alpha", "alpha beta", "gamma beta beta", "delta")
MOMENTS = tuple(MOMENT + timedelta(microseconds=i) for i in range(3))
VECTORS = (b"\x7f\x00", b"\x00\x7f", b"\x7f\x7f", b"\x81\x01", b"\x00\x00", b"\x7f\x00\x01", b"\x01\x02\x03", b"\x05")
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("heuristic", "outcome"),
    "project": ("p", "q"),
    "agent": ("", "x"),
    "user": ("", "u"),
    "session": ("", "s"),
    "status": (Status.ACTIVE, Status.ARCHIVED),
    "key": ("", "k"),
    "embedder": ("", "e"),
}


class Ask(NamedTuple):
    where: Where
    vector: bytes
    words: str
    limit: int


Step = tuple[str, Sequence[object]] | Ask
ALWAYS = (
    Ask(Where(), VECTORS[0], " ".join(WORDS), 9),
    # A store that ranks before it filters finds too little here.
    Ask(Where(agents=("x",)), VECTORS[0], " ".join(WORDS), 1),
    Ask(Where(statuses=(Status.ACTIVE,)), VECTORS[0], " ".join(WORDS), 1),
)
"""What is asked after every write."""


def records() -> SearchStrategy[Record]:
    moments = st.sampled_from(MOMENTS)
    recent = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.5, 1.0])), max_size=2).map(tuple)
    return st.builds(
        Record,
        id=st.sampled_from(IDS),
        text=st.sampled_from(TEXTS),
        body=st.dictionaries(st.sampled_from("xü"), st.none() | st.integers(0, 1) | st.just([1.5, "y"]), max_size=2),
        evidence=st.builds(Evidence, successes=st.integers(0, 2), recent=recent, last_used=st.none() | moments),
        provenance=st.builds(Provenance, st.sampled_from(Origin), st.sampled_from(Trust), _some(IDS)),
        links=_some(IDS[:3]),
        tags=_some(("red", "blue", "green")),
        version=st.integers(1, 4),
        superseded_by=st.sampled_from(("", "a")),
        vectors=st.lists(st.sampled_from(VECTORS), max_size=3).map(tuple),
        **dict.fromkeys(("created_at", "updated_at"), moments),
        **{name: st.none() | moments for name in ("valid_from", "valid_to")},
        **{name: st.sampled_from(values) for name, values in NAMES.items()},
    )


def wheres() -> SearchStrategy[Where]:
    fields = {"statuses" if name == "status" else f"{name}s": _some(values) for name, values in NAMES.items()}
    fields |= {"linked": _some(IDS[:2]), "tagged": _some(("red", "blue"))}
    times: dict[str, Any] = dict.fromkeys(("created_from", "created_to", "valid_at"), st.sampled_from(MOMENTS))
    conditions = {**fields, **times}
    # Few conditions at a time, or hardly any record would ever be found.
    names = st.lists(st.sampled_from(sorted(conditions)), max_size=3, unique=True)
    return names.flatmap(lambda some: st.builds(Where, **{name: conditions[name] for name in some}))


def steps() -> SearchStrategy[Step]:
    put = st.tuples(st.just("put"), st.lists(records(), min_size=1, max_size=3))
    delete = st.tuples(st.just("delete"), st.lists(st.sampled_from((*IDS, "unknown")), max_size=3))
    words = st.lists(st.sampled_from((*WORDS, "unknown", '"', "*")), max_size=3).map(" ".join)
    ask = st.builds(Ask, wheres(), st.sampled_from(VECTORS), words, st.integers(0, 6))
    return put | put | ask | ask | delete


def agree(make_store: Callable[[], Store], examples: int = 40, *, shrink: bool = True) -> None:
    """A fresh store gives the same answers as the in-memory store, whatever happens to both.

    `shrink` looks for the shortest history that shows the difference.
    """

    def run(history: list[Step]) -> None:
        store, model = make_store(), MemoryStore()
        try:
            for step in history:
                if isinstance(step, Ask):
                    _compare_answers(store, model, step)
                    continue
                assert _call(store, *step) == _call(model, *step)
                assert store.get(IDS) == model.get(IDS)
                for ask in ALWAYS:
                    _compare_answers(store, model, ask)
            assert not isinstance(store, Checkable) or store.check() == []
        finally:
            store.close()

    run_examples(run, st.lists(steps(), min_size=1, max_size=12), examples, shrink=shrink)


def _compare_answers(store: Store, model: Store, ask: Ask) -> None:
    for limit in (None, ask.limit):
        assert _call(store, "scan", ask.where, limit) == _call(model, "scan", ask.where, limit)
    near, wanted = (one.nearest(ask.vector, ask.where, ask.limit) for one in (store, model))
    assert [hit.id for hit in near] == [hit.id for hit in wanted]
    assert all(abs(a.score - b.score) < 1e-6 for a, b in zip(near, wanted, strict=True))
    if not isinstance(store, Searchable):
        return
    hits, words = store.match(ask.words, ask.where, ask.limit), set(ask.words.split())
    matching = {record.id for record in model.scan(ask.where) if words & set(record.text.split())}
    assert {hit.id for hit in hits} <= matching
    assert len({hit.id for hit in hits}) == len(hits) == min(len(matching), ask.limit)
    assert hits == sorted(hits, key=lambda hit: -hit.score)


# --- graphs

PEOPLE = ("Ann", "Bob", "Cy", "Dée", "bob ")
ENDS = ("ann", "bob", "cy", "dée", "nobody")
TYPES = ("thing", "person", "place")
DAYS = tuple(MOMENT + timedelta(days=day) for day in (-2, -1, 0, 1))

GraphCall = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of Graph and its arguments; a number stands for one of the relationships that are there."""


def graph_calls() -> SearchStrategy[GraphCall]:
    ids, nth, days = st.sampled_from(ENDS), st.integers(0, 3), st.sampled_from(DAYS)
    sources = _some("ab", unique=True)
    entity = st.builds(
        Entity,
        name=st.sampled_from(PEOPLE),
        type=st.sampled_from(TYPES),
        aliases=_some(("Ann", "Bobby", "C"), unique=True),
        attributes=st.sampled_from(({}, {"x": 1}, {"x": [2], "y": None})),
        sources=sources,
        confidence=st.sampled_from((0.5, 1.0)),
    )
    # Mostly usable: two ends that are known, and an end after the beginning.
    known = st.sampled_from((*ENDS[:-1] * 3, "nobody"))
    edge = st.builds(
        Relationship,
        known,
        st.sampled_from(("knows", "works_at")),
        known,
        valid_from=st.none() | days,
        valid_to=st.none() | days,
        sources=sources,
        attributes=st.sampled_from(({}, {"x": 1})),
    ).filter(lambda one: one.subject != one.object and (one.valid_from or DAYS[0]) <= (one.valid_to or DAYS[-1]))
    table: list[tuple[int, str, tuple[Any, ...], dict[str, Any]]] = [
        (1, "add_many", (st.lists(entity, min_size=1, max_size=3),), {}),
        (8, "add_relationship", (edge,), {"supersede": st.booleans()}),
        (3, "end_relationship", (nth, days), {}),
        (2, "merge", (ids, ids), {}),
        (1, "delete_relationship", (nth,), {}),
        (1, "delete_entity", (ids,), {}),
        (2, "forget_source", (st.sampled_from("ab"),), {"ended_at": st.none() | days}),
    ]
    return st.sampled_from([row for row in table for _ in range(row[0])]).flatmap(
        lambda row: st.tuples(st.just(row[1]), st.tuples(*row[2]), st.fixed_dictionaries(row[3]))
    )


QUESTIONS: list[GraphCall] = [
    ("find", (), {}),
    ("find", (), {"limit": 2}),
    ("relationships", (), {"history": True}),
    ("stats", (), {}),
    *(("find", (name,), {}) for name in (*PEOPLE, "Bobby")),
    *(("find", (), {"type": kind}) for kind in TYPES),
    *(("relationships", (), {"as_of": day}) for day in DAYS),
    *(("neighbours", (id,), {"direction": way}) for id in ENDS for way in ("out", "in", "both")),
    *(("neighbours", (id,), {"types": ["knows"], "limit": 1}) for id in ENDS),
    *(("traverse", (id,), {"depth": 3, "limit": 2}) for id in ENDS),
    *(("paths", ("bob", id), {}) for id in ENDS),
]
"""All that can be asked of a small graph."""


def agree_on_graph(make: Callable[[], Graph], clock: FrozenClock, examples: int) -> None:
    """A fresh graph gives the same answers as the in-memory one, whatever happens to both."""

    def answer(graph: Graph, call: GraphCall) -> object:
        verb, args, options = call
        if isinstance(args[0] if args else None, int):
            edges = sorted(one.id for one in graph.relationships(history=True)) or ["rel_none"]
            args = (edges[args[0] % len(edges)], *args[1:])
        return _call(graph, verb, *args, **options)

    def run(history: list[GraphCall]) -> None:
        clock.moment = MOMENT
        graph, model = make(), Graph(MemoryRows(), "p", clock=clock)
        first: GraphCall = ("add_many", ([Entity(name, sources=("a",)) for name in PEOPLE],), {})
        try:
            for call in (first, *history):
                clock.advance(seconds=1)
                assert answer(graph, call) == answer(model, call)
            for call in QUESTIONS:
                assert answer(graph, call) == answer(model, call), call
        finally:
            graph.close()

    run_examples(run, st.lists(graph_calls(), min_size=4, max_size=14), examples)
