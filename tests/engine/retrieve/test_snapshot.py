"""A retrieval, a search and an explanation each read one moment, whatever others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.retrieve.pipeline import explain_retrieval, find_memories
from alma.engine.retrieve.request import Request
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Hit, Where
from alma.types.record import Record, Status

OLD, NEW = "Deployments go through Jenkins", "Deployments go through Buildkite"
TASK = "How do deployments go through?"


class Interrupted(SQLiteStore):
    """A store in which another process writes after the first search by words."""

    interruption: Callable[[], None] | None = None

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        hits = super().match(words, where, limit)
        if self.interruption and hits:
            interrupt, self.interruption = self.interruption, None
            interrupt()
        return hits


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[ALMA, Record]]:
    """A memory with one fact, which another process changes while the memory reads."""
    path = tmp_path / "alma.db"
    store = Interrupted(path)
    with ALMA(store, HashEmbedder(), project_id="p") as alma:
        id = alma.add_domain_knowledge("a", "infra", OLD).id
        [record] = store.get([id])

        def change() -> None:
            other = SQLiteStore(path)
            body: dict[str, Any] = {**record.body, "fact": NEW}
            other.put([replace(record, version=record.version + 1, body=body, text=NEW, status=Status.ARCHIVED)])
            other.close()

        store.interruption = change
        yield alma, record


def test_a_retrieval_shows_one_moment(world: tuple[ALMA, Record]) -> None:
    alma, _ = world
    assert [one.fact for one in alma.retrieve(TASK, "a").domain_knowledge] == [OLD]
    assert alma.retrieve(TASK, "a").domain_knowledge == []


def test_a_search_shows_one_moment(world: tuple[ALMA, Record]) -> None:
    alma, _ = world
    where = Where(projects={"p"}, kinds={"domain_knowledge"})
    assert [one.record.body["fact"] for one in find_memories(alma.engine, TASK, where, 5)] == [OLD]
    assert [one.record.body["fact"] for one in find_memories(alma.engine, TASK, where, 5)] == [NEW]


def test_an_explanation_is_of_one_moment(world: tuple[ALMA, Record]) -> None:
    alma, record = world
    store = alma.engine.store
    assert isinstance(store, Interrupted)
    interruption, store.interruption = store.interruption, None
    alma.add_domain_knowledge("a", "infra", "How deployments go through: push a tag")
    store.interruption = interruption
    why = explain_retrieval(alma.engine, record, Request(task=TASK, agent="a", top_k=1))
    assert why.reason == "other memories rank higher; in a broad search it is number 2"


def test_a_snapshot_inside_another_is_part_of_it_and_ends_with_it(world: tuple[ALMA, Record], tmp_path: Path) -> None:
    alma, record = world
    store = alma.engine.store
    assert isinstance(store, SQLiteStore)
    with store.snapshot():
        with store.snapshot():
            store.match("deployments", Where(projects={"p"}), 5)
        assert store.get([record.id]) == [record]
    assert store.get([record.id])[0].version == record.version + 1


def test_what_is_written_after_a_snapshot_is_kept(world: tuple[ALMA, Record]) -> None:
    alma, _ = world
    alma.retrieve(TASK, "a")
    assert alma.get_stats()["retrieval_count"] == 1
    alma.add_domain_knowledge("a", "infra", "Logs go to Loki")
    assert "Logs go to Loki" in [one.fact for one in alma.retrieve("Where do logs go to?", "a").domain_knowledge]
