"""Which records a question is about, in the words that SQLite's planner needs to find them quickly.

Conditions are kept in two halves. Those on `scope` name what seldom changes (kind, project, agent, user, embedder)
and is kept once per combination in the table `scope`, known here as `s`; the rest are on `record`, known as `r`.

The planner knows nothing about how often a value occurs, and takes an index on status or scope to be as good as any. A
session, key, link or tag selects far less than those do, so where one is given the others are kept from being used.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any, NamedTuple

from ...types.query import Where
from ...types.times import to_micros

FEW = 500
"""More names than this are sent as one parameter."""

_SCOPE = {"kinds": "s.kind", "projects": "s.project", "agents": "s.agent", "users": "s.user", "embedders": "s.embedder"}
_SELECTIVE = {
    "keys": ("record", "r.key"),
    "linked": ("link", "r.target"),
    "sessions": ("record", "r.session"),
    "tagged": ("tag", "r.name"),
}


class Clause(NamedTuple):
    """Text that is true or false for a row; empty when nothing is asked."""

    sql: str = ""
    params: tuple[Any, ...] = ()

    def after(self, word: str) -> str:
        return f" {word} {self.sql}" if self.sql else ""


def join_clauses(*clauses: Clause) -> Clause:
    params = tuple(param for clause in clauses for param in clause.params)
    return Clause(" AND ".join(clause.sql for clause in clauses if clause.sql), params)


def match_names(column: str, names: Collection[str] | None) -> Clause:
    if names is None:
        return Clause()
    # A member of an enumeration is bound as the plain string it equals.
    values = [str.__str__(name) for name in names]
    if len(values) > FEW:
        # SQLite's JSON ends a string at its first NUL, which would turn the name into another one.
        odd = [name for name in values if "\0" in name]
        listed = json.dumps([name for name in values if "\0" not in name])
        marks = ", ".join("?" * len(odd))
        return Clause(f"({column} IN (SELECT value FROM json_each(?)) OR {column} IN ({marks}))", (listed, *odd))
    if len(values) == 1:
        return Clause(f"{column} = ?", tuple(values))
    return Clause(f"{column} IN ({', '.join('?' * len(values))})", tuple(values))


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
    shortcut, conditions = Clause(), []
    for name, (table, column) in _SELECTIVE.items():
        names = getattr(where, name)
        asked = match_names(column, names)
        if names is None:
            continue
        # The indexes leave empty values out, and are used only for a query that says so too.
        is_indexed = "" not in names
        if is_indexed:
            asked = Clause(f"{asked.sql} AND {column} <> ''", asked.params)
        listing = Clause(f"SELECT r.n FROM {table} r WHERE {asked.sql}", asked.params)
        conditions.append(asked if table == "record" else Clause(f"r.n IN ({listing.sql})", asked.params))
        # By an index alone, without looking at any record.
        if is_indexed and not shortcut.sql:
            shortcut = listing
    mark = "+" if shortcut.sql else ""
    conditions.append(match_names(f"{mark}r.status", where.statuses))
    for moment, condition in (
        (where.created_from, "r.created_at >= ?"),
        (where.created_to, "r.created_at < ?"),
        (where.valid_at, "(r.valid_from IS NULL OR r.valid_from <= ?)"),
        (where.valid_at, "(r.valid_to IS NULL OR r.valid_to > ?)"),
    ):
        if moment is not None:
            conditions.append(Clause(condition, (to_micros(moment),)))
    for name, value in (where.fields or {}).items():
        conditions.append(Clause("json_extract(r.body, ?) IS ?", (f'$."{name}"', value)))
    scope = join_clauses(*(match_names(column, getattr(where, name)) for name, column in _SCOPE.items()))
    record = join_clauses(*conditions)
    within = Clause(f"{mark}r.scope IN (SELECT s.id FROM scope s{scope.after('WHERE')})", scope.params)
    joined = join_clauses(within, record)
    whole = joined if scope.sql else record
    # Even when every scope will do: for each of them an index can find a span of time.
    return Filter(scope, record, shortcut, whole, whole if shortcut.sql else joined)
