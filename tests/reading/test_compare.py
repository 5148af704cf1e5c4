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
    """Plurals are left to a model: most say the same, but "https" and "news" say something else."""
    rows = [row for row in read_rows("same") if row["kind"] != "plural"]
    found, _ = count_same(rows)
    assert len(rows) >= 190
    assert found / len(rows) >= 0.9, f"{found} of {len(rows)}"


def test_opposites_and_variants_are_kept_apart() -> None:
    rows = read_rows("apart")
    found, wrong = count_same(rows)
    assert len(rows) >= 200
    assert found / len(rows) <= 0.005, wrong


@pytest.mark.parametrize("about", list(PairKind))
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Call the gateway over http", "Call the gateway over https"),
        ("Print the new on the first page", "Print the news on the first page"),
        ("Query table user for names", "Query table users for names"),
        ("Start the job with option a", "Start the job with option"),
        ("Start the job with the a flag", "Start the job with the flag"),
        ("Choose plan a for trials", "Choose plan for trials"),
        ("Choose plan A for trials", "Choose plan for trials"),
        ("Ask The Times about it", "Ask Times about it"),
        ("The Times reports it", "Times reports it"),
        ("Seed the database", "See the database"),
    ],
)
def test_a_plural_and_a_letter_are_other_words(first: str, second: str, about: PairKind) -> None:
    [relation] = LocalReader().compare([Pair(first, second, about)])
    assert relation.verdict is Verdict.UNSURE


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Restart the worker in a container", "Restart worker in the container"),
        ("The queue is drained first", "Queue is drained first"),
        ("RESTART THE WORKER", "restart the worker"),
        ("The API is down", "the api is down"),
        ("The Postgres server is down", "the Postgres server is down"),
        ("The Times reports it", "the Times reports it"),
    ],
)
def test_articles_make_no_difference(first: str, second: str) -> None:
    [relation] = LocalReader().compare([Pair(first, second)])
    assert relation.verdict is Verdict.SAME


@pytest.mark.parametrize("name", ["same", "apart"])
def test_the_order_of_a_pair_does_not_matter(name: str) -> None:
    pairs = [pair_of(row) for row in read_rows(name)]
    reader = LocalReader()
    turned = [Pair(pair.second, pair.first, pair.about) for pair in pairs]
    assert reader.compare(pairs) == reader.compare(turned)


def test_the_pairs_are_distinct() -> None:
    rows = [(row["first"], row["second"]) for name in ("same", "apart") for row in read_rows(name)]
    assert max(Counter(rows).values()) == 1
