"""Files of claude-smart 0.x: the database of its backend and the buffers of its sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.claude_smart.conftest import Person

NOW = "2026-05-01T12:00:00+00:00"
# The columns that are read and some of the others, as the backend creates them.
TABLES = """
CREATE TABLE user_playbooks (
    user_playbook_id INTEGER PRIMARY KEY, user_id TEXT, playbook_name TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL, content TEXT NOT NULL DEFAULT '', trigger TEXT, rationale TEXT, status TEXT);
CREATE TABLE agent_playbooks (
    agent_playbook_id INTEGER PRIMARY KEY, created_at TEXT NOT NULL, content TEXT NOT NULL DEFAULT '', trigger TEXT,
    rationale TEXT, playbook_status TEXT NOT NULL DEFAULT 'pending', status TEXT);
CREATE TABLE profiles (
    profile_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, content TEXT NOT NULL,
    expiration_timestamp INTEGER NOT NULL DEFAULT 4102444800, status TEXT, created_at TEXT NOT NULL);
"""


def make_database(path: Path, statements: str = TABLES, rules: Sequence[tuple[str, ...]] = ()) -> str:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)
        for rule in rules:
            names = "user_id, content, trigger, rationale, status, created_at"
            database.execute(
                f"INSERT INTO user_playbooks ({names}) VALUES (?, ?, ?, ?, nullif(?, ''), ?)", (*rule, NOW)
            )
        database.commit()
    return str(path)


@pytest.fixture
def folder(person: Person) -> str:
    return Path.cwd().name


def test_rules_of_this_folder_become_candidates(person: Person, tmp_path: Path, folder: str) -> None:
    path = make_database(
        tmp_path / "reflexio é#?.db",
        rules=[
            (folder, "Use pnpm, never npm", "installing packages", "the lock file is pnpm's", ""),
            (folder, "Use yarn", "", "", "archived"),
            ("other", "Use tabs", "", "", ""),
        ],
    )
    with closing(sqlite3.connect(path)) as database:
        values = f"('{NOW}', 'Never push to main', 'approved'), ('{NOW}', 'Skip the tests', 'rejected')"
        database.execute(f"INSERT INTO agent_playbooks (created_at, content, playbook_status) VALUES {values}")
        values = (
            f"('a', '{folder}', 'Prefers short answers', 4102444800, '{NOW}'), ('b', '{folder}', 'Old', 1, '{NOW}')"
        )
        database.execute(
            f"INSERT INTO profiles (profile_id, user_id, content, expiration_timestamp, created_at) VALUES {values}"
        )
        database.commit()
    out = person.types("import", path).out
    assert "Imported 3 new rules of 3.\n3 of them must be reviewed first" in out
    assert "For all your projects, not only this one; to remove one: claude-smart forget\n- Never push to main\n" in out
    assert "- Left out: 1 row of the folder 'other'. Import the file there too, or pass --all here." in out
    rules = {one["rule"]: one for one in person.types("export", "--json").json["rules"]}
    assert set(rules) == {"Use pnpm, never npm", "Never push to main", "Prefers short answers"}
    assert {one["status"] for one in rules.values()} == {"candidate"}
    assert rules["Use pnpm, never npm"]["trigger"] == "installing packages"
    assert (rules["Never push to main"]["reach"], rules["Use pnpm, never npm"]["reach"]) == ("always", "project")
    assert person.types("import", path).out.startswith("Imported 0 new rules of 3.")
    assert person.types("import", path, "--all", "--json").json["new"] == 1


def test_an_older_database_with_fewer_columns_is_read(person: Person, tmp_path: Path) -> None:
    tables = "CREATE TABLE user_playbooks (content TEXT); INSERT INTO user_playbooks VALUES ('Use tabs')"
    assert "Imported 1 new rule of 1." in person.types("import", make_database(tmp_path / "old.db", tables)).out


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"SQLite format 3\0 and nothing", "cannot be read as a database"), (b"", "it has no table user_playbooks")],
    ids=["damaged", "another"],
)
def test_another_database_is_refused_with_the_reason(
    person: Person, tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "some.db"
    if content:
        path.write_bytes(content)
    else:
        make_database(path, "CREATE TABLE notes (text TEXT)")
    refused = person.types("import", str(path))
    assert (refused.code, reason in refused.err, "--from-history" in refused.err) == (1, True, True)


def test_turns_that_were_never_sent_are_read_from_a_buffer(person: Person, tmp_path: Path, folder: str) -> None:
    rows = [
        {"ts": 1, "role": "User", "content": "always use tabs", "user_id": folder},
        {"published_up_to": 1},
        {"ts": 3, "role": "User", "content": "no, use pnpm instead of npm", "user_id": folder},
        {"ts": 4, "role": "Assistant_tool", "tool_name": "Bash"},
        {"ts": 5, "role": "Assistant", "content": "I always use yarn"},
        {"ts": 6, "role": "User", "content": "never use sudo", "user_id": "other"},
        {"ts": 7, "role": "User", "content": 7},
    ]
    buffer = tmp_path / "abc.jsonl"
    buffer.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "{half")
    out = person.types("import", str(buffer)).out
    assert "Imported 1 new rule of 1.\n1 of them must be reviewed first" in out
    assert "1 row of the folder 'other'" in out
    [rule] = person.types("export", "--json").json["rules"]
    assert ("pnpm" in rule["rule"], rule["status"], rule["said"]) == (True, "candidate", rows[2]["content"])
