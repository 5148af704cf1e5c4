"""`AutoLearner`, as people use it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.errors import ScopeError, ValidationError
from alma.extraction import AutoLearner
from alma.progress import ProgressTracker

from .scripted import Scripted

TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Test the login form"},
    {"role": "assistant", "content": "I used incremental validation which worked well on the 8-field form."},
    {"role": "user", "content": "Good. From now on never use sleep() for async waits, it makes the tests flaky."},
    {"role": "assistant", "content": "Your staging database lives on db2."},
]
CLAIM = {"n": 3, "kind": "fact", "text": "The staging database is on db2.", "quote": "staging database lives on db2"}


def test_a_conversation_is_learned_from(alma: ALMA) -> None:
    results = AutoLearner(alma).learn_from_conversation(messages=TALK, agent="helena")
    assert results["extracted_count"] == 2
    assert results["kept"] == {"Outcome": 1, "Rule": 1}
    assert results["by_kind"] == {"outcome": 1, "correction": 1}
    assert (results["new"], results["known"], results["model"], results["fallback"]) == (2, 0, None, None)
    assert results["skipped"] == []
    assert [one.rule for one in results.memories.rules] == [results.findings[1].text]


def test_told_again_nothing_is_learned_twice(alma: ALMA) -> None:
    learner = AutoLearner(alma)
    learner.learn_from_conversation(TALK, "helena")
    total = alma.get_stats()["total_count"]
    again = learner.learn_from_conversation(TALK, "helena")
    assert (again["extracted_count"], again["new"], again["known"]) == (2, 0, 2)
    assert alma.get_stats()["total_count"] == total
    [outcome] = alma.list("outcome")
    assert outcome.status == "active"


def test_a_dry_run_keeps_nothing(alma: ALMA) -> None:
    results = AutoLearner(alma).learn_from_conversation(TALK, "helena", dry_run=True, save_episode=True)
    assert (results["extracted_count"], results["new"], results["dry_run"]) == (2, 2, True)
    assert alma.list(status=None) == []
    assert AutoLearner(alma).learn_from_conversation(TALK, "helena")["new"] == 2
    again = AutoLearner(alma).learn_from_conversation(TALK, "helena", dry_run=True)
    assert (again["new"], again["known"]) == (0, 2)


def test_a_dry_run_opens_no_work(alma: ALMA) -> None:
    asked = [{"role": "user", "content": "TODO: rotate the keys"}]
    for _ in range(2):
        assert AutoLearner(alma).learn_from_conversation(asked, "helena", dry_run=True)["kept"] == {"WorkItem": 1}
    assert ProgressTracker(alma=alma).list_items() == []


def test_the_conversation_is_kept_too_when_asked(alma: ALMA) -> None:
    results = AutoLearner(alma).learn_from_conversation(TALK, "helena", "ana", "s1", save_episode=True)
    [episode] = alma.list("episode")
    assert episode.id == results["episode_id"]
    assert episode.turn_count == 4  # type: ignore[attr-defined]
    [rule] = results.memories.rules
    assert alma.engine.store.get([rule.id])[0].provenance.episodes == (episode.id,)
    AutoLearner(alma).learn_from_conversation(
        [*TALK, {"role": "user", "content": "Bye"}], "helena", "ana", "s1", save_episode=True
    )
    assert len(alma.list("episode")) == 1


def test_only_sure_findings_are_stored(alma: ALMA) -> None:
    learner = AutoLearner(alma, Scripted({"memories": [CLAIM]}))
    results = learner.learn_from_conversation(TALK, "helena", dry_run=True)
    assert results["extracted_count"] == 1
    [skipped] = results["skipped"]
    assert "its confidence (0.40) is below 0.5" in skipped, "an assistant's claim"
    assert learner.learn_from_conversation(TALK, "helena", dry_run=True, min_confidence=0.3)["extracted_count"] == 2
    assert AutoLearner(alma).learn_from_conversation(TALK, "helena", min_confidence=0.8)["extracted_count"] == 1
    for wrong in (-1, 2, "much"):
        with pytest.raises(ValidationError, match="min_confidence"):
            AutoLearner(alma, min_confidence=wrong)  # type: ignore[arg-type]


def test_a_text_is_learned_from(alma: ALMA) -> None:
    text = "We decided to drop FTP.\n\n- [ ] rotate the keys"
    results = AutoLearner(alma).learn_from_text(text, "helena", name="notes.md")
    assert results["kept"] == {"DomainKnowledge": 1, "WorkItem": 1}
    assert [one.source for one in results.memories.domain_knowledge] == ["notes.md"]
    assert AutoLearner(alma).learn_from_text(text, "helena", name="notes.md")["known"] == 2


def test_a_new_home_replaces_the_old_one(alma: ALMA) -> None:
    learner = AutoLearner(alma)
    for text in ("I live in Lisbon.", "By the way, I just moved to Berlin."):
        results = learner.learn_from_conversation([{"role": "user", "content": text}], "helena", "ana")
    assert [one.fact for one in alma.list("domain_knowledge")] == ["The user lives in Berlin"]  # type: ignore[attr-defined]
    [old] = results["superseded"]
    assert alma.get(old).status == "superseded"
    assert alma.get(old).fact == "The user lives in Lisbon"  # type: ignore[attr-defined]
    learner.learn_from_conversation([{"role": "user", "content": "I live in Rome."}], "helena", "ben")
    assert len(alma.list("domain_knowledge")) == 2, "another user lives elsewhere"


def test_it_can_be_awaited(alma: ALMA) -> None:
    results = asyncio.run(AutoLearner(alma).alearn_from_conversation(TALK, "helena", dry_run=True))
    assert results["extracted_count"] == 2


def test_without_a_memory_it_opens_the_configured_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALMA_HOME", str(tmp_path / "home"))
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(
        "alma:\n  project_id: p\n  storage: sqlite\n  embedding_provider: none\n  storage_dir: .alma\n"
    )
    with AutoLearner() as learner:
        assert learner.learn_from_conversation(TALK, "helena")["new"] == 2
    with AutoLearner() as learner:
        assert learner.learn_from_conversation(TALK, "helena")["new"] == 0


def test_wrong_arguments_are_named(alma: ALMA, open_alma: Any) -> None:
    learner = AutoLearner(alma)
    with pytest.raises(ValidationError, match="messages"):
        learner.learn_from_conversation(5, "helena")
    with pytest.raises(ValidationError, match="agent"):
        learner.learn_from_conversation(TALK, "")
    assert learner.learn_from_conversation([], "helena")["extracted_count"] == 0


def test_an_agent_that_is_not_declared_is_refused(open_alma: Any) -> None:
    from alma.types.query import MemoryScope

    alma = open_alma(agents=[MemoryScope("helena", can_learn=["testing"])])
    assert AutoLearner(alma).learn_from_conversation(TALK, "helena")["new"] == 2
    with pytest.raises(ScopeError):
        AutoLearner(alma).learn_from_conversation(TALK, "nobody")


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Linux last year.",
        "I've moved to Postgres for this project.",
        "I moved to Chapter 3 of the book.",
        "I live in Emacs.",
        "I moved to Berlin for a week.",
        "I live in Rome only during the summer.",
        "Ich bin nach Linux umgezogen.",
        "My birthday is tomorrow.",
        "Never worked for me.",
        "It always fails on Mondays.",
        "Always fails on Mondays.",
        "Our CI is red today.",
    ],
)
def test_what_is_no_home_and_no_rule_is_not_learned(alma: ALMA, text: str) -> None:
    results = AutoLearner(alma).learn_from_conversation([{"role": "user", "content": text}], "helena", "ana")
    assert results["extracted_count"] == 0


def test_a_move_to_an_unknown_place_does_not_replace_the_home(alma: ALMA) -> None:
    learner = AutoLearner(alma)
    for text in ("I live in Lisbon.", "I moved to Zorbium last week."):
        learner.learn_from_conversation([{"role": "user", "content": text}], "helena", "ana")
    facts = [one.fact for one in alma.list("domain_knowledge")]  # type: ignore[attr-defined]
    assert sorted(facts) == ["The user lives in Lisbon", "The user moved to Zorbium"]


def test_messages_that_are_none_are_refused(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match=r"messages\[0\] has no role and content"):
        AutoLearner(alma).learn_from_conversation([{"foo": 1}], "dev")
