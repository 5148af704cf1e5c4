from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks._data import Data, Haystack, Question
from benchmarks._trial import Asked, Ingest, Trial

from benchmarks import _report


def asked(kind: str, right: str, found: str) -> Asked:
    return Asked("q", kind, frozenset(right), tuple(found), 0.01)


@pytest.fixture
def trial() -> Trial:
    return Trial(
        "ours",
        Ingest(turns=10, seconds=2.0),
        answerable={
            "session": [
                asked("easy", "a", "a"),
                asked("easy", "b", "xb"),
                asked("hard", "ab", "a"),
                asked("hard", "a", ""),
            ]
        },
        unanswerable=[asked("none", "", "x"), asked("none", "", "")],
        unrelated=[
            asked("unrelated", "", ""),
            asked("unrelated", "", ""),
            asked("unrelated", "", "x"),
            asked("unrelated", "", ""),
        ],
        seconds=[0.001 * n for n in range(1, 101)],
    )


@pytest.fixture
def told(trial: Trial) -> dict[str, Any]:
    question = Question("q", "easy", "?", None, True, frozenset("a"))
    data = Data(
        "data.json", "abc123", "pool", (Haystack("h", (), (question,)),), Counter({"things left out": 2, "other": 0})
    )
    other = Trial("theirs", Ingest(), answerable={"session": [asked("easy", "a", "x")]})
    return _report.report("Bench", data, "hash-384", 3, [trial, other])


def test_figures_are_by_kind_and_over_all(trial: Trial) -> None:
    found = _report.figures(trial, 3)["levels"]["session"]
    assert found["all"]["n"] == 4
    assert found["all"]["any@1"] == 0.5
    assert found["all"]["any@5"] == 0.75
    assert found["all"]["all@5"] == 0.5
    assert found["by_kind"]["easy"]["all@5"] == 1
    assert found["by_kind"]["hard"]["all@5"] == 0
    assert found["curve"] == {"any": [0.5, 0.75, 0.75], "all": [0.25, 0.5, 0.5]}


def test_an_interval_shows_how_little_four_questions_prove(trial: Trial) -> None:
    low, high = _report.figures(trial, 3)["levels"]["session"]["interval"]["any@5"]
    assert low < 0.4
    assert high > 0.9


def test_silence_is_counted_both_ways(trial: Trial) -> None:
    said = _report.figures(trial, 3)["silence"]
    assert (said["answerable"], said["false_silence"]) == (4, 0.25)
    assert (said["unanswerable"], said["false_speech"]) == (2, 0.5)
    assert (said["unrelated"], said["speech_on_unrelated"]) == (4, 0.25)
    assert said["answered_though_unrelated"] == ["q"]


def test_latency_and_rates(trial: Trial) -> None:
    figures = _report.figures(trial, 3)
    assert figures["latency_ms"] == pytest.approx({"p50": 50, "p95": 95})
    assert figures["ingest"]["turns_per_second"] == 5


def test_the_report_is_plain_values(told: dict[str, Any]) -> None:
    again = json.loads(json.dumps(told))
    assert again["data"] == {"file": "data.json", "sha256": "abc123", "kind": "pool"}
    assert [system["system"] for system in again["systems"]] == ["ours", "theirs"]
    assert again["notes"] == {"things left out": 2}


def test_people_read_tables(told: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    _report.write(told, as_json=False)
    out = capsys.readouterr().out
    for word in ("easy", "hard", "theirs", "0.750", "sha256 abc123", "2 things left out", "nDCG@10", "95 % interval"):
        assert word in out


def test_programs_read_json(told: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    _report.write(told, as_json=True)
    assert json.loads(capsys.readouterr().out)["benchmark"] == "Bench"


def test_several_systems_are_drawn_as_bars_and_one_as_lines(told: dict[str, Any], tmp_path: Path) -> None:
    _report.plot(told, tmp_path / "bars.svg")
    bars = (tmp_path / "bars.svg").read_text(encoding="utf-8")
    assert "ours" in bars
    assert "theirs" in bars
    assert "polyline" not in bars
    _report.plot({**told, "systems": told["systems"][:1]}, tmp_path / "lines.svg")
    assert (tmp_path / "lines.svg").read_text(encoding="utf-8").count("<polyline") == 2


def test_progress_says_nothing_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with _report.progress("working", 3, hidden=False) as tick:
        tick(1)
    assert capsys.readouterr() == ("", "")
