"""The transcripts of earlier sessions."""

from __future__ import annotations

import json
import os
from pathlib import Path

from alma.coding.transcript import TranscriptFile, list_transcripts


def put(folder: Path, name: str, modified: float, text: str | None = None, cwd: str = "/w/app") -> Path:
    file = folder / "projects" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"type": "mode"}) + "\n" + json.dumps({"cwd": cwd, "sessionId": "inside"}) + "\n"
    file.write_text(written if text is None else text, encoding="utf-8")
    os.utime(file, (modified, modified))
    return file


def test_sessions_are_listed_newest_first(tmp_path: Path) -> None:
    old = put(tmp_path, "-w-app/s1.jsonl", 100)
    new = put(tmp_path, "-w-other/s2.jsonl", 200, cwd="/w/other")
    assert list(list_transcripts(tmp_path)) == [
        TranscriptFile(new, "s2", "/w/other", 200.0),
        TranscriptFile(old, "s1", "/w/app", 100.0),
    ]


def test_sessions_of_one_moment_have_an_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        put(tmp_path, f"-w/{name}.jsonl", 100)
    assert [one.session for one in list_transcripts(str(tmp_path))] == ["a", "b", "c"]


def test_what_is_no_session_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "-w/s1.jsonl", 100)
    put(tmp_path, "-w/agent-1.jsonl", 100)
    put(tmp_path, "-w/s1/subagents/agent-2.jsonl", 100)
    put(tmp_path, "-w/memory.md", 100)
    put(tmp_path, "-w/empty.jsonl", 100, "")
    put(tmp_path, "-w/torn.jsonl", 100, '{"cwd": "/w"')
    put(tmp_path, "stray.jsonl", 100)
    (tmp_path / "projects" / "-w" / "folder.jsonl").mkdir()
    assert [one.session for one in list_transcripts(tmp_path)] == ["s1"]


def test_a_file_that_is_gone_by_now_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "-w/s1.jsonl", 100)
    gone = put(tmp_path, "-w/s2.jsonl", 50)
    found = list_transcripts(tmp_path)
    assert next(found).session == "s1"
    gone.unlink()
    assert list(found) == []


def test_no_folder_has_no_sessions(tmp_path: Path) -> None:
    assert list(list_transcripts(tmp_path / "none")) == []
