"""An import is taken back by its id, and rules of transcripts keep where and when they were stated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.errors import NotFoundError, ValidationError
from alma.ingestion import ingest
from alma.types.kinds import Rule

RULE = "From now on never use sleep() for async waits."


def write_transcript(folder: Path, *texts: str, name: str = "session.jsonl") -> Path:
    lines = []
    for number, text in enumerate(texts):
        lines.append(
            {
                "type": "user",
                "uuid": f"u{number}",
                "sessionId": f"s-{name}",
                "cwd": "/home/ana/code/shop",
                "timestamp": f"2026-03-02T10:0{number}:00Z",
                "message": {"role": "user", "content": text},
            }
        )
    path = folder / name
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA.quickstart("p", tmp_path / "store") as memory:
        yield memory


def list_live(alma: ALMA) -> list[str]:
    return sorted(str(one.id) for one in alma.list())


def test_a_rule_of_a_transcript_keeps_its_repository_and_date(alma: ALMA, tmp_path: Path) -> None:
    ingest(write_transcript(tmp_path, RULE), "dev", alma=alma, user_id="ana", own=True)
    [rule] = alma.list("rule")
    assert isinstance(rule, Rule)
    assert rule.metadata["repository"] == "shop"
    assert rule.metadata["stated_at"] == "2026-03-02T10:00:00+00:00"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ({"cwd": "/home/ana/api", "git": {"repository_url": "git@example.org:acme/billing.git"}}, "billing"),
        ({"cwd": "C:\\code\\billing\\"}, "billing"),
        ({}, None),
    ],
)
def test_a_rollout_of_codex_names_its_repository(
    alma: ALMA, tmp_path: Path, header: dict[str, Any], name: str | None
) -> None:
    lines = [
        {"timestamp": "2026-03-02T10:00:00Z", "type": "session_meta", "payload": {"id": "c1", **header}},
        {
            "timestamp": "2026-03-02T10:01:00Z",
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULE}]},
        },
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    ingest(path, "dev", alma=alma, user_id="ana", own=True)
    [rule] = alma.list("rule")
    assert rule.metadata.get("repository") == name


def test_one_import_is_taken_back_and_others_stay(alma: ALMA, tmp_path: Path) -> None:
    first = ingest(write_transcript(tmp_path, "I live in Lisbon."), "dev", alma=alma, user_id="ana", own=True)
    before = list_live(alma)
    path = write_transcript(tmp_path, RULE, "I moved to Berlin last week.", name="later.jsonl")
    second = ingest(path, "dev", alma=alma, user_id="ana", own=True)
    assert first.id != second.id
    assert list_live(alma) != before

    would = alma.revert(second.id, dry_run=True)
    assert (would.undo, would.left) == ("", ())
    undone = alma.revert(second.id)
    assert undone.left == ()
    assert list_live(alma) == before, "what it superseded holds again"

    alma.revert(undone.undo)
    assert "The user lives in Berlin" in [getattr(one, "fact", "") for one in alma.list()]


def test_what_was_changed_since_and_tasks_are_left_and_named(alma: ALMA, tmp_path: Path) -> None:
    path = write_transcript(tmp_path, "I live in Lisbon.", "TODO: rotate the keys")
    result = ingest(path, "dev", alma=alma, user_id="ana", own=True)
    [item] = result.work_items
    undone = alma.revert(result.id)
    [task] = undone.left
    assert item.id in task
    with pytest.raises(ValidationError, match="already undone"):
        alma.revert(result.id)


def test_an_import_that_stored_nothing_has_no_id(alma: ALMA, tmp_path: Path) -> None:
    path = write_transcript(tmp_path, RULE)
    assert not ingest(path, "dev", alma=alma, own=True, dry_run=True).id
    assert ingest(path, "dev", alma=alma, own=True).id
    assert not ingest(path, "dev", alma=alma, own=True).id
    with pytest.raises(NotFoundError, match="there is no import 'imp_0'"):
        alma.revert("imp_0")


def test_undo_names_the_import_that_a_change_belongs_to(alma: ALMA, tmp_path: Path) -> None:
    result = ingest(write_transcript(tmp_path, "I live in Lisbon."), "dev", alma=alma, user_id="ana", own=True)
    undone = alma.undo(dry_run=True)
    assert undone.import_id == result.id
    assert undone.rest >= 1
