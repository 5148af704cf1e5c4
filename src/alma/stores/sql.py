"""`Where` as SQL, for every store that speaks it.

Conditions are kept in two halves. Those on `scope` name what seldom changes (kind, project, agent, user, embedder)
and is kept once per combination in the table `scope`, known here as `s`; the rest are on `record`, known as `r`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..types.query import Names, Where
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
    scope = [among(column, getattr(where, name), dialect) for name, column in _SCOPE.items()]
    record = [_named(column, getattr(where, name), dialect) for name, column in _RECORD.items()]
    record += [_side(*side, getattr(where, name), dialect) for name, side in _SIDE.items()]
    return Compiled(both(*scope), both(*record, *_times(where, dialect.mark)))


def both(*clauses: Clause) -> Clause:
    held = [clause for clause in clauses if clause.sql]
    params = tuple(param for clause in held for param in clause.params)
    return Clause(" AND ".join(clause.sql for clause in held), params)


def among(column: str, names: Collection[str] | None, dialect: Dialect) -> Clause:
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


def _named(column: str, names: Names, dialect: Dialect) -> Clause:
    clause = among(column, names, dialect)
    # The indexes on these leave empty values out, and are used only for a query that says so too.
    if names and column in _PARTLY_INDEXED and "" not in names:
        return Clause(f"{clause.sql} AND {column} <> ''", clause.params)
    return clause


def _side(table: str, column: str, names: Names, dialect: Dialect) -> Clause:
    clause = among(f"{table}.{column}", names, dialect)
    if not clause.sql or clause is NEVER:
        return clause
    return Clause(f"r.n IN (SELECT {table}.n FROM {table} WHERE {clause.sql})", clause.params)


def _times(where: Where, mark: str) -> list[Clause]:
    clauses = []
    if where.created_from is not None:
        clauses.append(Clause(f"r.created_at >= {mark}", (to_micros(where.created_from),)))
    if where.created_to is not None:
        clauses.append(Clause(f"r.created_at < {mark}", (to_micros(where.created_to),)))
    if where.valid_at is not None:
        moment = to_micros(where.valid_at)
        clauses.append(Clause(f"(r.valid_from IS NULL OR r.valid_from <= {mark})", (moment,)))
        clauses.append(Clause(f"(r.valid_to IS NULL OR r.valid_to > {mark})", (moment,)))
    return clauses
