"""Searches over several kinds find of each kind what a search for that kind alone finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.search import find_hits, find_hits_by_kind
from alma.stores.memory import MemoryStore
from alma.types.kinds import MemoryType
from alma.types.query import Hit, Where
from alma.types.record import Status

TASK = "Why does the auth service fail to deploy?"
LIMITS = {MemoryType.DOMAIN_KNOWLEDGE: 4, MemoryType.ANTI_PATTERN: 4, MemoryType.HEURISTIC: 2}


class CountingStore(MemoryStore):
    """A store that notes which kinds were searched for by vector."""

    def __init__(self) -> None:
        super().__init__()
        self.searched: list[set[str]] = []

    def nearest(self, vector: bytes, where: Where, limit: int) -> list[Hit]:
        self.searched.append(set(where.kinds or ()))
        return super().nearest(vector, where, limit)


@pytest.fixture
def memory() -> Iterator[tuple[ALMA, CountingStore]]:
    store = CountingStore()
    with ALMA(store, HashEmbedder(), project_id="p") as alma:
        yield alma, store


def find_of_kinds(alma: ALMA) -> Any:
    [vectors] = alma.engine.encode([(TASK,)])
    where = alma.engine.where(statuses={Status.ACTIVE})
    return find_hits_by_kind(alma.engine, TASK, vectors, where, LIMITS)


def test_a_kind_that_others_crowd_out_is_found_all_the_same(memory: tuple[ALMA, CountingStore]) -> None:
    alma, _ = memory
    for number in range(20):
        alma.add_domain_knowledge("a", "ops", f"The auth service fails to deploy on host {number}")
    for number in range(6):
        alma.add_anti_pattern("a", f"Deploying service {number} at night", "nobody watches it")
    found = find_of_kinds(alma)
    [vectors] = alma.engine.encode([(TASK,)])
    for kind, limit in LIMITS.items():
        own = find_hits(alma.engine, TASK, vectors, alma.engine.where(kind, statuses={Status.ACTIVE}), limit)
        assert {id for id, record in found.records.items() if record.kind == kind} >= {hit.id for hit in own.meaning}
        assert [hit for hit in found.meaning if hit in own.meaning] == own.meaning


def test_few_memories_of_several_kinds_are_searched_once(memory: tuple[ALMA, CountingStore]) -> None:
    alma, store = memory
    alma.add_domain_knowledge("a", "ops", "The auth service fails to deploy without a token")
    alma.add_anti_pattern("a", "Deploying the auth service at night", "nobody watches it")
    store.searched.clear()
    assert len(find_of_kinds(alma).records) == 2
    assert store.searched == [set(LIMITS)]


def test_a_retrieval_does_not_search_for_conversations_where_there_are_none(
    memory: tuple[ALMA, CountingStore],
) -> None:
    alma, store = memory
    alma.add_domain_knowledge("a", "ops", "The auth service fails to deploy without a token")
    store.searched.clear()
    alma.retrieve(TASK, "a")
    assert {"turn"} not in store.searched
    assert len(store.searched) <= 3
