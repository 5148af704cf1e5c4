"""The fence around some projects of a store, at the port: whatever is asked, nothing else is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ScopeError
from alma.ports import Countable, FindsNearestByKind, MatchesByKind, Searchable, Store
from alma.projects import Fence
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import EVERYWHERE
from alma.types.query import Where
from alma.types.record import Record


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = SQLiteStore(tmp_path / "alma.db")
    embedder = HashEmbedder()
    for project in ("app", "shop", "bank"):
        alma = ALMA(made, embedder, project_id=project)
        alma.add_domain_knowledge("dev", "place", f"The deploy window of the {project}")
    alma.add_rule("dev", "Use pnpm instead of npm", reach="always")
    yield made
    made.close()


@pytest.fixture
def fence(store: Store) -> Store:
    return Fence(store, {"shop", "bank"})


def of(store: Store, project: str) -> list[Record]:
    return list(store.scan(Where(projects={project})))


def seen(records: Any) -> set[str]:
    return {one.project for one in records}


def test_it_can_do_what_the_store_can(store: Store, fence: Store) -> None:
    assert isinstance(fence, Searchable) == isinstance(store, Searchable)
    assert isinstance(fence, Countable) == isinstance(store, Countable)
    assert isinstance(fence, FindsNearestByKind) == isinstance(store, FindsNearestByKind)
    assert isinstance(fence, MatchesByKind) == isinstance(store, MatchesByKind)


def test_nothing_beyond_it_is_seen(store: Store, fence: Store) -> None:
    everything = list(store.scan(Where()))
    assert "app" in seen(everything)
    allowed = {"shop", "bank", EVERYWHERE, ""}
    assert seen(fence.scan(Where())) == allowed
    assert seen(fence.get([one.id for one in everything])) == allowed
    assert list(fence.scan(Where(projects={"app"}))) == []
    assert seen(fence.scan(Where(projects={"app", "shop"}))) == {"shop"}


def test_nothing_beyond_it_is_found(store: Store, fence: Store) -> None:
    [foreign] = [one for one in of(store, "app") if one.vectors]
    by_id = {one.id: one.project for one in store.scan(Where())}
    looks: list[Callable[[Any], Any]] = [lambda s: s.nearest(foreign.vectors[0], Where(), 99)]
    if isinstance(store, Searchable):
        looks.append(lambda s: s.match("deploy window", Where(), 99))
    facts = {"domain_knowledge": 99}
    if isinstance(store, FindsNearestByKind):
        looks.append(lambda s: s.nearest_by_kind(foreign.vectors[0], Where(), facts)["domain_knowledge"])
    if isinstance(store, MatchesByKind):
        looks.append(lambda s: s.match_by_kind("deploy window", Where(), facts)["domain_knowledge"])
    for look in looks:
        assert "app" in {by_id[hit.id] for hit in look(store)}
        assert "app" not in {by_id[hit.id] for hit in look(fence)}
        assert "shop" in {by_id[hit.id] for hit in look(fence)}


def test_nothing_beyond_it_is_counted(store: Store, fence: Store) -> None:
    if isinstance(store, Countable) and isinstance(fence, Countable):
        facts = Where(kinds={"domain_knowledge"})
        assert (sum(store.count(facts).values()), sum(fence.count(facts).values())) == (3, 2)


@pytest.mark.parametrize("project", ["app", "new", EVERYWHERE, ""])
def test_nothing_beyond_it_is_written(store: Store, fence: Store, project: str) -> None:
    [own] = [one for one in of(store, "shop") if one.kind == "domain_knowledge"]
    with pytest.raises(ScopeError, match="bank, shop"):
        fence.put([replace(own, version=own.version + 1), replace(own, id="kno_x", project=project)])
    assert store.get([own.id])[0].version == own.version
    fence.put([replace(own, version=own.version + 1)])


def test_nothing_beyond_it_is_moved_or_deleted(store: Store, fence: Store) -> None:
    [foreign] = [one for one in of(store, "app") if one.kind == "domain_knowledge"]
    [own] = [one for one in of(store, "shop") if one.kind == "domain_knowledge"]
    with pytest.raises(ScopeError):
        fence.delete([own.id, foreign.id])
    assert len(store.get([own.id, foreign.id])) == 2
    assert fence.delete([own.id]) == 1


def test_a_record_of_another_project_cannot_be_taken_over(store: Store, fence: Store) -> None:
    [foreign] = [one for one in of(store, "app") if one.kind == "domain_knowledge"]
    with pytest.raises(ScopeError):
        fence.put([replace(foreign, project="shop", version=foreign.version + 1)])
    assert store.get([foreign.id])[0].project == "app"


def test_of_what_holds_everywhere_only_the_evidence_may_change(store: Store, fence: Store) -> None:
    [rule] = [one for one in of(store, EVERYWHERE) if one.kind == "rule"]
    used = replace(rule, evidence=replace(rule.evidence, uses=7), version=rule.version + 1)
    with pytest.raises(ScopeError):
        fence.put([replace(used, text="Use yarn")])
    fence.put([used])
    assert store.get([rule.id])[0].evidence.uses == 7
