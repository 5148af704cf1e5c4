"""Rules as a hook reads them: from the store, read-only, quick and leaving no trace; and from the host's CLAUDE.md.

The store is never made or changed. While nobody writes, SQLite is told that it is immutable, because in write-ahead
mode even a reader would make files beside it. Whatever is wrong with it is one error, `UnreadableStoreError`: nothing
is shown then.
"""

from __future__ import annotations

import json
import os
import time

from .paths import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import Any

    from .paths import DataDir
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


class UnreadableStoreError(Exception):
    """There is a store, but not one that can be read now."""


class StoredRule:
    """A rule or an observation as it is stored."""

    __slots__ = ("body", "created_at", "evidence", "id")

    def __init__(self, id: str, created_at: int, evidence: str, body: str) -> None:
        self.id = id
        self.created_at = created_at
        self.body: dict[str, Any] = json.loads(body)
        self.evidence: dict[str, Any] = json.loads(evidence) if evidence != "{}" else {}

    @property
    def line(self) -> str:
        """As it is shown: made when the rule was written, and one line whatever happened to it since."""
        if self.is_observation and "failed" not in self.body:
            # A repair that an earlier version stored as a rule: the next drain converts it.
            return ""
        line = " ".join(str(self.body.get("line", "")).split())[:400]
        if self.body.get("source") == "denial" and _OUTPUT not in line:
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
        last = recent[-_PROVEN:] if isinstance(recent, list) else []
        is_proven = len(last) == _PROVEN and not any(one[1:] == [0.0] for one in last)
        return failures if isinstance(failures, int) and not is_proven else 0

    def names(self, field: str) -> list[str]:
        given = self.body.get(field)
        return [name for name in given if isinstance(name, str) and name] if isinstance(given, list) else []

    def text(self, field: str) -> str:
        given = self.body.get(field)
        return given if isinstance(given, str) else ""


class ReadOnlyRules:
    """An open store and the scopes of one project's rules in it."""

    def __init__(self, data_dir: DataDir, project: str) -> None:
        self._now = int(time.time() * 1_000_000)
        self._scopes: list[int] = []
        self._db = _connect(data_dir.db)
        try:
            if self._is_finished():
                select = (
                    "SELECT id FROM scope WHERE project IN (?, ?) AND kind IN ('rule', 'observation') AND user = ''"
                )
                self._scopes = [scope for (scope,) in self._fetch(select, (project, EVERYWHERE))]
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> ReadOnlyRules:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def list_newest(self) -> list[StoredRule]:
        """Return the newest rules of the project and of all projects."""
        where = "r.status = 'active' AND r.scope = ? AND r.session = ''"
        rules = [rule for scope in self._scopes for rule in self._select(where, (scope,), NEWEST)]
        return sorted(rules, key=lambda rule: (-rule.created_at, rule.id))[:NEWEST]

    def list_of_sessions(self, sessions: Sequence[str]) -> list[StoredRule]:
        """Return the rules that hold in these sessions alone."""
        where = f"r.session IN ({_marks(sessions)}) AND r.session <> '' AND {_ACTIVE}"
        return self._select(f"{where} AND {self._in_scope}", (*sessions, *self._scopes), NEWEST)

    def count(self) -> int:
        """Return how many rules there are, no longer counted above a thousand in one scope."""
        select = "SELECT count(*) FROM (SELECT 1 FROM record WHERE status = 'active' AND scope = ? LIMIT 1000)"
        return sum(self._fetch(select, (scope,))[0][0] for scope in self._scopes)

    def find_numbers(self, word: str) -> list[int]:
        """Return the numbers of the newest rules whose text holds a word, at most as many as are looked at."""
        scopes, quoted = " OR ".join(f"s{scope}" for scope in self._scopes), word.replace('"', '""')
        select = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
        query = (f'text : "{quoted}" AND scope : ({scopes})', _HITS)
        return [number for (number,) in self._fetch(select, query)] if scopes else []

    def get_numbered(self, numbers: Sequence[int]) -> list[StoredRule]:
        """Return the rules with these numbers that hold in all sessions."""
        best = numbers[:_BEST]
        return self._select(f"r.n IN ({_marks(best)}) AND {_ACTIVE} AND r.session = ''", best, _BEST)

    def get(self, ids: Sequence[str]) -> list[StoredRule]:
        """Return the rules with these ids that hold in all sessions, in the order given."""
        best = ids[:_BEST]
        where = f"r.id IN ({_marks(best)}) AND {_ACTIVE} AND r.session = '' AND {self._in_scope}"
        rules = {rule.id: rule for rule in self._select(where, (*best, *self._scopes), _BEST)}
        return [rules[id] for id in best if id in rules]

    @property
    def _in_scope(self) -> str:
        return f"+r.scope IN ({_marks(self._scopes)})"

    def _select(self, where: str, params: Sequence[Any], limit: int) -> list[StoredRule]:
        select = (
            "SELECT r.id, r.created_at, r.evidence, r.body FROM record r WHERE"
            f" {where} AND (r.valid_to IS NULL OR r.valid_to > ?) ORDER BY r.created_at DESC, r.id DESC LIMIT ?"
        )
        # Without a scope there is nothing to ask for, and perhaps no table yet to ask.
        rows = self._fetch(select, (*params, self._now, limit)) if self._scopes else []
        try:
            return [StoredRule(*row) for row in rows]
        except (ValueError, TypeError, RecursionError) as error:
            raise UnreadableStoreError("a rule in the store is damaged; run `claude-smart doctor`") from error

    def _fetch(self, select: str, params: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(select, params).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise UnreadableStoreError(f"memory.db: {error}") from error

    def _is_finished(self) -> bool:
        """Return whether the store is a finished one; False while somebody is just making it."""
        [(application,)] = self._fetch("PRAGMA application_id")
        [(version,)] = self._fetch("PRAGMA user_version")
        if application == version == 0 and not self._fetch("SELECT 1 FROM sqlite_master LIMIT 1"):
            return False
        if application != APPLICATION_ID:
            raise UnreadableStoreError("memory.db is not an alma database")
        if version != VERSION:
            older = "older" if version < VERSION else "newer"
            raise UnreadableStoreError(
                f"memory.db has format {version}, {older} than the {VERSION} that this hook reads"
            )
        return True


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _connect(path: str) -> sqlite3.Connection:
    try:
        is_quiet = not os.path.getsize(f"{path}-wal")
    except FileNotFoundError:
        is_quiet = True
    # As `urllib` would write it, which takes long to load.
    uri = path.replace("\\", "/") if os.name == "nt" else path
    uri = uri.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{'' if uri.startswith('/') else '/'}{uri}?mode=ro{'&immutable=1' if is_quiet else ''}"
    try:
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise UnreadableStoreError(f"memory.db cannot be opened: {error}") from error
    db.set_progress_handler(lambda: 1, _STEPS)
    return db


# -- the rules that Claude Code reads by itself: they are in every context and need not be shown again

_NAMES = ("CLAUDE.md", os.path.join(".claude", "CLAUDE.md"), "CLAUDE.local.md")


class HostRules:
    """The items of the lists in CLAUDE.md, of a folder and those above it, for comparison with rules."""

    __slots__ = ("_texts",)

    def __init__(self, folder: str) -> None:
        self._texts: set[str] = set()
        while folder:
            for name in _NAMES:
                path = os.path.join(folder, name)
                text = read_text(path)
                if "@AGENTS.md" in text:
                    text += "\n" + read_text(os.path.join(os.path.dirname(path), "AGENTS.md"))
                self._texts |= {_normalise_item(item) for item in _list_items(text)}
            above = os.path.dirname(folder)
            folder = "" if above == folder or os.path.lexists(os.path.join(folder, ".git")) else above

    def __contains__(self, rule: StoredRule) -> bool:
        return bool(self._texts) and _normalise_item(rule.text("rule")) in self._texts


def _list_items(text: str) -> list[str]:
    """Return the items of all lists outside of comments and code; an indented line goes on with the item above."""
    first, *rest = text.split("<!--")
    lines = "".join((first, *(part.partition("-->")[2] for part in rest))).splitlines()
    items: list[str] = []
    is_open = in_code = False
    for line in lines:
        content = line.strip()
        if content.startswith(("```", "~~~")):
            in_code = not in_code
        elif not in_code and content.startswith(("- ", "* ", "+ ")):
            items.append(content[2:])
            is_open = True
        elif is_open and content and line[0].isspace() and not in_code:
            items[-1] += f" {content}"
        else:
            is_open = False
    return items


def _normalise_item(item: str) -> str:
    """Return what an item tells to do, without its occasion, its reason and its Markdown."""
    text = item.strip()
    for mark in ("**", "__"):
        if text.startswith(mark) and f":{mark} " in text:
            text = text.partition(f":{mark} ")[2]
    text = text.partition(" *Why:* ")[0].replace("\\", "")
    return " ".join(text.split()).rstrip(".").casefold()
