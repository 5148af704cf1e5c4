from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.locomo import main

Write = Callable[..., Path]
Entry = dict[str, Any]


def test_sessions_and_turns_are_found_by_category(
    write: Write, samples: list[Entry], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(write(samples)), "--embedder", "hash", "--json", "--compare"]) == 0
    told = json.loads(capsys.readouterr().out)
    alma = told["systems"][0]
    assert set(alma["levels"]) == {"session", "turn"}
    assert set(alma["levels"]["turn"]["by_kind"]) == {"single-hop", "multi-hop"}
    assert alma["levels"]["turn"]["by_kind"]["single-hop"]["any@1"] == 1
    assert (told["unanswerable"], told["without_anything_right"]) == (1, 1)
    assert told["notes"] == {"pieces of evidence that could not be read": 1}


def test_a_system_without_turns_is_shown_without_them(
    write: Write, samples: list[Entry], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chart = tmp_path / "chart.svg"
    assert main(["--data", str(write(samples)), "--embedder", "hash", "--compare", "--plot", str(chart)]) == 0
    turns = capsys.readouterr().out.partition("the same turns, by system")[2].partition("silence")[0]
    assert "dense only" in turns
    assert "one vector a session" not in turns
    assert chart.exists()
