"""Searching by words, and conditions on records in the form in which SQLite's planner finds them quickly.

Conditions are kept in two halves. Those on `scope` name what seldom changes (kind, project, agent, user, embedder)
and is kept once per combination in the table `scope`, known here as `s`; the rest are on `record`, known as `r`.

The planner knows nothing about how often a value occurs, and takes an index on status or scope to be as good as any. A
session, key, link or tag selects far less than those do, so where one is given the others are kept from being used.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...types.query import Hit, Where
from ...types.record import Status
from ...types.times import to_micros
from .database import TOKENIZER

LISTED = 4_000  # So many records are listed before they are searched.
FEW = 500  # More names than this are sent as one parameter.

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
        """Return the clause after a keyword such as WHERE; empty for an empty clause."""
        return f" {word} {self.sql}" if self.sql else ""


def join_clauses(*clauses: Clause) -> Clause:
    """Return clauses joined by AND."""
    params = tuple(param for clause in clauses for param in clause.params)
    return Clause(" AND ".join(clause.sql for clause in clauses if clause.sql), params)


def match_names(column: str, names: Collection[str] | None) -> Clause:
    """Return the clause for a column that must be one of these names; empty for None."""
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
    """The SQL conditions of a query, for each way to run it."""

    scope: Clause  # On `s`, where everything is looked up by an index anyway.
    record: Clause  # On `r`.
    shortcut: Clause  # What a session, key, link or tag alone selects; nothing when none is given.
    whole: Clause  # The condition, on `r` alone.
    listing: Clause  # The same, never empty, for going through all that is asked for.
    is_selective: bool  # Whether an index finds what is asked for, which is likely to be little.

    def select_numbers(self) -> Clause:
        """Return a statement for the numbers of all that is asked for."""
        return Clause(f"SELECT r.n FROM record r WHERE {self.listing.sql}", self.listing.params)

    def select_superset(self) -> Clause:
        """Return the same, and perhaps some numbers more, where those are quicker to list."""
        return self.shortcut if self.shortcut.sql else self.select_numbers()

    def list_few(self, db: sqlite3.Connection) -> list[int] | None:
        """Return the numbers of the few records that an index selects; None if they may be many."""
        if not self.is_selective:
            return None
        superset = self.select_superset()
        rows = db.execute(f"{superset.sql} LIMIT ?", (*superset.params, LISTED + 1)).fetchall()
        return [number for (number,) in rows] if len(rows) <= LISTED else None

    def scopes(self, db: sqlite3.Connection) -> list[int] | None:
        """Return the ids of the scopes that are asked for; None when all are."""
        if not self.scope.sql:
            return None
        return [id for (id,) in db.execute(f"SELECT s.id FROM scope s WHERE {self.scope.sql}", self.scope.params)]


def compile_filter(where: Where) -> Filter:
    """Return the SQL conditions for a `Where`."""
    shortcut, conditions = Clause(), []
    for name, (table, column) in _SELECTIVE.items():
        names = getattr(where, name)
        clause = match_names(column, names)
        if names is None:
            continue
        # The indexes leave empty values out, and are used only for a query that says so too.
        is_indexed = "" not in names
        if is_indexed:
            clause = Clause(f"{clause.sql} AND {column} <> ''", clause.params)
        listing = Clause(f"SELECT r.n FROM {table} r WHERE {clause.sql}", clause.params)
        conditions.append(clause if table == "record" else Clause(f"r.n IN ({listing.sql})", clause.params))
        # By an index alone, without looking at any record.
        if is_indexed and not shortcut.sql:
            shortcut = listing
    mark = "+" if shortcut.sql else ""
    conditions.append(match_names(f"{mark}r.status", where.statuses))
    conditions.append(match_names("json_extract(r.provenance, '$.origin')", where.origins))
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
    # Most records are active, and those of some hours are few.
    is_of_few = where.statuses is not None and Status.ACTIVE not in where.statuses
    is_selective = bool(shortcut.sql) or is_of_few or where.created_from is not None or where.created_to is not None
    return Filter(scope, record, shortcut, whole, whole if shortcut.sql else joined, is_selective)


# --- words on disk: an FTS5 index over text, with one token for the scope of a record
#
# The scope is inside the index so that the filter by kind, project, agent and user can be applied before the ranking,
# by the index itself. It has no weight in the score. Where it leaves most records in, it is left out of the query and
# the best are looked at one by one: the index counts each token of a query anew, and that of a scope may be in all.
#
# Ranking costs time for every record that holds any of the words, so a word that most records hold would cost most
# and tell least. The rarest words are ranked first, as many as a budget allows; the common ones are left to fill up
# the answer when too few records were found, and then only the newest of the records that hold them are looked at.

Indexed = tuple[int, str, int]  # n, text, scope

BUDGET = 15_000  # So many records are ranked without a second thought.
POOL = 2_000  # So many of the newest records are looked at when the words are too common to rank them all.
_PASSING = 0.15  # What it costs to pass over a record, as a part of what it costs to rank it.
_MOST = 0.25
_NEARLY_ALL = 0.9
_REMEMBERED = 20_000
_FIRST = 64
_GROWTH = 8


class Word(NamedTuple):
    """A word of a query, and in how many records it occurs."""

    frequency: int
    quoted: str


class Frequencies:
    """In how many records a token occurs: remembered, because counting costs; a little out of date does no harm."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], int] = {}
        self._records = 0
        self._shares: dict[tuple[int, ...], float] = {}
        # What the index makes of a word. Bytes, because FTS5 cuts a token at 32,768 bytes, even inside a character.
        self.terms: dict[str, list[bytes]] = {}

    def share(self, db: sqlite3.Connection, scopes: Sequence[int] | None) -> float:
        """Return the part of all records that is in these scopes."""
        # When the number of records has changed by much, what was known is forgotten.
        (records,) = db.execute("SELECT coalesce(max(n), 0) FROM record").fetchone()
        remembered = len(self._known) + len(self._shares) + len(self.terms)
        if abs(records - self._records) * 20 > self._records or remembered > _REMEMBERED:
            self._known, self._shares, self.terms, self._records = {}, {}, {}, records
        if scopes is None:
            return 1.0
        names = tuple(scopes)
        if names not in self._shares:
            total = sum(self.count(db, "scope", f"s{scope}".encode()) for scope in names)
            self._shares[names] = total / max(self._records, 1)
        return self._shares[names]

    def weight(self, word: Word) -> float:
        """Return the weight of a word, as the index weighs it."""
        others = max(self._records - word.frequency, 0)
        return max(math.log((others + 0.5) / (word.frequency + 0.5)), 1e-6)

    def count(self, db: sqlite3.Connection, column: str, term: bytes) -> int:
        """Return in how many records a term occurs."""
        if (column, term) not in self._known:
            select = "SELECT doc FROM word WHERE term = CAST(? AS TEXT) AND col = ?"
            row = db.execute(select, (term, column)).fetchone()
            self._known[column, term] = row[0] if row else 0
        return self._known[column, term]


def replace_rows(db: sqlite3.Connection, removed: Iterable[Indexed], fresh: Iterable[Indexed] = ()) -> None:
    """The text of what goes must be exactly what was indexed: it tells FTS5 which entries to take out."""
    remove = "INSERT INTO words (words, rowid, text, scope) VALUES ('delete', ?, ?, ?)"
    add = "INSERT INTO words (rowid, text, scope) VALUES (?, ?, ?)"
    for statement, rows in ((remove, removed), (add, fresh)):
        db.executemany(statement, ((n, text, f"s{scope}") for n, text, scope in rows if text))


class Search(NamedTuple):
    """One full-text search in progress."""

    db: sqlite3.Connection
    filter: Filter
    scopes: list[int] | None  # What the index is asked for; None: its answer has to be looked at.
    rest: Clause  # What the index has not answered yet, when it was asked for the scopes.
    limit: int
    first: int  # So many of the best are looked at first.


def match(
    db: sqlite3.Connection, frequencies: Frequencies, words: str, filter: Filter, limit: int, many: int
) -> list[Hit]:
    """More than `many` scopes are not looked for in the index."""
    scopes = filter.scopes(db)
    if scopes == []:
        return []
    if scopes is not None and len(scopes) > many:
        scopes = None
    rest = filter.whole if scopes is None else filter.record
    search = Search(db, filter, scopes, rest, limit, max(_FIRST, 4 * limit))
    share, terms = frequencies.share(db, scopes), _read_words(db, frequencies, words)
    numbers = filter.list_few(db)
    if numbers == []:
        return []
    rare, common = _split_by_cost(terms, 1.0 if share >= _MOST else 2 * share + _PASSING)
    # The best of all, among equals the newest; None when too little of the best is asked for.
    hits: list[Hit] | None = None
    if numbers is None and share >= _MOST:
        hits = _find_best(search, _make_query(rare, None), filter.whole)
    if numbers is None and hits is None and share < _NEARLY_ALL:
        hits = _find_best(search, _make_query(rare, scopes), rest)
    if hits is None:
        rare, common = _split_by_cost(terms, _PASSING)
        hits = _rank_within(search, _make_query(rare, None))
    if common and len(hits) < limit:
        present = {hit.id for hit in hits}
        hits += [hit for hit in _rank_newest(search, frequencies, common, limit + len(hits)) if hit.id not in present]
        hits.sort(key=lambda hit: -hit.score)
    return hits[:limit]


def match_all(db: sqlite3.Connection, frequencies: Frequencies, words: str, filter: Filter, limit: int) -> list[str]:
    """Return the ids of records that hold each of the words: the index begins with the rarest one."""
    terms = _read_words(db, frequencies, words)
    if not terms:
        return []
    query = f"(text : ({' AND '.join(word.quoted for word in terms)}))"
    rows = db.execute(f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT {POOL}", (query,))
    numbers = json.dumps([n for (n,) in rows])
    found = dict(db.execute(f"{_SELECT_STORED}{filter.whole.after('WHERE')}", (numbers, *filter.whole.params)))
    return [found[n] for n in sorted(found, reverse=True)][:limit]


def _split_by_cost(words: list[Word], cost: float) -> tuple[list[Word], list[Word]]:
    """Those that can be afforded, when a record that holds one of them costs so much, and the rest."""
    words = sorted(words)
    affordable = sum(total <= BUDGET for total in accumulate(word.frequency * cost for word in words))
    return words[:affordable], words[affordable:]


def _read_words(db: sqlite3.Connection, frequencies: Frequencies, words: str) -> list[Word]:
    """Each word once, with its frequency; one that the tokenizer sees nothing in is out.

    To FTS5 an expression without any token is no condition at all, and would match everything.
    """
    distinct = dict.fromkeys(words.replace("\0", " ").split())
    new = [word for word in distinct if word not in frequencies.terms]
    if new:
        # The index's own tokenizer says what it makes of them.
        db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5 (w, content = '', tokenize = '{TOKENIZER}')"
        )
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_token USING fts5vocab (temp, asked, instance)")
        db.executemany("INSERT INTO temp.asked (rowid, w) VALUES (?, ?)", enumerate(new))
        frequencies.terms |= {word: [] for word in new}
        for i, term in db.execute("SELECT doc, CAST(term AS BLOB) FROM temp.asked_token").fetchall():
            frequencies.terms[new[i]].append(term)
        db.execute("INSERT INTO temp.asked (asked) VALUES ('delete-all')")
    result = []
    for word in distinct:
        if terms := frequencies.terms[word]:
            quoted = word.replace('"', '""')
            result.append(Word(min(frequencies.count(db, "text", term) for term in terms), f'"{quoted}"'))
    return result


def _make_query(words: list[Word], scopes: Sequence[int] | None) -> str:
    """Empty when there are no words."""
    text = f"(text : ({' OR '.join(word.quoted for word in words)}))" if words else ""
    return text if scopes is None or not words else f"{text} AND (scope : ({' OR '.join(f's{id}' for id in scopes)}))"


_SCORE = "-bm25(words, 1.0, 0.0)"
_BEST = f"SELECT rowid, {_SCORE} AS score FROM words WHERE words MATCH ?{{}} ORDER BY score DESC, rowid DESC LIMIT ?"
_LATEST = "SELECT rowid FROM words WHERE words MATCH ?{} ORDER BY rowid DESC LIMIT ?"
# CROSS JOIN keeps the planner from starting at the records and asking about each of them.
_SELECT_STORED = "SELECT r.n, r.id FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"


def _limit_to(numbers: Clause) -> Clause:
    # The plus keeps the planner from asking the index once for each of them.
    return Clause(f" AND +rowid IN ({numbers.sql})", numbers.params)


def _rank_within(search: Search, query: str) -> list[Hit]:
    """Return the best among those that are asked for, listed before."""
    if search.filter.shortcut.sql:
        hits = _find_best(search, query, search.filter.whole, _limit_to(search.filter.shortcut))
        if hits is not None:
            return hits
    within = _limit_to(search.filter.select_numbers())
    best = (
        search.db.execute(_BEST.format(within.sql), (query, *within.params, search.limit)).fetchall() if query else []
    )
    return _keep_wanted(search, best, Clause(), search.limit)


def _find_best(search: Search, query: str, rest: Clause, within: Clause = Clause()) -> list[Hit] | None:  # noqa: B008
    """Return the best that `rest` allows; None when there may be more of them than were looked at."""
    if not query:
        return []
    # Usually most of the best are wanted; to fetch more of them costs as much as to rank them.
    for most in (search.first, _GROWTH * search.first):
        best = search.db.execute(_BEST.format(within.sql), (query, *within.params, most)).fetchall()
        hits = _keep_wanted(search, best, rest, search.limit)
        if len(hits) >= search.limit or len(best) < most:
            return hits
    return None


def _keep_wanted(search: Search, best: list[tuple[int, float]], rest: Clause, enough: int) -> list[Hit]:
    """Looking at a record costs more than ranking it, so the best are looked at first."""
    hits: list[Hit] = []
    for some in (best[: search.first], best[search.first :]):
        if some and len(hits) < enough:
            numbers = json.dumps([n for n, _ in some])
            ids = dict(search.db.execute(f"{_SELECT_STORED}{rest.after('WHERE')}", (numbers, *rest.params)))
            hits += [Hit(ids[n], score) for n, score in some if n in ids]
    return hits[:enough]


def _rank_newest(search: Search, frequencies: Frequencies, words: list[Word], enough: int) -> list[Hit]:
    """By the weight of the words that each of the newest holds; how often it holds them is not counted."""
    query, hits = _make_query(words, search.scopes), []
    for within, rest in ((Clause(), search.rest), (_limit_to(search.filter.select_numbers()), Clause())):
        rows = search.db.execute(_LATEST.format(within.sql), (query, *within.params, POOL))
        latest = [n for (n,) in rows]
        scores: dict[int, float] = dict.fromkeys(latest, 0.0)
        among = _limit_to(Clause("SELECT value FROM json_each(?)", (json.dumps(latest),)))
        select = f"SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?{among.sql}"
        for word in words if latest else ():
            word_query = _make_query([word], search.scopes)
            for (n,) in search.db.execute(select, (word_query, latest[-1], latest[0], *among.params)):
                scores[n] += frequencies.weight(word)
        best = sorted(scores.items(), key=lambda item: (-item[1], -item[0]))
        hits = _keep_wanted(search, best, rest, enough)
        if len(hits) >= enough or len(latest) < POOL or not search.rest.sql:
            break
    return hits
