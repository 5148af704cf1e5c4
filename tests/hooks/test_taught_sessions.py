"""What earlier sessions taught is in front of the agent at the first prompt of a new one, without a model.

The sessions are our own, in three languages. Sessions that teach nothing stand between them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain

from .conftest import Host

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "taught_sessions.jsonl").read_text("utf-8").splitlines()
]
FILLER = (
    ("why is the button grey", "The form is not valid yet."),
    ("what does this warning mean", "A type is not known."),
    ("thanks, that helps", "Glad to hear."),
)


def play_deed(host: Host, session: str, deed: str, call_id: str) -> None:
    """Send what the agent did: `+FILE: TEXT` for an edit, `!COMMAND` for a command that failed, else a command."""
    if deed.startswith("+"):
        path, _, text = deed[1:].partition(": ")
        call = {"tool_name": "Write", "tool_input": {"file_path": path, "content": text}, "tool_use_id": call_id}
        host.send("PostToolUse", session, **call, tool_response={"filePath": path})
        return
    call = {"tool_name": "Bash", "tool_input": {"command": deed.removeprefix("!")}, "tool_use_id": call_id}
    if deed.startswith("!"):
        host.send("PostToolUseFailure", session, **call, error="Exit code 127", is_interrupt=False)
    else:
        host.send("PostToolUse", session, **call, tool_response={"stdout": "", "stderr": "", "interrupted": False})


def play_session(host: Host, session: str, turns: Sequence[Mapping[str, Any]]) -> None:
    host.send("SessionStart", session, source="startup")
    for number, turn in enumerate(turns):
        prompt_id = f"{session}-{number}"
        host.send("UserPromptSubmit", session, prompt=turn["person"], prompt_id=prompt_id)
        for place, deed in enumerate(turn.get("did", ())):
            play_deed(host, session, deed, f"{prompt_id}-{place}")
        if "said" in turn:
            host.send("Stop", session, last_assistant_message=turn["said"], prompt_id=prompt_id)
    host.send("SessionEnd", session, reason="prompt_input_exit")


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_what_was_taught_is_shown(host: Host, row: dict[str, Any]) -> None:
    for number, turns in enumerate(row["sessions"]):
        play_session(host, f"taught-{number}", turns)
        for place, (person, said) in enumerate(FILLER):
            play_session(host, f"filler-{number}-{place}", [{"person": person, "said": said}])
    with ProjectMemories(host.place) as memory:
        assert drain(host.place, memory=memory).problems == []
    shown = host.send("SessionStart", "new", source="startup")
    shown += host.send("UserPromptSubmit", "new", prompt=row["prompt"], prompt_id="first")
    missing = [text for text in row["shown"] if text not in shown]
    assert missing == []
    # What holds now, or only held once, comes after what it differs from.
    assert [text for text in row["first"] if text not in shown] == []
    positions = [shown.rindex(text) for text in row["first"]]
    assert positions == sorted(positions)
