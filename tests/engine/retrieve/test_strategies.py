"""Which strategy comes first, and which tasks and strategies are the same in other words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.engine.context import Settings
from alma.ports import PairScores
from alma.stores.memory import MemoryStore
from alma.types.record import to_json

DATA = Path(__file__).parents[2] / "data"
AGENT = "clerk"


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def alma(embedder: LocalEmbedder) -> ALMA:
    # Not closed: the embedder is shared.
    return ALMA(MemoryStore(), embedder)


def learn(alma: ALMA, strategy: str, tasks: Iterable[str], outcome: str = "success", agent: str = AGENT) -> None:
    for task in tasks:
        alma.learn(agent, task, outcome, strategy)


def list_places(prompt: str, *texts: str) -> list[int]:
    return [prompt.find(text) for text in texts]


CARD = ("My card has not arrived yet", "How long until my new card arrives", "The card I ordered is still not here")


def test_an_outcome_that_fits_better_stands_before_a_heuristic(alma: ALMA) -> None:
    learn(alma, "Track the shipment", CARD)
    learn(alma, "Block it", ["My card was stolen on the train"])
    memories = alma.retrieve("Somebody stole my card", AGENT)
    assert [one.strategy for one in memories.heuristics] == ["Track the shipment"]
    block, track = list_places(memories.to_prompt(), "Block it", "Track the shipment")
    assert 0 <= block < track


def test_a_heuristic_stands_before_outcomes_of_strategies_that_fit_less_well(alma: ALMA) -> None:
    learn(alma, "Track the shipment", CARD)
    learn(alma, "Block it", ["My card was stolen on the train"])
    track, block = list_places(alma.retrieve("Where is my new card?", AGENT).to_prompt(), "Track the", "Block it")
    assert track >= 0
    assert block == -1 or track < block


def test_what_failed_gives_its_place_to_what_worked_instead(alma: ALMA) -> None:
    learn(alma, "Track the shipment", CARD)
    task = "Where is the card that I ordered?"
    learn(alma, "Track the shipment", [task], "failure")
    learn(alma, "Send another card", [task])
    prompt = alma.retrieve("When will my card arrive?", AGENT).to_prompt()
    instead, failed = list_places(prompt, "Send another card", "Track the shipment")
    assert 0 <= instead < failed


def test_a_task_in_other_words_is_found_and_another_action_on_the_same_thing_is_not(alma: ALMA) -> None:
    learn(alma, "Blue-green switch", ["Deploy auth service"] * 3)
    assert "Blue-green" in alma.retrieve("Roll out the authentication service", AGENT).to_prompt()
    assert "Blue-green" not in alma.retrieve("Why is the auth service slow?", AGENT).to_prompt()


MANY = {
    "Blue-green switch": "Deploy the billing service to production",
    "Copy it at night": "Back up the production database",
    "Rotate the keys first": "Renew the certificate of the web server",
    "Take a heap dump": "Debug a memory leak in the worker",
    "Ask for the order number": "Answer a complaint about a late parcel",
}


def test_a_strategy_that_is_much_farther_than_the_first_is_left_out(alma: ALMA) -> None:
    for strategy, task in MANY.items():
        learn(alma, strategy, [task] * 3)
    memories = alma.retrieve("Push the billing service live", AGENT)
    assert [one.strategy for one in memories.heuristics] == ["Blue-green switch"]
    assert {one.strategy_used for one in memories.outcomes} <= {"Blue-green switch"}


class CountingEmbedder(LocalEmbedder):
    """Counts the pairs of texts that it reads."""

    pairs_read = 0

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        self.pairs_read += len(pairs)
        return super().read_pairs(pairs)


def test_at_most_two_examples_are_read_in_either_order() -> None:
    embedder = CountingEmbedder()
    alma = ALMA(MemoryStore(), embedder)
    for strategy, task in MANY.items():
        learn(alma, strategy, [task] * 3)
    questions = ("Why is the billing service slow?", "Who may read the production database?", "Add a second worker")
    counts: list[int] = []
    for question in (*questions, *MANY.values()):
        embedder.pairs_read = 0
        alma.retrieve(question, AGENT)
        counts.append(embedder.pairs_read)
    assert max(counts[: len(questions)]) in (1, 2, 3, 4)
    assert set(counts[len(questions) :]) == {0}, "an example that is the task itself need not be read"


def test_without_time_to_read_another_action_on_the_same_thing_stays_apart(embedder: LocalEmbedder) -> None:
    alma = ALMA(MemoryStore(), embedder, settings=Settings(pair_reading_ms=0))
    learn(alma, "Blue-green switch", ["Deploy auth service"] * 3)
    assert "Blue-green" in alma.retrieve("Deploy the auth service today", AGENT).to_prompt()
    assert "Blue-green" not in alma.retrieve("Why is the auth service slow?", AGENT).to_prompt()


def test_a_learned_condition_is_one_of_the_tasks_and_leaves_with_it(alma: ALMA) -> None:
    learn(alma, "Track the shipment", CARD)
    [lesson] = alma.list("heuristic")
    condition = lesson.condition  # type: ignore[attr-defined]
    assert condition in CARD
    [outcome] = [one for one in alma.list("outcome") if one.task_description == condition]  # type: ignore[attr-defined]
    alma.delete(outcome.id)
    learn(alma, "Track the shipment", ["The new card is late"])
    [lesson] = alma.list("heuristic")
    assert lesson.condition in {*CARD, "The new card is late"} - {condition}  # type: ignore[attr-defined]
    stored = list(alma.engine.store.scan(alma.engine.where("strategy", "heuristic", "outcome", "change", "changeset")))
    assert not [one.id for one in stored if condition in json.dumps(to_json(one), ensure_ascii=False)]


def test_a_strategy_that_may_be_the_same_is_counted_apart_and_named(alma: ALMA) -> None:
    learn(alma, "Run the tests before deploying", ["Deploy the site"])
    learn(alma, "Execute the test suite prior to the deployment", ["Deploy the site"] * 2)
    memories = alma.retrieve("Deploy the site", AGENT)
    named = {one.strategy_used: [other.strategy for other in one.similar] for one in memories.outcomes}
    assert named["Run the tests before deploying"] == ["Execute the test suite prior to the deployment"]
    assert "with a similar way: worked 2 of 2" in memories.to_prompt()


def read_rows(name: str, half: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["half"] == half]


@pytest.mark.quality
@pytest.mark.parametrize(("half", "found", "apart"), [("development", 0.95, 0.86), ("held_out", 0.9, 0.86)])
def test_reworded_tasks_are_found(alma: ALMA, half: str, found: float, apart: float) -> None:
    rows = read_rows("reworded_tasks.jsonl", half)
    for row in rows:
        learn(alma, row["strategy"], [row["task"]] * 3)
    reworded = [(row, task) for row in rows for task in row["reworded"]]
    hits = [row["strategy"] in alma.retrieve(task, AGENT).to_prompt() for row, task in reworded]
    silent = [row["strategy"] not in alma.retrieve(row["apart"], AGENT).to_prompt() for row in rows]
    assert sum(hits) >= found * len(hits)
    assert sum(silent) >= apart * len(silent)


def relate_strategies(alma: ALMA, task: str, first: str, second: str, agent: str) -> str:
    learn(alma, first, [task], agent=agent)
    learn(alma, second, [task], agent=agent)
    groups = list(alma.engine.store.scan(alma.engine.where("strategy", agents={agent})))
    if len(groups) == 1:
        return "merged"
    return "pooled" if any(group.body.get("similar") for group in groups) else "apart"


@pytest.mark.quality
@pytest.mark.parametrize(("half", "least"), [("development", 0.65), ("held_out", 0.6)])
def test_reworded_strategies_count_together_and_opposites_do_not(alma: ALMA, half: str, least: float) -> None:
    counts: dict[str, Counter[str]] = {"reworded": Counter(), "others": Counter()}
    for number, row in enumerate(read_rows("reworded_strategies.jsonl", half)):
        pairs = [("reworded", text) for text in row["reworded"]]
        pairs += [("others", row["opposite"]), ("others", row["variant"])]
        for place, (sort, text) in enumerate(pairs):
            relation = relate_strategies(alma, row["task"], row["strategy"], text, f"a{number}-{place}")
            counts[sort][relation] += 1
    assert counts["others"]["merged"] == 0
    assert counts["reworded"]["apart"] <= (1 - least) * counts["reworded"].total()
