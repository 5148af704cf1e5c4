from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks._data import locomo, longmemeval
from benchmarks._embedder import Remembering
from benchmarks._product import Clock, Product

from alma.embedders.hash import HashEmbedder

Write = Callable[..., Path]
Entry = dict[str, Any]


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_a_session_is_found_by_what_was_said_in_it(
    write: Write, entries: list[Entry], embedder: HashEmbedder | None
) -> None:
    [haystack, *_] = longmemeval(write(entries)).haystacks
    product = Product("alma", Remembering(embedder) if embedder else None)
    with product.opened(haystack) as searcher:
        asked = haystack.questions[0]
        assert searcher.search(asked.text, asked.asked_at, "session", 5)[0] == "trip"


def test_a_turn_is_found_by_what_was_said_in_it(write: Write, samples: list[Entry]) -> None:
    [haystack] = locomo(write(samples)).haystacks
    with Product("alma", Remembering(HashEmbedder())).opened(haystack) as searcher:
        assert searcher.search("Who adopted a tortoise called Pebble?", None, "turn", 5)[0] == "D1:1"
        assert searcher.search("Does the quartet play in Lisbon?", None, "turn", 5)[0] == "D2:1"


def test_every_store_holds_its_own_haystack_and_nothing_else(write: Write, entries: list[Entry]) -> None:
    for name in ("haystack_session_ids", "haystack_dates", "haystack_sessions"):
        entries[0][name] = entries[0][name][1:]
    first, second, *_ = longmemeval(write(entries)).haystacks
    product = Product("alma", Remembering(HashEmbedder()))
    question = "We took the ferry to Orkney and saw puffins"
    with product.opened(second) as searcher:
        assert "trip" in searcher.search(question, None, "session", 5)
    with product.opened(first) as searcher:
        assert "trip" not in searcher.search(question, None, "session", 5)


def test_what_filling_took_is_counted(write: Write, entries: list[Entry]) -> None:
    first, second, *_ = longmemeval(write(entries)).haystacks
    product = Product("alma", Remembering(HashEmbedder()))
    with product.opened(first):
        assert product.ingest.turns == 8
        made = product.ingest.fresh_texts
        assert made >= 8
    with product.opened(second):
        assert product.ingest.turns == 16
        # The same sessions again: nothing new to embed.
        assert product.ingest.fresh_texts == made
        assert product.ingest.texts > made


def test_the_clock_shows_what_it_is_set_to() -> None:
    clock = Clock()
    moment = datetime(2024, 5, 20, tzinfo=UTC)
    clock.set(moment)
    clock.set(None)
    assert clock() == moment
