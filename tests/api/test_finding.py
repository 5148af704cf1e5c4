"""Looking memories up, saying why one is or is not retrieved, and whether all is well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import NotFoundError, ScopeError, StorageError, ValidationError
from alma.stores.memory import MemoryStore
from alma.types.query import MemoryScope

AGENTS = (MemoryScope("dev"), MemoryScope("ops"))


@pytest.fixture
def alma() -> Iterator[ALMA]:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app", agents=AGENTS) as made:
        yield made


def test_search_finds_by_words_whoever_learned_it(alma: ALMA) -> None:
    window = alma.add_domain_knowledge("ops", "deployment", "The deploy window is 9 to 17 h")
    alma.add_domain_knowledge("dev", "style", "Tabs are four spaces wide")
    hit, other = alma.search("deploy window")
    assert hit.memory == alma.get(window.id)
    assert 0 < hit.score <= 1
    assert "shares" in hit.reason
    assert other.score < hit.score, "nothing is left out"
    assert [one.memory for one in alma.search("deploy window", agent="dev")] == [other.memory]
    assert alma.search("deploy window", memory_type="heuristic") == []


def test_search_is_not_recorded_and_a_retrieval_is(alma: ALMA) -> None:
    alma.add_domain_knowledge("ops", "deployment", "The deploy window is 9 to 17 h")
    alma.search("deploy window")
    fact = alma.list()[0].id
    alma.explain(fact, "deploy window", "ops")
    assert alma.get_stats()["retrieval_count"] == 0
    alma.retrieve("deploy window", "ops")
    assert alma.get_stats()["retrieval_count"] == 1


def test_search_says_what_is_wrong(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match="heuristic"):
        alma.search("x", memory_type="banana")
    with pytest.raises(ScopeError, match="dev"):
        alma.search("x", agent="nobody")


def test_explain_tells_the_place_of_what_is_retrieved(alma: ALMA) -> None:
    fact = alma.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    told = alma.explain(fact.id, "When is the deploy window?", "dev")
    assert (told.retrieved, told.rank) == (True, 1)
    assert told.explanation is not None
    assert told.explanation.memory_id == fact.id


def test_explain_names_the_first_obstacle(alma: ALMA) -> None:
    task = "When is the deploy window?"
    fact = alma.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    far = alma.add_domain_knowledge("dev", "zoology", "Axolotls regrow their limbs")
    wish = alma.add_user_preference("ana", "style", "Short answers")
    assert "does not read" in alma.explain(fact.id, task, "ops").reason
    assert "not similar enough" in alma.explain(far.id, task, "dev").reason
    assert "preference of 'ana'" in alma.explain(wish.id, task, "dev", "bob").reason
    alma.update(fact.id, status="archived")
    told = alma.explain(fact.id, task, "dev")
    assert (told.retrieved, told.rank, told.explanation) == (False, None, None)
    assert "'archived'" in told.reason
    with pytest.raises(NotFoundError):
        alma.explain("kno_nothing", task, "dev")


def test_the_playbook_holds_rules_and_what_was_learned(alma: ALMA) -> None:
    assert alma.playbook() == ""
    for _ in range(3):
        alma.learn("dev", "Deploy the service", "success", "Blue-green deployment")
    alma.add_rule("dev", "Use pnpm instead of npm")
    page = alma.playbook()
    assert page.index("Use pnpm") < page.index("Blue-green")
    assert "Blue-green" not in alma.playbook(agent="ops")
    assert len(alma.playbook(max_tokens=30)) < len(page)


def test_health_tells_a_sound_memory_from_one_that_cannot_be_read(alma: ALMA, monkeypatch: pytest.MonkeyPatch) -> None:
    alma.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    well = alma.health()
    assert (well.ok, well.memories, well.problems) == (True, 1, [])

    def broken(*_: object, **__: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(alma.engine.store, "get", broken)
    monkeypatch.setattr(alma.engine.store, "scan", broken)
    ill = alma.health()
    assert (ill.ok, ill.problems) == (False, ["the store failed; run `alma doctor` for details"])
