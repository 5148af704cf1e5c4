from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.longmemeval import main

Write = Callable[..., Path]
Entry = dict[str, Any]
Capture = pytest.CaptureFixture[str]


def ran(capsys: Capture, *arguments: object) -> dict[str, Any]:
    assert main([*map(str, arguments), "--embedder", "hash", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.parametrize("kind", ["s", "pool"])
def test_right_sessions_are_found(write: Write, entries: list[Entry], capsys: Capture, kind: str) -> None:
    told = ran(capsys, "--data", write(entries), "--kind", kind)
    [alma] = told["systems"]
    assert alma["levels"]["session"]["all"]["n"] == 2
    assert alma["levels"]["session"]["all"]["any@5"] == 1
    assert set(alma["levels"]["session"]["by_kind"]) == {"single-session-user", "multi"}
    assert (told["questions"], told["unanswerable"]) == (3, 1)
    assert told["stores"] == (3 if kind == "s" else 1)


def test_the_pool_file_is_known_by_its_shape(write: Write, pool: Entry, capsys: Capture) -> None:
    told = ran(capsys, "--data", write(pool, "pool.json"))
    assert told["data"]["kind"] == "pool"
    assert told["systems"][0]["silence"]["unrelated"] == 60


def test_systems_are_compared_on_the_same_questions(write: Write, entries: list[Entry], capsys: Capture) -> None:
    told = ran(capsys, "--data", write(entries), "--compare")
    names = ["alma", "alma, words only", "dense only", "one vector a session"]
    assert [system["system"] for system in told["systems"]] == names
    assert {system["levels"]["session"]["all"]["n"] for system in told["systems"]} == {2}
    assert told["systems"][2]["silence"]["speech_on_unrelated"] == 1


def test_a_chart_is_drawn_and_vectors_are_kept(
    write: Write, entries: list[Entry], capsys: Capture, tmp_path: Path
) -> None:
    chart, cache = tmp_path / "chart.svg", tmp_path / "vectors.db"
    first = ran(capsys, "--data", write(entries), "--plot", chart, "--cache", cache)
    assert chart.exists()
    second = ran(capsys, "--data", write(entries), "--cache", cache, "--limit", 2)
    assert first["systems"][0]["ingest"]["turns_per_second"] > 0
    assert second["systems"][0]["ingest"]["texts_embedded_here"] == 0
    assert second["systems"][0]["ingest"]["turns_per_second"] is None
    assert second["questions"] == 2


def test_people_get_tables(write: Write, entries: list[Entry], capsys: Capture) -> None:
    assert main(["--data", str(write(entries)), "--embedder", "hash"]) == 0
    out, err = capsys.readouterr()
    assert "single-session-user" in out
    assert "spoke on unrelated" in out
    assert err == ""


def test_a_file_that_cannot_be_read_is_said_in_a_line(tmp_path: Path, capsys: Capture) -> None:
    assert main(["--data", str(tmp_path / "none.json"), "--embedder", "hash"]) == 2
    assert capsys.readouterr().err.startswith("LongMemEval: cannot read")


@pytest.mark.parametrize("option", ["--plot", "--cache"])
def test_a_folder_that_is_not_there_is_said_before_the_work(
    write: Write, entries: list[Entry], capsys: Capture, option: str
) -> None:
    assert main(["--data", str(write(entries)), option, "/nowhere/at/all"]) == 2
    assert "there is no folder /nowhere/at" in capsys.readouterr().err


def test_a_file_without_questions_is_refused(write: Write, capsys: Capture) -> None:
    assert main(["--data", str(write([]))]) == 2
    assert "holds no question" in capsys.readouterr().err
