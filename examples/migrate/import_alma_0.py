"""Import memories from alma-memory 0.x: `python examples/migrate/import_alma_0.py old/alma.db`.

Outcomes are recorded again, so that heuristics and anti-patterns form from them. Running it again adds nothing.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from alma import ALMA, AntiPattern, Heuristic


def read_rows(file: Path, table: str, project: str | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dictionaries, oldest first; only those of `project` if it is given."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid"):
            if project in (None, dict(row).get("project_id", project)):
                yield dict(row)


def keep_metadata(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row's metadata with its old id and date."""
    dates = ("timestamp", "last_verified", "created_at")
    recorded_at = next((row[name] for name in dates if row.get(name)), None)
    return {**json.loads(row.get("metadata") or "{}"), "alma_0_id": row["id"], "recorded_at": recorded_at}


def import_database(alma: ALMA, file: Path, project: str | None) -> dict[str, int]:
    """Add outcomes, facts, preferences, and the heuristics and anti-patterns that do not form from the outcomes."""
    outcomes = [
        {
            "agent": row["agent"],
            "task": row["task_description"],
            "outcome": "success" if row["success"] else "failure",
            "strategy_used": row["strategy_used"] or "unknown",
            "task_type": None if row["task_type"] == "general" else row["task_type"],
            "duration_ms": row["duration_ms"],
            "error_message": row["error_message"],
            "feedback": row["user_feedback"],
            "idempotency_key": f"alma-0:{row['id']}",
            "metadata": keep_metadata(row),
        }
        for row in read_rows(file, "outcomes", project)
    ]
    alma.learn_many(outcomes)
    memories: list[dict[str, Any]] = []
    for row in read_rows(file, "domain_knowledge", project):
        fact = {"agent": row["agent"], "domain": row["domain"] or "general", "fact": row["fact"]}
        memories.append({"type": "domain_knowledge", **fact, "metadata": keep_metadata(row)})
    for row in read_rows(file, "preferences", None):
        preference = {"category": row["category"] or "general", "preference": row["preference"]}
        memories.append(
            {"type": "user_preference", "user_id": row["user_id"], **preference, "metadata": keep_metadata(row)}
        )
    strategies = {one.strategy for one in alma.list(Heuristic, limit=10_000)}
    patterns = {one.pattern for one in alma.list(AntiPattern, limit=10_000)}
    for row in read_rows(file, "heuristics", project):
        if row["strategy"] not in strategies | patterns:
            heuristic = {"agent": row["agent"], "condition": row["condition"], "strategy": row["strategy"]}
            memories.append({"type": "heuristic", **heuristic, "source": "import", "metadata": keep_metadata(row)})
    for row in read_rows(file, "anti_patterns", project):
        if row["pattern"] not in patterns:
            pattern = {"agent": row["agent"], "pattern": row["pattern"], "why_bad": row["why_bad"] or "it failed"}
            alternative = row["better_alternative"] or ""
            if not alternative.startswith("[To be determined"):
                pattern["better_alternative"] = alternative
            memories.append({"type": "anti_pattern", **pattern, "source": "import", "metadata": keep_metadata(row)})
    alma.add_many(memories)
    return {"outcomes": len(outcomes), "other memories": len(memories)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Add what alma-memory 0.x stored in SQLite.")
    parser.add_argument("file", type=Path, help="the old database; it is only read")
    parser.add_argument("--config", default=".alma/config.yaml")
    parser.add_argument("--project", help="only this project of the old database")
    options = parser.parse_args()
    with ALMA.from_config(options.config) as alma:
        counts = import_database(alma, options.file, options.project)
        print("read " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        print(f"stored now: {alma.get_stats()['total_count']} memories")


if __name__ == "__main__":
    main()
