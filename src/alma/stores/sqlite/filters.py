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
from ..sql import Clause, join_clauses

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
    shortcut: Clause
    """What a session, key, link or tag alone selects; nothing when none is given."""
    whole: Clause
    """The condition, on `r` alone."""
    listing: Clause
    """The same, never empty, for going through all that is asked for."""

    def select_numbers(self) -> Clause:
        """A statement for the numbers of all that is asked for."""
        return Clause(f"SELECT r.n FROM record r WHERE {self.listing.sql}", self.listing.params)

    def select_superset(self) -> Clause:
        """The same, and perhaps some numbers more, where those are quicker to list."""
        return self.shortcut if self.shortcut.sql else self.select_numbers()

    def scopes(self, db: sqlite3.Connection) -> list[int] | None:
        """The ids of the scopes that are asked for; None when all are."""
        if not self.scope.sql:
            return None
        return [id for (id,) in db.execute(f"SELECT s.id FROM scope s WHERE {self.scope.sql}", self.scope.params)]


def compile_filter(where: Where) -> Filter:
    shortcut, mark = Clause(), ""
    for name, (table, column) in _SELECTIVE.items():
        names = getattr(where, name)
        # By an index alone, without looking at any record. The indexes leave empty values out.
        if names is not None and "" not in names:
            asked = sql.match_names(column, names, DIALECT)
            shortcut = Clause(f"SELECT n FROM {table} WHERE {asked.sql} AND {column} <> ''", asked.params)
            mark = "+"
            break
    scope, record = sql.compile_where(replace(where, statuses=None) if mark else where, DIALECT)
    if mark:
        record = join_clauses(record, sql.match_names("+r.status", where.statuses, DIALECT))
    within = Clause(f"{mark}r.scope IN (SELECT s.id FROM scope s{scope.after('WHERE')})", scope.params)
    joined = join_clauses(within, record)
    whole = joined if scope.sql else record
    # Even when every scope will do: for each of them an index can find a span of time.
    return Filter(scope, record, shortcut, whole, whole if shortcut.sql else joined)
