"""Which index finds what is asked for: the planner has no figures to choose by, so the words have to tell it."""

from __future__ import annotations

from contextlib import closing

import pytest

from alma.stores.sqlite import SQLiteStore, search
from alma.testing import MOMENT, make_record
from alma.types.query import Where
from alma.types.record import Status
from alma.types.times import to_micros


@pytest.fixture
def store(tmp_path):
    with closing(SQLiteStore(tmp_path / "memory.db")) as store:
        yield store


def plan(store, statement):
    with store._db.read() as db:
        return " | ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params))


COMMON = {"kinds": ["k"], "projects": ["p"], "agents": ["a", "b"], "statuses": ["active"]}


@pytest.mark.parametrize("common", [{}, COMMON], ids=["alone", "with what is common"])
@pytest.mark.parametrize(
    ("where", "found_by"),
    [
        ({"sessions": ["s", "t"]}, "record_session (session=?)"),
        ({"keys": ["k"]}, "record_key (key=?)"),
        ({"tagged": ["t"]}, "tag_name (name=?)"),
        ({"linked": ["l"]}, "link_target (target=?)"),
        ({"created_from": MOMENT}, "created_at>?"),
        ({"created_to": MOMENT}, "created_at<?"),
    ],
    ids=str,
)
def test_what_selects_most_is_looked_up_first(store, where, found_by, common):
    asked = search.compile_filter(Where(**(common | where)))
    for statement in (asked.select_numbers(), asked.select_superset()):
        assert found_by in plan(store, statement)
        assert "SCAN r" not in plan(store, statement)


@pytest.mark.parametrize("where", [{"sessions": ["s"]}, {"keys": ["k"]}, {"tagged": ["t"]}, {"linked": ["l"]}], ids=str)
def test_a_shortcut_looks_at_no_record(store, where):
    assert "COVERING INDEX" in plan(store, search.compile_filter(Where(**(COMMON | where))).select_superset())


def test_a_shortcut_may_list_more_but_never_less(store):
    made = [
        make_record(
            f"{i}", session=f"s{i % 3}", tags=(f"t{i % 2}",), agent="ab"[i % 2], status=("active", "archived")[i > 6]
        )
        for i in range(12)
    ]
    store.put(made)
    for where in (
        Where(sessions=["s1"], agents=["a"]),
        Where(sessions=["s1", "s2"], tagged=["t0"], statuses=["active"]),
        Where(tagged=["t1"], statuses=["archived"]),
        Where(sessions=[], tagged=["t0"]),
        Where(sessions=["", "s0"]),
        Where(agents=["none"]),
    ):
        asked = search.compile_filter(where)
        with store._db.read() as db:
            exactly, about = (
                {n for (n,) in db.execute(*statement)}
                for statement in (asked.select_numbers(), asked.select_superset())
            )
            held = {
                id
                for (id,) in db.execute(
                    f"SELECT id FROM record WHERE n IN ({asked.select_numbers().sql})", asked.select_numbers().params
                )
            }
        assert exactly <= about
        assert held == {record.id for record in made if where.accepts(record)}


def test_what_seldom_changes_and_the_rest_are_told_apart():
    where = Where(kinds=["a"], agents=("x", ""), statuses={Status.ACTIVE}, created_to=MOMENT)
    asked = search.compile_filter(where)
    assert asked.scope == ("s.kind = ? AND s.agent IN (?, ?)", ("a", "x", ""))
    assert asked.record == ("r.status = ? AND r.created_at < ?", ("active", to_micros(MOMENT)))
    assert type(asked.record.params[0]) is str
    nothing = search.compile_filter(Where())
    assert (nothing.scope, nothing.record, nothing.whole) == (search.Clause(), search.Clause(), search.Clause())


def test_many_names_are_one_parameter():
    asked = search.compile_filter(Where(projects=[f"n{i}" for i in range(search.FEW + 1)]))
    assert len(asked.scope.params) == 1


@pytest.mark.parametrize(
    "where",
    [{"tagged": ["t"]}, {"sessions": ["s"]}, {"statuses": ["archived"]}, {"created_from": MOMENT}, {"keys": ["k"]}],
)
def test_what_a_selective_filter_leaves_is_listed_unless_it_is_much(store, where, monkeypatch):
    common = {"session": "s", "key": "k", "tags": ("t",), "status": Status.ARCHIVED, "created_at": MOMENT}
    store.put([make_record(f"m{number}", **common) for number in range(3)])
    store.put([make_record("other", created_at=MOMENT.replace(year=2001))])
    condition = search.compile_filter(Where(kinds=COMMON["kinds"] + ["heuristic"], **where))
    with store._db.read() as db:
        assert len(condition.list_few(db)) == 3
        monkeypatch.setattr(search, "LISTED", 2)
        assert condition.list_few(db) is None


def test_a_filter_that_most_records_pass_is_not_listed(store):
    store.put([make_record("a")])
    with store._db.read() as db:
        for where in (Where(), Where(**COMMON), Where(statuses={Status.ACTIVE, Status.SUPERSEDED})):
            assert search.compile_filter(where).list_few(db) is None
