"""Several processes on one database; the full size is `python -m benchmarks.durability`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.durability import killed, seen_at_once, together


def test_processes_that_learn_at_once_count_exactly(tmp_path: Path) -> None:
    found = together(tmp_path, processes=4, each=30, embedder="hash")
    assert found.holds, found


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    found = killed(tmp_path, kills=5, embedder="hash")
    assert found.acknowledged >= 5
    assert found.holds, found


def test_a_running_process_finds_what_another_just_wrote(tmp_path: Path) -> None:
    assert seen_at_once(tmp_path, 5, "hash") == 5
