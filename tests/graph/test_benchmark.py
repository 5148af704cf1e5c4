"""The measure of whether the graph helps, on a conversation made for it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks._data import locomo

from benchmarks import graph as benchmark

pytestmark = pytest.mark.system


def conversation() -> list[dict[str, Any]]:
    lines = [
        "My manager is called Ingrid.",
        "What a rainy day it is.",
        "Ingrid moved to Trondheim for the bridge project.",
        "The soup was fine.",
    ]
    turns = [{"speaker": "Zoe", "dia_id": f"D1:{at}", "text": text} for at, text in enumerate(lines, 1)]
    asked = {"question": "Who is Zoe's manager, and where to?", "evidence": ["D1:1", "D1:3"], "category": 1}
    told = {"session_1": turns, "session_1_date_time": "1:00 pm on 8 May, 2023"}
    return [{"sample_id": "one", "conversation": told, "qa": [asked]}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(conversation()))
    return path


def test_turns_that_share_a_name_lead_to_each_other(file: Path) -> None:
    [haystack] = locomo(file).haystacks
    linked = benchmark.linked(haystack, words=False)
    assert linked.further(["D1:1"], "Who is Zoe's manager?") == Counter({"D1:3": 0.5})
    assert linked.further(["D1:1"], "Where did Ingrid move?") == Counter()
    assert linked.further(["D1:2"], "Who is Zoe's manager?") == Counter()


def test_the_last_places_are_filled() -> None:
    ranked = [str(number) for number in range(20)]
    made = benchmark.filled(ranked, Counter({"new": 3, "newer": 2, "newest": 1, "0": 9}))
    assert made[:10] == [*ranked[:8], "new", "newer"]
    assert benchmark.filled(ranked, Counter()) == ranked


def test_what_is_shared_moves_up() -> None:
    ranked = [str(number) for number in range(20)]
    assert benchmark.boosted(ranked, Counter(), 1.0) == ranked
    assert "19" in benchmark.boosted(ranked, Counter({"19": 1}), 1.0)[:10]
    assert "19" not in benchmark.boosted(ranked, Counter({"19": 1}), 0.25)[:10]


def test_the_interval_holds_the_difference() -> None:
    assert benchmark.interval([0.0] * 50, [0.0] * 50) == (0.0, 0.0)
    low, high = benchmark.interval([0.0] * 100, [1.0] * 30 + [0.0] * 70)
    assert 0.15 < low < 0.3 < high < 0.45


def test_it_reports_every_way(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--data", str(file), "--embedder", "hash", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["measure"] for row in told["rows"]} == {
        "turn any@10", "turn all@10", "session any@10", "session all@10"
    }  # fmt: skip
    assert len(told["rows"]) == 4 * 2 * len(benchmark.WAYS)
    assert all(row["low"] <= row["difference"] <= row["high"] for row in told["rows"])


def test_a_file_without_such_questions_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--data", str(file), "--embedder", "hash", "--kind", "temporal"]) == 2
    assert "temporal" in capsys.readouterr().err
