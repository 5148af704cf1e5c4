"""A look into the store from a hook: read-only, quick, and leaving no trace.

The file is never made or changed. While nobody writes, SQLite is told that it is immutable, because in write-ahead mode
even a reader would make files beside it. Whatever is wrong with it is one error, `Unreadable`: nothing is shown then.
"""

from __future__ import annotations

import json
import os
import time

from .place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import Any
else:
    try:
        # The module below `sqlite3`, which brings dates and adapters along that nobody here uses.
        import _sqlite3 as sqlite3
    except ImportError:
        import sqlite3

APPLICATION_ID = 0x414C4D41
VERSION = 1
"""The format of the file that the statements below are written for."""
EVERYWHERE = "everywhere"
_MACHINE_TAUGHT = ("fix", "denial")
_OUTPUT = " *Why:* program output: `"
NEWEST = 400
_BUSY_SECONDS = 0.03
# The plus keeps the planner away from an index that selects half of all rules, where another selects a few.
_ACTIVE = "+r.status = 'active'"
_HITS = 100
"""So many of the newest rules that hold a word are looked at; a word in more of them tells little."""
_BEST = 20
_PROVEN = 3
"""So many results without a violation, and a rule needs no reminder."""
_STEPS = 2_000_000
"""Of SQLite's own counting: far more than any question here takes, and reached before a person would notice."""


class Unreadable(Exception):
    """There is a store, but not one that can be read now."""


class Rule:
    """A rule or an observation as it is held."""

    __slots__ = ("body", "created_at", "evidence", "id", "project")

    def __init__(self, id: str, project: str, created_at: int, evidence: str, body: str) -> None:
        self.id = id
        self.project = project
        self.created_at = created_at
        self.body: dict[str, Any] = json.loads(body)
        self.evidence: dict[str, Any] = json.loads(evidence) if evidence != "{}" else {}

    @property
    def line(self) -> str:
        """As it is shown: made when the rule was written, and one line whatever happened to it since."""
        if self.is_observation and "failed" not in self.body:
            return self._old_fix()
        line = " ".join(str(self.body.get("line", "")).split())[:400]
        if self.body.get("source") in _MACHINE_TAUGHT and _OUTPUT not in line:
            # Earlier versions wrote what a program printed as the reason.
            line = line.partition(" *Why:* ")[0]
        return line

    @property
    def is_observation(self) -> bool:
        """Whether it tells what an agent did, and not what a person said."""
        return self.body.get("source") == "fix"

    @property
    def violations(self) -> int:
        """How often it was shown and not followed; 0 when it was followed ever since."""
        failures, recent = self.evidence.get("failures"), self.evidence.get("recent")
        if not isinstance(failures, int) or failures <= 0:
            return 0
        last = recent[-_PROVEN:] if isinstance(recent, list) else []
        return failures if len(last) < _PROVEN or any(one[1:] == [0.0] for one in last) else 0

    def _old_fix(self) -> str:
        """A repair that an earlier version stored as a rule and no drain has converted yet."""
        from ..engine.safety import find_doubtful_change, find_weakening

        said = " ".join(self.text("said").split()).replace("`", "'")
        failed, arrow, worked = said.partition(" → ")
        if not arrow or find_weakening(failed) or find_weakening(worked) or find_doubtful_change(failed, worked):
            return ""
        return f"`{failed}` failed, `{worked}` worked"[:400]

    def names(self, field: str) -> list[str]:
        given = self.body.get(field)
        return [name for name in given if isinstance(name, str) and name] if isinstance(given, list) else []

    def text(self, field: str) -> str:
        given = self.body.get(field)
        return given if isinstance(given, str) else ""


class Glance:
    """An open store and the scopes of one project's rules in it."""

    __slots__ = ("_db", "_now", "_scopes")

    def __init__(self, place: Place, project: str) -> None:
        self._now = int(time.time() * 1_000_000)
        self._db = _connected(place.db)
        self._scopes: dict[int, str] = {}
        try:
            if _is_made(self._db):
                self._scopes = self._found(project)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Glance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def playbook(self) -> list[Rule]:
        """The newest rules of the project and of all projects."""
        where = "r.status = 'active' AND r.scope = ? AND r.session = ''"
        found = [rule for scope in self._scopes for rule in self._rules(where, (scope,), NEWEST)]
        return sorted(found, key=lambda rule: (-rule.created_at, rule.id))[:NEWEST]

    def profile(self, sessions: Sequence[str]) -> list[Rule]:
        """The rules that hold in these sessions alone."""
        marks = ", ".join("?" * len(sessions))
        scopes = ", ".join("?" * len(self._scopes))
        where = f"r.session IN ({marks}) AND r.session <> '' AND {_ACTIVE} AND +r.scope IN ({scopes})"
        return self._rules(where, (*sessions, *self._scopes), NEWEST) if self._scopes and sessions else []

    def count(self) -> int:
        """How many rules there are, no longer counted above a thousand in one scope."""
        select = "SELECT count(*) FROM (SELECT 1 FROM record WHERE status = 'active' AND scope = ? LIMIT 1000)"
        return sum(self._all(select, (scope,))[0][0] for scope in self._scopes)

    def holding(self, word: str) -> list[int]:
        """The numbers of the newest rules whose text holds a word; as many as are looked at, when there are more."""
        if not self._scopes:
            return []
        scopes = " OR ".join(f"s{scope}" for scope in self._scopes)
        quoted = word.replace('"', '""')
        select = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
        return [n for (n,) in self._all(select, (f'text : "{quoted}" AND scope : ({scopes})', _HITS))]

    def numbered(self, numbers: Iterable[int]) -> list[Rule]:
        """The rules with these numbers that hold in all sessions."""
        wanted = list(numbers)[:_BEST]
        return self._rules(f"r.n IN ({', '.join('?' * len(wanted))}) AND {_ACTIVE} AND r.session = ''", wanted, _BEST)

    def named(self, ids: Sequence[str]) -> list[Rule]:
        """The rules with these ids that hold in all sessions, in the order given."""
        wanted = list(ids)[:_BEST]
        marks, scopes = ", ".join("?" * len(wanted)), ", ".join("?" * len(self._scopes))
        where = f"r.id IN ({marks}) AND {_ACTIVE} AND r.session = '' AND +r.scope IN ({scopes})"
        found = {rule.id: rule for rule in self._rules(where, (*wanted, *self._scopes), _BEST)}
        return [found[id] for id in wanted if id in found]

    def _found(self, project: str) -> dict[int, str]:
        select = (
            "SELECT id, project FROM scope WHERE project IN (?, ?) AND kind IN ('rule', 'observation') AND user = ''"
        )
        return dict(_fetched(self._db, select, (project, EVERYWHERE)))

    def _rules(self, where: str, params: Sequence[Any], limit: int) -> list[Rule]:
        select = (
            "SELECT r.id, r.scope, r.created_at, r.evidence, r.body FROM record r WHERE"
            f" {where} AND (r.valid_to IS NULL OR r.valid_to > ?) ORDER BY r.created_at DESC, r.id DESC LIMIT ?"
        )
        rows = self._all(select, (*params, self._now, limit))
        try:
            return [Rule(row[0], self._scopes.get(row[1], ""), *row[2:]) for row in rows]
        except (ValueError, TypeError, RecursionError) as error:
            raise Unreadable("a rule in the store is damaged; run `claude-smart doctor`") from error

    def _all(self, select: str, params: Sequence[Any]) -> list[Any]:
        """Where no rule is in scope there is nothing to ask for, and perhaps no table yet to ask."""
        return _fetched(self._db, select, params) if self._scopes else []


def _fetched(db: sqlite3.Connection, select: str, params: Sequence[Any] = ()) -> list[Any]:
    try:
        return db.execute(select, params).fetchall()
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise Unreadable(f"memory.db: {error}") from error


def _connected(path: str) -> sqlite3.Connection:
    quiet = "&immutable=1" if _size_of(f"{path}-wal") <= 0 else ""
    try:
        db = sqlite3.connect(f"{_uri(path)}?mode=ro{quiet}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise Unreadable(f"memory.db cannot be opened: {error}") from error
    try:
        db.set_progress_handler(lambda: 1, _STEPS)
    except BaseException:
        db.close()
        raise
    return db


def _uri(path: str) -> str:
    """As `urllib` would write it, which takes long to load."""
    path = path.replace("\\", "/") if os.name == "nt" else path
    for sign, code in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        path = path.replace(sign, code)
    return f"file:{'' if path.startswith('/') else '/'}{path}"


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1


def _is_made(db: sqlite3.Connection) -> bool:
    """Whether the store is a finished one; False while somebody is just making it."""
    [(application,)] = _fetched(db, "PRAGMA application_id")
    [(version,)] = _fetched(db, "PRAGMA user_version")
    if application == version == 0 and not _fetched(db, "SELECT 1 FROM sqlite_master LIMIT 1"):
        return False
    if application != APPLICATION_ID:
        raise Unreadable("memory.db is not an alma database")
    if version != VERSION:
        older = "older" if version < VERSION else "newer"
        raise Unreadable(f"memory.db has format {version}, {older} than the {VERSION} that this hook reads")
    return True
