from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from alma import ALMA
from alma.confidence import ConfidenceEngine, ConfidenceSignal, OpportunitySignal, Recommendation, RiskSignal
from alma.embedders.hash import HashEmbedder
from alma.errors import ScopeError, ValidationError
from alma.stores.sqlite import SQLiteStore
from alma.types.query import MemoryScope

FORM = "Test the registration form with five fields"
STEPS, ONCE = "Use incremental validation", "Submit everything at once"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test", clock=Clock()) as opened:
        yield opened


def tried(alma: ALMA, strategy: str, results: str, task: str = FORM) -> list[str]:
    """One outcome for each letter: + worked, - failed, o went half well."""
    names = {"+": "success", "-": "failure", "o": "partial"}
    return [
        alma.learn(
            "helena", task, names[one], strategy, error_message="the server timed out" if one == "-" else None
        ).id
        for one in results
    ]


def types(signals: list[RiskSignal] | list[OpportunitySignal]) -> list[str]:
    return [one.signal_type for one in signals]


# -- the shape


def test_the_values_have_the_documented_fields() -> None:
    assert [one.name for one in fields(ConfidenceSignal)][:11] == [
        "heuristic_id", "strategy", "context", "historical_success_rate", "occurrence_count", "predicted_success",
        "uncertainty", "context_similarity", "risk_signals", "opportunity_signals", "confidence_score",
    ]  # fmt: skip
    assert get_args(Recommendation) == ("strong_yes", "yes", "neutral", "caution", "avoid")
    assert [one.name for one in fields(RiskSignal)] == ["signal_type", "description", "severity", "source"]
    assert [one.name for one in fields(OpportunitySignal)] == ["signal_type", "description", "strength", "source"]


# -- assessing


def test_what_is_unknown_is_neither_recommended_nor_warned_of(alma: ALMA) -> None:
    signal = ConfidenceEngine(alma).assess_strategy(STEPS, FORM, "helena")
    assert signal.predicted_success == 0.5
    assert signal.recommendation == "neutral"
    assert (signal.occurrence_count, signal.heuristic_id, signal.context_similarity) == (0, None, 0.0)
    assert types(signal.risk_signals) == ["untested_context"]
    assert signal.opportunity_signals == []
    assert signal.uncertainty > 0.8


def test_what_worked_is_recommended(alma: ALMA) -> None:
    worked = tried(alma, STEPS, "++++++++")
    signal = ConfidenceEngine(alma).assess_strategy(STEPS, FORM, "helena")
    assert signal.recommendation == "strong_yes"
    assert (signal.historical_success_rate, signal.occurrence_count) == (1.0, 8)
    assert signal.context_similarity == 1.0
    assert signal.heuristic_id is not None
    assert signal.interval[0] <= signal.confidence_score <= signal.predicted_success <= signal.interval[1]
    assert signal.uncertainty == pytest.approx(signal.interval[1] - signal.interval[0])
    assert set(signal.sources) <= {*worked, signal.heuristic_id}
    assert {"proven_pattern", "high_similarity", "recent_success"} == set(types(signal.opportunity_signals))


def test_what_failed_is_advised_against_with_the_failures_named(alma: ALMA) -> None:
    failed = tried(alma, ONCE, "------")
    signal = ConfidenceEngine(alma).assess_strategy(ONCE, FORM, "helena")
    assert signal.recommendation == "avoid"
    [risk] = [one for one in signal.risk_signals if one.signal_type == "similar_to_failure"]
    assert "6 of 6" in risk.description
    assert "the server timed out" in risk.description
    assert risk.severity > 0.8
    assert set(risk.source.split(", ")) <= set(failed)


def test_every_signal_cites_memories_that_can_be_read(alma: ALMA) -> None:
    tried(alma, STEPS, "+++--+")
    tried(alma, ONCE, "--o-")
    alma.add_anti_pattern("helena", ONCE, "it hides which field is wrong", condition=FORM)
    engine = ConfidenceEngine(alma)
    for strategy in (STEPS, ONCE, "Ask the designer"):
        signal = engine.assess_strategy(strategy, FORM, "helena")
        told = [*signal.risk_signals, *signal.opportunity_signals]
        named = [name for one in told for name in one.source.split(", ") if name] + signal.sources
        assert all(alma.get(name).agent == "helena" for name in named)


def test_a_heuristic_that_is_given_tells_how_it_did(alma: ALMA) -> None:
    tried(alma, STEPS, "++++-")
    [heuristic] = alma.retrieve(FORM, "helena").heuristics
    signal = ConfidenceEngine(alma).assess_strategy(STEPS, FORM, "helena", heuristic=heuristic)
    assert signal.heuristic_id == heuristic.id
    assert signal.historical_success_rate == heuristic.success_rate
    assert signal.occurrence_count == heuristic.occurrence_count == 5


def test_looking_forward_differs_from_looking_back(alma: ALMA) -> None:
    tried(alma, STEPS, "++++++++++")
    tried(alma, STEPS, "-----", task="Audit the warehouse of the Porto branch")
    signal = ConfidenceEngine(alma).assess_strategy(STEPS, "Audit the warehouse of the Porto branch", "helena")
    assert signal.historical_success_rate > 0.6
    assert signal.predicted_success < 0.35


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": ""}, "strategy"),
        ({"strategy": 3}, "strategy"),
        ({"context": "  "}, "context"),
        ({"agent": ""}, "agent"),
        ({"heuristic": "heu_1"}, "heuristic must be a Heuristic"),
    ],
)
def test_bad_arguments_are_named(alma: ALMA, arguments: dict[str, object], message: str) -> None:
    good = {"strategy": STEPS, "context": FORM, "agent": "helena"}
    with pytest.raises(ValidationError, match=message):
        ConfidenceEngine(alma).assess_strategy(**{**good, **arguments})  # type: ignore[arg-type]


def test_an_agent_that_was_not_declared_is_refused(tmp_path: Path) -> None:
    scopes = [MemoryScope("helena")]
    with (
        ALMA(SQLiteStore(tmp_path / "alma.db"), None, project_id="test", agents=scopes) as alma,
        pytest.raises(ScopeError, match="helena"),
    ):
        ConfidenceEngine(alma).assess_strategy(STEPS, FORM, "viktor")


def test_it_writes_nothing(alma: ALMA) -> None:
    tried(alma, STEPS, "++-")
    before = alma.get_stats()
    engine = ConfidenceEngine(alma)
    engine.assess_strategy(STEPS, FORM, "helena")
    engine.rank_strategies([STEPS, ONCE], FORM, "helena", explore=True)
    assert alma.get_stats() == before


def test_the_true_chance_lies_in_the_interval_nine_times_of_ten(alma: ALMA) -> None:
    """As often as it says, and not by saying nothing: the intervals get narrower."""
    dice = random.Random(4)
    towns = ("Lisbon ledger", "Porto museum", "Faro harbour")
    chances = {(town, way): dice.choice([0.1, 0.4, 0.8]) for town in towns for way in (STEPS, ONCE)}
    engine, held, widths = ConfidenceEngine(alma), [], []
    for _ in range(150):
        (town, way), chance = dice.choice(list(chances.items()))
        signal = engine.assess_strategy(way, f"Audit the {town}", "helena")
        held.append(signal.interval[0] <= chance <= signal.interval[1])
        widths.append(signal.uncertainty)
        tried(alma, way, "+" if dice.random() < chance else "-", f"Audit the {town}")
    assert sum(held) >= 0.86 * len(held)
    assert sum(widths[-50:]) / 50 < 0.5 < sum(widths[:10]) / 10


# -- risks and opportunities


def test_a_strategy_that_stopped_working_is_a_risk(alma: ALMA) -> None:
    tried(alma, STEPS, "+++++++++")
    failed = tried(alma, STEPS, "--")
    risks = ConfidenceEngine(alma).detect_risks(STEPS, FORM, "helena")
    [recent] = [one for one in risks if one.signal_type == "recent_failure"]
    assert recent.source.split(", ") == failed[::-1]
    assert "last 2 times" in recent.description


def test_a_task_nobody_manages_is_a_risk(alma: ALMA) -> None:
    tried(alma, ONCE, "---")
    tried(alma, "Ask the designer", "--")
    assert "high_complexity" in types(ConfidenceEngine(alma).detect_risks(STEPS, FORM, "helena"))


def test_a_strategy_that_fails_elsewhere_is_a_risk(alma: ALMA) -> None:
    tried(alma, STEPS, "----", task="Audit the warehouse of the Porto branch")
    risks = ConfidenceEngine(alma).detect_risks(STEPS, FORM, "helena")
    assert {"poor_record", "untested_context"} <= set(types(risks))
    assert [one.severity for one in risks] == sorted((one.severity for one in risks), reverse=True)


def test_what_people_said_is_a_signal(alma: ALMA) -> None:
    alma.add_heuristic("helena", FORM, STEPS)
    alma.add_anti_pattern("helena", ONCE, "it hides which field is wrong", condition=FORM)
    engine = ConfidenceEngine(alma)
    assert types(engine.detect_opportunities(STEPS, FORM, "helena")) == ["recommended"]
    assert "warned_against" in types(engine.detect_risks(ONCE, FORM, "helena"))
    assert engine.assess_strategy(ONCE, FORM, "helena").recommendation == "caution"


# -- ranking


def test_the_best_comes_first(alma: ALMA) -> None:
    tried(alma, STEPS, "+++++")
    tried(alma, ONCE, "----")
    tried(alma, "Ask the designer", "+-+-")
    given = [ONCE, "Ask the designer", STEPS]
    ranked = ConfidenceEngine(alma).rank_strategies(given, FORM, "helena")
    assert [name for name, _ in ranked] == [STEPS, "Ask the designer", ONCE]
    assert all(signal.strategy == name for name, signal in ranked)
    scores = [signal.confidence_score for _, signal in ranked]
    assert scores == sorted(scores, reverse=True)


def test_a_ranking_says_of_each_what_an_assessment_says(alma: ALMA) -> None:
    tried(alma, STEPS, "++-")
    tried(alma, ONCE, "--+")
    engine = ConfidenceEngine(alma)
    for name, signal in engine.rank_strategies([STEPS, ONCE], FORM, "helena"):
        alone = engine.assess_strategy(name, FORM, "helena")
        assert alone.predicted_success == pytest.approx(signal.predicted_success, abs=1e-3)


def test_exploring_gives_the_untried_a_turn_and_exploiting_does_not(alma: ALMA) -> None:
    tried(alma, STEPS, "++-+-+")
    engine = ConfidenceEngine(alma, seed=1)

    def first(explore: bool) -> str:
        return engine.rank_strategies([STEPS, ONCE, "Ask the designer"], FORM, "helena", explore=explore)[0][0]

    assert {first(explore=False) for _ in range(3)} == {STEPS}
    assert first(explore=True) != STEPS


def test_exploring_leaves_what_surely_fails_alone(alma: ALMA) -> None:
    tried(alma, STEPS, "++++++++++")
    tried(alma, ONCE, "----------")
    engine = ConfidenceEngine(alma, seed=3)
    firsts = [engine.rank_strategies([ONCE, STEPS], FORM, "helena", explore=True)[0][0] for _ in range(10)]
    assert firsts == [STEPS] * 10


def test_a_seed_makes_exploring_repeatable(alma: ALMA) -> None:
    given = [f"way number {word}" for word in ("one", "two", "three", "four", "five")]

    def orders(seed: int) -> list[list[str]]:
        engine = ConfidenceEngine(alma, seed=seed)
        return [[name for name, _ in engine.rank_strategies(given, FORM, "helena", explore=True)] for _ in range(4)]

    assert orders(7) == orders(7)
    assert orders(7) != orders(8)


def test_no_strategies_no_ranking_and_one_text_is_not_a_list(alma: ALMA) -> None:
    engine = ConfidenceEngine(alma)
    assert engine.rank_strategies([], FORM, "helena") == []
    with pytest.raises(ValidationError, match="list of texts"):
        engine.rank_strategies(STEPS, FORM, "helena")
