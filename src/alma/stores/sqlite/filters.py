"""Which records a question is about, in the words that SQLite's planner needs to find them quickly.

It knows nothing about how often a value occurs, and takes an index on status or scope to be as good as any. A
session, key, link or tag selects far less than those do, so where one is given the others are kept from being used.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import NamedTuple

from ...types.query import Where
from .. import sql
from ..sql import Clause, both

DIALECT = sql.SQLite()
_SELECTIVE = {
    "keys": ("record", "key"),
    "linked": ("link", "target"),
    "sessions": ("record", "session"),
    "tagged": ("tag", "name"),
}


class Filter(NamedTuple):
    scope: Clause
    """On `s`, where everything is looked up by an index anyway."""
    record: Clause
    """On `r`."""
    shortcut: Clause = Clause()
    """What a session, key, link or tag alone selects; nothing when none is given."""

    @property
    def selective(self) -> bool:
        return bool(self.shortcut.sql)

    def clause(self) -> Clause:
        """The condition, on `r` alone."""
        return both(self._within(), self.record) if self.scope.sql else self.record

    def listing(self) -> Clause:
        """The same, for going through all that is asked for."""
        # Even when every scope will do: for each of them an index can find a span of time.
        return self.clause() if self.selective else both(self._within(), self.record)

    def exactly(self) -> Clause:
        """A statement for the numbers of all that is asked for."""
        clause = self.listing()
        return Clause(f"SELECT r.n FROM record r{clause.after('WHERE')}", clause.params)

    def about(self) -> Clause:
        """The same, and perhaps some numbers more, where those are quicker to list."""
        return self.shortcut if self.selective else self.exactly()

    def _within(self) -> Clause:
        column = "+r.scope" if self.selective else "r.scope"
        return Clause(f"{column} IN (SELECT s.id FROM scope s{self.scope.after('WHERE')})", self.scope.params)

    def scopes(self, db: sqlite3.Connection) -> list[int] | None:
        """The ids of the scopes that are asked for; None when all are."""
        if not self.scope.sql:
            return None
        return [id for (id,) in db.execute(f"SELECT s.id FROM scope s WHERE {self.scope.sql}", self.scope.params)]


def compiled(where: Where) -> Filter:
    shortcut = _shortcut(where)
    if not shortcut.sql:
        return Filter(*sql.compile_where(where, DIALECT))
    scope, record = sql.compile_where(replace(where, statuses=None), DIALECT)
    return Filter(scope, both(record, sql.among("+r.status", where.statuses, DIALECT)), shortcut)


def _shortcut(where: Where) -> Clause:
    """By an index alone, without looking at any record. The indexes leave empty values out."""
    for name, (table, column) in _SELECTIVE.items():
        names = getattr(where, name)
        if names is not None and "" not in names:
            asked = sql.among(column, names, DIALECT)
            return Clause(f"SELECT n FROM {table} WHERE {asked.sql} AND {column} <> ''", asked.params)
    return Clause()
