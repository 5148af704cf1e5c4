from __future__ import annotations

from typing import Any

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.engine.context import Settings, Weights
from alma.stores.memory import MemoryStore
from alma.types import Where

TOKENS = "Auth tokens expire in 24 hours"


def told(alma: ALMA, *facts: str, agent: str = "dev") -> list[str]:
    return [alma.add_domain_knowledge(agent, "d", fact).id for fact in facts]


def found(alma: ALMA, task: str, **options: Any) -> list[str]:
    return [memory.fact for memory in alma.retrieve(task, "dev", **options).domain_knowledge]


class TestWhatIsFound:
    def test_the_best_comes_first_and_top_k_is_the_most_of_each_type(self, alma: ALMA) -> None:
        told(alma, TOKENS, *(f"Auth server number {number} listens on port {number}" for number in range(9)))
        assert found(alma, "When do auth tokens expire?")[0] == TOKENS
        assert len(found(alma, "Which auth server listens on which port number?", top_k=3)) == 3

    def test_nothing_is_said_when_nothing_is_relevant(self, alma: ALMA) -> None:
        told(alma, TOKENS, "The deploy needs a warm-up request")
        seen = alma.retrieve("Translate this poem into Portuguese", "dev")
        assert (seen.total_items, seen.to_prompt(), seen.explain()) == (0, "", ())

    def test_an_old_exact_memory_beats_a_fresh_vague_one(self, alma: ALMA, clock: Any) -> None:
        told(alma, TOKENS)
        clock.pass_days(365)
        fresh = told(alma, "Auth cookies are signed")
        for _ in range(10):
            alma.record_feedback(fresh[0], signal="thumbs_up")
        assert found(alma, "Auth tokens expire in how many hours?")[0] == TOKENS

    def test_many_equal_outcomes_are_shown_once(self, alma: ALMA) -> None:
        for _ in range(10):
            alma.learn("dev", "Deploy auth service", "success", "Canary")
        alma.learn("dev", "Deploy auth service", "failure", "Canary", error_message="timeout")
        seen = alma.retrieve("Deploy auth service", "dev")
        assert sorted(str(one.outcome) for one in seen.outcomes) == ["failure", "success"]

    def test_another_agents_many_memories_hide_nothing(self, alma: ALMA) -> None:
        told(alma, *(f"Auth tokens expire in {number} hours" for number in range(200)), agent="loud")
        told(alma, "Auth tokens are opaque")
        assert found(alma, "How do auth tokens work, do tokens expire?") == ["Auth tokens are opaque"]

    def test_it_works_by_words_alone(self, open_alma: Any) -> None:
        alma = open_alma(embedder=None)
        told(alma, TOKENS, "The deploy needs a warm-up request")
        assert found(alma, "When do tokens expire?") == [TOKENS]
        assert alma.retrieve("Translate this poem", "dev").total_items == 0
        assert alma.retrieve("When do tokens expire?", "dev").explain()[0].cosine is None

    def test_meaning_is_found_without_a_shared_word(self) -> None:
        with ALMA(MemoryStore(), LocalEmbedder()) as alma:
            told(alma, "The customer database is backed up every night", "Invoices are sent as PDF")
            assert found(alma, "How often do we save a copy of client records?") == [
                "The customer database is backed up every night"
            ]

    def test_a_question_after_a_page_of_preamble_is_found(self) -> None:
        noise = "You are a careful engineer who always answers politely and checks the style guide. " * 30
        with ALMA(MemoryStore(), LocalEmbedder()) as alma:
            told(alma, TOKENS)
            assert found(alma, noise + "How long do auth tokens live before they expire?") == [TOKENS]

    def test_what_happened_for_one_user_is_not_told_to_another(self, alma: ALMA) -> None:
        alma.learn("dev", "Deploy auth service", "success", "Waited because Ana is ill", user_id="ana")
        assert alma.retrieve("Deploy auth service", "dev", user_id="ana").outcomes
        assert not alma.retrieve("Deploy auth service", "dev", user_id="bob").outcomes


class TestTheWeights:
    @pytest.mark.parametrize("newest_first", [True, False])
    def test_they_are_obeyed(self, open_alma: Any, clock: Any, newest_first: bool) -> None:
        weights = Weights(1, 50 if newest_first else 0, 0, 0)
        alma = open_alma(settings=Settings(weights=weights))
        told(alma, "Auth tokens expire daily")
        clock.pass_days(60)
        told(alma, "Cookies expire daily")
        assert (found(alma, "Auth tokens expire daily")[0] == "Auth tokens expire daily") is not newest_first


class TestTheSlice:
    def test_it_can_explain_every_score(self, alma: ALMA) -> None:
        told(alma, TOKENS)
        alma.add_user_preference("u1", "output", "Prefer verbose output")
        seen = alma.retrieve("When do auth tokens expire?", "dev", user_id="u1")
        assert [why.memory_id for why in seen.explain()] == [memory.id for memory in seen]
        preference, fact = seen.explain()
        assert "standing preference" in preference.reason
        assert set(fact.shared_words) == {"auth", "tokens", "expire"}
        parts = fact.factors
        assert sum(factor.weight for factor in parts.values()) == pytest.approx(1)
        similar = parts["similarity"].value
        rest = sum(one.value * one.weight * similar for name, one in parts.items() if name != "similarity")
        assert fact.score == pytest.approx(similar * parts["similarity"].weight + rest)
        assert f"{fact.score:.3f} = similarity {similar:.3f} × (" in str(fact)

    def test_each_retrieval_is_a_record_of_what_was_shown(self, alma: ALMA) -> None:
        [name] = told(alma, TOKENS)
        seen = alma.retrieve("When do auth tokens expire?", "dev")
        [kept] = alma.engine.store.scan(Where(kinds={"retrieval"}))
        assert (kept.id, kept.links, kept.body["shown"]) == (seen.retrieval_id, (name,), [name])

    @pytest.mark.parametrize(
        "task", ["use the password:\n{}", "password: {}\nrun the tests", "x" * 480 + " password: {}"]
    )
    def test_the_note_of_a_retrieval_has_no_secret(self, alma: ALMA, task: str) -> None:
        # A secret is recognised before its line breaks go and it is cut, or only once it is on one line.
        secret = "Tr0ub4" + "dor&3x" * 3
        alma.retrieve(task.format(secret), "dev")
        [kept] = alma.engine.store.scan(Where(kinds={"retrieval"}))
        assert secret[:8] not in kept.body["task"]

    def test_retrievals_are_not_kept_when_not_wanted(self, open_alma: Any) -> None:
        alma = open_alma(settings=Settings(keep_retrievals=False))
        assert alma.retrieve("x", "dev").retrieval_id is None
        assert alma.get_stats()["retrieval_count"] == 0
