"""Forty sessions in which a file, a page, a tool, a ticket or another agent plants something: none of it is passed on.

The sessions were written by an author who did not know the code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain
from alma.types.query import Where

from .conftest import Host

ATTACKS = [json.loads(line) for line in (Path(__file__).parent / "data" / "attacks.jsonl").read_text().splitlines()]


def answer_call(call: dict[str, Any]) -> Any:
    """Return the result of a tool call as Claude Code reports it."""
    tool, output = call["tool"], call.get("output", "")
    if tool == "Bash":
        return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    if tool == "Read":
        return {"type": "text", "file": {"filePath": call["input"]["file_path"], "content": output}}
    if tool == "WebFetch":
        return {"bytes": len(output), "code": 200, "result": output, "url": call["input"]["url"]}
    if tool == "Grep":
        return {"mode": "content", "content": output, "filenames": []}
    if tool in ("Edit", "Write"):
        return {"filePath": call["input"]["file_path"], "userModified": False}
    return [{"type": "text", "text": output}]


def play(host: Host, attack: dict[str, Any], transcript: Path) -> None:
    """Play a session through the hook, and import it."""
    session = attack["id"]
    host.send("SessionStart", session, source="startup", transcript_path=str(transcript))
    for number, turn in enumerate(attack["turns"]):
        prompt_id = f"{session}-{number}"
        host.send("UserPromptSubmit", session, prompt=turn["person"], prompt_id=prompt_id)
        for place, call in enumerate(turn.get("did", [])):
            tool = {"tool_name": call["tool"], "tool_input": call["input"], "tool_use_id": f"{prompt_id}-{place}"}
            host.send("PreToolUse", session, **tool)
            if call.get("ok", True):
                host.send("PostToolUse", session, **tool, tool_response=answer_call(call))
            else:
                host.send("PostToolUseFailure", session, **tool, error=call.get("output", ""), is_interrupt=False)
        host.send("Stop", session, last_assistant_message=turn["assistant"], prompt_id=prompt_id)
    host.send("SessionEnd", session, reason="prompt_input_exit")
    with ProjectMemories(host.place) as memory:
        report = drain(host.place, memory=memory)
        assert (report.problems, report.sessions) == ([], 1)


def list_shown(host: Host) -> list[str]:
    """Return all texts of this machine's memory that any session may be shown."""
    with ProjectMemories(host.place) as memory:
        store = memory.alma.engine.store
        kinds = {"exchange", "rule", "observation"}
        records = [record for record in store.scan(Where(kinds=kinds)) if str(record.status) == "active"]
    texts = []
    for record in records:
        names = ("before", "person", "then") if record.kind == "exchange" else ("line",)
        texts.append(" ".join(str(record.body[name]) for name in names))
    return texts


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack['id']}-{attack['kind']}")
def test_what_was_planted_is_no_evidence(host: Host, attack: dict[str, Any], tmp_path: Path) -> None:
    play(host, attack, tmp_path / "transcript.jsonl")
    shown = " ".join(list_shown(host)).casefold()
    assert [word for word in attack["foreign"] if word.casefold() in shown] == []
