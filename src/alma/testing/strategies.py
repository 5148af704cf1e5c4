"""Random histories, drawn from tiny domains so that values collide, and the comparison with the in-memory store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from ..ports import Checkable, Searchable, Store
from ..stores.memory import MemoryStore
from ..types.evidence import Evidence
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from .fakes import MOMENT

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise ImportError("alma.testing.strategies needs the package `hypothesis`: pip install hypothesis") from error

__all__ = ["SearchStrategy", "agree", "run_examples", "st"]

IDS = ("a", "b", "c", "d", "é")
WORDS = ("alpha", "beta", "gamma")
TEXTS = ("", "alpha", "alpha beta", "gamma beta beta", "delta")
MOMENTS = tuple(MOMENT + timedelta(microseconds=i) for i in range(3))
VECTORS = (b"\x7f\x00", b"\x00\x7f", b"\x7f\x7f", b"\x81\x01", b"\x00\x00", b"\x7f\x00\x01", b"\x01\x02\x03", b"\x05")
NAMES = {
    "kinds": ("heuristic", "outcome"),
    "projects": ("p", "q"),
    "agents": ("", "x"),
    "users": ("", "u"),
    "sessions": ("", "s"),
    "statuses": (Status.ACTIVE, Status.ARCHIVED),
    "keys": ("", "k"),
    "embedders": ("", "e"),
    "linked": IDS[:2],
    "tagged": ("red", "blue"),
}


class Put(NamedTuple):
    records: list[Record]


class Delete(NamedTuple):
    ids: list[str]


class Ask(NamedTuple):
    where: Where
    vector: bytes
    words: str
    limit: int


Step = Put | Delete | Ask
ALWAYS = (
    Ask(Where(), VECTORS[0], " ".join(WORDS), 9),
    # A store that ranks before it filters finds too little here.
    Ask(Where(agents=("x",)), VECTORS[0], " ".join(WORDS), 1),
    Ask(Where(statuses=(Status.ACTIVE,)), VECTORS[0], " ".join(WORDS), 1),
)
"""What is asked after every write."""


def _some(values: tuple[Any, ...]) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), max_size=2).map(tuple)


def records() -> SearchStrategy[Record]:
    one = {name: st.sampled_from(values) for name, values in NAMES.items()}
    moments = st.sampled_from(MOMENTS)
    recent = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.5, 1.0])), max_size=2).map(tuple)
    return st.builds(
        Record,
        id=st.sampled_from(IDS),
        kind=one["kinds"],
        project=one["projects"],
        agent=one["agents"],
        user=one["users"],
        session=one["sessions"],
        status=one["statuses"],
        key=one["keys"],
        text=st.sampled_from(TEXTS),
        body=st.dictionaries(st.sampled_from("xü"), st.none() | st.integers(0, 1) | st.just([1.5, "y"]), max_size=2),
        evidence=st.builds(Evidence, successes=st.integers(0, 2), recent=recent, last_used=st.none() | moments),
        provenance=st.builds(Provenance, st.sampled_from(Origin), st.sampled_from(Trust), _some(IDS)),
        links=_some(IDS[:3]),
        tags=_some(("red", "blue", "green")),
        created_at=moments,
        updated_at=moments,
        valid_from=st.none() | moments,
        valid_to=st.none() | moments,
        version=st.integers(1, 4),
        superseded_by=st.sampled_from(("", "a")),
        embedder=one["embedders"],
        vectors=st.lists(st.sampled_from(VECTORS), max_size=3).map(tuple),
    )


def wheres() -> SearchStrategy[Where]:
    fields: dict[str, SearchStrategy[Any]] = {name: _some(values) for name, values in NAMES.items()}
    fields |= {name: st.sampled_from(MOMENTS) for name in ("created_from", "created_to", "valid_at")}
    # Few conditions at a time, or hardly any record would ever be found.
    names = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)
    return names.flatmap(lambda some: st.builds(Where, **{name: fields[name] for name in some}))


def steps() -> SearchStrategy[Step]:
    put = st.builds(Put, st.lists(records(), min_size=1, max_size=3))
    delete = st.builds(Delete, st.lists(st.sampled_from((*IDS, "unknown")), max_size=3))
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
                compare(store, model, step)
            assert not isinstance(store, Checkable) or store.check() == []
        finally:
            store.close()

    run_examples(run, st.lists(steps(), min_size=1, max_size=12), examples, shrink=shrink)


def run_examples(
    run: Callable[[Any], None], values: SearchStrategy[Any], examples: int, *, shrink: bool = True
) -> None:
    """Run a check on random values, the same way on every machine."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    checks = list(HealthCheck)
    bounds = settings(max_examples=examples, deadline=None, database=None, phases=phases, suppress_health_check=checks)
    settings(bounds, report_multiple_bugs=False)(given(values)(run))()


def compare(store: Store, model: Store, step: Step) -> None:
    """Take one step with both; the answers, and afterwards all that can be seen, must be the same."""
    if not isinstance(step, Ask):
        assert _outcome(store, step) == _outcome(model, step)
        assert store.get(IDS) == model.get(IDS)
    for ask in [step] if isinstance(step, Ask) else ALWAYS:
        assert _outcome(store, ask) == _outcome(model, ask)
        _compare_ranking(store, model, ask)


def _outcome(store: Store, step: Step) -> object:
    try:
        if isinstance(step, Put):
            store.put(step.records)
            return None
        if isinstance(step, Delete):
            return store.delete(step.ids)
        return list(store.scan(step.where)), list(store.scan(step.where, step.limit))
    except Exception as error:  # noqa: BLE001 - that both raise the same is what is compared
        return type(error)


def _compare_ranking(store: Store, model: Store, ask: Ask) -> None:
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
