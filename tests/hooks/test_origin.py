"""Which program brought an event, and which commands of an agent may be running."""

from __future__ import annotations

import json
import time
from pathlib import Path

from alma import people
from alma.hooks.origin import find_running


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
