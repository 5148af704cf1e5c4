"""Small sizes: whether it counts right. The figures are those of `python -m benchmarks.promises`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks._data import DataError
from benchmarks._embedder import Remembering
from benchmarks.promises import (
    PRESETS,
    Happened,
    Promise,
    confidence,
    domains,
    items_tracked,
    made_up,
    main,
    opened,
    other_domains,
    recorded,
    show,
)

from alma.domains import DomainMemoryFactory
from alma.embedders.hash import HashEmbedder
from alma.progress import ProgressTracker


def silent(done: int) -> None:
    pass


def test_every_preset_is_tried() -> None:
    assert set(PRESETS) <= set(DomainMemoryFactory.list_schemas())
    assert len(PRESETS) == 6


def test_two_domains_are_too_few(tmp_path: Path) -> None:
    found = domains(tmp_path, ["sales", "general"])
    assert (found.measured, found.holds) == (2, False)


@pytest.mark.system
def test_items_of_killed_processes_are_there(tmp_path: Path) -> None:
    found = items_tracked(tmp_path, processes=2, each=6)
    assert found.holds, found
    assert found.measured == 100
    with opened(tmp_path) as alma:
        assert len(ProgressTracker(alma=alma).list_items()) >= 9


def test_what_follows_a_rule_is_predicted_and_what_is_chance_is_not() -> None:
    rule = confidence(made_up(150), "made up", Remembering(HashEmbedder()), silent)
    assert rule.measured > 70
    heads = [Happened(one.at, one.task, one.strategy, at * 7919 % 13 < 6) for at, one in enumerate(made_up(80))]
    assert not confidence(heads, "chance", Remembering(HashEmbedder()), silent).holds


def test_outcomes_are_read_in_their_order(tmp_path: Path) -> None:
    row = {"task_id": "a", "task_text": " ", "strategy": "s", "success": True, "ts": "2025-01-01T00:00:00"}
    rows = [{**row, "t": 2, "task_id": "later"}, {**row, "t": 1}]
    (tmp_path / "outcomes.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [one.task for one in recorded(tmp_path)] == ["a", "later"]


def test_a_folder_without_outcomes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=r"outcomes\.jsonl"):
        recorded(tmp_path)
    assert main(["--data", str(tmp_path)]) == 2
    assert "outcomes.jsonl" in capsys.readouterr().err


@pytest.mark.system
def test_an_example_that_fails_does_not_count(tmp_path: Path) -> None:
    codes = {"works.py": "print('done')", "fails.py": "raise SystemExit(1)", "mute.py": "pass"}
    for name, code in codes.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    found = other_domains(tmp_path / name for name in codes)
    assert (found.measured, found.holds, found.how) == (1, False, "ran: works.py")


def test_what_does_not_hold_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show([Promise("domains", "6 work", 6, "", True, ""), Promise("session reload", "under 1 s", 2.0, "s", False, "")])
    assert "not met: session reload" in capsys.readouterr().out


@pytest.mark.quality
def test_all_promises_in_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--made-up", "60", "--records", "200", "--runs", "1", "--processes", "2", "--items", "4"]
    # How long a process takes is not judged here.
    assert main([*small, "--embedder", "hash", "--json"]) in (0, 1)
    told = {one["what"]: one for one in json.loads(capsys.readouterr().out)["promises"]}
    assert set(told) == {
        "domains",
        "session reload",
        "items tracked",
        "confidence accuracy",
        "other domains than coding",
    }
    assert all(told[what]["holds"] for what in ("domains", "items tracked", "other domains than coding"))
