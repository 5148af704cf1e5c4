from __future__ import annotations

from typing import Any

import pytest
from benchmarks._embedder import Remembering
from benchmarks.learning import memory

from alma.embedders.hash import HashEmbedder
from benchmarks import _corrections

Row = dict[str, Any]


def row(user: str, label: str, scope: str | None = None, **more: Any) -> Row:
    return {"user": user, "label": label, "scope": scope, "rule": "Use pnpm, not npm.", "lang": "en", **more}


def measured(*rows: Row) -> Row:
    with memory(Remembering(HashEmbedder())) as (alma, clock):
        return _corrections.measure(alma, clock, rows, lambda done: None)


def test_what_was_taken_for_a_rule_is_counted() -> None:
    found = measured(
        row("no, use pnpm not npm", "correction", "project"),
        row("never commit to main directly", "question"),
        row("please carry on", "preference", "always"),
        row("why does this fail?", "question"),
    )["figures"]
    assert found["candidate"] == {"precision": 0.5, "recall": 0.5, "F1": 0.5}
    assert found["active"] == found["candidate"]
    assert found["reach accuracy"] == found["once or lasting accuracy"] == 1
    assert found["rule token F1"] == 1


def test_rows_that_nobody_was_sure_of_are_left_out() -> None:
    sure = row("no, use pnpm not npm", "correction", "project")
    unsure = [row("never push", "question", uncertain=True), row("never push", "question", mixed=True)]
    assert measured(sure, *unsure)["figures"]["candidate"]["precision"] == 1


def test_it_says_that_the_weights_have_seen_such_turns() -> None:
    remarks = measured(row("no, use pnpm not npm", "correction", "project"), row("never push", "question"))["remarks"]
    assert "fitted" in remarks[0]
    assert remarks[1].endswith("question 1")


@pytest.mark.parametrize(("wanted", "said", "share"), [("a b", "A, b!", 1), ("a b", "a c", 0.5), ("", "", 0)])
def test_shared_words(wanted: str, said: str, share: float) -> None:
    assert _corrections.overlap(wanted, said) == share
