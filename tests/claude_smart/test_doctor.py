"""`claude-smart doctor`: it finds what is wrong, names it, and goes on."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.persons import not_below_an_agent

from .conftest import Person

pytestmark = pytest.mark.system


def looked(person: Person) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in person.types("doctor", "--json").json["steps"]}


@not_below_an_agent
def test_the_chain_is_proved_and_leaves_nothing(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    found = looked(person)
    for name in ("a hook records", "the turn is imported", "a rule is learned", "the next session sees"):
        assert next(step for full, step in found.items() if full.startswith(name))["ok"]
    assert found["plugin"]["fix"] == "claude-smart install"
    assert found["home"]["ok"]
    # A process that a hook had started would make the folder again.
    time.sleep(1.0)
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of a process is known on Linux only")
def test_run_by_an_agent_it_does_not_report_as_a_fault_that_no_rule_is_learned(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDECODE": "1"}
    command = [sys.executable, "-m", "claude_smart", "doctor", "--json"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    found = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    step = found["a rule is learned"]
    assert step["ok"]
    assert step["detail"].startswith("not tested, because Claude Code runs this command")
    assert found["the next session sees the rule"]["ok"]


def test_a_damaged_store_stops_nothing(person: Person) -> None:
    person.talks("s1", "hello there")
    Path(person.place.db).write_bytes(b"no database at all" * 400)
    found = looked(person)
    assert not found["store"]["ok"]
    assert "clear-all --everywhere" in found["store"]["fix"]
    assert "`alma doctor`" not in found["store"]["detail"]
    assert found["log"]["ok"]


def test_a_store_of_a_later_version_is_not_to_be_erased(person: Person) -> None:
    person.types("tag", "Use tabs")
    with closing(sqlite3.connect(person.place.db)) as db, db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "update this one" in looked(person)["store"]["fix"]


def test_a_full_disk_is_told_as_one(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.types("tag", "Use tabs")
    monkeypatch.setattr("alma.doctor._NO_ROOM", 1 << 62)
    assert looked(person)["home"]["fix"] == "free disk space"


@pytest.mark.skipif(os.name == "nt", reason="has other modes")
def test_what_others_can_read_is_found_also_where_the_journals_are_elsewhere(person: Person, tmp_path: Path) -> None:
    assert person.types("config", "state_dir", str(tmp_path / "else")).code == 0
    person.types("tag", "Use tabs")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "s1.jsonl").touch(0o644)
    (tmp_path / "else" / "theirs.txt").touch(0o644)
    told = f"{tmp_path / 'else' / 's1.jsonl'} is readable by other users (mode 0644)"
    assert looked(person)["home"]["detail"] == told


def test_a_pause_is_reported(person: Person) -> None:
    assert "recording" not in looked(person)
    person.types("pause")
    step = looked(person)["recording"]
    assert step["ok"]
    assert step["detail"].endswith("Resume: claude-smart resume")


def test_damaged_settings_are_told(person: Person) -> None:
    person.home.mkdir(0o700)
    Path(person.place.config).write_text('{"daily_calls": "many"}')
    Path(person.place.config).chmod(0o600)
    assert "daily_calls" in looked(person)["settings"]["detail"]
    Path(person.place.config).write_text("{}")
    Path(person.place.paused).write_text("[")
    assert not looked(person)["settings"]["ok"]


def test_journals_that_nobody_took_in_are_told(person: Person) -> None:
    person.talks("s1", "hello there")
    assert looked(person)["journals"]["ok"]
    os.utime(person.place.journal_file("s1"), (0, 0))
    assert "claude-smart learn" in looked(person)["journals"]["fix"]


def test_trouble_of_last_month_is_over(person: Person) -> None:
    person.home.mkdir(0o700)
    log = Path(person.place.log)
    log.touch(0o600)
    log.write_text("2020-01-01T00:00:00Z Stop something\n")
    assert looked(person)["log"]["ok"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 6 * 86_400))
    log.write_text(f"2020-01-01T00:00:00Z Stop something\n{now} Stop lately\n")
    assert looked(person)["log"]["detail"].startswith("1 problem in ")


def test_a_key_of_the_journals_that_cannot_be_used_is_named_with_its_fix(person: Person) -> None:
    person.talks("s1", "hello there")
    assert "key" not in looked(person)
    key = Path(person.place.key)
    key.write_bytes(b"short")
    assert looked(person)["key"]["fix"].startswith(f"rm '{key}'")
    key.unlink()
    os.mkfifo(key)
    assert not looked(person)["key"]["ok"]


def test_what_an_earlier_version_left_is_named_and_is_no_fault(person: Person, tmp_path: Path) -> None:
    rows = [
        {"ts": 1, "role": "User", "content": "run the tests"},
        {"ts": 2, "role": "Assistant", "content": "done"},
        {"published_up_to": 2},
        {"ts": 3, "role": "User", "content": "no, always pass --run"},
        {"ts": 4, "role": "Assistant_tool", "tool_name": "Bash"},
    ]
    buffer = Path(person.place.sessions, "abc.jsonl")
    buffer.parent.mkdir(parents=True)
    buffer.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    day_ago = time.time() - 86_400
    os.utime(buffer, (day_ago, day_ago))
    database = tmp_path / ".reflexio/data/reflexio.db"
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("CREATE TABLE user_playbooks (content TEXT)")
    found = looked(person)
    assert found["journals"]["ok"]
    assert found["earlier"]["ok"]
    for part in ("1 buffer with 1 unpublished turn", str(database), "claude-smart import FILE", "learn --from-history"):
        assert part in found["earlier"]["detail"]
    assert "0 not imported yet" in person.types("status").out
