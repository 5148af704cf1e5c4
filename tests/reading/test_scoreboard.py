"""The prompts reach their scores on answers that a language model gave to our own written examples.

The model saw the prompts only, never the labels. A changed prompt has no recorded answers: dump, have it answered
again, and replace `written/answers.jsonl` (see `python -m benchmarks.reading --help`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.reading import (
    Count,
    compare_conflicts,
    compare_families,
    find_memories,
    find_rules,
    lasting_answers,
    read_rows,
)

from alma.models.recorded import Recorded
from alma.reading.local import LocalReader
from alma.reading.model import ModelReader

WRITTEN = Path(__file__).parent / "written"
DATA = Path(__file__).parent / "data"


@pytest.fixture
def reader() -> ModelReader:
    return ModelReader(Recorded(WRITTEN / "answers.jsonl", None))


def test_corrections_are_found(reader: ModelReader) -> None:
    rows = read_rows(WRITTEN / "turns.jsonl")
    found = find_rules(reader, rows)
    detected = Count.of((row["label"] in ("correction", "preference"), n in found) for n, row in enumerate(rows))
    assert detected.f1 >= 0.95
    assert Count.of(lasting_answers(rows, found)).precision >= 0.93


def test_conflicts_are_told_from_additions(reader: ModelReader) -> None:
    labels = compare_conflicts(reader, rows := read_rows(WRITTEN / "conflicts.jsonl"))
    assert sum(label == expected for label, expected in labels) >= 0.95 * len(rows)


def test_strategies_are_told_apart(reader: ModelReader) -> None:
    pairs = compare_families(reader, read_rows(WRITTEN / "families.jsonl"))
    assert Count.of((label == "same", is_same) for label, is_same in pairs).f1 >= 0.95
    assert not any(is_same for label, is_same in pairs if label == "opposite")


def test_the_local_reader_merges_nothing_that_differs() -> None:
    pairs = compare_families(LocalReader(), read_rows(WRITTEN / "families.jsonl"))
    assert not any(is_same for label, is_same in pairs if label != "same")


@pytest.mark.parametrize("part", ["dev", "held"])
def test_the_local_reader_finds_what_is_said_plainly(part: str) -> None:
    """`held` was set aside before the first form was written."""
    rows = [row for row in read_rows(DATA / "memories.jsonl") if row["part"] == part]
    found, baseline = find_memories(LocalReader(), rows), [(bool(row.get("topic")), True) for row in rows]
    assert Count.of(found).precision >= 0.97
    assert Count.of(found).recall >= 0.9
    assert Count.of(baseline).precision < 0.7, "always a memory"
