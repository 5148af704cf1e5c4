from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from benchmarks._simulation import (
    SETTINGS,
    STRATEGIES,
    Memoryless,
    NewestWins,
    Round,
    mean_curve,
    played,
    regret,
    rounds,
    success_curve,
)
from benchmarks.simulation import EXPLOITING, EXPLORING, main, won

from benchmarks import learning

STATIONARY, CHANGING = SETTINGS[0], SETTINGS[-1]


def silent(done: int) -> None:
    pass


def test_a_world_is_the_same_for_the_same_seed() -> None:
    assert rounds(STATIONARY, 20, seed=4) == rounds(STATIONARY, 20, seed=4)
    assert rounds(STATIONARY, 20, seed=4) != rounds(STATIONARY, 20, seed=5)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_context_has_one_best_strategy(setting: object) -> None:
    assert setting in SETTINGS
    for one in rounds(setting, 40, seed=1):  # type: ignore[arg-type]
        best = max(one.chances)
        assert one.chances.count(best) == 1
        assert len(one.chances) == len(STRATEGIES)
        assert all(chance <= best - 0.1 for chance in one.chances if chance != best)


def best_by_context(given: list[Round]) -> dict[int, int]:
    return {one.context: one.chances.index(max(one.chances)) for one in given}


def test_midway_another_strategy_becomes_the_best_in_every_context() -> None:
    made = rounds(CHANGING, 200, seed=2)
    before, after = best_by_context(made[:100]), best_by_context(made[100:])
    assert before.keys() == after.keys()
    assert all(before[context] != after[context] for context in before)
    still = rounds(STATIONARY, 200, seed=2)
    assert best_by_context(still[:100]) == best_by_context(still[100:])


def test_the_newest_memory_is_believed() -> None:
    agent = NewestWins(Random(1))
    given = Round(0, "t", (0.9, 0.1, 0.1, 0.1, 0.1), 0.5)
    agent.see(given, 3, True)
    assert agent.pick(given) == 3
    agent.see(given, 3, False)
    assert agent.pick(given) != 3


def test_regret_is_what_was_given_away() -> None:
    given = [Round(0, "t", (0.9, 0.4, 0.4, 0.4, 0.4), 0.5)] * 200
    lost = played(Memoryless(Random(1)), given, silent)
    assert set(lost) == {0.0, 0.5}
    assert sum(lost) / 200 == pytest.approx(0.4, abs=0.06)
    assert regret([0.5, 0.0, 0.25]) == [0.5, 0.5, 0.75]
    assert success_curve(given[:2], [0.5, 0.0], window=2) == [pytest.approx(0.4), pytest.approx(0.65)]
    assert mean_curve([[1.0, 3.0], [3.0, 5.0]], step=2) == [(2.0, 4.0)]


def test_an_agent_must_beat_both_baselines_to_have_won() -> None:
    assert won({"regret": {"no memory": 9.0, "newest wins": 5.0, EXPLORING: 4.0}})
    assert not won({"regret": {"no memory": 9.0, "newest wins": 3.0, EXPLORING: 4.0}})
    assert not won({"regret": {"no memory": 9.0, "newest wins": 5.0, EXPLORING: 4.0, EXPLOITING: 6.0}}, EXPLOITING)


@pytest.mark.quality
def test_with_alma_an_agent_gets_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--rounds", "120", "--seeds", "1", "--setting", "stationary", "--embedder", "hash", "--json"]
    assert main([*asked, "--plot", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)["settings"]["stationary"]
    assert told["regret"][EXPLORING] < 0.7 * told["regret"]["no memory"]
    assert {path.name for path in tmp_path.iterdir()} == {"regret-stationary.svg", "success-stationary.svg"}


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--rounds", "12", "--seeds", "1", "--setting", "noisy", "--embedder", "hash"]
    assert main(asked) == 0
    assert "newest wins" in capsys.readouterr().out


def test_it_can_be_played_from_the_learning_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--rounds", "6", "--seeds", "1", "--setting", "noisy", "--embedder", "hash", "--json"]
    assert learning.main(["--simulate", *asked]) == 0
    assert set(json.loads(capsys.readouterr().out)["settings"]) == {"noisy"}
