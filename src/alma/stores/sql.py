"""`Where` as SQL, for every store that speaks it.

Conditions are kept in two halves. Those on `scope` name what seldom changes (kind, project, agent, user, embedder)
and is kept once per combination in the table `scope`, known here as `s`; the rest are on `record`, known as `r`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..types.query import Where
from ..types.times import to_micros

FEW = 500
"""More names than this are sent as one parameter."""


class Clause(NamedTuple):
    """Text that is true or false for a row; empty when nothing is asked."""

    sql: str = ""
    params: tuple[Any, ...] = ()

    def after(self, word: str) -> str:
        return f" {word} {self.sql}" if self.sql else ""


class Compiled(NamedTuple):
    scope: Clause
    record: Clause


class Dialect(Protocol):
    @property
    def mark(self) -> str:
        """Stands for one parameter."""

    def many(self, column: str, names: Sequence[str]) -> Clause:
        """`column` is one of more names than fit as parameters."""


@dataclass(frozen=True, slots=True)
class SQLite:
    mark: str = "?"

    def many(self, column: str, names: Sequence[str]) -> Clause:
        # SQLite's JSON ends a string at its first NUL, which would turn the name into another one.
        odd = tuple(name for name in names if "\0" in name)
        usual = json.dumps([name for name in names if "\0" not in name])
        listed = f"{column} IN (SELECT value FROM json_each(?))"
        if not odd:
            return Clause(listed, (usual,))
        return Clause(f"({listed} OR {column} IN ({', '.join('?' * len(odd))}))", (usual, *odd))


NEVER = Clause("1 = 0")
_SCOPE = {"kinds": "s.kind", "projects": "s.project", "agents": "s.agent", "users": "s.user", "embedders": "s.embedder"}
_RECORD = {"sessions": "r.session", "statuses": "r.status", "keys": "r.key"}
_PARTLY_INDEXED = {"r.session", "r.key"}
_SIDE = {"linked": ("link", "target"), "tagged": ("tag", "name")}


def compile_where(where: Where, dialect: Dialect) -> Compiled:
    scope = [match_names(column, getattr(where, name), dialect) for name, column in _SCOPE.items()]
    record: list[Clause] = []
    for name, column in _RECORD.items():
        names = getattr(where, name)
        clause = match_names(column, names, dialect)
        # The indexes on these leave empty values out, and are used only for a query that says so too.
        if names and column in _PARTLY_INDEXED and "" not in names:
            clause = Clause(f"{clause.sql} AND {column} <> ''", clause.params)
        record.append(clause)
    for name, (table, column) in _SIDE.items():
        clause = match_names(f"{table}.{column}", getattr(where, name), dialect)
        if clause.sql and clause is not NEVER:
            clause = Clause(f"r.n IN (SELECT {table}.n FROM {table} WHERE {clause.sql})", clause.params)
        record.append(clause)
    for name, value in (where.fields or {}).items():
        record.append(Clause(f"json_extract(r.body, {dialect.mark}) IS {dialect.mark}", (f'$."{name}"', value)))
    for moment, condition in (
        (where.created_from, "r.created_at >= {}"),
        (where.created_to, "r.created_at < {}"),
        (where.valid_at, "(r.valid_from IS NULL OR r.valid_from <= {})"),
        (where.valid_at, "(r.valid_to IS NULL OR r.valid_to > {})"),
    ):
        if moment is not None:
            record.append(Clause(condition.format(dialect.mark), (to_micros(moment),)))
    return Compiled(join_clauses(*scope), join_clauses(*record))


def join_clauses(*clauses: Clause) -> Clause:
    given = [clause for clause in clauses if clause.sql]
    params = tuple(param for clause in given for param in clause.params)
    return Clause(" AND ".join(clause.sql for clause in given), params)


def match_names(column: str, names: Collection[str] | None, dialect: Dialect) -> Clause:
    if names is None:
        return Clause()
    # A member of an enumeration is bound as the plain string it equals.
    values = [str.__str__(name) for name in names]
    if not values:
        return NEVER
    if len(values) > FEW:
        return dialect.many(column, values)
    if len(values) == 1:
        return Clause(f"{column} = {dialect.mark}", tuple(values))
    return Clause(f"{column} IN ({', '.join([dialect.mark] * len(values))})", tuple(values))
