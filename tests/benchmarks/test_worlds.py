"""The worlds benchmark, on a small world of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.worlds import score_worlds

from alma.models.registry import Recorded
from alma.reading.model import ModelReader

WORLD: dict[str, Any] = {
    "lang": "en",
    "memories": [
        {"id": "m1", "at": "2026-01-10T09:00:00+00:00", "kind": "fact", "user": "", "text": "Standup is at nine"},
        {"id": "m2", "at": "2026-03-10T09:00:00+00:00", "kind": "fact", "user": "", "text": "Standup is at eleven now"},
        {"id": "m3", "at": "2026-03-11T09:00:00+00:00", "kind": "rule", "user": "", "text": "Never push to main"},
    ],
    "questions": [
        {"q": "When is standup?", "at": "2026-06-01T09:00:00+00:00", "need": ["m2"], "stale": ["m1"], "type": "update"}
    ],
    "silent": ["Which opera did the neighbours see in Vienna?"],
}


def test_it_counts_right_answers_and_silence() -> None:
    sums = score_worlds([WORLD], None, is_dump=False)
    assert (sums["update"]["right"], sums["update"]["n"]) == (1, 1)
    assert sums["silent"] == {"n": 1, "shown": 0, "standing": 1}


def test_a_recorded_answer_takes_the_old_one_out(tmp_path: Path) -> None:
    prompts, answers = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    score_worlds([WORLD], ModelReader(Recorded(None, prompts)), is_dump=True)
    [prompt] = [json.loads(line) for line in prompts.read_text().splitlines()]
    [pair] = json.loads(prompt["text"])["pairs"]
    assert (pair["old"], pair["new"]) == ("Standup is at nine", "Standup is at eleven now")
    value = {"pairs": [{"n": pair["n"], "relation": "replaces", "probability": 0.9}]}
    answers.write_text(json.dumps({"id": prompt["id"], "value": value}))
    sums = score_worlds([WORLD], ModelReader(Recorded(answers, None)), is_dump=False)
    assert sums["reader"]["superseded"] == 1
    assert sums["update"]["right"] == 1
    assert sums["update"]["shown"] == score_worlds([WORLD], None, is_dump=False)["update"]["shown"] - 1
