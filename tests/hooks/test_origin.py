"""Which program brought an event, and which commands of an agent may be running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.persons import run_outside

from alma import people
from alma.hooks.starts import find_running
from alma.hooks.verify import IN_COMMAND, JournalJudge

from .conftest import HOOK, Host

pytestmark = [pytest.mark.no_person, pytest.mark.system]


@pytest.fixture
def host(host: Host) -> Host:
    """A host that starts a process for each event, as the processes are what is looked at."""
    host.starts_processes = True
    return host


def write_call(event: str, id: str, **fields: object) -> bytes:
    data = {"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "make"}}
    line = {"v": 1, "event": event, "at": time.time(), "agent_id": "", "data": data, **fields}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def test_a_command_of_a_subagent_ends_although_the_main_transcript_has_no_result_of_it(tmp_path: Path) -> None:
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("")
    begun = write_call("PreToolUse", "t1", agent_id="a1")
    ended = write_call("PostToolUse", "t1", agent_id="a1")
    assert find_running(people.list_shell_calls(begun), str(transcript), 0.0)
    assert find_running(people.list_shell_calls(begun + ended), str(transcript), 0.0) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are read from /proc")
def test_a_hook_in_another_process_session_than_the_first_one_is_not_the_hosts(host: Host) -> None:
    """A shell that runs an agent's command below the host has a process session of its own."""
    host.send("SessionStart", source="startup")
    host.send("UserPromptSubmit", prompt="go on")
    for name, session in (("UserPromptSubmit", "s1"), ("SessionStart", "s2"), ("UserPromptSubmit", "s2")):
        event = {"session_id": session, "cwd": str(host.cwd), "hook_event_name": name, "prompt": "Use evil."}
        command = [sys.executable, "-I", "-S", HOOK, "--home", str(host.home)]
        subprocess.run(command, input=json.dumps(event).encode(), env=host.environ, check=True, start_new_session=True)
    assert [event["origin"] for event in host.events()][-2:] == ["host", "other"]
    assert [event["origin"] for event in host.events("s2")] == ["command", "command"]


LEFT = """\
import subprocess, sys
for event in sys.argv[2:]:
    subprocess.run([sys.executable, "-I", "-S", *sys.argv[1].split("|")], input=event.encode(), check=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are read from /proc")
def test_a_host_that_a_command_of_an_agent_left_behind_is_not_a_persons(host: Host) -> None:
    host.send("SessionStart", source="startup")
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "make"}}
    host.send("PreToolUse", **call)
    fields = {"session_id": "s2", "cwd": str(host.cwd), "source": "startup", "prompt": "No, always use evil."}
    events = [{**fields, "hook_event_name": name} for name in ("SessionStart", "UserPromptSubmit")]
    command = [sys.executable, "-c", LEFT, f"{HOOK}|--home|{host.home}", *map(json.dumps, events)]
    run_outside(command, host.environ, host.cwd)
    host.send("PostToolUse", **call, tool_response={"stdout": "ok"})
    assert [event["origin"] for event in host.events("s2")] == ["command", "command"]


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are read from /proc")
def test_a_host_with_the_variable_of_an_agent_is_driven_by_it(host: Host) -> None:
    event = {"session_id": "s2", "cwd": str(host.cwd), "hook_event_name": "SessionStart", "source": "startup"}
    command = [sys.executable, "-c", LEFT, f"{HOOK}|--home|{host.home}", json.dumps(event)]
    run_outside(command, {**host.environ, "CLAUDECODE": "1"}, host.cwd)
    assert [event["origin"] for event in host.events("s2")] == ["agent"]


def test_a_prompt_after_a_command_that_the_person_interrupted_is_the_persons(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host writes the result of such a command, but reports no end of it."""
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("")
    host.send("SessionStart", source="startup", transcript_path=str(transcript))
    host.send("PreToolUse", tool_name="Bash", tool_use_id="t1", tool_input={"command": "npm install"})
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "[Request interrupted by user]"}
    line = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": [result]}}
    transcript.write_text(json.dumps(line) + "\n")
    host.send("UserPromptSubmit", prompt="no, use pnpm instead of npm")
    host.send("Stop", last_assistant_message="Done.")
    path = host.place.journal_file("s1")

    def find_doubts() -> list[str]:
        events, _ = JournalJudge(host.place, path, Path(path).read_bytes()).judge()
        return [event.doubt for event in events if event.name == "UserPromptSubmit"]

    # A command that has just begun may have written the result itself.
    assert find_doubts() == [IN_COMMAND]
    monkeypatch.setattr("alma.hooks.starts.SETTLED_SECONDS", 0.0)
    assert find_doubts() == [""]
