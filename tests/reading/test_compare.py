"""The local reader on pairs that were written before it: what it recognises as the same, and what it keeps apart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from alma.reading.local import LocalReader
from alma.reading.port import Pair, PairKind, Verdict

DATA = Path(__file__).parent / "data"


def read_rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def pair_of(row: dict[str, str]) -> Pair:
    return Pair(row["first"], row["second"], PairKind.FACT if row["about"] == "fact" else PairKind.ACTION)


def count_same(rows: list[dict[str, str]]) -> tuple[int, list[str]]:
    relations = LocalReader().compare([pair_of(row) for row in rows])
    same = [row for row, relation in zip(rows, relations, strict=True) if relation.verdict is Verdict.SAME]
    return len(same), [f"{row['first']} | {row['second']}" for row in same]


def test_light_rewordings_are_recognised() -> None:
    rows = read_rows("same")
    found, _ = count_same(rows)
    assert len(rows) >= 200
    assert found / len(rows) >= 0.9, f"{found} of {len(rows)}"


def test_opposites_and_variants_are_kept_apart() -> None:
    rows = read_rows("apart")
    found, wrong = count_same(rows)
    assert len(rows) >= 200
    assert found / len(rows) <= 0.005, wrong


@pytest.mark.parametrize("name", ["same", "apart"])
def test_the_order_of_a_pair_does_not_matter(name: str) -> None:
    pairs = [pair_of(row) for row in read_rows(name)]
    reader = LocalReader()
    turned = [Pair(pair.second, pair.first, pair.about) for pair in pairs]
    assert reader.compare(pairs) == reader.compare(turned)


def test_the_pairs_are_distinct() -> None:
    rows = [(row["first"], row["second"]) for name in ("same", "apart") for row in read_rows(name)]
    assert max(Counter(rows).values()) == 1
