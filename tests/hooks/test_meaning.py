"""Rules that fit a prompt in meaning and share no word with it: found beside a worker, and seldom in the way."""

from __future__ import annotations

import pytest
from benchmarks.rule_prompts import HALVES, read_half, score_half

from alma.engine.rules import Teaching, teach
from alma.hooks.drain import ProjectMemories, recall_rules, warm_up
from alma.types.kinds import Reach, RuleSource

from .conftest import PROJECT, Host


def remember(memory: ProjectMemories, *rules: str) -> None:
    teachings = [
        Teaching(f"t{number}", rule, Reach.PROJECT, RuleSource.CORRECTION, said=rule)
        for number, rule in enumerate(rules)
    ]
    teach(memory.engine(PROJECT), teachings)


def test_a_rule_is_found_by_what_the_prompt_is_about(host: Host) -> None:
    with ProjectMemories(host.place) as memory:
        warm_up(host.place, memory)
        remember(memory, "Use pnpm.", "Sign firmware with the yellow token.", "Las fotos se guardan en S3.")
        warm_up(host.place, memory)

        def find(prompt: str) -> list[str]:
            return [line for _, line in recall_rules(memory, PROJECT, "s1", prompt)]

        assert find("add a library for charts") == ["Use pnpm."]
        assert find("给页面加一个上传图片的功能") == ["Las fotos se guardan en S3."]
        assert find("sigue") == find("yes, go on") == find("weiter") == []


def test_the_halves_share_no_rule_and_no_prompt() -> None:
    (rules, cases), (other_rules, other_cases) = map(read_half, HALVES)
    needed, others = ({case.rule for case in some if case.rule} for some in (cases, other_cases))
    assert needed.isdisjoint(others)
    assert {case.prompt for case in cases}.isdisjoint(case.prompt for case in other_cases)
    assert len(rules) == len(other_rules) == 40
    assert len(needed) + len(others) >= 40


@pytest.mark.quality
@pytest.mark.parametrize(("half", "least"), [("development", 24), ("held-out", 11)])
def test_more_is_found_by_meaning_than_by_words_and_follow_ups_stay_undisturbed(half: str, least: int) -> None:
    scores = {score.finder: score for score in score_half(half)}
    found = scores["by meaning"]
    assert found.found >= least
    assert found.disturbed <= 4
    assert found.others <= found.found
    assert scores["words, as without a worker"].found <= 2
