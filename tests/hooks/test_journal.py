from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alma.coding import events
from alma.hooks import journal
from alma.hooks.paths import DataDir

from .conftest import Host


def event(name: str = "Stop", **data: Any) -> dict[str, Any]:
    return {"v": 1, "id": "i", "at": 1.0, "event": name, "session": "s", "project": "p", "data": data}


@pytest.fixture
def place(tmp_path: Path) -> DataDir:
    return DataDir(str(tmp_path / "home"))


def lines(place: DataDir, session: str = "s") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(place.journal_file(session)).read_bytes().split(b"\n") if line]


def test_the_first_line_names_the_file(place: DataDir) -> None:
    journal.append_line(place, "s", event())
    journal.append_line(place, "s", event())
    header, *rest = lines(place)
    assert header["event"] == "Journal"
    assert len(header["id"]) == 32
    assert [line["event"] for line in rest] == ["Stop", "Stop"]


def test_only_the_owner_can_read_it(place: DataDir) -> None:
    journal.append_line(place, "s", event())
    path = Path(place.journal_file("s"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_torn_line_is_closed(place: DataDir) -> None:
    journal.append_line(place, "s", event())
    path = Path(place.journal_file("s"))
    path.write_bytes(path.read_bytes() + b'{"v":1,"id":"torn')
    journal.append_line(place, "s", event(text="whole"))
    last, torn = (path.read_bytes().split(b"\n")[i] for i in (-2, -3))
    assert json.loads(last)["data"] == {"text": "whole"}
    assert torn == b'{"v":1,"id":"torn'


def test_an_empty_file_gets_its_first_line(place: DataDir) -> None:
    """Whoever made it was killed before writing."""
    place.create_folders()
    Path(place.journal_file("s")).touch()
    journal.append_line(place, "s", event())
    assert [line["event"] for line in lines(place)] == ["Journal", "Stop"]


def test_over_its_quota_it_takes_what_people_said_and_when_commands_ran(place: DataDir) -> None:
    journal.append_line(place, "s", event("PostToolUse", output="x" * 1_100_000), 1)
    journal.append_line(place, "s", event("PostToolUse", output="more"), 1)
    journal.append_line(place, "s", event("UserPromptSubmit", prompt="still"), 1)
    given = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "long"}}
    journal.append_line(place, "s", event("PreToolUse", **given), 1)
    journal.append_line(place, "s", event("SubagentStop", agent_type="other"), 1)
    kept = [(line["event"], line.get("data")) for line in lines(place)[2:]]
    call = {"tool_name": "Bash", "tool_use_id": "t1"}
    assert kept == [("PostToolUse", {}), ("UserPromptSubmit", {"prompt": "still"}), ("PreToolUse", call)]
    assert Path(place.log).read_text().count("exceeds 1 MB") == 1


def test_half_a_surrogate_is_replaced(place: DataDir) -> None:
    journal.append_line(place, "s", event(text="a\ud800b"))
    assert lines(place)[1]["data"] == {"text": "a?b"}


def test_what_a_transcript_tells_is_cleaned_too(place: DataDir) -> None:
    told = events.Event("i", "Interrupted", 2.0, data={"text": "<private>x</private>password=hunter2xx99"})
    journal.append_event(place, "s", told, "p", "transcript")
    [found] = events.parse_journal(Path(place.journal_file("s")).read_bytes())[0][1:]
    assert (found.name, found.at, found.project) == ("Interrupted", 2.0, "p")
    assert found.data == {"text": "password=[REDACTED:password]"}


def test_a_full_disk_is_an_error(place: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.os, "write", lambda file, data: len(data) // 2)
    with pytest.raises(OSError, match="check the free disk space"):
        journal.append_line(place, "s", event())


def test_parents_are_followed(place: DataDir) -> None:
    for session, parent in (("a", None), ("b", "a"), ("c", "b")):
        journal.append_line(place, session, event("SessionStart", **({"parent": parent} if parent else {})))
    assert journal.list_parents(place, "c") == ["b", "a"]
    assert journal.list_parents(place, "a") == []
    assert journal.list_parents(place, "unknown") == []


def test_parents_that_go_in_a_circle_end(place: DataDir) -> None:
    for session, parent in (("a", "b"), ("b", "a")):
        journal.append_line(place, session, event("SessionStart", parent=parent))
    assert len(journal.list_parents(place, "a")) <= 2


WRITER = """
import sys
import time
from alma.hooks import journal
from alma.hooks.paths import DataDir
place, name = DataDir(sys.argv[1]), sys.argv[2]
for i in range(40):
    data = {"text": name * (1 + i * 97 % 5000)}
    line = {"v": 1, "id": f"{name}{i}", "at": 1.0, "event": "Stop", "session": "s", "data": data}
    journal.append_line(place, "s", line)
"""


@pytest.mark.system
def test_ten_processes_tear_no_line(place: DataDir) -> None:
    commands = [[sys.executable, "-c", WRITER, place.home, name] for name in "abcdefghij"]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in running] == [0] * 10
    found, damaged = events.parse_journal(Path(place.journal_file("s")).read_bytes())
    assert damaged == []
    assert found[0].name == "Journal"
    told = [one for one in found if one.name != "Journal"]
    assert sorted(one.id for one in told) == sorted(f"{name}{i}" for name in "abcdefghij" for i in range(40))
    assert all(set(one.data["text"]) == {one.id[0]} for one in told)


def test_an_event_needs_only_its_names(place: DataDir) -> None:
    told = SimpleNamespace(id="i", name="Rejected", at=1.0, cwd="", agent_id="", data={"text": "no"})
    journal.append_event(place, "s", told, "p", "transcript")
    assert lines(place)[1]["event"] == "Rejected"


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_a_pipe_or_a_device_in_place_of_the_key_does_not_delay_a_hook(host: Host) -> None:
    os.mkfifo(host.place.key)
    host.send("UserPromptSubmit", prompt="hello")
    os.unlink(host.place.key)
    os.symlink("/dev/tty", host.place.key)
    host.send("UserPromptSubmit", prompt="again")
    assert [event["data"]["prompt"] for event in host.events()] == ["hello", "again"]
    assert "timed out" not in host.log()


@pytest.mark.system
@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
@pytest.mark.parametrize("name", ["config.json", "paused.json", "agents/s1.json"])
def test_a_pipe_in_place_of_a_file_does_not_delay_a_hook(host: Host, name: str) -> None:
    pipe = host.home / name
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    event = {"session_id": "s1", "cwd": str(host.cwd), "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    began = time.monotonic()
    assert host.raw(json.dumps(event).encode()).returncode == 0
    assert time.monotonic() - began < 4
    assert "timed out" not in host.log()
