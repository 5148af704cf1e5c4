"""Words on disk: an FTS5 index over text, with one token for the scope of a record.

The scope is inside the index so that the filter by kind, project, agent and user is applied before the ranking, by
the index itself. It has no weight in the score.

Ranking costs time for every record that holds any of the words, so a word that most records hold would cost most
and tell least. The rarest words are ranked first, as many as a budget allows; the common ones are left to fill up
the answer when too few records were found, and then only the newest of the records that hold them are ranked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from ...types.query import Hit
from .._sql import Clause
from .schema import TOKENIZER

Indexed = tuple[int, str, str]
"""n, text, scope token"""

BUDGET = 15_000
"""So many records are ranked without a second thought."""
POOL = 2_000
"""So many of the newest records are ranked when the words are too common to rank them all."""
_PASSING = 0.4
"""What it costs to pass over a record of another scope, as a part of what it costs to rank it."""


_FIRST = 64
_GROWTH = 8


class Word(NamedTuple):
    frequency: int
    quoted: str


class Frequencies:
    """In how many records a token occurs: remembered, because counting costs; a little out of date does no harm."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._records = 0

    def refresh(self, db: sqlite3.Connection) -> int:
        """How many records there may be; forgets what it knew when that has changed by much."""
        (records,) = db.execute("SELECT coalesce(max(n), 0) FROM record").fetchone()
        if abs(records - self._records) * 20 > self._records or len(self._known) > 20_000:
            self._known, self._records = {}, records
        return int(records)

    def of(self, db: sqlite3.Connection, column: str, term: str) -> int:
        if (column, term) not in self._known:
            row = db.execute("SELECT doc FROM word WHERE term = ? AND col = ?", (term, column)).fetchone()
            self._known[column, term] = row[0] if row else 0
        return self._known[column, term]


def token(scope: int) -> str:
    return f"s{scope}"


def add(db: sqlite3.Connection, rows: Iterable[Indexed]) -> None:
    db.executemany("INSERT INTO words (rowid, text, scope) VALUES (?, ?, ?)", (row for row in rows if row[1]))


def remove(db: sqlite3.Connection, rows: Iterable[Indexed]) -> None:
    """The text must be exactly what was indexed: it tells FTS5 which entries to take out."""
    db.executemany(
        "INSERT INTO words (words, rowid, text, scope) VALUES ('delete', ?, ?, ?)", (row for row in rows if row[1])
    )


def match(
    db: sqlite3.Connection,
    known: Frequencies,
    words: str,
    scopes: Sequence[int] | None,
    where: Clause,
    limit: int,
) -> list[Hit]:
    records = known.refresh(db)
    share = 1.0 if scopes is None else sum(known.of(db, "scope", token(scope)) for scope in scopes) / max(records, 1)
    rare, common = _split(_words(db, known, words), share)
    found = _ranked(db, rare, scopes, where, limit) if rare else []
    if common and len(found) < limit:
        present = {hit.id for hit in found}
        found += [hit for hit in _newest(db, common, scopes, where, limit) if hit.id not in present]
        found.sort(key=lambda hit: -hit.score)
    return found[:limit]


def _split(words: list[Word], share: float) -> tuple[list[Word], list[Word]]:
    words = sorted(words)
    costs = accumulate(word.frequency * (share + _PASSING) for word in words)
    affordable = sum(cost <= BUDGET for cost in costs)
    return words[:affordable], words[affordable:]


def _words(db: sqlite3.Connection, known: Frequencies, words: str) -> list[Word]:
    """Each word once, with its frequency; one that the tokenizer sees nothing in is out.

    To FTS5 an expression without any token is no condition at all, and would match everything.
    """
    given = list(dict.fromkeys(words.replace("\0", " ").split()))
    tokens = _tokens(db, given)
    found = []
    for i, terms in tokens.items():
        quoted = given[i].replace('"', '""')
        found.append(Word(min(known.of(db, "text", term) for term in terms), f'"{quoted}"'))
    return found


def _tokens(db: sqlite3.Connection, words: list[str]) -> dict[int, list[str]]:
    """What the index makes of each word, by asking its own tokenizer."""
    db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5 (w, content = '', tokenize = '{TOKENIZER}')")
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_token USING fts5vocab (temp, asked, instance)")
    db.executemany("INSERT INTO temp.asked (rowid, w) VALUES (?, ?)", enumerate(words))
    tokens: dict[int, list[str]] = {}
    for i, term in db.execute("SELECT doc, term FROM temp.asked_token").fetchall():
        tokens.setdefault(i, []).append(term)
    db.execute("INSERT INTO temp.asked (asked) VALUES ('delete-all')")
    return tokens


def _query(words: list[Word], scopes: Sequence[int] | None) -> str:
    text = f"(text : ({' OR '.join(word.quoted for word in words)}))"
    return text if scopes is None else f"{text} AND (scope : ({' OR '.join(map(token, scopes))}))"


_SCORE = "-bm25(words, 1.0, 0.0)"
# CROSS JOIN keeps the planner from starting at the records and asking the index about each of them.
_SELECT = (
    f"SELECT r.id AS id, {_SCORE} AS score FROM words CROSS JOIN record r ON r.n = words.rowid WHERE words MATCH ?"
)
_HELD = "SELECT r.n, r.id FROM json_each(?) j CROSS JOIN record r ON r.n = j.value"


def _ranked(
    db: sqlite3.Connection, words: list[Word], scopes: Sequence[int] | None, where: Clause, limit: int
) -> list[Hit]:
    """The best of all, among equals the newest.

    Looking at the record of every match costs more than ranking them, so only the best are looked at, ever more of
    them until enough are wanted.
    """
    query, most = _query(words, scopes), max(_FIRST, 4 * limit)
    while True:
        select = (
            f"SELECT rowid, {_SCORE} AS score FROM words WHERE words MATCH ? ORDER BY score DESC, rowid DESC LIMIT ?"
        )
        best = db.execute(select, (query, most)).fetchall()
        found = _wanted(db, best, where)[:limit]
        if len(best) < most or len(found) == limit:
            return found
        most *= _GROWTH


def _wanted(db: sqlite3.Connection, best: list[tuple[int, float]], where: Clause) -> list[Hit]:
    numbers = json.dumps([n for n, _ in best])
    ids = dict(db.execute(f"{_HELD}{where.after('WHERE')}", (numbers, *where.params)))
    return [Hit(ids[n], score) for n, score in best if n in ids]


def _newest(
    db: sqlite3.Connection, words: list[Word], scopes: Sequence[int] | None, where: Clause, limit: int
) -> list[Hit]:
    newest = f"{_SELECT}{where.after('AND')} ORDER BY words.rowid DESC LIMIT {POOL}"
    select = f"SELECT id, score FROM ({newest}) ORDER BY score DESC, id LIMIT ?"
    return [Hit(id, score) for id, score in db.execute(select, (_query(words, scopes), *where.params, limit))]
