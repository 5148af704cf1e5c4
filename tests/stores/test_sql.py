from __future__ import annotations

from dataclasses import dataclass

from alma.stores import sql
from alma.testing.fakes import MOMENT
from alma.types.query import Where
from alma.types.record import Status
from alma.types.times import to_micros


@dataclass(frozen=True)
class Postgres:
    mark: str = "%s"

    def many(self, column, names):
        return sql.Clause(f"{column} = ANY(%s)", (list(names),))


def test_nothing_asked_is_no_condition():
    assert sql.compile_where(Where(), sql.SQLite()) == (sql.Clause(), sql.Clause())
    assert sql.Clause().after("WHERE") == ""


def test_scope_and_record_are_told_apart():
    where = Where(kinds=["a"], agents=("x", ""), statuses={Status.ACTIVE}, created_to=MOMENT)
    scope, record = sql.compile_where(where, sql.SQLite())
    assert scope == ("s.kind = ? AND s.agent IN (?, ?)", ("a", "x", ""))
    assert record == ("r.status = ? AND r.created_at < ?", ("active", to_micros(MOMENT)))
    assert type(record.params[0]) is str


def test_an_empty_collection_is_false():
    scope, record = sql.compile_where(Where(kinds=[], tagged=()), sql.SQLite())
    assert scope.sql == record.sql == "1 = 0"


def test_many_names_are_one_parameter():
    names = [f"n{i}" for i in range(sql.FEW + 1)]
    (text, params), _ = sql.compile_where(Where(projects=names), sql.SQLite())
    assert text == "s.project IN (SELECT value FROM json_each(?))"
    assert len(params) == 1
    (text, params), _ = sql.compile_where(Where(projects=names), Postgres())
    assert (text, params) == ("s.project = ANY(%s)", (names,))


def test_another_dialect_has_another_mark():
    where = Where(keys=["k"], linked=["a", "b"], valid_at=MOMENT)
    _, (text, params) = sql.compile_where(where, Postgres())
    assert text == (
        "r.key = %s AND r.key <> '' AND r.n IN (SELECT link.n FROM link WHERE link.target IN (%s, %s))"
        " AND (r.valid_from IS NULL OR r.valid_from <= %s) AND (r.valid_to IS NULL OR r.valid_to > %s)"
    )
    assert params == ("k", "a", "b", to_micros(MOMENT), to_micros(MOMENT))
