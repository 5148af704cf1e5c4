from __future__ import annotations

from dataclasses import dataclass

from alma.stores import _sql
from alma.testing.fakes import MOMENT
from alma.types.query import Where
from alma.types.record import Status
from alma.types.times import to_micros


@dataclass(frozen=True)
class Postgres:
    mark: str = "%s"

    def many(self, column, names):
        return _sql.Clause(f"{column} = ANY(%s)", (list(names),))


def test_nothing_asked_is_no_condition():
    assert _sql.compile_where(Where(), _sql.SQLite()) == (_sql.Clause(), _sql.Clause())
    assert _sql.Clause().after("WHERE") == ""


def test_scope_and_record_are_told_apart():
    where = Where(kinds=["a"], agents=("x", ""), statuses={Status.ACTIVE}, created_to=MOMENT)
    scope, record = _sql.compile_where(where, _sql.SQLite())
    assert scope == ("s.kind = ? AND s.agent IN (?, ?)", ("a", "x", ""))
    assert record == ("r.status = ? AND r.created_at < ?", ("active", to_micros(MOMENT)))
    assert type(record.params[0]) is str


def test_an_empty_collection_is_false():
    scope, record = _sql.compile_where(Where(kinds=[], tagged=()), _sql.SQLite())
    assert scope.sql == record.sql == "1 = 0"


def test_many_names_are_one_parameter():
    names = [f"n{i}" for i in range(_sql.FEW + 1)]
    (sql, params), _ = _sql.compile_where(Where(projects=names), _sql.SQLite())
    assert sql == "s.project IN (SELECT value FROM json_each(?))"
    assert len(params) == 1
    (sql, params), _ = _sql.compile_where(Where(projects=names), Postgres())
    assert (sql, params) == ("s.project = ANY(%s)", (names,))


def test_another_dialect_has_another_mark():
    where = Where(keys=["k"], linked=["a", "b"], valid_at=MOMENT)
    _, (sql, params) = _sql.compile_where(where, Postgres())
    assert sql == (
        "r.key = %s AND r.key <> '' AND r.n IN (SELECT link.n FROM link WHERE link.target IN (%s, %s))"
        " AND (r.valid_from IS NULL OR r.valid_from <= %s) AND (r.valid_to IS NULL OR r.valid_to > %s)"
    )
    assert params == ("k", "a", "b", to_micros(MOMENT), to_micros(MOMENT))
