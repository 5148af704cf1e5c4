from __future__ import annotations

import json
from pathlib import Path

import pytest

from alma.hooks import paths
from alma.hooks.paths import DataDir


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert paths.check_settings(DataDir(str(tmp_path))) == (paths.DEFAULTS, [])


def test_what_is_set_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"playbook_tokens": 700, "model": "on"}))
    found = paths.read_settings(DataDir(str(tmp_path)))
    assert (found["playbook_tokens"], found["model"], found["prompt_tokens"]) == (700, "on", 400)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"playbok_tokens": 1}, "unknown setting 'playbok_tokens'"),
        ({"playbook_tokens": "many"}, "whole number"),
        ({"playbook_tokens": True}, "whole number"),
        ({"playbook_tokens": -1}, "whole number"),
        ({"model": "gpt"}, "must be on, off or ask"),
        ({"model_name": ""}, "must be a non-empty text"),
        ([], "no"),
    ],
)
def test_what_is_wrong_is_said_and_not_used(tmp_path: Path, given: object, word: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(given))
    place = DataDir(str(tmp_path))
    assert paths.read_settings(place, "Stop") == paths.DEFAULTS
    assert word in Path(place.log).read_text()


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff{")
    assert paths.read_settings(DataDir(str(tmp_path))) == paths.DEFAULTS
