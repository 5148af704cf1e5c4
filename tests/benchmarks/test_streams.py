"""A small stream of our own: whether it counts right, and the first advice keeps up with the nearest example."""

from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks.streams import OWN, list_advice, rank_by_examples, read_rows, run


def test_the_first_advice_keeps_up_with_the_nearest_example() -> None:
    means = run(OWN, 64, seed=1)["means"]
    # A small store shows only what is surely about the task, so it is silent more often than a large one.
    assert means["first"]["all"] >= means["nearest"]["all"]
    assert means["anywhere"]["last third"] >= means["nearest"]["last third"]
    assert means["silent"]["last third"] <= 0.15


def test_warnings_and_failures_are_no_advice() -> None:
    prompt = "\n".join(
        (
            "### What worked (learned from outcomes)",
            "- Print: desk 002 (worked 3 of 3)",
            "### Avoid (learned from outcomes)",
            "- Print: avoid desk 001",
            "### Past outcomes",
            "- Scan: desk 003 → failure (2026-11-16)",
            "- Copy: desk 004 → success (2026-11-16)",
        )
    )
    assert list_advice(prompt) == ["desk 002", "desk 004"]


def test_a_desk_is_as_near_as_its_nearest_request_and_its_centroid() -> None:
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    near = [0.8, 0.6, 0.96]
    assert rank_by_examples(near, vectors, [0.8, 0.6], ["a", "b", "b"]) == ["b", "a"]


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "stream.jsonl.gz"
    file.write_bytes(gzip.compress(OWN.read_bytes()))
    assert read_rows(file) == read_rows(OWN)
