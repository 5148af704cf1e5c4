"""Import memories from alma-memory 0.x: `python examples/migrate/import_alma_0.py old-alma.db`.

Outcomes are recorded again, so that heuristics and anti-patterns form from them. Running it again adds nothing.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from alma import ALMA, ALMAError, AntiPattern, Heuristic, ScopeError

Row = dict[str, Any]

TABLES = ("outcomes", "domain_knowledge", "preferences", "heuristics", "anti_patterns")
_BATCH = 200
_SAME_AS_EMPTY = (None, "", "general")


class OldMemory:
    """What alma-memory 0.x stored: a SQLite database, or the folder of its file storage. It is only read."""

    def __init__(self, path: Path, project: str | None) -> None:
        self.project = project
        self.tables: dict[str, list[Row]] = {}
        if path.is_dir():
            for table in TABLES:
                file = path / f"{table}.json"
                if file.is_file():
                    self.tables[table] = json.loads(file.read_text(encoding="utf-8"))
        elif path.is_file():
            self._read_database(path)
        missing = [table for table in TABLES if table not in self.tables]
        if missing:
            raise SystemExit(f"{path} holds no memories of alma-memory 0.x: it has no {', '.join(missing)}")

    def _read_database(self, path: Path) -> None:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            try:
                names = [row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                for name in names:
                    self.tables[name] = [
                        dict(row) for row in database.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
                    ]
            except sqlite3.DatabaseError as error:
                raise SystemExit(f"{path} cannot be read: {error}") from None

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table, oldest first; only those of the project if there is one."""
        rows = self.tables[table]
        if self.project is None:
            return rows
        return [row for row in rows if row.get("project_id", self.project) == self.project]

    def count_others(self) -> dict[str, int]:
        """Return the number of rows in each table that has no place here."""
        internal = ("embeddings", "sqlite_sequence", "_schema_versions", *TABLES)
        return {name: len(rows) for name, rows in self.tables.items() if rows and name not in internal}


def keep_metadata(row: Row) -> dict[str, Any]:
    """Return the row's metadata with its old id and date."""
    metadata = row.get("metadata") or {}
    if isinstance(metadata, str):
        metadata = json.loads(metadata)
    dates = ("timestamp", "last_verified", "created_at")
    recorded_at = next((row[name] for name in dates if row.get(name)), None)
    return {**metadata, "alma_0_id": row["id"], "recorded_at": recorded_at}


class Importer:
    """Adds old memories, and notes what it changes or leaves out."""

    def __init__(self, alma: ALMA, old: OldMemory) -> None:
        self.alma = alma
        self.old = old
        self.notes: Counter[str] = Counter()  # What is recorded differently.
        self.left_out: Counter[str] = Counter()

    def may_learn(self, agent: str, category: str) -> bool:
        """Return whether the configuration lets an agent learn a category."""
        try:
            return self.alma.engine.scopes.of(agent).is_allowed(category)
        except ScopeError:
            return True  # An undeclared agent is refused with its own message.

    def read_outcome(self, row: Row) -> Row:
        """Return the arguments of `learn` for an old outcome."""
        metadata = keep_metadata(row)
        task_type = row.get("task_type")
        if task_type in _SAME_AS_EMPTY:
            task_type = None
        elif not self.may_learn(row["agent"], str(task_type)):
            # 0.x derived it from the words of the task, and did not compare it with what the agent may learn.
            metadata["alma_0_task_type"] = task_type
            self.notes[f"task type {task_type!r} is not one that {row['agent']!r} may learn: recorded without it"] += 1
            task_type = None
        return {
            "agent": row["agent"],
            "task": row["task_description"],
            "outcome": "success" if row.get("success") else "failure",
            "strategy_used": row.get("strategy_used") or "unknown",
            "task_type": task_type,
            "duration_ms": row.get("duration_ms"),
            "error_message": row.get("error_message"),
            "feedback": row.get("user_feedback"),
            "idempotency_key": f"alma-0:{row['id']}",
            "metadata": metadata,
        }

    def read_facts(self) -> list[Row]:
        """Return the arguments of `add_many` for facts and preferences."""
        memories = []
        for row in self.old.rows("domain_knowledge"):
            fact = {"agent": row["agent"], "domain": row.get("domain") or "general", "fact": row["fact"]}
            memories.append({"type": "domain_knowledge", **fact, "metadata": keep_metadata(row)})
        for row in self.old.rows("preferences"):
            wish = {"category": row.get("category") or "general", "preference": row["preference"]}
            wish |= {"user_id": row["user_id"], "metadata": keep_metadata(row)}
            memories.append({"type": "user_preference", **wish})
        return memories

    def read_lessons(self) -> list[Row]:
        """Return the arguments of `add_many` for the lessons that did not form from the outcomes again."""
        patterns = {one.pattern for one in self.alma.list(AntiPattern, limit=10_000)}
        strategies = {one.strategy for one in self.alma.list(Heuristic, limit=10_000)} | patterns
        # 0.x stored a heuristic again each time it counted: the last row has the final counts.
        newest = {row["strategy"]: row for row in self.old.rows("heuristics")}
        lessons = []
        for strategy, row in newest.items():
            if strategy not in strategies:
                lesson = {"agent": row["agent"], "condition": row["condition"], "strategy": strategy}
                lessons.append({"type": "heuristic", **lesson, "source": "import", "metadata": keep_metadata(row)})
        for row in {row["pattern"]: row for row in self.old.rows("anti_patterns")}.values():
            if row["pattern"] not in patterns:
                lesson = {
                    "agent": row["agent"],
                    "pattern": row["pattern"],
                    "why_bad": row.get("why_bad") or "it failed",
                }
                alternative = row.get("better_alternative") or ""
                if not alternative.startswith("[To be determined"):
                    lesson["better_alternative"] = alternative
                lessons.append({"type": "anti_pattern", **lesson, "source": "import", "metadata": keep_metadata(row)})
        return lessons

    def add(self, write: Callable[[Sequence[Row]], object], rows: Sequence[Row]) -> int:
        """Store rows in batches and return how many were stored; a row that is refused does not stop the others."""
        stored = 0
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            try:
                write(batch)
                stored += len(batch)
            except ALMAError:
                stored += sum(self._add_one(write, row) for row in batch)
        return stored

    def _add_one(self, write: Callable[[Sequence[Row]], object], row: Row) -> bool:
        try:
            write([row])
        except ALMAError as error:
            kind = row.get("type", "outcome").replace("_", " ")
            self.left_out[f"{kind}: {error}"] += 1
            return False
        return True

    def run(self) -> dict[str, int]:
        """Import everything; return how many outcomes and other memories were taken in."""
        outcomes = self.add(self.alma.learn_many, [self.read_outcome(row) for row in self.old.rows("outcomes")])
        others = self.add(self.alma.add_many, self.read_facts())
        others += self.add(self.alma.add_many, self.read_lessons())
        return {"outcomes": outcomes, "other memories": others}


def main() -> int:
    parser = argparse.ArgumentParser(description="Add what alma-memory 0.x stored in SQLite or in files.")
    parser.add_argument("path", type=Path, help="the old database, or the folder of a file storage; it is only read")
    parser.add_argument("--config", default=".alma/config.yaml")
    parser.add_argument("--project", help="only this project of the old database")
    options = parser.parse_args()
    old = OldMemory(options.path, options.project)
    try:
        with ALMA.from_config(options.config) as alma:
            importer = Importer(alma, old)
            counts = importer.run()
            total = alma.get_stats()["total_count"]
    except ALMAError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("read " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    print(f"stored now: {total} memories")
    for note, count in importer.notes.items():
        print(f"changed: {count} × {note}")
    for name, count in old.count_others().items():
        print(f"not imported: {count} rows of {name}")
    for reason, count in importer.left_out.items():
        print(f"left out: {count} × {reason}", file=sys.stderr)
    return 1 if importer.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
