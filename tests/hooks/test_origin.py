"""Which program brought an event, and which commands of an agent may be running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alma import people
from alma.hooks.origin import find_running

from .conftest import HOOK, Host

pytestmark = pytest.mark.no_person


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
