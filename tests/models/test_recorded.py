"""Prompts are written to a file, answers are read from one, and a miss is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alma.errors import ConfigError, ModelOutputError, ModelUnavailableError
from alma.models.registry import create
from alma.types.asking import Prompt

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
PROMPT = Prompt(system="Count.", text="one two", schema=SCHEMA, version="count 1")


def open_recorded(**options: str) -> object:
    return create("recorded", options, {})


def test_a_dumped_prompt_is_answered_on_replay(tmp_path: Path) -> None:
    dump, answers = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    with pytest.raises(ModelUnavailableError, match="was written to"):
        open_recorded(dump=str(dump)).ask(PROMPT)  # type: ignore[attr-defined]
    assert dump.stat().st_mode & 0o777 == 0o600
    [row] = map(json.loads, dump.read_text().splitlines())
    assert (row["version"], row["system"], row["text"], row["schema"]) == ("count 1", "Count.", "one two", SCHEMA)
    answers.write_text(json.dumps({"id": row["id"], "value": {"n": 2}}))
    assert open_recorded(path=str(answers)).ask(PROMPT).value == {"n": 2}  # type: ignore[attr-defined]


def test_a_miss_is_an_error_that_names_the_prompt(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text("")
    with pytest.raises(ModelUnavailableError, match=r"no recorded answer \w{24} \(prompt count 1\)"):
        open_recorded(path=str(answers)).ask(PROMPT)  # type: ignore[attr-defined]


def test_an_answer_of_the_wrong_shape_is_refused(tmp_path: Path) -> None:
    from alma.models.registry import digest_prompt

    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"id": digest_prompt(PROMPT), "value": {"n": "two"}}))
    with pytest.raises(ModelOutputError, match="does not match the schema"):
        open_recorded(path=str(answers)).ask(PROMPT)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["{", '{"id": "x"}', "[]"])
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(f'{{"id": "a", "value": 1}}\n{text}\n')
    with pytest.raises(ConfigError, match=r"answers\.jsonl:2 must be"):
        open_recorded(path=str(answers))


def test_it_needs_a_file() -> None:
    with pytest.raises(ConfigError, match="needs `path`"):
        open_recorded()
